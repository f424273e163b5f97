"""Your own arrays from an .npz file: `numpy.savez("mine.npz", x=..., y=..., condition=...)`.

    x           uint8 images (n, c, h, w), or vectors (n, k) of any numbers
    y           labels (n,): integers or text
    condition   (n,) or (n, k) numbers, or one column of text; may be left out for methods that need none

The file says which rows are for what by an array `split` (n,) of "train", "validation" and "test"
(or 0, 1, 2), or by arrays of their own: x_test, y_test, condition_test and, if there are any,
x_validation and so on. Otherwise rows are drawn: 70 % train, 15 % validation, 15 % test, the same
ones each time. Optional names: `classes`, where y then counts from 0 into them, and
`condition_names`, one per column. Files are never unpickled.
"""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from cclk.columns import Column, Kind, as_numbers, encode, kind_of
from cclk.data.dataset import Dataset, Split
from cclk.data.splits import Rows, hold_out, stratified_order
from cclk.errors import DataError

Array = npt.NDArray[Any]

_PARTS = ("train", "validation", "test")
_CORE = ("x", "y", "condition")


def load(
    path: Path,
    *,
    seed: int = 0,
    holdout: int | None = None,
    condition_kind: Literal["auto", "continuous", "categorical"] = "auto",
) -> Dataset:
    """The dataset in an .npz file.

    Args:
        path: the file.
        seed: draws the rows of each split, where the file does not name them.
        holdout: how many training rows to keep for validation, where the file has no validation
            rows; None: 15 %.
        condition_kind: "auto" infers the kind of a single column by the rule of `cclk.columns`;
            several columns are one vector of numbers.
    """
    if condition_kind not in ("auto", "continuous", "categorical"):
        raise DataError(
            f"condition_kind is {condition_kind!r}: choose auto, continuous or categorical"
        )
    arrays = _Arrays(path)
    table, own_part = _join(arrays)
    x = _inputs(arrays, table["x"])
    y, classes = _labels(arrays, table["y"])
    condition, columns = _condition(arrays, table["condition"], condition_kind)
    train, validation, test = _rows(arrays, y, own_part, holdout, seed)

    def split(rows: Rows) -> Split:
        return Split(
            torch.from_numpy(x[rows]), torch.from_numpy(y[rows]), torch.from_numpy(condition[rows])
        )

    shape = " x ".join(map(str, x.shape[1:]))
    return Dataset(
        name=path.stem,
        train=split(train),
        validation=split(validation),
        test=split(test),
        classes=classes,
        columns=columns,
        description=(
            f"{path.name}: {len(x)} {'images' if x.ndim == 4 else 'vectors'} ({shape}),"
            f" {len(classes)} labels"
        )
        + "".join(f", {column.name} is {column.kind}" for column in columns),
    )


