"""Fashion-MNIST: 60,000 + 10,000 gray images of ten kinds of clothing, padded from 28 x 28 to 32
x 32.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cclk.columns import Column
from cclk.data.dataset import Dataset
from cclk.datasets.download import ensure
from cclk.datasets.formats import read_labeled_idx
from cclk.datasets.garments import CLASSES, attribute_names, draw_attributes
from cclk.datasets.labeled import Labeled, OtherCondition, labeled_dataset
from cclk.errors import DataError

_MARGIN = ((0, 0), (0, 0), (2, 2), (2, 2))


def load(
    *,
    data_dir: Path | None = None,
    seed: int = 0,
    holdout: int = 5_000,
    features: Path | str | None = None,
    attributes: int = 0,
    noise: float = 0.1,
) -> Dataset:
    """The dataset; `holdout` of the training images are kept for validation. Its condition is
    the label, or one of these:

    Args:
        features: a file made by `cclk features fashion-mnist`, whose numbers are the condition.
        attributes: so many binary attributes (sleeves, footwear, ...) of each garment are the
            condition. Beyond the twelve there are, further columns are further annotators' readings
            of the same ones.
        noise: the probability with which each attribute of each garment is wrong.
    """
    folder = ensure("fashion-mnist", data_dir)

    def part(name: str) -> Labeled:
        images, labels = read_labeled_idx(folder, name)
        return np.pad(images[:, None], _MARGIN), labels

    train, test = part("train"), part("t10k")
    condition = None
    if features is not None and attributes:
        raise DataError("features and attributes are both given: the condition is one of them")
    if features is not None:
        condition = OtherCondition.from_features(features, "fashion-mnist", train, test)
    elif attributes:
        drawn = [
            draw_attributes(labels, attributes, noise, seed, name)
            for (_, labels), name in ((train, "train"), (test, "test"))
        ]
        condition = OtherCondition(
            drawn[0],
            drawn[1],
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
