"""Random generators by purpose: every draw in this room is a function of a seed and of what the
draw is for.
"""

from __future__ import annotations

import zlib

import numpy as np


def generator(seed: int, *purpose: str | int) -> np.random.Generator:
    """A generator of its own for each seed and purpose: `generator(seed, "uniform batches",
    epoch)`.
    """
    key = tuple(zlib.crc32(part.encode()) if isinstance(part, str) else part for part in purpose)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
