"""Content hash of a dataset, used to detect changes between training and evaluation."""

from __future__ import annotations

import hashlib
import os

from torch import Tensor

from cclk.data.dataset import Dataset
from cclk.data.streamed import StreamedImages


def fingerprint(dataset: Dataset) -> str:
    """Return a hash of the rows of all splits: order, labels, conditions, names and values.

    Streamed images count by their paths below their common folder, which may move. The contents of
    image files are not hashed: reading all of them would take too long. Added, removed or reordered
    rows, which could move training rows into the test split, change the hash.
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
    try:
        folder = os.path.commonpath([os.path.dirname(path) for path in files])  # noqa: PTH120 - hundreds of thousands of paths
    except ValueError:  # no files, or files on several drives
        folder = ""
    for path in files:
        digest.update(path[len(folder) :].encode(errors="surrogateescape") + b"\0")
    return digest.hexdigest()
