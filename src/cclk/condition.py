"""The condition z as a table of named and typed columns.

A condition is a tensor or array of shape (n,) or (n, k), a list of numbers or text, a data frame or
one of its columns, or a mapping from column names to any of these. Inside the package it is always
a `Condition`. `as_condition` converts one batch, where only the type of the data determines the
kind of a column; `infer_condition` converts a full split, by the rule of `cclk.columns`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from cclk.columns import (
    CIRCULAR,
    LARGE_INTEGERS,
    MAX_INTEGER,
    Array,
    Column,
    Kind,
    as_numbers,
    encode,
    hashed,
    is_declared_category,
    kind_of,
    requested_period,
)
from cclk.errors import DataError

Columns = str | int | Sequence[str | int] | slice
WIDE = 32
"""An unnamed table with more columns than this is one vector, such as an embedding."""
TRUTH = ("False", "True")
LARGEST = 1e150
"""Squares of larger numbers overflow, so no distance of them can be computed."""


@dataclass(frozen=True)
class Condition:
    """A table of n rows and its columns."""

    values: Tensor
    """(n, k), float64 in kernels. A split may be float32: `rows` and `as_condition` convert."""
    columns: tuple[Column, ...] = ()
    """The columns from left to right, possibly without names; empty for an array of numbers."""
    dtype: torch.dtype = torch.float64
    """The dtype of the caller's data, in which kernel matrices are returned."""
    index: Tensor | None = None
    """Row numbers in the table that these rows were taken from; needed by `Precomputed()`."""

    def __len__(self) -> int:
        return self.values.shape[0]

    @cached_property
    def names(self) -> dict[str, slice]:
        """The position of each named column among the k values."""
        return {column.name: part for column, part in column_slices(self.columns) if column.name}

    def rows(self, rows: Tensor | slice) -> Condition:
        """Return a subset of the rows as float64."""
        if isinstance(rows, Tensor) and rows.dtype == torch.int64:
            values = self.values.index_select(0, rows)  # several times faster than []
        else:
            values = self.values[rows]
        if self.index is not None:
            index = self.index[rows]
        elif isinstance(rows, Tensor) and rows.dtype != torch.bool:
            index = rows
        else:
            index = torch.arange(self.values.shape[0], device=self.values.device)[rows]
        return Condition(values.double(), self.columns, self.dtype, index)

    def to(self, device: torch.device | None) -> Condition:
        """Return the table as float64 on a device."""
        values = self.values.to(device=device, dtype=torch.float64)
        if values is self.values:
            return self
        return replace(
            self, values=values, index=None if self.index is None else self.index.to(device)
        )

    def standardized(
        self, factor: float = 1.0, *, unit_variance: bool = True, raw: Sequence[str] = ()
    ) -> Condition:
        """Return the table in the units used by kernels; categories stay as they are.

        Args:
            factor: A factor for all numbers.
            unit_variance: Whether continuous columns get mean 0 and variance 1, and embeddings
                mean 0 and then length 1: directions of an embedding tell more than lengths, and
                unit variance of each of its values would weight noise as much as content.
            raw: Names of columns that keep mean and variance.
        """
        values = self.values.clone()
        for column, part in column_slices(self.columns):
            if column.kind != "categorical":
                values[:, part] *= factor
            if not unit_variance or column.name in raw:
                continue
            if column.kind == "continuous":
                numbers = values[:, part]
                mean, std = numbers.mean(dim=0), numbers.std(dim=0)
                # The std of a constant column is not exactly 0 because of rounding.
                values[:, part] = (numbers - mean) / std.where(std > 1e-6 * mean.abs(), 1.0)
            if column.kind == "embedding":
                centered = values[:, part] - values[:, part].mean(dim=0)
                values[:, part] = F.normalize(centered, dim=1)
        return replace(self, values=values)

    def nominal(self, columns: Columns | None) -> Column | None:
        """Return the first selected column of codes of text, which have no distance, if any."""
        nominal = [(column, part) for column, part in column_slices(self.columns) if column.nominal]
        if not nominal:
            return None
        numbered = Condition(torch.arange(self.values.shape[1])[None], self.columns)
        selected = set(numbered.select(columns)[0].tolist())
        return next(
            (column for column, part in nominal if selected & set(range(part.start, part.stop))),
            None,
        )

    def select(self, columns: Columns | None) -> Tensor:
        """Return the values of some columns, (n, m); all of them for None."""
        if columns is None:
            return self.values
        if isinstance(columns, (str, int)):
            return self.values[:, self._part(columns)]
        if isinstance(columns, slice):
            values = self.values[:, columns]
            if values.shape[1] == 0:
                raise DataError(
                    f"condition has {self.values.shape[1]} columns, none of them in {columns}"
                )
            return values
        return torch.cat([self.values[:, self._part(column)] for column in columns], dim=1)

    def widths(self, columns: Columns | None) -> list[int]:
        """Return the widths of the selected units.

        A named column is one unit of any width, and so are a slice and an unnamed table of more
        than `WIDE` columns. Each column of a narrower unnamed table is a separate unit.
        """
        if columns is None:
            if self.names:
                return self.widths(list(self.names))
            width = self.values.shape[1]
            return [1] * width if width <= WIDE else [width]
        if isinstance(columns, (str, int, slice)):
            return [self.select(columns).shape[1]]
        return [self.select(column).shape[1] for column in columns]

    def _part(self, column: str | int) -> slice:
        if isinstance(column, str):
            if column not in self.names:
                known = ", ".join(map(repr, self.names)) or "none; pass a mapping of names"
                raise DataError(f"condition has no column {column!r} (its named columns: {known})")
            return self.names[column]
        width = self.values.shape[1]
        if not -width <= column < width:
            raise DataError(f"condition has {width} columns and no column {column}")
        return slice(column % width, column % width + 1)

    def in_columns_of(self, other: Condition) -> Condition:
        """Return these rows with the columns in the order of the other, which has the same ones."""
        if set(self.names) != set(other.names):
            raise DataError(
                f"condition columns differ: {', '.join(other.names) or 'unnamed'} in one table, "
                f"{', '.join(self.names) or 'unnamed'} in the other"
            )
        values = self.select(list(other.names)) if other.names else self.values
        pairs = [(name, self.select(name), other.select(name)) for name in other.names]
        for name, mine, theirs in [*pairs, ("", values, other.values)]:
            if mine.shape[1] != theirs.shape[1]:
                raise DataError(
                    f"condition{_key(name)} is {theirs.shape[1]} wide in one table and"
                    f" {mine.shape[1]} wide in the other"
                )
        text = {column.name for column in self.columns if column.nominal} ^ {
            column.name for column in other.columns if column.nominal
        }
        if text:
            raise DataError(
                f"condition{_key(text.pop())} holds text in one table and numbers in the other:"
                " pass the same type in both"
            )
        return Condition(values, other.columns, self.dtype, self.index)

    def join(self, other: Condition) -> Condition:
        """Return these rows followed by the other's."""
        values = torch.cat([self.values, other.in_columns_of(self).values.to(self.values)])
        return Condition(values, self.columns, self.dtype)


