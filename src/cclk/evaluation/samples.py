"""The samples of a split that probes are fitted and tested on: features, labels, condition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cclk.errors import DataError

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.integer[Any]]

CARVED = 0.15  # share of the training split that serves as validation if there is none


@dataclass(frozen=True, init=False)
class Samples:
    """One representation of the samples of a split.

    Args:
        features: (n, d).
        y: (n,) labels.
        condition: (n, k) or (n,) numbers; a categorical condition is one column of integers.
    """

    features: Floats
    y: Integers
    condition: Floats

    def __init__(self, features: object, y: object, condition: object) -> None:
        arrays = {
            "features": _array(features, np.float32),
            "y": _array(y, np.int64),
            "condition": _array(condition, np.float64),
        }
        if arrays["condition"].ndim == 1:
            arrays["condition"] = arrays["condition"][:, None]
        if [array.ndim for array in arrays.values()] != [2, 1, 2]:
            shapes = [array.shape for array in arrays.values()]
            raise DataError(
                f"samples need features (n, d), y (n,) and condition (n, k), got {shapes[0]},"
                f" {shapes[1]} and {shapes[2]}"
            )
        rows = [len(array) for array in arrays.values()]
        if len(set(rows)) > 1:
            raise DataError(
                f"features have {rows[0]} rows, y {rows[1]} and condition {rows[2]}: they must be"
                " the same samples"
            )
        for name, array in arrays.items():
            object.__setattr__(self, name, array)

    def __len__(self) -> int:
        return len(self.y)

    def subset(self, rows: Integers) -> Samples:
        """Return the samples with these row numbers."""
        return Samples(self.features[rows], self.y[rows], self.condition[rows])


def check(samples: Samples, split: str) -> None:
    """Raise an error that names split and column if features or condition are not finite."""
    for name, values in (("features", samples.features), ("condition", samples.condition)):
        bad = np.flatnonzero(~np.isfinite(values).all(axis=0))
        if len(bad):
            raise DataError(
                f"the {name} of the {split} split contain NaN or infinity in {len(bad)} of"
                f" {values.shape[1]} columns (the first is {bad[0]}): the network has diverged or"
                " the data are damaged; lower the learning rate or repair the data"
            )


def prepare(
    train: Samples, validation: Samples, test: Samples, seed: int
) -> tuple[Samples, Samples, Samples]:
    """Check the samples; without validation samples, take a random part of the training samples.

    Args:
        train: samples to fit probes on.
        validation: samples to tune them on; may be empty.
        test: samples to score them on.
        seed: seed of the random part.
    """
    for name, split in (("training", train), ("validation", validation), ("test", test)):
        check(split, name)
    if len(test) == 0:
        raise DataError("the test split is empty: there is nothing to evaluate on")
    return (train, validation, test) if len(validation) else (*carve(train, seed), test)


def carve(train: Samples, seed: int) -> tuple[Samples, Samples]:
    """Split training samples into training and validation samples at random."""
    if len(train) < 2:
        raise DataError(f"the training split has {len(train)} samples: a probe needs at least 2")
    kept, held = carved_rows(len(train), seed)
    return train.subset(kept), train.subset(held)


def carved_rows(count: int, seed: int) -> tuple[Integers, Integers]:
    """Return the rows of a training split that are kept, and those that serve as validation."""
    order = np.random.default_rng((seed, 1)).permutation(count)
    cut = max(1, round(CARVED * count))
    return np.sort(order[cut:]), np.sort(order[:cut])


def _array(values: Any, dtype: type[np.generic]) -> NDArray[Any]:
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        if values.is_floating_point():
            values = values.double()  # numpy has no bfloat16
        values = values.numpy()
    array = np.ascontiguousarray(values, dtype=dtype)
    return array if array.flags.writeable else array.copy()  # torch warns if it is read-only
