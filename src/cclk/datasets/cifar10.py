"""CIFAR-10: 50,000 + 10,000 color photographs of ten kinds, 32 x 32, from the official binary
files.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cclk.data.dataset import Dataset
from cclk.datasets.download import ensure
from cclk.datasets.formats import read_cifar
from cclk.datasets.labeled import OtherCondition, labeled_dataset

_CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)


def load(
    *,
    data_dir: Path | None = None,
    seed: int = 0,
    holdout: int = 5_000,
    features: Path | str | None = None,
) -> Dataset:
    """The dataset; `holdout` of the training images are kept for validation.

    Args:
        features: a file made by `cclk features cifar10`, whose numbers are the condition then
            instead of the label.
    """
    folder = ensure("cifar10", data_dir)
    batches = [read_cifar(folder, f"data_batch_{number}.bin") for number in range(1, 6)]
    train = (
        np.concatenate([images for images, _ in batches]),
        np.concatenate([labels for _, labels in batches]),
    )
    test = read_cifar(folder, "test_batch.bin")
    condition = (
        OtherCondition.from_features(features, "cifar10", train, test)
        if features is not None
        else None
    )
    return labeled_dataset(
        "cifar10", train, test, classes=_CLASSES, holdout=holdout, seed=seed, condition=condition
    )
