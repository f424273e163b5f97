"""What a column of a condition is: its kind, and its values as numbers. Files, arrays, data
frames and the estimator share this rule.

    categorical     text, truth values, pandas categoricals, and whole numbers (1 or 1.0) with at most 10 distinct values
    continuous      all other numbers, and dates, as days since 1970-01-01
    attributes      text with words joined by ';' in more than 5 % of its cells; several columns of 0 and 1
    embedding       a vector in each cell, or several columns of other numbers

Text that reads as numbers or as ISO dates counts as numbers or dates, as in a CSV file. Wherever a
kind is inferred, it can be set instead.

A loss sees one batch at a time, which may lack most values of the data. So it never counts values:
only the type of the data says there whether a column holds numbers or text (`as_numbers`), and text
is encoded by `hashed`, the same in every batch and process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from numbers import Real
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cclk.dates import days, days_of, is_date

Array = npt.NDArray[Any]
Kind = Literal["continuous", "categorical", "attributes", "embedding"]
FEW = 10
"""Whole numbers with at most this many distinct values are categories."""
SEPARATOR = ";"
_SETS = 0.05
_CODES = 1 << 53


@dataclass(frozen=True)
class Column:
    """A named part of a condition: a number, a category, a set of binary attributes, or a vector."""

    name: str
    kind: Kind = "continuous"
    width: int = 1
    categories: tuple[str, ...] = ()
    """The names of the categories in the order of their codes; of a wider column, the names of
    its values, such as attributes.
    """
    kernel: str = ""
    """The name of the kernel that was asked for; by default the kind decides."""

    @property
    def value_names(self) -> tuple[str, ...]:
        """One name for each of its values."""
        if self.kind == "categorical" or (self.width == 1 and not self.categories):
            return (self.name,)
        return self.categories or tuple(f"{self.name} {number}" for number in range(self.width))

    @cached_property
    def nominal(self) -> bool:
        """Whether its values are codes that are equal or not, but neither near nor far. Two
        categories have only one distance.
        """
        return (
            self.kind == "categorical"
            and len(self.categories) != 2
            and not (self.categories and all(map(_is_number, self.categories)))
        )


def kind_of(values: Array) -> Kind:
    """The kind of a column of numbers (float64, NaN where one is missing), or of text (object,
    None where one is missing).
    """
    if values.ndim == 2:
        return "attributes" if is_binary(values) else "embedding"
    if values.dtype == object:
        known = [cell for cell in values if cell is not None]
        return (
            "attributes"
            if sum(SEPARATOR in cell for cell in known) > _SETS * len(known)
            else "categorical"
        )
    numbers = values[~np.isnan(values)]
    whole = bool((numbers == np.round(numbers)).all())
    return "categorical" if whole and len(np.unique(numbers)) <= FEW else "continuous"


def is_binary(values: Array) -> bool:
    """Whether all numbers that are not missing are 0 or 1."""
    return bool(np.isin(values[~np.isnan(values)], (0.0, 1.0)).all())


def encode(values: Array, kind: Kind, name: str) -> tuple[Array, Column]:
    """A column as float64 (n, width) of this kind, NaN where a cell is missing; categories as
    codes from 0.
    """
    if kind == "categorical":
        texts = [None if _is_missing(cell) else _as_text(cell) for cell in values.tolist()]
        categories = tuple(
            sorted({text for text in texts if text is not None}, key=by_size_then_alphabet)
        )
        code = {category: float(number) for number, category in enumerate(categories)}
        return np.array([np.nan if text is None else code[text] for text in texts])[
            :, None
        ], Column(name, kind, 1, categories)
    if kind == "attributes" and values.dtype == object:
        sets = [
            None if cell is None else {word.strip() for word in cell.split(SEPARATOR)} - {""}
            for cell in values
        ]
        words = sorted(set().union(*(found for found in sets if found)))
        table = np.array(
            [
                [np.nan] * len(words) if found is None else [word in found for word in words]
                for found in sets
            ],
            dtype=np.float64,
        )
        return table.reshape(len(sets), len(words)), Column(
            name, kind, len(words), tuple(f"{name}={word}" for word in words)
        )
    table = values.reshape(len(values), -1).astype(np.float64)
    return table, Column(name, kind, table.shape[1])


def as_numbers(values: object, where: str, *, read_text: bool = False) -> Array:
    """Values of any type as float64 numbers, dates as days, or, where they are text, as an
    object array of str.

    Args:
        where: What to call the values in an error.
        read_text: Whether text that reads as numbers, or as dates, is taken for that.
    """
    array = np.asarray(values)
    if (
        array.dtype.kind == "O"
        and array.size
        and isinstance(array.flat[0], (list, tuple, np.ndarray))
    ):
        array = np.array(array.tolist())  # a vector in each cell
    match array.dtype.kind:
        case "i" | "u":
            if array.size and (int(array.max()) > _CODES or int(array.min()) < -_CODES):
                raise ValueError(
                    f"{where} holds integers beyond 2^53, which would merge: re-encode them with"
                    " unique(return_inverse=True)"
                )
            return array.astype(np.float64)
        case "b" | "f":
            return array.astype(np.float64)
        case "M":
            return np.where(
                np.isnat(array), np.nan, array.astype("datetime64[us]").astype(np.int64) / 86_400e6
            )
        case "U" | "S":
            texts = (np.char.decode(array) if array.dtype.kind == "S" else array).astype(object)
            return _read(texts, where) if read_text else texts
        case "O":
            return _objects(array, where, read_text)
    raise ValueError(
        f"{where} holds values that are not numbers (dtype {array.dtype}): pass numbers, such as"
        " days, or text"
    )


def is_declared_category(values: object) -> bool:
    """Whether the values come with a type of categories or truth values, as pandas has them."""
    dtype = getattr(values, "dtype", None)
    return getattr(dtype, "categories", None) is not None or getattr(dtype, "name", "") in (
        "bool",
        "boolean",
    )


def hashed(texts: Array) -> Array:
    """A number for each text that depends on nothing but the text: batches, supports and
    processes need not know of each other.
    """
    known = {
        text: float(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) % _CODES)
        for text in set(texts.flat)
    }
    return np.array([known[text] for text in texts.flat], dtype=np.float64).reshape(texts.shape)


def _as_text(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # 1 and 1.0 are the same category
    return value.decode() if isinstance(value, bytes) else str(value)


def by_size_then_alphabet(text: str) -> tuple[int, float, str]:
    """Sorts numbers by size, then words by alphabet."""
    try:
        return 0, float(text), text
    except ValueError:
        return 1, 0.0, text


def _objects(array: Array, where: str, read_text: bool) -> Array:
    cells = array.ravel().tolist()
    if any(map(_is_missing, cells)):
        raise ValueError(f"{where} has missing values: drop or impute them")
    if all(isinstance(cell, Real) for cell in cells):
        return array.astype(np.float64)
    if all(isinstance(cell, date) for cell in cells):
        return np.array([days_of(cell) for cell in cells]).reshape(array.shape)
    texts = np.array([str(cell) for cell in cells], dtype=object).reshape(array.shape)
    return _read(texts, where) if read_text else texts


def _read(texts: Array, where: str) -> Array:
    cells: Sequence[str] = texts.ravel().tolist()
    try:
        return texts.astype(np.float64)
    except ValueError:
        if not all(map(is_date, cells)):
            return texts
    try:
        return np.array([days(cell) for cell in cells]).reshape(texts.shape)
    except ValueError as error:
        raise ValueError(f"{where}: {error}; correct or drop it") from None


def _is_missing(value: object) -> bool:
    """Whether it is None, NaN, NaT or pandas' NA, which cannot be compared."""
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True


def _is_number(text: str) -> bool:
    return by_size_then_alphabet(text)[0] == 0
