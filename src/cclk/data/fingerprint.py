"""A short name for what a dataset holds, by which a later look at it can tell that it is no longer the same."""

from __future__ import annotations

import hashlib

from torch import Tensor

from cclk.data.dataset import Dataset


def fingerprint(dataset: Dataset) -> str:
    """Of the rows of all splits: their order, labels, conditions and names, and their values where they are vectors.

    Pictures themselves are left out: reading them all would take longer than it is worth. A table with other rows, or the same in
    another order, is found out, and that is what would move training rows into the test split.
    """
    digest = hashlib.blake2b(digest_size=16)
    for split in (dataset.train, dataset.validation, dataset.test):
        digest.update(repr((tuple(split.x.shape), tuple(split.condition.shape), split.ids)).encode())
        for values in (split.y, split.condition, split.x):
            if isinstance(values, Tensor) and values.ndim < 3:
                digest.update(values.contiguous().numpy().tobytes())
    return digest.hexdigest()
