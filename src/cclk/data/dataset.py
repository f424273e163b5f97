"""`Dataset`: train, validation and test splits of samples with labels and conditions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from cclk.columns import Column
from cclk.condition import Condition
from cclk.data.splits import Rows
from cclk.data.streamed import StreamedImages
from cclk.errors import DataError

UNLABELED = "unlabeled"
"""The only class of a dataset without labels."""
CONSTANT = "all samples to train on are equal: there is nothing to learn; pass other inputs"
_CHUNK = 256

__all__ = ["Column", "ConditionKind", "DataError", "Dataset", "Split"]

ConditionKind = Literal["continuous", "categorical", "mixed"]


@dataclass(frozen=True)
class Split:
    """Rows of a dataset.

    Args:
        x: uint8 images (n, c, h, w), in memory or streamed from files, or float32 vectors (n, k).
        y: int64 labels (n,), counted from 0.
        condition: float32 (n, k), with one column of integer codes per categorical column; k is 0
            without a condition.
        ids: names of the rows; empty if rows are identified by their numbers.
    """

    x: Tensor | StreamedImages
    y: Tensor
    condition: Tensor
    ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, allowed, expected in (
            (
                "x",
                ((torch.uint8, 4), (torch.float32, 2)),
                "uint8 images (n, c, h, w) or float32 vectors (n, k)",
            ),
            ("y", ((torch.int64, 1),), "int64 labels (n,)"),
            ("condition", ((torch.float32, 2),), "float32 (n, k)"),
        ):
            values: Tensor | StreamedImages = getattr(self, name)
            if (values.dtype, values.ndim) not in allowed:
                kind = str(values.dtype).removeprefix("torch.")
                raise DataError(
                    f"{name} is {kind} of shape {tuple(values.shape)}: it must be {expected}"
                )
        if not len(self.x) == len(self.y) == len(self.condition):
            raise DataError(
                f"x, y and condition differ in length: {len(self.x)}, {len(self.y)},"
                f" {len(self.condition)}"
            )
        if self.ids and len(self.ids) != len(self.y):
            raise DataError(f"there are {len(self.y)} rows and {len(self.ids)} ids")

    def __len__(self) -> int:
        return len(self.y)

    def is_constant(self) -> bool:
        """Whether there are several samples and all of them are equal."""
        first = self.x[:1]
        starts = range(0, len(self), _CHUNK)
        return len(self) > 1 and all(
            bool((self.x[start : start + _CHUNK] == first).all()) for start in starts
        )

    def subset(self, rows: Tensor | Rows) -> Split:
        """Return the selected rows, in this order, without reading image files.

        Args:
            rows: integers (m,).
        """
        rows = torch.as_tensor(rows)
        x = self.x.subset(rows) if isinstance(self.x, StreamedImages) else self.x[rows]
        ids = tuple(self.ids[row] for row in rows.tolist()) if self.ids else ()
        return Split(x, self.y[rows], self.condition[rows], ids)


@dataclass(frozen=True)
class Dataset:
    """Three splits and their description.

    Args:
        name: what reports call the dataset.
        train: rows to train on.
        validation: rows held out of the training rows; it has no rows if none were held out.
        test: rows to test on.
        classes: names of the labels 0, 1, ...
        columns: columns of the condition, from left to right; empty without a condition.
        description: one-line summary of the contents.
        inputs: names of the columns of x, if it is a table.
    """

    name: str
    train: Split
    validation: Split
    test: Split
    classes: tuple[str, ...]
    columns: tuple[Column, ...]
    description: str
    inputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        width, described = self.train.condition.shape[1], sum(each.width for each in self.columns)
        if width != described:
            raise DataError(
                f"{self.name}: the condition has {width} values in each row, but its columns"
                f" describe {described}"
            )

    @property
    def condition_names(self) -> tuple[str, ...]:
        """One name for each value of the condition."""
        return tuple(name for column in self.columns for name in column.value_names)

    @property
    def condition_kind(self) -> ConditionKind:
        """ "mixed" for several columns, otherwise whether the only column is categorical."""
        if len(self.columns) > 1:
            return "mixed"
        categorical = bool(self.columns) and self.columns[0].kind == "categorical"
        return "categorical" if categorical else "continuous"

    def condition(self, split: Split) -> Condition:
        """Return the condition of a split; values are shared, not copied.

        Args:
            split: one of the splits of this dataset, or a subset of one.
        """
        return Condition(split.condition, self.columns, split.condition.dtype)
