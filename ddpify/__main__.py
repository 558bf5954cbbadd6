"""Run the command line with ``python -m ddpify``."""

import sys

from ddpify.cli import main

if __name__ == "__main__":
    sys.exit(main())
