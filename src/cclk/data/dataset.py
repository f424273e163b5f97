"""What a dataset is to the rest of the package: three splits of rows, each row a picture or vector, a label and a condition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from cclk.data.errors import DataError
from cclk.data.streamed import StreamedPictures

__all__ = ["Column", "ColumnKind", "ConditionKind", "DataError", "Dataset", "Split"]

ConditionKind = Literal["continuous", "categorical", "mixed"]
ColumnKind = Literal["continuous", "categorical", "attributes", "embedding"]


@dataclass(frozen=True)
class Column:
    """A named part of the condition: a number, a category, a set of binary attributes, or a vector."""

    name: str
    kind: ColumnKind
    start: int
    stop: int
    """It is condition[:, start:stop]."""
    kernel: str = ""
    """The kernel asked for; by default the kind decides."""

    @property
    def place(self) -> slice:
        return slice(self.start, self.stop)


@dataclass(frozen=True)
class Split:
    """Rows of a dataset.

    Shapes:
        x: uint8 (n, c, h, w) pictures, in memory or read from their files when asked for, or float32 (n, k) vectors.
        y: int64 (n,), labels that count from 0.
        condition: float32 (n, k); a category is a single column of whole numbers; k is 0 where there is no condition.
        ids: what each row is called; none where its number will do.
    """

    x: Tensor | StreamedPictures
    y: Tensor
    condition: Tensor
    ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.x.dtype, self.x.ndim) not in ((torch.uint8, 4), (torch.float32, 2)):
            raise ValueError(f"x is {_kind(self.x)}: it must be uint8 pictures (n, c, h, w) or float32 vectors (n, k)")
        if (self.y.dtype, self.y.ndim) != (torch.int64, 1):
            raise ValueError(f"y is {_kind(self.y)}: it must be int64 labels (n,)")
        if (self.condition.dtype, self.condition.ndim) != (torch.float32, 2):
            raise ValueError(f"condition is {_kind(self.condition)}: it must be float32 (n, k)")
        if not len(self.x) == len(self.y) == len(self.condition):
            raise ValueError(f"x, y and condition differ in length: {len(self.x)}, {len(self.y)}, {len(self.condition)}")
        if self.ids and len(self.ids) != len(self.y):
            raise ValueError(f"there are {len(self.y)} rows and {len(self.ids)} ids")

    def __len__(self) -> int:
        return len(self.y)

    def subset(self, rows: Tensor) -> Split:
        """Some of the rows, in the order given; no picture file is read for it."""
        x = self.x.subset(rows) if isinstance(self.x, StreamedPictures) else self.x[rows]
        ids = tuple(self.ids[row] for row in rows.tolist()) if self.ids else ()
        return Split(x, self.y[rows], self.condition[rows], ids)


@dataclass(frozen=True)
class Dataset:
    """Three splits and the names of what is in them. `validation` has no rows where nothing was held out.

    A condition of one kind need not tell its columns; a mixed one must. A dataset without a condition has no columns.
    """

    name: str
    train: Split
    validation: Split
    test: Split
    classes: tuple[str, ...]
    condition_names: tuple[str, ...]
    condition_kind: ConditionKind
    description: str
    columns: tuple[Column, ...] = ()
    inputs: tuple[str, ...] = ()
    """The names of the columns of x, where they have names."""

    def __post_init__(self) -> None:
        if not self.columns and self.train.condition.shape[1]:
            if self.condition_kind == "mixed":
                raise ValueError("a mixed condition must tell its columns")
            whole = Column("condition", self.condition_kind, 0, self.train.condition.shape[1])
            object.__setattr__(self, "columns", (whole,))


def _kind(tensor: Tensor | StreamedPictures) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
