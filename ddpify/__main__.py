"""Run the command line with ``python -m ddpify``."""

import sys

from ddpify.start import main

if __name__ == "__main__":
    sys.exit(main())
