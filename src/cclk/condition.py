"""The condition: the variable that a representation should use, ignore or find hard, as a table
of named and typed columns.

A condition is a tensor or array of shape (n,) or (n, k), a list of numbers or text, a data frame or
one of its columns, or a mapping from column names to any of these. Inside the package it is always
a `Condition`. `as_condition` takes one batch, where only the type of the data says what a column
is; `infer_condition` takes the data of a whole split, and applies the rule of `cclk.columns`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cclk.columns import Array, Column, as_numbers, encode, hashed, is_declared_category, kind_of

Columns = str | int | Sequence[str | int] | slice
WIDE = 32
"""An unnamed table of more columns than this is one vector, such as an embedding."""
TRUTH = ("False", "True")


@dataclass(frozen=True)
class Condition:
    """A table of n rows and its columns."""

    values: Tensor
    """(n, k); float64 where kernels see it. The condition of a whole split may be kept as
    float32: `rows` and `as_condition` convert.
    """
    columns: tuple[Column, ...] = ()
    """What the k values are, from left to right; nothing for a plain array of numbers. The name
    of a column may be empty.
    """
    dtype: torch.dtype = torch.float64
    """The dtype the caller used: kernel matrices are returned in it."""
    index: Tensor | None = None
    """Row numbers in the table this one was cut from; needed by a kernel that is a ready matrix."""

    def __len__(self) -> int:
        return self.values.shape[0]

    @cached_property
    def names(self) -> dict[str, slice]:
        """The place of each named column among the k values."""
        return {column.name: place for column, place in placed(self.columns) if column.name}

    def rows(self, rows: Tensor | slice) -> Condition:
        """The same columns, fewer rows."""
        if self.index is not None:
            index = self.index[rows]
        elif isinstance(rows, Tensor) and rows.dtype != torch.bool:
            index = rows
        else:
            index = torch.arange(len(self), device=self.values.device)[rows]
        return Condition(self.values[rows].double(), self.columns, self.dtype, index)

    def to(self, device: torch.device | None) -> Condition:
        """The same table as float64 on a device."""
        values = self.values.to(device=device, dtype=torch.float64)
        return (
            self
            if values is self.values
            else replace(
                self, values=values, index=None if self.index is None else self.index.to(device)
            )
        )

    def standardized(self, factor: float = 1.0, *, unit_variance: bool = True) -> Condition:
        """The units that kernels see: numbers times a factor, continuous columns with mean 0 and
        variance 1, categories as they are.
        """
        values = self.values.clone()
        for column, place in placed(self.columns):
            if column.kind != "categorical":
                values[:, place] *= factor
            if column.kind == "continuous" and unit_variance:
                own = values[:, place]
                mean, deviation = own.mean(dim=0), own.std(dim=0)
                # Rounding makes a constant column seem to vary a little.
                values[:, place] = (own - mean) / deviation.where(
                    deviation > 1e-6 * mean.abs(), 1.0
                )
        return replace(self, values=values)

    def nominal(self, columns: Columns | None) -> Column | None:
        """The first of the selected columns that holds codes of text, which have no distance;
        None if there is none.
        """
        found = [(column, place) for column, place in placed(self.columns) if column.nominal]
        if not found:
            return None
        selected = torch.arange(self.values.shape[1])[None]
        chosen = set(Condition(selected, self.columns).select(columns)[0].tolist())
        return next(
            (
                column
                for column, place in found
                if chosen.intersection(range(place.start, place.stop))
            ),
            None,
        )

    def select(self, columns: Columns | None) -> Tensor:
        """The values of some columns, (n, m); all of them for None."""
        if columns is None:
            return self.values
        if isinstance(columns, (str, int)):
            return self.values[:, self._place(columns)]
        if isinstance(columns, slice):
            chosen = self.values[:, columns]
            if chosen.shape[1] == 0:
                raise ValueError(
                    f"condition has {self.values.shape[1]} columns, none of them in {columns}"
                )
            return chosen
        return torch.cat([self.values[:, self._place(column)] for column in columns], dim=1)

    def widths(self, columns: Columns | None) -> list[int]:
        """The widths of what has a unit of its own among the selected columns.

        A named column is one unit however wide it is, and so are a slice and an unnamed table of
        more than `WIDE` columns. Each column of a narrower unnamed table is its own.
        """
        if columns is None:
            if self.names:
                return [self.select(name).shape[1] for name in self.names]
            width = self.values.shape[1]
            return [1] * width if width <= WIDE else [width]
        if isinstance(columns, (str, int, slice)):
            return [self.select(columns).shape[1]]
        return [self.select(column).shape[1] for column in columns]

    def _place(self, column: str | int) -> slice:
        if isinstance(column, str):
            if column not in self.names:
                known = (
                    ", ".join(map(repr, self.names))
                    or "none: it was given as a plain array; pass a mapping of names"
                )
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
                raise ValueError(
                    f"condition column {name!r} is {others} wide in one table and {mine} wide in"
                    " the other"
                )
        values = self.select(list(other.names)) if other.names else self.values
        if values.shape[1] != other.values.shape[1]:
            raise ValueError(
                f"condition is {other.values.shape[1]} wide in one table and {values.shape[1]} wide"
                " in the other"
            )
        text = {column.name for column in self.columns if column.nominal} ^ {
            column.name for column in other.columns if column.nominal
        }
        if text:
            raise ValueError(
                f"condition{_key(text.pop())} holds text in one table and numbers in the other:"
                " pass the same type in both"
            )
        return Condition(values, other.columns, self.dtype, self.index)

    def join(self, other: Condition) -> Condition:
        """These rows, then the other's."""
        return Condition(
            torch.cat([self.values, other.in_columns_of(self).values.to(self.values)]),
            self.columns,
            self.dtype,
        )


