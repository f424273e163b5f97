"""Content hash of a dataset, used to detect changes between training and evaluation."""

from __future__ import annotations

import hashlib
import os

from torch import Tensor

from cclk.data.dataset import Dataset
from cclk.data.streamed import StreamedImages
from cclk.errors import DataError

_SAMPLE = 256
"""Image files, evenly spaced, whose first `_BYTES` bytes are hashed."""
_BYTES = 1 << 16


def fingerprint(dataset: Dataset) -> str:
    """Return a hash of the rows of all splits: order, labels, conditions, names and values.

    Streamed images count by their paths below their common folder, which may move, by the sizes of
    all files, and by the bytes of `_SAMPLE` files: reading all of them would take too long. A
    changed file of the same size that is not among these is not noticed.
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
    distinct = list(dict.fromkeys(files))
    try:
        for path in distinct:
            digest.update(os.stat(path).st_size.to_bytes(8, "little"))  # noqa: PTH116 - see above
        for path in distinct[:: -(-len(distinct) // _SAMPLE) or 1]:
            with open(path, "rb") as file:  # noqa: PTH123 - see above
                digest.update(file.read(_BYTES))
    except OSError as error:
        raise DataError(f"the image {path} cannot be read: {error.strerror}") from error
    return digest.hexdigest()
