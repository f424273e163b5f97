"""What a dataset is to the rest of the package: three splits of rows, each row a image or
vector, a label and a condition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from cclk.columns import Column
from cclk.condition import Condition
from cclk.data.streamed import StreamedImages
from cclk.errors import DataError

__all__ = ["Column", "ConditionKind", "DataError", "Dataset", "Split"]

ConditionKind = Literal["continuous", "categorical", "mixed"]


@dataclass(frozen=True)
class Split:
    """Rows of a dataset.

    Shapes:
        x: uint8 (n, c, h, w) images, in memory or read from their files when asked for, or float32
            (n, k) vectors.
        y: int64 (n,), labels that count from 0.
        condition: float32 (n, k); a category is a single column of whole numbers; k is 0 where
            there is no condition.
        ids: what each row is called; none where its number will do.
    """

    x: Tensor | StreamedImages
    y: Tensor
    condition: Tensor
    ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.x.dtype, self.x.ndim) not in ((torch.uint8, 4), (torch.float32, 2)):
            raise ValueError(
                f"x is {_kind(self.x)}: it must be uint8 images (n, c, h, w) or float32 vectors"
                " (n, k)"
            )
        if (self.y.dtype, self.y.ndim) != (torch.int64, 1):
            raise ValueError(f"y is {_kind(self.y)}: it must be int64 labels (n,)")
        if (self.condition.dtype, self.condition.ndim) != (torch.float32, 2):
            raise ValueError(f"condition is {_kind(self.condition)}: it must be float32 (n, k)")
        if not len(self.x) == len(self.y) == len(self.condition):
            raise ValueError(
                f"x, y and condition differ in length: {len(self.x)}, {len(self.y)},"
                f" {len(self.condition)}"
            )
        if self.ids and len(self.ids) != len(self.y):
            raise ValueError(f"there are {len(self.y)} rows and {len(self.ids)} ids")

    def __len__(self) -> int:
        return len(self.y)

    def subset(self, rows: Tensor) -> Split:
        """Some of the rows, in the order given; no image file is read for it."""
        x = self.x.subset(rows) if isinstance(self.x, StreamedImages) else self.x[rows]
        ids = tuple(self.ids[row] for row in rows.tolist()) if self.ids else ()
        return Split(x, self.y[rows], self.condition[rows], ids)


@dataclass(frozen=True)
class Dataset:
    """Three splits, and what is in them. `validation` has no rows where nothing was held out."""

    name: str
    train: Split
    validation: Split
    test: Split
    classes: tuple[str, ...]
    columns: tuple[Column, ...]
    """What the values of the condition are, from left to right; none where there is no condition."""
    description: str
    inputs: tuple[str, ...] = ()
    """The names of the columns of x, where they have names."""

    def __post_init__(self) -> None:
        width, described = (
            self.train.condition.shape[1],
            sum(column.width for column in self.columns),
        )
        if width != described:
            raise ValueError(
                f"{self.name}: the condition has {width} values in each row, but its columns"
                f" describe {described}"
            )

    @property
    def condition_names(self) -> tuple[str, ...]:
        """One name for each value of the condition."""
        return tuple(name for column in self.columns for name in column.value_names)

    @property
    def condition_kind(self) -> ConditionKind:
        """ "mixed" for several columns; else whether the only one is categorical."""
        if len(self.columns) > 1:
            return "mixed"
        return (
            "categorical"
            if [column.kind for column in self.columns] == ["categorical"]
            else "continuous"
        )

    def condition(self, split: Split) -> Condition:
        """The condition of one of its splits; nothing is copied."""
        return Condition(split.condition, self.columns, split.condition.dtype)


def _kind(tensor: Tensor | StreamedImages) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
