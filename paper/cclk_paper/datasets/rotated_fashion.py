"""Garments of Fashion-MNIST at any angle: the image to classify, the angle to ignore.

Each image is padded with black from 28 x 28 to 40 x 40, so that its corners stay inside, rotated by
an angle uniform in -60 to 60 degrees, and reduced to 32 x 32. The angle is a function of the seed
and of the image's row in the original files.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from cclk.columns import Column
from cclk.data.dataset import Dataset
from cclk.data.decode import need_pillow
from cclk.data.randomness import generator
from cclk.errors import DataError
from cclk_paper.datasets.download import ensure
from cclk_paper.datasets.formats import Bytes, read_labeled_idx
from cclk_paper.datasets.garments import CLASSES
from cclk_paper.datasets.labeled import Floats, Labeled, labeled_dataset

_ANGLE = 60.0
_SIZE = 32
_SHARE = 0.15
"""The share of the images in the test split, and by default in the validation split."""


def load(
    *,
    data_dir: Path | None = None,
    seed: int = 0,
    rows: int = 12_000,
    holdout: int | None = None,
) -> Dataset:
    """Return rotated images; the condition is the angle in degrees, the label the garment.

    Args:
        data_dir: the data folder; None: CCLK_DATA, else ~/.cache/cclk.
        seed: seed of the images drawn, of their angles and of the rows held out.
        rows: number of images in all splits; 15 % of them are official test images, which form
            the test split, and the others official training images.
        holdout: number of training images held out for validation; None: 15 % of `rows`.
    """
    folder = ensure("fashion-mnist", data_dir)
    files = {part: read_labeled_idx(folder, part) for part in ("train", "t10k")}
    most = min(int(len(files["t10k"][1]) / _SHARE), int(len(files["train"][1]) / (1 - _SHARE)))
    if isinstance(rows, bool) or not isinstance(rows, int) or not 20 <= rows <= most:
        raise DataError(f"rows is {rows!r}: it must be an integer from 20 to {most}")
    count = round(_SHARE * rows)

    def part(name: str, number: int) -> tuple[Labeled, Floats]:
        images, labels = files[name]
        draw = generator(seed, "rotated-fashion", name, "rows").permutation(len(labels))
        sample = np.sort(draw[:number])
        angles = generator(seed, "rotated-fashion", name, "angles")
        condition = angles.uniform(-_ANGLE, _ANGLE, len(labels))[sample].astype(np.float32)
        return (_rotate(images[sample], condition), labels[sample]), condition[:, None]

    train, train_angles = part("train", rows - count)
    test, test_angles = part("t10k", count)
    return labeled_dataset(
        "rotated-fashion",
        train,
        test,
        classes=CLASSES,
        holdout=count if holdout is None else holdout,
        seed=seed,
        condition=(train_angles, test_angles, Column("angle")),
        description=f"Fashion-MNIST rotated by -{_ANGLE:g} to {_ANGLE:g} degrees, 32 x 32, gray",
    )


def _rotate(images: Bytes, angles: Floats) -> Bytes:
    """Return images (n, 28, 28) rotated counterclockwise by angles (n,), as (n, 1, 32, 32)."""
    need_pillow()
    from PIL import Image

    inner = images.shape[1]
    margin = (math.ceil(inner * math.sqrt(2)) - inner) // 2
    padded = np.pad(images, ((0, 0), (margin, margin), (margin, margin)))
    rotated = np.empty((len(images), 1, _SIZE, _SIZE), np.uint8)
    for row, angle in enumerate(angles.tolist()):
        turned = Image.fromarray(padded[row]).rotate(angle, resample=Image.Resampling.BILINEAR)
        rotated[row, 0] = np.asarray(
            turned.resize((_SIZE, _SIZE), resample=Image.Resampling.BILINEAR)
        )
    return rotated
