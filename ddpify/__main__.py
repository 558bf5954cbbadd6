"""Run the command line with ``python -m ddpify``."""

from ddpify.cli import main

if __name__ == "__main__":
    main()
