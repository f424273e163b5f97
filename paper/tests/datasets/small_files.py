"""Small files in the formats of the real datasets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt


def idx_bytes(values: npt.NDArray[np.uint8]) -> bytes:
    header = bytes([0, 0, 8, values.ndim]) + b"".join(
        length.to_bytes(4, "big") for length in values.shape
    )
    return header + values.tobytes()


def write_idx_dataset(folder: Path, train: int = 60, test: int = 20) -> None:
    """Four IDX files; the digit of sample i is i mod 10, and its image holds i + 1 in one pixel
    per label.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for part, count in (("train", train), ("t10k", test)):
        labels = (np.arange(count) % 10).astype(np.uint8)
        images = np.zeros((count, 28, 28), np.uint8)
        images[np.arange(count), labels, 27] = np.arange(count) + 1
        (folder / f"{part}-images-idx3-ubyte").write_bytes(idx_bytes(images))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(idx_bytes(labels))


def cifar_bytes(first: int, count: int = 10) -> bytes:
    """Records whose label is i mod 10 and whose red, green and blue planes hold i, i + 1, i + 2."""
    records = np.zeros((count, 3073), np.uint8)
    for row in range(count):
        number = first + row
        records[row, 0] = number % 10
        records[row, 1:] = np.repeat([number, number + 1, number + 2], 1024)
    return records.tobytes()


def write_cifar(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(5):
        (folder / f"data_batch_{number + 1}.bin").write_bytes(cifar_bytes(10 * number))
    (folder / "test_batch.bin").write_bytes(cifar_bytes(100))