class _Arrays:
    """The arrays of the file; every complaint about one names the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise DataError(
                f"{path} is missing: give the path of an .npz file with arrays x, y and condition"
            )
        try:
            if not zipfile.is_zipfile(path):
                raise self.error(
                    "it is not an .npz file, or cut short; write it with numpy.savez(path, x=...,"
                    " y=..., condition=...)"
                )
            with np.load(path, allow_pickle=False) as archive:
                self._arrays = {name: self._read(archive, name) for name in archive.files}
        except (OSError, zipfile.BadZipFile) as error:
            raise self.error(f"it cannot be read ({error})") from error
        for name in self._arrays:
            core, _, part = name.partition("_")
            if core in _CORE and part not in ("", "names", "validation", "test"):
                raise self.error(
                    f"there is no use for the array {name}; parts are named {core}_validation and"
                    f" {core}_test"
                )

    def _read(self, archive: Any, name: str) -> Array:
        try:
            array: Array = archive[name]
        except (ValueError, EOFError, zlib.error, zipfile.BadZipFile) as error:
            if "pickle" in str(error):
                raise self.error(
                    f"{name} is an array of Python objects; store it as plain numbers or text of"
                    " one dtype"
                ) from error
            raise self.error(f"{name} is damaged ({error})") from error
        if not isinstance(array, np.ndarray):
            raise self.error(f"{name} is no array")
        return array

    def error(self, what: str) -> DataError:
        return DataError(f"{self.path}: {what}")

    def __getitem__(self, name: str) -> Array:
        if name not in self._arrays:
            raise self.error(
                f"the array {name} is missing; the file holds"
                f" {', '.join(self._arrays) or 'nothing'}"
            )
        return self._arrays[name]

    def __contains__(self, name: str) -> bool:
        return name in self._arrays


def _join(arrays: _Arrays) -> tuple[dict[str, Array], Rows]:
    """All rows of x, y and condition, and which part of the file each came from: 0 plain, 1
    validation, 2 test.
    """
    parts = {0: ""} | {
        number: f"_{part}"
        for number, part in enumerate(_PARTS)
        if any(f"{core}_{part}" in arrays for core in _CORE)
    }
    table: dict[str, Array] = {}
    without = not any(f"condition{suffix}" in arrays for suffix in parts.values())
    for core in _CORE[:2] if without else _CORE:
        pieces = [arrays[core + suffix] for suffix in parts.values()]
        for suffix, piece in zip(parts.values(), pieces, strict=True):
            if piece.ndim == 0:
                raise arrays.error(f"{core}{suffix} is a single value; it needs one row per sample")
            length = len(arrays[f"x{suffix}"])
            if len(piece) != length:
                raise arrays.error(
                    f"x{suffix} has {length} rows, but {core}{suffix} has {len(piece)}"
                )
            if piece.shape[1:] != pieces[0].shape[1:]:
                raise arrays.error(
                    f"rows of {core}{suffix} have shape {piece.shape[1:]}, but those of {core} have"
                    f" {pieces[0].shape[1:]}"
                )
            if (
                len(piece)
                and len(pieces[0])
                and (piece.dtype.kind in "US") != (pieces[0].dtype.kind in "US")
            ):
                raise arrays.error(
                    f"{core}{suffix} is {piece.dtype}, but {core} is {pieces[0].dtype}"
                )
        table[core] = np.concatenate(pieces)
    lengths = [len(arrays[f"x{suffix}"]) for suffix in parts.values()]
    if lengths[0] == 0:
        raise arrays.error("x has no rows")
    if without:
        table["condition"] = np.empty((sum(lengths), 0), np.float32)
    return table, np.repeat(np.array(list(parts), dtype=np.int64), lengths)


def _inputs(arrays: _Arrays, x: Array) -> Array:
    if x.ndim == 4:
        if x.dtype != np.uint8:
            raise arrays.error(f"x holds images of dtype {x.dtype}; store them as uint8, 0 to 255")
        if x.shape[1] not in (1, 3) and x.shape[3] in (1, 3):
            raise arrays.error(
                f"x has shape {x.shape}, channels last; store x.transpose(0, 3, 1, 2)"
            )
        return x
    if x.ndim != 2 or x.shape[1] == 0 or x.dtype.kind not in "biuf":
        raise arrays.error(
            f"x is {x.dtype} of shape {x.shape}; it must be uint8 images (n, c, h, w) or numbers"
            " (n, k)"
        )
    return _finite(arrays, x, "x")


def _labels(arrays: _Arrays, y: Array) -> tuple[Array, tuple[str, ...]]:
    if y.ndim != 1 or y.dtype.kind not in "biuUS":
        raise arrays.error(
            f"y is {y.dtype} of shape {y.shape}; it must be labels (n,), integers or text"
        )
    if "classes" not in arrays:
        values, codes = np.unique(y, return_inverse=True)
        return codes.astype(np.int64), _texts(values)
    classes = arrays["classes"]
    if classes.ndim != 1 or classes.dtype.kind not in "biuUS":
        raise arrays.error(
            f"classes is {classes.dtype} of shape {classes.shape}; it must be a list of names"
        )
    if y.dtype.kind in "US" or y.min() < 0 or y.max() >= len(classes):
        raise arrays.error(
            f"y must be integers from 0 to {len(classes) - 1}, since classes has {len(classes)}"
            " names"
        )
    return y.astype(np.int64), _texts(classes)


def _condition(arrays: _Arrays, condition: Array, wanted: str) -> tuple[Array, tuple[Column, ...]]:
    if condition.shape[1:] == (0,) and "condition" not in arrays:
        return condition, ()
    if condition.ndim not in (1, 2) or condition.dtype.kind not in "biufUSM" or condition.size == 0:
        raise arrays.error(
            f"condition is {condition.dtype} of shape {condition.shape}; it must be numbers (n,) or"
            " (n, k), or text (n,)"
        )
    columns = condition.reshape(len(condition), -1)
    width = columns.shape[1]
    if condition.dtype.kind in "US" and width > 1:
        raise arrays.error("condition is text; that is for one categorical column only")
    if wanted == "categorical" and width > 1:
        raise arrays.error(
            f"condition has {width} columns; a categorical condition is a single one"
        )
    names = _condition_names(arrays, width)
    if width > 1:
        return _finite(arrays, columns, "condition"), (
            Column("condition", width=width, categories=names),
        )
    cells = columns[:, 0]
    kind: Kind = "categorical"
    if wanted != "categorical":
        try:
            numbers = as_numbers(cells, "condition", read_text=True)
        except ValueError as error:
            raise arrays.error(str(error)) from error
        if wanted == "continuous" and numbers.dtype == object:
            raise arrays.error("condition is text; that is for one categorical column only")
        kind = kind_of(numbers) if wanted == "auto" else "continuous"
        cells = cells if kind == "categorical" else numbers
    table, column = encode(cells, kind, names[0])
    return _finite(arrays, table, "condition"), (column,)


def _rows(
    arrays: _Arrays, y: Array, own_part: Rows, holdout: int | None, seed: int
) -> tuple[Rows, Rows, Rows]:
    if "split" in arrays:
        if own_part.any():
            raise arrays.error(
                "it has both an array split and arrays such as x_test; keep one of them"
            )
        part, share = _parts(arrays, arrays["split"], len(y)), 0.15
    elif own_part.any():
        part, share = own_part, 0.15
    else:
        part, share = np.zeros(len(y), np.int64), 0.15 / 0.85
        part[stratified_order(y, seed)[len(y) - round(0.15 * len(y)) :]] = 2
    train, validation, test = (np.flatnonzero(part == number) for number in range(3))
    for name, rows in (("train", train), ("test", test)):
        if len(rows) == 0:
            raise arrays.error(f"of its {len(y)} rows none are for {name}")
    if len(validation) and holdout is not None:
        raise arrays.error(
            f"holdout is {holdout}, but the file has validation rows of its own; leave holdout out"
        )
    if len(validation):
        return train, validation, test
    kept, held_out = hold_out(
        stratified_order(y[train], seed), round(share * len(train)) if holdout is None else holdout
    )
    return train[kept], train[held_out], test


def _parts(arrays: _Arrays, split: Array, rows: int) -> Rows:
    if split.shape != (rows,):
        raise arrays.error(f"x has {rows} rows, but split has shape {split.shape}")
    values = split.astype(str) if split.dtype.kind in "US" else split
    known = dict(enumerate(_PARTS))
    wanted = list(known.values()) if values.dtype.kind == "U" else list(known)
    bad = ~np.isin(values, wanted)
    if bad.any():
        row = int(np.argmax(bad))
        raise arrays.error(
            f"split[{row}] is {str(values[row])!r}; it must be train, validation or test (or 0,"
            " 1, 2)"
        )
    return (
        values.astype(np.int64)
        if values.dtype.kind != "U"
        else np.array([_PARTS.index(value) for value in values], np.int64)
    )


def _condition_names(arrays: _Arrays, columns: int) -> tuple[str, ...]:
    if "condition_names" not in arrays:
        return (
            ("condition",)
            if columns == 1
            else tuple(f"condition {number}" for number in range(columns))
        )
    names = arrays["condition_names"]
    if names.shape != (columns,) or names.dtype.kind not in "US":
        raise arrays.error(
            f"condition_names is {names.dtype} of shape {names.shape}; it must be {columns} texts,"
            " one per column"
        )
    return _texts(names)


def _finite(arrays: _Arrays, values: Array, name: str) -> Array:
    # Checked as float32, where a value that is too large has become infinite.
    with np.errstate(over="ignore"):
        result = values.astype(np.float32)
    bad = ~np.isfinite(result)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise arrays.error(
            f"{name} has {int(bad.sum())} values that are NaN or infinite, the first in row {row},"
            f" column {column}; drop or impute them"
        )
    return result


def _texts(values: Array) -> tuple[str, ...]:
    return tuple(value.decode() if isinstance(value, bytes) else str(value) for value in values)
