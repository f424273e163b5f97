"""The kinds of columns of a condition, and their values as numbers.

    categorical   text, truth values, pandas categoricals, and integers (1 or 1.0) with at most 10
                  distinct values
    continuous    all other numbers, and dates, as days since 1970-01-01
    attributes    text with terms joined by ';' in more than 5 % of its cells; several columns of
                  0 and 1
    embedding     a vector in each cell, or several columns of other numbers

Files, arrays, data frames and the estimator share this rule. Text that can be parsed as numbers or
as ISO dates counts as such, as in a CSV file; text that is nearly that, such as numbers and one
word, is an error (`cclk._numerals`). An inferred kind can be overridden: "age:categorical".

A loss receives one batch at a time, which may lack most values of the data. So it never counts
values: only the type of the data determines whether a column holds numbers or text (`as_numbers`),
and text is encoded by `hashed`, identically in every batch and process.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from numbers import Real
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cclk._dates import days, days_of, is_date
from cclk._numerals import FEW, disguised, thousands
from cclk.errors import DataError

Array = npt.NDArray[Any]
Kind = Literal["continuous", "categorical", "attributes", "embedding"]
SEPARATOR = ";"
CIRCULAR = "circular"
"""Follows the name of a condition whose numbers are positions on a circle: `hour:circular`."""
_PERIODS: dict[str, tuple[float, ...]] = {
    "hour": (24.0,),
    "weekday": (7.0,),
    "dayofweek": (7.0,),
    "dow": (7.0,),
    "month": (12.0,),
    "hue": (1.0, 2 * math.pi, 180.0, 256.0, 360.0),
    "orientation": (math.pi, 2 * math.pi, 180.0, 360.0),
} | dict.fromkeys(
    ("angle", "azimuth", "bearing", "direction", "heading", "longitude", "phase"),
    (2 * math.pi, 360.0),
)
"""Word in the name of a column -> its period in each of its usual units."""
_USUAL = (1.0, 2 * math.pi, 7.0, 12.0, 24.0, 60.0, 360.0)
_SETS = 0.05
MAX_INTEGER = 1 << 53
LARGE_INTEGERS = (
    "holds integers beyond 2^53, which would merge: re-encode them with unique(return_inverse=True)"
)


@dataclass(frozen=True)
class Column:
    """A column of a condition: a number, a category, a set of binary attributes, or a vector."""

    name: str
    kind: Kind = "continuous"
    width: int = 1
    categories: tuple[str, ...] = ()
    """The names of the categories by code; of a wider column, the names of its values."""
    kernel: str = ""
    """The name of the requested kernel; by default the kind determines it."""
    period: float = 0.0
    """The period, if the numbers were requested as circular; see `period_of`."""

    @property
    def value_names(self) -> tuple[str, ...]:
        """One name for each value of the column."""
        if self.kind == "categorical" or (self.width == 1 and not self.categories):
            return (self.name,)
        return self.categories or tuple(f"{self.name} {number}" for number in range(self.width))

    @cached_property
    def nominal(self) -> bool:
        """Whether the values are codes without a distance; two categories have only one."""
        return (
            self.kind == "categorical"
            and len(self.categories) != 2
            and not (self.categories and all(map(_is_number, self.categories)))
        )


def kind_of(values: Array) -> Kind:
    """Infer the kind of numbers (float64, NaN if missing) or of text (object, None if missing)."""
    if values.ndim == 2:
        return "attributes" if is_binary(values) else "embedding"
    if values.dtype == object:
        cells = [cell for cell in values if cell is not None]
        sets = sum(SEPARATOR in cell for cell in cells)
        return "attributes" if sets > _SETS * len(cells) else "categorical"
    numbers = values[~np.isnan(values)]
    integers = bool((numbers == np.round(numbers)).all())
    return "categorical" if integers and len(np.unique(numbers)) <= FEW else "continuous"


def is_binary(values: Array) -> bool:
    """Whether all numbers that are not missing are 0 or 1."""
    return bool(np.isin(values[~np.isnan(values)], (0.0, 1.0)).all())


def encode(values: Array, kind: Kind, name: str) -> tuple[Array, Column]:
    """Convert a column to float64 (n, width), NaN if missing, and describe it.

    Args:
        values: Numbers, or text as an object array with None if missing.
        kind: The kind of the column; categories become codes from 0.
        name: The name of the column.
    """
    if kind == "categorical":
        texts = [None if _is_missing(cell) else _as_text(cell) for cell in values.tolist()]
        names = sorted({text for text in texts if text is not None}, key=by_size_then_alphabet)
        codes = {category: float(code) for code, category in enumerate(names)}
        table = np.array([np.nan if text is None else codes[text] for text in texts])
        return table[:, None], Column(name, kind, 1, tuple(names))
    if kind == "attributes" and values.dtype == object:
        sets = [
            None if cell is None else {term.strip() for term in cell.split(SEPARATOR)} - {""}
            for cell in values
        ]
        terms = sorted(set().union(*filter(None, sets)))
        rows = [[np.nan if each is None else term in each for term in terms] for each in sets]
        table = np.array(rows, dtype=np.float64).reshape(len(sets), len(terms))
        return table, Column(name, kind, len(terms), tuple(f"{name}={term}" for term in terms))
    table = values.reshape(len(values), -1).astype(np.float64)
    return table, Column(name, kind, table.shape[1])


def period_of(name: str, numbers: Array) -> float:
    """Return the period of numbers that are positions on a circle, by name and range: hours,
    weekdays, months, angles or hues; 0 if they are not.

    Numbers that leave half of the circle empty are not: they never wrap around.

    Args:
        name: The name of the column.
        numbers: The numbers, (n,).

    Example:
        >>> period_of("hour", np.arange(24)), period_of("age", np.arange(24))
        (24.0, 0.0)
    """
    period = _named_period(name, numbers)
    if not period:
        return 0.0
    positions = np.unique(numbers % period)
    gaps = np.diff(positions, append=positions[0] + period)
    return period if gaps.max() < period / 2 else 0.0


def requested_period(name: str, numbers: Array, where: str) -> float:
    """Return the period of numbers that were requested as circular, by name or by range.

    Args:
        name: The name of the column.
        numbers: The numbers, (n,).
        where: The name of the numbers in errors.
    """
    if period := _named_period(name, numbers):
        return period
    span = float(numbers.max() - numbers.min())
    integers = bool((numbers == np.round(numbers)).all())
    usual = next((each for each in _USUAL if each >= (span + 1 if integers else span)), 0.0)
    if integers:  # all values may occur, or nearly all
        return usual if 0 < usual <= 1.1 * (span + 1) else span + 1
    if not usual:
        raise DataError(
            f"{where} is requested as circular, but ranges over {span:g}: convert it to degrees"
        )
    return usual


def _named_period(name: str, numbers: Array) -> float:
    parts = re.findall("[a-z]+", re.sub("(?<=[a-z])(?=[A-Z])", " ", name).lower())
    candidates = {word.removesuffix("s") for word in (*parts, "".join(parts))}
    low, high = float(numbers.min()), float(numbers.max())
    periods = (each for word, units in _PERIODS.items() if word in candidates for each in units)
    for period in periods:
        slack = 1e-6 * period  # float32
        if low >= -period / 2 - slack and high <= period + slack and high - low <= period + slack:
            return period
    return 0.0


def as_numbers(values: object, where: str, *, read_text: bool = False, remedy: str = "") -> Array:
    """Convert values of any type to float64, with dates as days, or text to objects of type str.

    Args:
        values: A list, an array, or a column of a data frame.
        where: The name of the values in errors.
        read_text: Whether text that can be parsed as numbers or dates is converted.
        remedy: How to request categories, for errors on text that seems to mean numbers.
    """
    array = np.asarray(values)
    kind = array.dtype.kind
    if kind == "O" and array.size and isinstance(array.flat[0], (list, tuple, np.ndarray)):
        array = np.array(array.tolist())  # a vector in each cell
        kind = array.dtype.kind
    match kind:
        case "i" | "u" | "b" | "f":
            ends = (int(array.max()), -int(array.min())) if kind in "iu" and array.size else (0,)
            if max(ends) > MAX_INTEGER:
                raise DataError(f"{where} {LARGE_INTEGERS}")
            with np.errstate(invalid="ignore", over="ignore"):  # signaling NaN; long double
                return array.astype(np.float64)
        case "M":
            days_since = array.astype("datetime64[us]").astype(np.int64) / 86_400e6
            return np.where(np.isnat(array), np.nan, days_since)
        case "U" | "S":
            texts = (np.char.decode(array) if kind == "S" else array).astype(object)
            return _read(texts, where, remedy) if read_text else texts
        case "O":
            return _objects(array, where, read_text, remedy)
    raise DataError(
        f"{where} holds values that are not numbers (dtype {array.dtype}): pass numbers, such as"
        " days, or text"
    )


def is_declared_category(values: object) -> bool:
    """Whether the values have a dtype of categories or truth values, as in pandas."""
    dtype = getattr(values, "dtype", None)
    truth = getattr(dtype, "name", "") in ("bool", "boolean")
    return truth or getattr(dtype, "categories", None) is not None


def hashed(texts: Array) -> Array:
    """Return a hash of each text as a number, which is the same in every batch and process."""

    def code(text: str) -> float:
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        return float(int.from_bytes(digest) % MAX_INTEGER)

    codes = {text: code(text) for text in set(texts.flat)}
    return np.array([codes[text] for text in texts.flat], dtype=np.float64).reshape(texts.shape)


def _as_text(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # 1 and 1.0 are the same category
    return value.decode() if isinstance(value, bytes) else str(value)


def by_size_then_alphabet(text: str) -> tuple[int, float, str]:
    """Sort key: numbers by size, then text by alphabet."""
    try:
        return 0, float(text), text
    except ValueError:
        return 1, 0.0, text


def _objects(array: Array, where: str, read_text: bool, remedy: str) -> Array:
    cells = array.ravel().tolist()
    if any(map(_is_missing, cells)):
        raise DataError(f"{where} has missing values: drop or impute them")
    if all(isinstance(cell, Real) for cell in cells):
        return array.astype(np.float64)
    if all(isinstance(cell, date) for cell in cells):
        return np.array([days_of(cell) for cell in cells]).reshape(array.shape)
    texts = np.array([str(cell) for cell in cells], dtype=object).reshape(array.shape)
    if read_text:
        return _read(texts, where, remedy)
    if remedy:  # a full split, which was requested as categories
        return texts
    # By types alone, a batch without text would be numbers and another one categories.
    number = next((row for row, cell in enumerate(cells) if isinstance(cell, Real)), None)
    text = next((row for row, cell in enumerate(cells) if isinstance(cell, str)), None)
    if number is not None and text is not None:
        raise DataError(
            f"{where}: row {text} is {cells[text][:60]!r}, text beside numbers: correct or drop it,"
            " or convert all values to text for categories"
        )
    return texts


def _read(texts: Array, where: str, remedy: str) -> Array:
    cells: Sequence[str] = texts.ravel().tolist()
    try:
        numbers = texts.astype(np.float64)
        if (fault := thousands(cells)) is None:
            return numbers
    except ValueError:
        fault = None
        if not all(map(is_date, cells)):
            fault = disguised(cells)
            if fault is None or kind_of(texts) != "categorical":
                return texts
    if fault is not None:
        row, problem = fault
        raise DataError(f"{where}: row {row} {problem}, or {remedy}")
    try:
        return np.array([days(cell) for cell in cells]).reshape(texts.shape)
    except ValueError as error:
        raise DataError(f"{where}: {error}; correct or drop it") from None


def _is_missing(value: object) -> bool:
    """Whether the value is None, NaN, NaT or pandas' NA, which cannot be compared."""
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True


def _is_number(text: str) -> bool:
    return by_size_then_alphabet(text)[0] == 0
