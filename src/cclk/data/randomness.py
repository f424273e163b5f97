"""Random generators by purpose: every draw is a function of a seed and of its purpose."""

from __future__ import annotations

import zlib

import numpy as np


def generator(seed: int, *purpose: str | int) -> np.random.Generator:
    """Return a generator for a seed and a purpose, as in `generator(seed, "uniform batches", 3)`.

    Args:
        seed: the seed.
        purpose: names and numbers that identify what is drawn.
    """
    key = tuple(zlib.crc32(part.encode()) if isinstance(part, str) else part for part in purpose)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
