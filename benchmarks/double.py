"""The command line in float64: `python -m benchmarks.double train ...`.

Rounding errors of float32 grow while a network trains. In float64 they stay small enough to tell
them from errors of the program.
"""

import sys

import torch

from cclk.cli.start import main

if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    sys.exit(main())
