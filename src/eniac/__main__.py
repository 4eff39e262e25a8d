"""`python -m eniac` is the command `eniac`."""

import sys

from eniac.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
