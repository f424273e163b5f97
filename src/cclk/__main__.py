"""`python -m cclk` is `cclk`."""

import sys
from pathlib import Path

# Modules in the current folder must not replace installed ones.
if sys.path[0] in ("", str(Path.cwd())):
    del sys.path[0]

from cclk.cli.start import main

sys.exit(main())
