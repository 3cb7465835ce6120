"""`python -m lifecycle` is the command `session-lifecycle`."""

import sys

from lifecycle.cli import run

if __name__ == "__main__":
    sys.exit(run())