def placed(columns: Iterable[Column]) -> list[tuple[Column, slice]]:
    """Columns and where their values are in a table of all of them."""
    found, start = [], 0
    for column in columns:
        found.append((column, slice(start, start + column.width)))
        start += column.width
    return found


def as_condition(
    condition: object, *, name: str = "condition", device: torch.device | None = None
) -> Condition:
    """Convert and check a condition; errors name the argument and, where there are names, the
    column.
    """
    if isinstance(condition, Condition):
        return condition.to(condition.values.device if device is None else device)
    if condition is None:
        raise ValueError(
            f"{name} is missing: pass a tensor or array of shape (n,) or (n, k), or a mapping of"
            " columns"
        )
    if isinstance(condition, Tensor):
        values = _as_matrix(condition, name, device)
        _check_finite(values, name)
        return Condition(
            values, dtype=condition.dtype if condition.is_floating_point() else torch.float64
        )
    parts = [
        _as_part(value, own, f"{name}{_key(own)}", device) for own, value in _named(condition, name)
    ]
    lengths = {column.name: len(values) for values, columns in parts for column in columns}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{name}: columns differ in length: {lengths}")
    columns = tuple(column for _, columns in parts for column in columns)
    if not any(column.name or column.kind == "categorical" for column in columns):
        columns = ()  # a plain array of numbers
    return Condition(
        torch.cat([values for values, _ in parts], dim=1) if len(parts) > 1 else parts[0][0],
        columns,
    )


def infer_condition(data: object, *, name: str = "condition") -> Condition:
    """The condition of a whole split, with kinds inferred by the rule of `cclk.columns` and
    categories as codes into their names.

    The columns of an array are named by their numbers, but a float array of several columns is one
    vector.
    """
    if isinstance(data, Condition):
        return data
    parts: list[tuple[Array, Column]] = []
    for own, value in _named(
        data.detach().cpu().numpy() if isinstance(data, Tensor) else data, name
    ):
        array = np.asarray(value)
        if own or array.ndim != 2:
            parts.append(_inferred(value, own or name, f"{name}{_key(own)}"))
        elif array.dtype.kind == "f" and array.shape[1] > 1:
            parts.append(encode(as_numbers(array, name), "continuous", name))
        else:
            parts += [
                _inferred(each, str(number), f"{name}{_key(str(number))}")
                for number, each in enumerate(array.T)
            ]
    for values, column in parts:
        _check_finite(torch.from_numpy(values), f"{name}{_key(column.name)}")
    lengths = {column.name: len(values) for values, column in parts}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{name}: columns differ in length: {lengths}")
    return Condition(
        torch.from_numpy(np.concatenate([values for values, _ in parts], axis=1)),
        tuple(column for _, column in parts),
    )


