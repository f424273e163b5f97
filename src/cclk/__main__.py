"""`python -m cclk` is `cclk`."""

import sys

from cclk.cli.start import main

sys.exit(main())
