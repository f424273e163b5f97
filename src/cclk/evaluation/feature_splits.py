"""What the probes are fitted and tested on: the features of a split, its labels and its condition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.integer[Any]]

_CARVED = 0.15  # the share of the training split that serves as validation where none is given


@dataclass(frozen=True, init=False)
class Samples:
    """One split as one representation sees it. Tensors are taken too; they are kept as arrays."""

    features: Floats
    """(n, d)."""
    y: Integers
    """(n,) labels."""
    condition: Floats
    """(n, k) or (n,) numbers; a categorical condition is one column of integers."""

    def __init__(self, features: object, y: object, condition: object) -> None:
        features, y, condition = (
            _array(features, np.float32),
            _array(y, np.int64),
            _array(condition, np.float64),
        )
        if condition.ndim == 1:
            condition = condition[:, None]
        if features.ndim != 2 or condition.ndim != 2 or y.ndim != 1:
            raise ValueError(
                f"samples need features (n, d), y (n,) and condition (n, k), got {features.shape},"
                f" {y.shape} and {condition.shape}"
            )
        if not len(features) == len(y) == len(condition):
            raise ValueError(
                f"features have {len(features)} rows, y {len(y)} and condition {len(condition)}:"
                " they must be the same samples"
            )
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "y", y)
        object.__setattr__(self, "condition", condition)

    def __len__(self) -> int:
        return len(self.y)

    def subset(self, rows: Integers) -> Samples:
        """Some of the samples, by row number."""
        return Samples(self.features[rows], self.y[rows], self.condition[rows])


def check(samples: Samples, split: str) -> None:
    """Refuse what no probe can be fitted on, naming the split and the column."""
    for name, values in (("features", samples.features), ("condition", samples.condition)):
        bad = np.flatnonzero(~np.isfinite(values).all(axis=0))
        if len(bad):
            raise ValueError(
                f"the {name} of the {split} split hold NaN or infinity in {len(bad)} of"
                f" {values.shape[1]} columns (the first is {bad[0]}): the network has diverged or"
                " the data are damaged; lower the learning rate or mend the data"
            )


def carve(train: Samples, seed: int) -> tuple[Samples, Samples]:
    """Split the training samples into training and validation, at random from the seed."""
    if len(train) < 2:
        raise ValueError(
            f"the training split has {len(train)} samples: at least 2 are needed to fit a probe and"
            " to choose its strength"
        )
    order = np.random.default_rng((seed, 1)).permutation(len(train))
    cut = max(1, round(_CARVED * len(train)))
    return train.subset(np.sort(order[cut:])), train.subset(np.sort(order[:cut]))


def _array(values: Any, dtype: type[np.generic]) -> NDArray[Any]:
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        values = (
            values.double() if values.is_floating_point() else values
        ).numpy()  # numpy has no bfloat16
    array = np.ascontiguousarray(values, dtype=dtype)
    return (
        array if array.flags.writeable else array.copy()
    )  # torch warns about arrays that it could not write to