def column_slices(columns: Iterable[Column]) -> list[tuple[Column, slice]]:
    """Return each column with the position of its values in a table of all columns."""
    parts, start = [], 0
    for column in columns:
        parts.append((column, slice(start, start + column.width)))
        start += column.width
    return parts


def as_condition(
    condition: object, *, name: str = "condition", device: torch.device | None = None
) -> Condition:
    """Convert and check the condition of a batch.

    Args:
        condition: A tensor, array, list, data frame or mapping of columns with n rows.
        name: The name of the argument in errors.
        device: The device of the values; that of the condition by default.
    """
    if isinstance(condition, Condition):
        return condition.to(condition.values.device if device is None else device)
    if condition is None:
        raise DataError(
            f"{name} is missing: pass a tensor or array of shape (n,) or (n, k), or a mapping of"
            " columns"
        )
    if isinstance(condition, Tensor):
        values = _as_matrix(condition, name, device)
        _check_values(values, name)
        return Condition(
            values, dtype=condition.dtype if condition.is_floating_point() else torch.float64
        )
    parts = [
        part
        for key, value in _named(condition, name)
        for part in _as_parts(value, key, f"{name}{_key(key)}", device)
    ]
    _check_lengths(parts, name)
    columns = tuple(column for _, column in parts)
    if not any(column.name or column.kind == "categorical" for column in columns):
        columns = ()  # a plain array of numbers
    return Condition(torch.cat([values for values, _ in parts], dim=1), columns)


def infer_condition(data: object, *, name: str = "condition") -> Condition:
    """Convert the condition of a full split, with kinds inferred by the rule of `cclk.columns`.

    Categories are codes of their sorted names. The columns of an array are named by their numbers,
    but a float array of several columns is one vector. A name may end in the kind of its column, as
    in {"site:categorical": site}, or in ":circular".

    Args:
        data: A tensor, array, list, data frame or mapping of columns with n rows.
        name: The name of the argument in errors, and of a condition without a name.
    """
    if isinstance(data, Condition):
        return data
    data = data.detach().cpu().numpy() if isinstance(data, Tensor) else data
    encoded: list[tuple[Array, Column]] = []
    for key, value in _named(data, name):
        array = np.asarray(value)
        if key or array.ndim != 2 or array.shape[1] == 0:
            encoded.append(_infer_column(value, key or name, f"{name}{_key(key)}"))
        elif array.dtype.kind == "f" and array.shape[1] > 1:
            encoded.append(encode(as_numbers(array, name), "continuous", name))
        else:
            numbered = [(str(number), each) for number, each in enumerate(array.T)]
            encoded += [_infer_column(each, key, f"{name}{_key(key)}") for key, each in numbered]
    parts = [(torch.from_numpy(values), column) for values, column in encoded]
    for values, column in parts:
        _check_values(values, f"{name}{_key(column.name)}")
    _check_lengths(parts, name)
    return Condition(
        torch.cat([values for values, _ in parts], dim=1), tuple(column for _, column in parts)
    )


