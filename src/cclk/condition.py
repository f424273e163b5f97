"""The condition: what is used, ignored or found hard, as one checked table of float64 columns.

A condition comes as a tensor or array of shape (n,) or (n, k), or as a mapping from column names to such arrays. Inside the
package it is always a `Condition`, so that kernels need not know where it came from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

Column = str | int
Columns = Column | Sequence[Column] | slice
WIDE = 32
"""An unnamed table of more columns than this is one vector, such as an embedding."""
ConditionLike = "Tensor | np.ndarray | Mapping[str, object] | Sequence[object] | Condition"


@dataclass(frozen=True)
class Condition:
    """A table of n rows: float64 values of shape (n, k), and where each named column lies among the k."""

    values: Tensor
    names: Mapping[str, slice] = field(default_factory=dict)
    dtype: torch.dtype = torch.float64
    """The dtype the caller used: kernel matrices are returned in it."""
    index: Tensor | None = None
    """Row numbers in the table this one was cut from; needed by a kernel that is a ready matrix."""

    def __len__(self) -> int:
        return self.values.shape[0]

    def rows(self, rows: Tensor | slice) -> Condition:
        """The same columns, fewer rows."""
        index = torch.arange(len(self), device=self.values.device) if self.index is None else self.index
        return Condition(self.values[rows], self.names, self.dtype, index[rows])

    def select(self, columns: Columns | None) -> Tensor:
        """The values of some columns, (n, m); all of them for None."""
        if columns is None:
            return self.values
        if isinstance(columns, (str, int)):
            return self.values[:, self._place(columns)]
        if isinstance(columns, slice):
            chosen = self.values[:, columns]
            if chosen.shape[1] == 0:
                raise ValueError(f"condition has {self.values.shape[1]} columns, none of them in {columns}")
            return chosen
        return torch.cat([self.values[:, self._place(column)] for column in columns], dim=1)

    def widths(self, columns: Columns | None) -> list[int]:
        """The widths of what has a unit of its own among the selected columns.

        A named column is one unit however wide it is, and so are a slice and an unnamed table of more than `WIDE` columns.
        Each column of a narrower unnamed table is its own.
        """
        if columns is None:
            if self.names:
                return [self.select(name).shape[1] for name in self.names]
            width = self.values.shape[1]
            return [1] * width if width <= WIDE else [width]
        if isinstance(columns, (str, int, slice)):
            return [self.select(columns).shape[1]]
        return [self.select(column).shape[1] for column in columns]

    def _place(self, column: Column) -> slice:
        if isinstance(column, str):
            if column not in self.names:
                known = ", ".join(map(repr, self.names)) or "none: it was given as a plain array; pass a mapping of names"
                raise ValueError(f"condition has no column {column!r} (its named columns: {known})")
            return self.names[column]
        width = self.values.shape[1]
        if not -width <= column < width:
            raise ValueError(f"condition has {width} columns, so there is no column {column}")
        return slice(column % width, column % width + 1)

    def in_columns_of(self, other: Condition) -> Condition:
        """The same rows with the columns in the other's order; they must be the same columns."""
        if set(self.names) != set(other.names):
            raise ValueError(
                f"condition columns differ: {', '.join(other.names) or 'unnamed'} in one table, "
                f"{', '.join(self.names) or 'unnamed'} in the other"
            )
        for name in other.names:
            mine, others = self.select(name).shape[1], other.select(name).shape[1]
            if mine != others:
                raise ValueError(f"condition column {name!r} is {others} wide in one table and {mine} wide in the other")
        values = self.select(list(other.names)) if other.names else self.values
        if values.shape[1] != other.values.shape[1]:
            raise ValueError(f"condition is {other.values.shape[1]} wide in one table and {values.shape[1]} wide in the other")
        return Condition(values, other.names, self.dtype, self.index)

    def join(self, other: Condition) -> Condition:
        """These rows, then the other's."""
        return Condition(torch.cat([self.values, other.in_columns_of(self).values.to(self.values)]), self.names, self.dtype)


def as_condition(condition: object, *, name: str = "condition", device: torch.device | None = None, check: bool = True) -> Condition:
    """Convert and check a condition; every complaint names the argument and, where there are names, the column."""
    if isinstance(condition, Condition):
        return condition
    if condition is None:
        raise ValueError(f"{name} is missing: pass a tensor or array of shape (n,) or (n, k), or a mapping of columns")
    if isinstance(condition, Mapping):
        if not condition:
            raise ValueError(f"{name} is an empty mapping: it needs at least one column")
        parts = {str(key): _as_matrix(value, f"{name}[{key!r}]", device) for key, value in condition.items()}
        lengths = {key: len(part) for key, part in parts.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"{name}: columns differ in length: {lengths}")
        if check:
            for key, part in parts.items():
                _check_finite(part, f"{name}[{key!r}]")
        ends = np.cumsum([part.shape[1] for part in parts.values()])
        names = {key: slice(int(end) - part.shape[1], int(end)) for (key, part), end in zip(parts.items(), ends, strict=True)}
        return Condition(torch.cat(list(parts.values()), dim=1), names)
    values = _as_matrix(condition, name, device)
    if check:
        _check_finite(values, name)
    dtype = condition.dtype if isinstance(condition, Tensor) and condition.is_floating_point() else torch.float64
    return Condition(values, dtype=dtype)


def _as_matrix(value: object, name: str, device: torch.device | None) -> Tensor:
    if isinstance(value, Tensor):
        tensor = value.detach()
    else:
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise ValueError(
                f"{name} holds {'text' if array.dtype.kind in 'US' else 'values'} that are not numbers (dtype {array.dtype}): "
                "encode categories as integers, for example with numpy.unique(..., return_inverse=True)[1]"
            )
        tensor = torch.from_numpy(np.ascontiguousarray(array))
    if tensor.dtype in (torch.int64, torch.uint64) and tensor.numel() and int(tensor.abs().max()) > 2**53:
        raise ValueError(f"{name} holds integers beyond 2^53, which would merge: re-encode them with unique(return_inverse=True)")
    if tensor.is_complex():
        raise ValueError(f"{name} holds complex numbers: pass real columns")
    if tensor.ndim not in (1, 2):
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}: it must be (n,) or (n, k)")
    if tensor.ndim == 2 and tensor.shape[1] == 0:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}: it needs at least one column")
    tensor = tensor.to(device=device, dtype=torch.float64)
    return tensor[:, None] if tensor.ndim == 1 else tensor


def _check_finite(values: Tensor, name: str) -> None:
    # One number tells for the whole table; the costly search for the culprit runs only when it is needed.
    if math.isfinite(float(values.sum())):
        return
    bad = ~values.isfinite()
    if bad.any():
        row, column = bad.nonzero()[0].tolist()
        where = f"row {row}" if values.shape[1] == 1 else f"row {row}, column {column}"
        raise ValueError(f"{name} has {int(bad.sum())} values that are NaN or infinite, the first at {where}: drop or impute them")