def _inferred(value: Any, name: str, where: str) -> tuple[Array, Column]:
    values = as_numbers(value, where, read_text=not is_declared_category(value))
    if values.ndim not in (1, 2) or values.shape[1:] == (0,):
        raise ValueError(f"{where} has shape {values.shape}: it must be (n,) or (n, k)")
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    return encode(values, "categorical" if is_declared_category(value) else kind_of(values), name)


def _named(condition: object, name: str) -> list[tuple[str, Any]]:
    """The columns of a mapping, a data frame or a table by their names; anything else by its own
    name, if it has one.
    """
    keys = (
        list(condition)
        if isinstance(condition, Mapping)
        else getattr(condition, "column_names", None) or getattr(condition, "columns", None)
    )
    if keys is None:
        own = None if isinstance(condition, np.ndarray) else getattr(condition, "name", None)
        return [("" if own is None else str(own), condition)]
    if not len(keys):
        raise ValueError(
            f"{name} is an empty {'mapping' if isinstance(condition, Mapping) else 'table'}: it"
            " needs at least one column"
        )
    table: Any = condition
    return [(str(key), table[key]) for key in keys]


def _key(name: str) -> str:
    return f"[{name!r}]" if name else ""


def _as_part(
    value: Any, name: str, where: str, device: torch.device | None
) -> tuple[Tensor, list[Column]]:
    """One entry of a condition as float64 (n, k), and its column; a 2-d array of mixed objects
    has one for each of its own.
    """
    declared, text, truth = is_declared_category(value), False, False
    if isinstance(value, Tensor):
        matrix, truth = _as_matrix(value, where, device), value.dtype == torch.bool
    else:
        array = np.asarray(value)
        if array.dtype.kind == "O" and array.ndim == 2 and array.shape[1] > 1:
            parts = [
                _as_part(each, f"{name} {number}" if name else "", where, device)
                for number, each in enumerate(array.T)
            ]
            return torch.cat([values for values, _ in parts], dim=1), [
                column for _, columns in parts for column in columns
            ]
        numbers, truth = as_numbers(array, where), array.dtype.kind == "b"
        text = numbers.dtype == object
        matrix = _as_matrix(
            torch.from_numpy(np.ascontiguousarray(hashed(numbers) if text else numbers)),
            where,
            device,
        )
    _check_finite(matrix, where)
    width = matrix.shape[1]
    if text or declared or truth:
        return matrix, [Column(name, "categorical", width, TRUTH if truth else ())]
    return matrix, [Column(name, "continuous" if width == 1 else "embedding", width)]


def _as_matrix(tensor: Tensor, name: str, device: torch.device | None) -> Tensor:
    tensor = tensor.detach()
    if (
        tensor.dtype in (torch.int64, torch.uint64)
        and tensor.numel()
        and int(tensor.abs().max()) > 2**53
    ):
        raise ValueError(
            f"{name} holds integers beyond 2^53, which would merge: re-encode them with"
            " unique(return_inverse=True)"
        )
    if tensor.is_complex():
        raise ValueError(f"{name} holds complex numbers: pass real columns")
    if tensor.ndim not in (1, 2):
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}: it must be (n,) or (n, k)")
    if tensor.ndim == 2 and tensor.shape[1] == 0:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}: it needs at least one column")
    tensor = tensor.to(device=device, dtype=torch.float64)
    return tensor[:, None] if tensor.ndim == 1 else tensor


def _check_finite(values: Tensor, name: str) -> None:
    # One number tells for the whole table; the costly search for the culprit runs only when it is
    # needed.
    if math.isfinite(float(values.sum())):
        return
    bad = ~values.isfinite()
    if bad.any():
        row, column = bad.nonzero()[0].tolist()
        where = f"row {row}" if values.shape[1] == 1 else f"row {row}, column {column}"
        raise ValueError(
            f"{name} has {int(bad.sum())} values that are NaN or infinite, the first at {where}:"
            " drop or impute them"
        )
