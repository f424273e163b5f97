"""A short name for what a dataset holds, by which a later look at it can tell that it is no
longer the same.
"""

from __future__ import annotations

import hashlib
import os

from torch import Tensor

from cclk.data.dataset import Dataset
from cclk.data.streamed import StreamedImages


def fingerprint(dataset: Dataset) -> str:
    """Of the rows of all splits: their order, labels, conditions, names and values.

    Of images that are files, which file each is within the folder that has them all, which may
    move; what is in the files is left out: reading all would take longer than it is worth. A table
    with other rows, or the same in another order, is found out, and that is what would move
    training rows into the test split.
    """
    digest = hashlib.blake2b(digest_size=16)
    splits = (dataset.train, dataset.validation, dataset.test)
    for split in splits:
        digest.update(
            repr((tuple(split.x.shape), tuple(split.condition.shape), split.ids)).encode()
        )
        for values in (split.y, split.condition, split.x):
            if isinstance(values, Tensor):
                digest.update(values.contiguous().reshape(-1).numpy().data)
    files = [
        path for split in splits if isinstance(split.x, StreamedImages) for path in split.x.paths
    ]
    folder = _folder(files)
    for path in files:
        digest.update(path[len(folder) :].encode(errors="surrogateescape") + b"\0")
    return digest.hexdigest()


def _folder(files: list[str]) -> str:
    """The folder that all of them are in, as their paths begin."""
    try:
        return os.path.commonpath([os.path.dirname(path) for path in files])  # noqa: PTH120 - hundreds of thousands of them
    except ValueError:  # none, or on several drives
        return ""
