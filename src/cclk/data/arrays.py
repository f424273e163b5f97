"""Datasets from .npz files: `numpy.savez("mine.npz", x=..., y=..., condition=...)`.

    x           uint8 images (n, c, h, w), or vectors (n, k) of numbers
    y           labels (n,): integers or text
    condition   (n,) or (n, k) numbers, or one column of text; optional for some methods

Splits are read from an array `split` (n,) of "train", "validation" and "test" (or 0, 1, 2), or from
separate arrays x_test, y_test, condition_test and, optionally, x_validation and so on. Otherwise
rows are drawn: 70 % train, 15 % validation, 15 % test. Optional names: `classes`, the names of the
labels 0, 1, ..., and `condition_names`, one per column. Files are never unpickled.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import torch

from cclk.columns import Array, Column, Kind, as_numbers, encode, kind_of
from cclk.data.dataset import Dataset, Split
from cclk.data.npz import read_npz
from cclk.data.splits import Rows, hold_out, stratified_order
from cclk.errors import DataError

_PARTS = ("train", "validation", "test")
_CORE = ("x", "y", "condition")


def load(
    path: Path,
    *,
    seed: int = 0,
    holdout: int | None = None,
    condition_kind: Literal["auto", "continuous", "categorical"] = "auto",
) -> Dataset:
    """Return the dataset in an .npz file.

    Args:
        path: the file.
        seed: seed of the split, if the file does not define it.
        holdout: number of training rows held out for validation, if the file has no validation
            rows; None: 15 % of all rows.
        condition_kind: "auto" infers the kind of a single column by the rule of `cclk.columns`;
            several columns are one vector of numbers.
    """
    if condition_kind not in ("auto", "continuous", "categorical"):
        raise DataError(
            f"condition_kind is {condition_kind!r}: choose auto, continuous or categorical"
        )
    try:
        if not path.exists():
            raise ValueError("it does not exist; pass the path of an .npz file with arrays x and y")
        arrays = read_npz(path)
        table, part = _join(arrays)
        x = _inputs(table["x"])
        y, classes = _labels(table["y"], arrays.get("classes"))
        condition, columns = _condition(table, arrays.get("condition_names"), condition_kind)
        train, validation, test = _rows(y, arrays.get("split"), part, holdout, seed)
    except ValueError as error:
        raise DataError(f"{path}: {error}") from error
    samples = Split(torch.from_numpy(x), torch.from_numpy(y), torch.from_numpy(condition))
    kind, shape = "images" if x.ndim == 4 else "vectors", " x ".join(map(str, x.shape[1:]))
    return Dataset(
        name=path.stem,
        train=samples.subset(train),
        validation=samples.subset(validation),
        test=samples.subset(test),
        classes=classes,
        columns=columns,
        description=f"{path.name}: {len(x)} {kind} ({shape}), {len(classes)} labels"
        + "".join(f", {column.name} is {column.kind}" for column in columns),
    )


def _join(arrays: dict[str, Array]) -> tuple[dict[str, Array], Rows]:
    """Concatenate the parts of x, y and condition; also return the part of each row: 0 plain, 1
    validation, 2 test.
    """
    for name in arrays:
        core, _, part = name.partition("_")
        if core in _CORE and part not in ("", "names", "validation", "test"):
            raise ValueError(
                f"the array {name} is not used; parts are named {core}_validation and {core}_test"
            )
    suffixes = {0: ""} | {
        number: f"_{part}"
        for number, part in enumerate(_PARTS)
        if any(f"{core}_{part}" in arrays for core in _CORE)
    }
    conditional = any(f"condition{suffix}" in arrays for suffix in suffixes.values())
    cores = _CORE if conditional else _CORE[:2]
    for name in [core + suffix for core in cores for suffix in suffixes.values()]:
        if name not in arrays:
            raise ValueError(
                f"the array {name} is missing; the file holds {', '.join(arrays) or 'nothing'}"
            )
        if arrays[name].ndim == 0:
            raise ValueError(f"{name} is a single value; it must have one row per sample")
    lengths = [len(arrays[f"x{suffix}"]) for suffix in suffixes.values()]
    if lengths[0] == 0:
        raise ValueError("x has no rows")
    table: dict[str, Array] = {}
    for core in cores:
        pieces = [arrays[core + suffix] for suffix in suffixes.values()]
        first = pieces[0]
        for suffix, piece, length in zip(suffixes.values(), pieces, lengths, strict=True):
            if len(piece) != length:
                raise ValueError(
                    f"x{suffix} has {length} rows, but {core}{suffix} has {len(piece)}"
                )
            if piece.shape[1:] != first.shape[1:]:
                raise ValueError(
                    f"rows of {core}{suffix} have shape {piece.shape[1:]}, but those of {core} have"
                    f" {first.shape[1:]}"
                )
            if len(piece) and (piece.dtype.kind in "US") != (first.dtype.kind in "US"):
                raise ValueError(f"{core}{suffix} is {piece.dtype}, but {core} is {first.dtype}")
        table[core] = np.concatenate(pieces)
    return table, np.repeat(np.array(list(suffixes), dtype=np.int64), lengths)


def _inputs(x: Array) -> Array:
    if x.ndim == 4:
        if x.dtype != np.uint8:
            raise ValueError(f"x holds images of dtype {x.dtype}; store them as uint8, 0 to 255")
        if x.shape[1] not in (1, 3) and x.shape[3] in (1, 3):
            raise ValueError(f"x has shape {x.shape}, channels last; store x.transpose(0, 3, 1, 2)")
        return x
    if x.ndim != 2 or x.shape[1] == 0 or x.dtype.kind not in "biuf":
        raise ValueError(
            f"x is {x.dtype} of shape {x.shape}; it must be uint8 images (n, c, h, w) or numbers"
            " (n, k)"
        )
    return _finite(x, "x")


def _labels(y: Array, classes: Array | None) -> tuple[Array, tuple[str, ...]]:
    for name, values, expected in (
        ("y", y, "labels (n,), integers or text"),
        ("classes", y if classes is None else classes, "a list of names"),
    ):
        if values.ndim != 1 or values.dtype.kind not in "biuUS":
            raise ValueError(
                f"{name} is {values.dtype} of shape {values.shape}; it must be {expected}"
            )
    if classes is None:
        classes, y = np.unique(y, return_inverse=True)
    elif y.dtype.kind in "US" or y.min() < 0 or y.max() >= len(classes):
        raise ValueError(
            f"y must be integers from 0 to {len(classes) - 1}, since classes has {len(classes)}"
            " names"
        )
    return y.astype(np.int64), _texts(classes)


def _condition(
    table: dict[str, Array], own_names: Array | None, requested: str
) -> tuple[Array, tuple[Column, ...]]:
    if "condition" not in table:
        return np.empty((len(table["x"]), 0), np.float32), ()
    condition = table["condition"]
    if condition.ndim not in (1, 2) or condition.dtype.kind not in "biufUSM" or condition.size == 0:
        raise ValueError(
            f"condition is {condition.dtype} of shape {condition.shape}; it must be numbers (n,) or"
            " (n, k), or text (n,)"
        )
    values = condition.reshape(len(condition), -1)
    width = values.shape[1]
    if condition.dtype.kind in "US" and width > 1:
        raise ValueError("condition is text; that is for one categorical column only")
    if requested == "categorical" and width > 1:
        raise ValueError(f"condition has {width} columns; a categorical condition is a single one")
    names = ("condition",) if width == 1 else tuple(f"condition {n}" for n in range(width))
    if own_names is not None:
        if own_names.shape != (width,) or own_names.dtype.kind not in "US":
            raise ValueError(
                f"condition_names is {own_names.dtype} of shape {own_names.shape}; it must be"
                f" {width} texts, one per column"
            )
        names = _texts(own_names)
    if width > 1:
        column = Column("condition", width=width, categories=names)
        return _finite(values, "condition"), (column,)
    cells = values[:, 0]
    kind: Kind = "categorical"
    if requested != "categorical":
        numbers = as_numbers(
            cells, "condition", read_text=True, remedy='pass condition_kind="categorical"'
        )
        if requested == "continuous" and numbers.dtype == object:
            raise ValueError("condition is text; that is for one categorical column only")
        kind = kind_of(numbers) if requested == "auto" else "continuous"
        cells = cells if kind == "categorical" else numbers
    codes, column = encode(cells, kind, names[0])
    return _finite(codes, "condition"), (column,)


def _rows(
    y: Array, split: Array | None, part: Rows, holdout: int | None, seed: int
) -> tuple[Rows, Rows, Rows]:
    share = 0.15
    if split is not None:
        if part.any():
            raise ValueError("it has both an array split and arrays such as x_test; keep one")
        part = _parts(split, len(y))
    elif not part.any():
        share = 0.15 / 0.85
        part[stratified_order(y, seed)[len(y) - round(0.15 * len(y)) :]] = 2
    train, validation, test = (np.flatnonzero(part == number) for number in range(3))
    for name, rows in (("train", train), ("test", test)):
        if len(rows) == 0:
            raise ValueError(f"none of its {len(y)} rows are for {name}")
    if len(validation) == 0:
        if holdout is None:
            holdout = round(share * len(train))
        kept, held_out = hold_out(stratified_order(y[train], seed), holdout)
        return train[kept], train[held_out], test
    if holdout is not None:
        raise ValueError(
            f"holdout is {holdout}, but the file has validation rows already; omit holdout"
        )
    return train, validation, test


def _parts(split: Array, rows: int) -> Rows:
    if split.shape != (rows,):
        raise ValueError(f"x has {rows} rows, but split has shape {split.shape}")
    if split.dtype.kind in "US":
        split = split.astype(str)
    expected = list(_PARTS) if split.dtype.kind == "U" else list(range(3))
    wrong = ~np.isin(split, expected)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"split[{row}] is {str(split[row])!r}; it must be train, validation or test (or 0,"
            " 1, 2)"
        )
    return np.array([expected.index(value) for value in split.tolist()], np.int64)


def _finite(values: Array, name: str) -> Array:
    # Checked as float32, in which large values become infinite.
    with np.errstate(over="ignore"):
        result = values.astype(np.float32)
    bad = ~np.isfinite(result)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(
            f"{name} has {int(bad.sum())} values that are NaN or infinite, the first in row {row},"
            f" column {column}; drop or impute them"
        )
    return result


def _texts(values: Array) -> tuple[str, ...]:
    return tuple(value.decode() if isinstance(value, bytes) else str(value) for value in values)
