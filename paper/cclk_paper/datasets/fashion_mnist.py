"""Fashion-MNIST: 60,000 training and 10,000 test images of ten garments, gray, padded from 28 x 28
to 32 x 32, or smaller.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cclk.columns import Column
from cclk.data.dataset import Dataset
from cclk.errors import DataError
from cclk_paper.datasets.download import ensure
from cclk_paper.datasets.feature_files import read_row_features
from cclk_paper.datasets.formats import read_labeled_idx
from cclk_paper.datasets.garments import CLASSES, attribute_names, draw_attributes
from cclk_paper.datasets.labeled import Labeled, labeled_dataset

PIXELS = 32
_MARGIN = ((0, 0), (0, 0), (2, 2), (2, 2))


def load(
    *,
    data_dir: Path | None = None,
    seed: int = 0,
    holdout: int = 5_000,
    features: Path | str | None = None,
    attributes: int = 0,
    noise: float = 0.1,
    pixels: int = PIXELS,
) -> Dataset:
    """Return the dataset; its condition is the label, features, or attributes.

    Args:
        data_dir: the data folder; None: CCLK_DATA, else ~/.cache/cclk.
        seed: seed of the rows held out and of the attributes.
        holdout: number of training images held out for validation.
        features: a file written by `cclk-paper features fashion-mnist`, used as condition.
        attributes: the number of binary attributes (sleeves, footwear, ...) used as condition.
            There are twelve; further columns are further annotations of the same ones.
        noise: the probability that an attribute of a garment is wrong.
        pixels: height and width, 32, 16 or 8; smaller images are means over blocks of pixels.
    """
    if pixels not in (32, 16, 8):
        raise DataError(f"pixels is {pixels}: choose 32, 16 or 8")
    folder = ensure("fashion-mnist", data_dir)

    def part(name: str) -> Labeled:
        images, labels = read_labeled_idx(folder, name)
        padded = np.pad(images[:, None], _MARGIN)
        block = PIXELS // pixels
        if block > 1:
            blocks = padded.reshape(len(padded), 1, pixels, block, pixels, block)
            padded = blocks.mean((3, 5), dtype=np.float32).round().astype(np.uint8)
        return padded, labels

    train, test = part("train"), part("t10k")
    condition = None
    if features is not None and attributes:
        raise DataError("features and attributes are both set: the condition is one of them")
    if features is not None:
        condition = read_row_features(features, "fashion-mnist", len(train[1]), len(test[1]))
    elif attributes:
        condition = (
            draw_attributes(train[1], attributes, noise, seed, "train"),
            draw_attributes(test[1], attributes, noise, seed, "test"),
            Column("attributes", width=attributes, categories=attribute_names(attributes)),
        )
    return labeled_dataset(
        "fashion-mnist",
        train,
        test,
        classes=CLASSES,
        holdout=holdout,
        seed=seed,
        condition=condition,
    )
