"""Fashion-MNIST: 60,000 + 10,000 grey pictures of ten kinds of clothing, padded from 28 x 28 to 32 x 32."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cclk.data.dataset import Dataset
from cclk.data.download import ensure
from cclk.data.files import read_labelled_idx
from cclk.data.labelled import Labelled, labelled_dataset

_CLASSES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
_MARGIN = ((0, 0), (0, 0), (2, 2), (2, 2))


def load(*, data_dir: Path | None = None, seed: int = 0, holdout: int = 5_000) -> Dataset:
    """The dataset; `holdout` of the training pictures are kept for validation."""
    folder = ensure("fashion-mnist", data_dir)

    def part(name: str) -> Labelled:
        pictures, labels = read_labelled_idx(folder, name)
        return np.pad(pictures[:, None], _MARGIN), labels

    return labelled_dataset("fashion-mnist", part("train"), part("t10k"), classes=_CLASSES, holdout=holdout, seed=seed)
