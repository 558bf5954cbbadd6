"""Run the command line with ``python -m ddpify``."""

import os
import sys

# ``python -m`` puts the working directory first: a script's ``types.py`` or ``rich`` there must
# not be imported in place of the module that ddpify means.
if sys.path and sys.path[0] in ("", os.getcwd()):
    del sys.path[0]

from ddpify.start import main

if __name__ == "__main__":
    sys.exit(main())