def _infer_column(value: Any, name: str, where: str) -> tuple[Array, Column]:
    start, _, end = name.rpartition(":")
    circular = bool(start) and end == CIRCULAR
    name = start if circular else name
    requested: Kind | None = None
    if start and end in ("categorical", "continuous"):
        name, requested = start, "categorical" if end == "categorical" else "continuous"
    if requested is None and is_declared_category(value):
        requested = "categorical"
    values = as_numbers(
        value,
        where,
        read_text=requested in (None, "continuous"),
        remedy=f"pass it as {{'{name}:categorical': ...}}",
    )
    if requested == "continuous" and values.dtype == object:
        raise DataError(f"{where} holds text, such as {str(values.flat[0])[:60]!r}: pass numbers")
    if values.ndim not in (1, 2) or values.shape[1:] == (0,):
        raise DataError(f"{where} has shape {values.shape}: it must be (n,) or (n, k)")
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    encoded, column = encode(values, requested or kind_of(values), name)
    if circular:
        if values.ndim != 1 or values.dtype == object:
            raise DataError(f"{where} is requested as circular: it must be single numbers")
        if not np.isfinite(values).all():
            raise DataError(f"{where} has missing or infinite values: drop or impute them")
        column = replace(column, period=requested_period(name, values, where))
    return encoded, column


def _named(condition: object, name: str) -> list[tuple[str, Any]]:
    """Return the columns of a mapping, data frame or table by name; others by their `name`."""
    keys = (
        list(condition)
        if isinstance(condition, Mapping)
        else getattr(condition, "column_names", None) or getattr(condition, "columns", None)
    )
    if keys is None:
        key = None if isinstance(condition, np.ndarray) else getattr(condition, "name", None)
        return [("" if key is None else str(key), condition)]
    if not len(keys):
        form = "mapping" if isinstance(condition, Mapping) else "table"
        raise DataError(f"{name} is an empty {form}: it needs at least one column")
    table: Any = condition
    return [(str(key), table[key]) for key in keys]


def _key(name: str) -> str:
    return f"[{name!r}]" if name else ""


def _as_parts(
    value: Any, name: str, where: str, device: torch.device | None
) -> list[tuple[Tensor, Column]]:
    """Convert one entry of a condition to float64 (n, k); mixed 2-d arrays column by column."""
    text = False
    if isinstance(value, Tensor):
        matrix, truth = _as_matrix(value, where, device), value.dtype == torch.bool
    else:
        array = np.asarray(value)
        if array.dtype.kind == "O" and array.ndim == 2 and array.shape[1] > 1:
            return [
                part
                for number, each in enumerate(array.T)
                for part in _as_parts(each, f"{name} {number}" if name else "", where, device)
            ]
        numbers, truth = as_numbers(array, where), array.dtype.kind == "b"
        text = numbers.dtype == object
        numbers = np.ascontiguousarray(hashed(numbers) if text else numbers)
        matrix = _as_matrix(torch.from_numpy(numbers), where, device)
    _check_values(matrix, where)
    width = matrix.shape[1]
    if text or truth or is_declared_category(value):
        return [(matrix, Column(name, "categorical", width, TRUTH if truth else ()))]
    return [(matrix, Column(name, "continuous" if width == 1 else "embedding", width))]


def _as_matrix(tensor: Tensor, name: str, device: torch.device | None) -> Tensor:
    tensor = tensor.detach()
    integers = tensor.dtype in (torch.int64, torch.uint64) and tensor.numel()
    if integers and int(tensor.abs().max()) > MAX_INTEGER:
        raise DataError(f"{name} {LARGE_INTEGERS}")
    if tensor.is_complex():
        raise DataError(f"{name} holds complex numbers: pass real columns")
    if tensor.ndim not in (1, 2) or tensor.shape[1:] == (0,):
        raise DataError(
            f"{name} has shape {tuple(tensor.shape)}: it must be (n,) or (n, k), with k at least 1"
        )
    tensor = tensor.to(device=device, dtype=torch.float64)
    return tensor[:, None] if tensor.ndim == 1 else tensor


def _check_lengths(parts: list[tuple[Tensor, Column]], name: str) -> None:
    lengths = {column.name: len(values) for values, column in parts}
    if len(set(lengths.values())) > 1:
        raise DataError(f"{name}: columns differ in length: {lengths}")


def _check_values(values: Tensor, name: str) -> None:
    # The sum of squares is finite unless a value is not or is too large; the costly search runs
    # only if it is needed.
    if float(torch.linalg.vector_norm(values)) <= LARGEST:
        return
    for bad, what in (
        (~values.isfinite(), "NaN or infinite, the first at {}: drop or impute them"),
        (values.abs() > LARGEST, f"beyond {LARGEST:g}, the first at {{}}: rescale them"),
    ):
        if bad.any():
            row, column = bad.nonzero()[0].tolist()
            where = f"row {row}" if values.shape[1] == 1 else f"row {row}, column {column}"
            raise DataError(f"{name} has {int(bad.sum())} values that are {what.format(where)}")
