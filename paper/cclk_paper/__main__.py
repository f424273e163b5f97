"""`python -m cclk_paper`, the same as `cclk-paper`."""

import sys

from cclk_paper.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
