"""The original file formats of MNIST, Fashion-MNIST and CIFAR-10, and where the files are.

    <data folder>/mnist/          train-images-idx3-ubyte, train-labels-idx1-ubyte,
                                  t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte
    <data folder>/fashion-mnist/  the same four names
    <data folder>/cifar10/        data_batch_1.bin ... data_batch_5.bin, test_batch.bin

Each file may also be stored as NAME.gz.
"""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cclk.errors import DataError

Bytes = npt.NDArray[np.uint8]

LARGEST_FILE = 1 << 26
"""Bytes that a file may have, unpacked; the largest of the originals has 47 million."""
_CIFAR_PIXELS = 3 * 32 * 32


def find(folder: Path, file: str) -> Path | None:
    """Return the path of a file or of its .gz form, or None if neither exists."""
    return next((path for path in (folder / file, folder / f"{file}.gz") if path.is_file()), None)


def read_idx(folder: Path, file: str, dimensions: int) -> Bytes:
    """Read an IDX file of bytes: two zero bytes, 8 (the type), the number of dimensions, each
    length as a big-endian int32, and the values.
    """
    path, content = _read(folder, file)
    start = 4 + 4 * dimensions
    if content[:4].tolist() != [0, 0, 8, dimensions]:
        raise _damaged(
            path, f"it does not begin as an IDX file of bytes in {dimensions} dimensions"
        )
    if len(content) < start:
        raise _damaged(path, f"it is truncated: {len(content)} bytes")
    shape = tuple(int(length) for length in content[4:start].view(">u4"))
    expected = start + math.prod(shape)
    if len(content) != expected:
        shown = " x ".join(map(str, shape))
        raise _damaged(path, f"it has {len(content)} bytes, but {shown} values need {expected}")
    return content[start:].reshape(shape)


def read_labeled_idx(folder: Path, part: str) -> tuple[Bytes, Bytes]:
    """Read 28 x 28 images and their labels, 0 to 9."""
    image_file, label_file = f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"
    images, labels = read_idx(folder, image_file, 3), read_idx(folder, label_file, 1)
    if images.shape[1:] != (28, 28):
        raise _damaged(
            folder / image_file,
            f"its images are {images.shape[1]} x {images.shape[2]} instead of 28 x 28",
        )
    if len(images) != len(labels):
        raise _damaged(
            folder / image_file,
            f"it has {len(images)} images, but {label_file} has {len(labels)} labels",
        )
    _check_labels(folder / label_file, labels)
    return images, labels


def read_cifar(folder: Path, file: str) -> tuple[Bytes, Bytes]:
    """Read a CIFAR-10 binary file: for each image its label, then 32 x 32 red, green and blue
    values.
    """
    path, content = _read(folder, file)
    if len(content) == 0 or len(content) % (1 + _CIFAR_PIXELS):
        raise _damaged(
            path,
            f"it has {len(content)} bytes, not a multiple of {1 + _CIFAR_PIXELS}, the size of a"
            " labeled image",
        )
    records = content.reshape(-1, 1 + _CIFAR_PIXELS)
    labels = records[:, 0].copy()
    _check_labels(path, labels)
    return records[:, 1:].reshape(-1, 3, 32, 32), labels


def _read(folder: Path, file: str) -> tuple[Path, Bytes]:
    path = find(folder, file)
    if path is None:
        raise DataError(f"{file} is missing: put it, or {file}.gz, into {folder}")
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            content = stream.read(LARGEST_FILE + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise _damaged(path, f"it is truncated or not a gzip file ({error})") from error
    except OSError as error:
        raise DataError(
            f"{path.name} in {path.parent} cannot be read: {error.strerror or error}"
        ) from error
    if len(content) > LARGEST_FILE:
        raise _damaged(path, f"it has more than {LARGEST_FILE} bytes")
    # A writable copy: torch warns of read-only arrays.
    return path, np.frombuffer(bytearray(content), dtype=np.uint8)


def _check_labels(path: Path, labels: Bytes) -> None:
    if len(labels) and labels.max() > 9:
        raise _damaged(
            path, f"label {int(np.argmax(labels > 9))} is {labels.max()}, not one of 0 to 9"
        )


def _damaged(path: Path, why: str) -> DataError:
    return DataError(
        f"{path.name} in {path.parent} is damaged: {why}; delete it to download it again, or"
        " replace it"
    )
