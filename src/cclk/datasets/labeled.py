"""Images that come with labels and no condition of their own: the label is the condition unless
another one is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cclk.columns import Column
from cclk.data.dataset import Dataset, Split
from cclk.data.feature_files import features_column, read_row_features
from cclk.data.splits import hold_out, stratified_order
from cclk.datasets.formats import Bytes

Labeled = tuple[Bytes, Bytes]
"""Images (n, c, h, w) and their labels (n,)."""
Numbers = npt.NDArray[np.float32]


@dataclass(frozen=True)
class OtherCondition:
    """A condition (n, k) of numbers for every sample of the files, before any is held out."""

    train: Numbers
    test: Numbers
    column: Column

    @classmethod
    def from_features(
        cls, path: Path | str, dataset: str, train: Labeled, test: Labeled
    ) -> OtherCondition:
        """What a file made by `cclk features` says about the samples of this dataset."""
        first, second = read_row_features(path, dataset, len(train[1]), len(test[1]))
        return cls(first, second, features_column(first.shape[1]))


def labeled_dataset(
    name: str,
    train: Labeled,
    test: Labeled,
    *,
    classes: tuple[str, ...],
    holdout: int,
    seed: int,
    condition: OtherCondition | None = None,
) -> Dataset:
    """A dataset whose condition is the one given, else the label, one categorical column."""
    images, labels = train
    rows, held_out = hold_out(stratified_order(labels, seed), holdout)
    channels, height, width = images.shape[1:]
    given = condition.train if condition is not None else labels.astype(np.float32)[:, None]
    test_given = condition.test if condition is not None else test[1].astype(np.float32)[:, None]
    return Dataset(
        name=name,
        train=_split(images[rows], labels[rows], given[rows]),
        validation=_split(images[held_out], labels[held_out], given[held_out]),
        test=_split(*test, test_given),
        classes=classes,
        columns=(
            (
                condition.column
                if condition is not None
                else Column("label", "categorical", 1, classes)
            ),
        ),
        description=(
            f"{name}: images of {len(classes)} kinds, {height} x {width},"
            f" {'color' if channels == 3 else 'gray'}"
        ),
    )


def _split(images: Bytes, labels: Bytes, condition: Numbers) -> Split:
    return Split(_tensor(images), torch.from_numpy(labels.astype(np.int64)), _tensor(condition))


def _tensor(values: npt.NDArray[np.generic]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values))
