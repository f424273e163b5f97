"""CIFAR-10: 50,000 training and 10,000 test photographs of ten classes, 32 x 32, in color."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cclk.data.dataset import Dataset
from cclk_paper.datasets.download import ensure
from cclk_paper.datasets.feature_files import read_row_features
from cclk_paper.datasets.formats import read_cifar
from cclk_paper.datasets.labeled import labeled_dataset

_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip


def load(
    *,
    data_dir: Path | None = None,
    seed: int = 0,
    holdout: int = 5_000,
    features: Path | str | None = None,
) -> Dataset:
    """Return the dataset; its condition is the label, or features.

    Args:
        data_dir: the data folder; None: CCLK_DATA, else ~/.cache/cclk.
        seed: seed of the rows held out.
        holdout: number of training images held out for validation.
        features: a file written by `cclk-paper features cifar10`, used as condition instead of
            the label.
    """
    folder = ensure("cifar10", data_dir)
    batches = [read_cifar(folder, f"data_batch_{number}.bin") for number in range(1, 6)]
    images, labels = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    test = read_cifar(folder, "test_batch.bin")
    condition = None
    if features is not None:
        condition = read_row_features(features, "cifar10", len(labels), len(test[1]))
    return labeled_dataset(
        "cifar10",
        (images, labels),
        test,
        classes=_CLASSES,
        holdout=holdout,
        seed=seed,
        condition=condition,
    )
