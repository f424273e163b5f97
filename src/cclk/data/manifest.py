"""Your own table, CSV or Parquet: a row per sample, with a image or numbers, columns that are
conditions, and perhaps a label.

    people.csv      path,age,site,smiling
                    a/001.jpg,34,Oslo,1
                    a/002.jpg,61,Bonn,0

Images are found relative to the file and read when they are needed. What kind of condition a column
is, is inferred and can be told:

    continuous      a number, or a date (2024-05-31, as days)                     kernel rbf
    categorical     text, or whole numbers with at most 10 distinct values        kernel delta
    attributes      words joined by ';' (an empty cell: none of them), or columns of 0 and 1, has_*        kernel rbf
    embedding       a list in a cell, or several columns of numbers given by a pattern                     kernel cosine
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch

from cclk.columns import Column, Kind, by_size_then_alphabet, encode, is_binary, kind_of
from cclk.data.dataset import Dataset, Split
from cclk.data.folder import data_folder
from cclk.data.splits import Rows, hold_out, stratified_order
from cclk.data.streamed import StreamedImages
from cclk.data.table_file import Numbers, Table
from cclk.errors import DataError, warn

Missing = Literal["error", "drop", "impute"]
KINDS: tuple[Kind, ...] = get_args(Kind)
KERNELS = ("rbf", "laplacian", "linear", "cosine", "polynomial", "delta")
_PARTS = ("train", "validation", "test")


def load(
    path: Path,
    *,
    data_dir: Path | None = None,
    seed: int = 0,
    holdout: int | None = None,
    image: str | None = None,
    features: str | Sequence[str] | None = None,
    condition: str | Sequence[str] = (),
    label: str | None = None,
    split: str | None = None,
    row_id: str | None = None,
    missing: Missing = "error",
    size: int = 32,
    gray: bool = False,
) -> Dataset:
    """The dataset that a table describes.

    Args:
        image: the column with paths of images, relative to the file.
        features: instead, the column or columns (a pattern such as sensor_*) of numbers that are
            the input.
        condition: columns or patterns, each with its kind or kernel if that is not to be inferred:
            "age", "site:categorical", "dose:laplacian". Not every method needs one.
        label: the column to be read from the encoder in the end; without one there is nothing to
            evaluate but leaks.
        split: a column of train, validation and test; else 70, 15 and 15 % of the rows are drawn.
        row_id: a column that names each row; else the row's number does.
        missing: what to do with rows that lack a value: "error" tells how many, "drop" leaves them
            out, "impute" fills in the median, a category of its own, or no attribute. A row without
            its image or label is never filled in.
        size: images are cut to a square of so many pixels.
        gray: read images as gray, not as color.
    """
    table = Table(path)
    if (image is None) == (features is None):
        raise DataError(
            f"{path}: tell what the input is, either --image COLUMN or --features PATTERN"
        )
    asked = [condition] if isinstance(condition, str) else list(condition)
    if missing not in get_args(Missing):
        raise DataError(f"missing is {missing!r}: choose error, drop or impute")
    columns = [_understand(table, text) for text in asked]
    _no_duplicates(path, [column.name for column in columns])
    inputs = _input_columns(table, features) if features is not None else []
    _warn_of_leaks(path, columns, inputs, {"label": label, "split": split, "id": row_id})
    vectors = (
        np.column_stack([table.numbers(name) for name in inputs]).astype(np.float32)
        if inputs
        else None
    )
    names = table.text(table.one(image, "--image")) if image is not None else None
    labels = _label_cells(table, label) if label is not None else None

    rows = _complete_rows(table, columns, vectors, inputs, names, image, labels, label, missing)
    classes, y = _classes(labels, rows)
    ids = _ids(table, row_id, rows)
    train, validation, test = _parts(table, split, rows, y, holdout, seed)
    # What is filled in comes from the training rows alone.
    filled = [column.filled(rows, train) for column in columns]
    if vectors is not None:
        vectors = _filled(vectors[rows].astype(np.float64), train).astype(np.float32)
    images = None
    if names is not None:
        assert image is not None
        paths = _image_paths(table, image, names, rows)
        images = StreamedImages(
            paths, size, mode="L" if gray else "RGB", cache_dir=data_folder(data_dir) / "decoded"
        )

    _warn_of_rounding(path, columns, filled)
    conditions = torch.from_numpy(
        np.concatenate([np.empty((len(rows), 0)), *filled], axis=1).astype(np.float32)
    )

    def part(chosen: Rows) -> Split:
        places = torch.from_numpy(chosen)
        x = (
            images.subset(places)
            if images is not None
            else torch.from_numpy(_given(vectors)[chosen])
        )
        return Split(
            x, torch.from_numpy(y[chosen]), conditions[places], tuple(ids[row] for row in chosen)
        )

    return Dataset(
        name=path.stem,
        train=part(train),
        validation=part(validation),
        test=part(test),
        classes=classes,
        columns=tuple(
            column.described(values) for column, values in zip(columns, filled, strict=True)
        ),
        description=(
            f"{path.name}{f' ({table.layout})' if table.layout else ''}: {len(rows):,} rows, "
        )
        + (f"images of {size} x {size}" if images is not None else f"{len(inputs)} numbers each")
        + f"; {'; '.join(column.told() for column in columns) or 'no condition'}",
        inputs=tuple(inputs),
    )


def load_inputs(
    path: Path,
    *,
    data_dir: Path | None = None,
    image: str | None = None,
    features: str | Sequence[str] | None = None,
    row_id: str | None = None,
    size: int = 32,
    gray: bool = False,
) -> tuple[torch.Tensor | StreamedImages, list[str]]:
    """The samples of a table and what they are called, without label or condition; every row
    needs its input.
    """
    table = Table(path)
    every = np.arange(len(table))
    ids = _ids(table, row_id, every)
    if image is not None:
        column = table.matching(image, "the images the encoder was trained on")[0]
        names = table.text(column)
        for row, name in enumerate(names, 1):
            if name is None:
                raise DataError(f"{table.where(row, column)} is empty: every row needs a image")
        paths = _image_paths(table, column, names, every)
        return (
            StreamedImages(
                paths,
                size,
                mode="L" if gray else "RGB",
                cache_dir=data_folder(data_dir) / "decoded",
            ),
            ids,
        )
    return input_vectors(table, _input_columns(table, features or ())), ids


def input_vectors(table: Table, inputs: Sequence[str]) -> torch.Tensor:
    """Columns of numbers as float32 (n, k); every row needs all of them."""
    vectors = np.column_stack([table.numbers(name) for name in inputs]).astype(np.float32)
    lacks = np.argwhere(np.isnan(vectors))
    if len(lacks):
        row, place = lacks[0]
        raise DataError(
            f"{table.where(int(row) + 1, inputs[place])} is empty: every row needs all inputs"
        )
    return torch.from_numpy(vectors)


@dataclass(frozen=True)
class _Understood:
    """A condition column as it was understood: its numbers, with NaN where a cell is missing."""

    column: Column
    values: Numbers
    dates: bool = False
    """Whether the numbers are days since 1970-01-01."""

    @property
    def name(self) -> str:
        return self.column.name

    def missing(self) -> npt.NDArray[np.bool_]:
        return np.asarray(np.isnan(self.values).any(axis=1))

    def filled(self, rows: Rows, train: Rows) -> Numbers:
        """The numbers of these rows, missing ones filled in from those to train on."""
        values = self.values[rows]
        if self.column.kind == "categorical":
            return np.where(np.isnan(values), len(self.column.categories), values)
        if self.column.kind == "attributes":
            return np.nan_to_num(values)
        return _filled(values, train)

    def described(self, filled: Numbers) -> Column:
        """The column, with a category for the missing cells if some were filled in."""
        column = self.column
        if column.kind == "categorical" and (filled == len(column.categories)).any():
            return replace(column, categories=(*column.categories, "missing"))
        return column

    def told(self) -> str:
        """In words, for the user to check."""
        column = self.column
        how = f" (kernel {column.kernel})" if column.kernel else ""
        match column.kind:
            case "continuous":
                known = self.values[~np.isnan(self.values)]
                if self.dates:
                    first, last = (
                        np.datetime64(int(np.floor(day)), "D") for day in (known.min(), known.max())
                    )
                    return f"{self.name} is a date from {first} to {last}{how}"
                return f"{self.name} is a number from {known.min():g} to {known.max():g}{how}"
            case "categorical":
                return (
                    f"{self.name} is one of {len(column.categories)} categories"
                    f" ({_some(column.categories)}){how}"
                )
            case "attributes":
                none = int((self.values == 0).all(axis=1).sum())
                words = _some([name.removeprefix(f"{self.name}=") for name in column.value_names])
                told = f"{self.name} is a set of {column.width} attributes ({words}){how}"
                return told + (f", of which {none:,} rows have none" if none else "")
        return f"{self.name} is a vector of {column.width} numbers{how}"


def _some(names: Sequence[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def _understand(table: Table, text: str) -> _Understood:
    pattern, _, how = text.partition(":") if text not in table.names else (text, "", "")
    if how and how not in (*KINDS, *KERNELS):
        raise DataError(
            f"--condition {text!r}: {how!r} is no kind ({', '.join(KINDS)}) and no kernel"
            f" ({', '.join(KERNELS)})"
        )
    names = table.matching(pattern, "--condition")
    kernel = how if how in KERNELS else ""
    kind: Kind | None = how if how in KINDS else None
    if kernel == "delta":
        kind = "categorical"
    if len(names) > 1 or table.is_list(names[0]):
        return _several(table, pattern, names, kind, kernel)
    return _single(table, names[0], kind, kernel)


def _several(
    table: Table, pattern: str, names: list[str], kind: Kind | None, kernel: str
) -> _Understood:
    """Several columns, or a column of lists: attributes if all are 0 or 1, else an embedding."""
    if table.is_list(names[0]):
        values = table.vectors(names[0])
        own = tuple(f"{names[0]}[{number}]" for number in range(values.shape[1]))
    else:
        values, own = np.column_stack([table.numbers(name) for name in names]), tuple(names)
    if kind == "attributes" and not is_binary(values):
        raise DataError(
            f"{table.path}: {pattern} is asked for as attributes, but has values other than 0 and 1"
        )
    if kind in ("continuous", "categorical"):
        raise DataError(
            f"{table.path}: {pattern} is {len(own)} columns: they can be attributes or an"
            f" embedding, not {kind}"
        )
    return _Understood(
        Column(pattern.rstrip("*_") or pattern, kind or kind_of(values), len(own), own, kernel),
        values,
    )


def _single(table: Table, name: str, kind: Kind | None, kernel: str) -> _Understood:
    cells = table.text(name)
    present = [cell for cell in cells if cell is not None]
    if not present:
        raise DataError(f"{table.path}, column {name!r} has no values at all: leave it out")
    date, numeric = table.is_date(name), table.is_numeric(name)
    if kind is None and (date or kernel not in ("", "delta")):
        kind = "continuous"
    if kind == "embedding":
        raise DataError(
            f"{table.path}, column {name!r} holds single values: an embedding is a list in each"
            " cell, or a pattern of columns"
        )
    kind = kind or kind_of(table.numbers(name) if numeric else cells)
    if kind == "attributes":
        cells = table.text(name, empty="")
    elif kind == "categorical" and numeric:
        cells = np.array([cell if cell is None else _plain(cell) for cell in cells], dtype=object)
    values, column = encode(
        table.numbers(name, f", or ask for {name}:categorical") if kind == "continuous" else cells,
        kind,
        name,
    )
    if column.width == 0:
        raise DataError(f"{table.path}, column {name!r} has no attributes at all: leave it out")
    return _Understood(replace(column, kernel=kernel), values, dates=kind == "continuous" and date)


def _plain(text: str) -> str:
    """1.0 and 1 are the same category, and so are True and true."""
    try:
        value = float(text)
    except ValueError:
        return text.lower()
    return str(int(value)) if value.is_integer() else repr(value)


def _input_columns(table: Table, patterns: str | Sequence[str]) -> list[str]:
    found = [
        name
        for pattern in ([patterns] if isinstance(patterns, str) else patterns)
        for name in table.matching(pattern, "--features")
    ]
    return list(dict.fromkeys(found))


def _label_cells(table: Table, label: str) -> Any:
    name = table.one(label, "--label")
    if table.is_numeric(name):
        values = table.numbers(name)
        known = np.unique(values[~np.isnan(values)])
        if len(known) > 20 and (known != np.round(known)).any():
            raise DataError(
                f"{table.path}, column {name!r} has {len(known)} distinct decimals: a label is one"
                " of a few classes"
            )
    return table.text(name)


def _warn_of_leaks(
    path: Path,
    columns: Sequence[_Understood],
    inputs: Sequence[str],
    others: Mapping[str, str | None],
) -> None:
    """A condition that is also an input: an encoder cannot forget what it is handed. A label or
    id among them is given away.
    """
    label = others["label"]
    for what, name in others.items():
        if name is not None and name in inputs:
            warn(f"{path}: the {what} {name} is also an input: leave it out of --features")
    for column in columns:
        both = [name for name in column.column.value_names if name in inputs]
        if both:
            warn(
                f"{path}: the condition {column.name} is also an input ({', '.join(both[:3])}):"
                " leave it out of --features to ignore it"
            )
        if label is not None and label in (column.name, *column.column.value_names):
            warn(
                f"{path}: {label} is the label and a condition too: what is ignored cannot be read,"
                " what is used is given away"
            )


def _warn_of_rounding(
    path: Path, columns: Sequence[_Understood], filled: Sequence[Numbers]
) -> None:
    """A condition whose values lie so close together, beside their size, that single precision
    makes many of them the same.
    """
    for column, values in zip(columns, filled, strict=True):
        if column.column.kind == "continuous":
            distinct, kept = len(np.unique(values)), len(np.unique(values.astype(np.float32)))
            if kept < distinct / 2:
                told = f"its {distinct:,} distinct values become {kept:,} in 32-bit precision"
                warn(f"{path}, condition {column.name}: {told}: subtract its smallest value first")


def _complete_rows(
    table: Table,
    columns: Sequence[_Understood],
    vectors: npt.NDArray[np.float32] | None,
    inputs: Sequence[str],
    names: Any,
    image: str | None,
    labels: Any,
    label: str | None,
    missing: Missing,
) -> Rows:
    """The rows to use; what is missing in the others is told, or they are left out."""
    lacks: dict[str, npt.NDArray[np.bool_]] = {column.name: column.missing() for column in columns}
    if vectors is not None:
        for place, name in enumerate(inputs):
            lacks[name] = np.isnan(vectors[:, place]) | lacks.get(
                name, np.zeros(len(table), dtype=bool)
            )
    needed: dict[str, npt.NDArray[np.bool_]] = {}
    if names is not None and image is not None:
        needed[image] = np.array([name is None for name in names])
    if labels is not None and label is not None:
        needed[label] = np.array([cell is None for cell in labels])
    wrong = needed if missing == "impute" else lacks | needed
    counts = {name: int(bad.sum()) for name, bad in wrong.items() if bad.any()}
    if counts and missing != "drop":
        first = min(int(np.argmax(bad)) for bad in wrong.values() if bad.any()) + 1
        told = ", ".join(f"{count} in {name}" for name, count in counts.items())
        how = "--missing drop leaves such rows out" + (
            "" if missing == "impute" else ", --missing impute fills in all but images and labels"
        )
        raise DataError(
            f"{table.path} has missing values: {told} (the first in row {first}); {how}"
        )
    keep = ~np.logical_or.reduce([*wrong.values(), np.zeros(len(table), dtype=bool)])
    if not keep.any():
        raise DataError(f"{table.path}: every row has a missing value; nothing is left to train on")
    return np.flatnonzero(keep)


def _filled(values: Numbers, train: Rows) -> Numbers:
    """Missing numbers as the median of their column in the training rows."""
    if not np.isnan(values).any():
        return values
    known = [column[~np.isnan(column)] for column in values[train].T]
    middle = np.array([np.median(column) if len(column) else 0.0 for column in known])
    return np.where(np.isnan(values), middle, values)


def _classes(labels: Any, rows: Rows) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    if labels is None:
        return ("unlabeled",), np.zeros(len(rows), np.int64)
    names = tuple(sorted(set(labels[rows]), key=by_size_then_alphabet))
    place = {name: number for number, name in enumerate(names)}
    return names, np.array([place[cell] for cell in labels[rows]], dtype=np.int64)


def _ids(table: Table, row_id: str | None, rows: Rows) -> list[str]:
    if row_id is None:
        return [str(row + 1) for row in rows]
    name = table.one(row_id, "--row-id")
    cells, seen = table.text(name), dict[str, int]()
    for row in rows:
        cell = cells[row]
        if cell is None:
            raise DataError(f"{table.where(row + 1, name)} is empty: every row needs its id")
        if cell in seen:
            raise DataError(
                f"{table.where(row + 1, name)} is {cell!r}, the id of row {seen[cell]} too: ids"
                " must differ"
            )
        seen[cell] = int(row) + 1
    return [str(cells[row]) for row in rows]


def _image_paths(table: Table, image: str, names: Any, rows: Rows) -> list[Path]:
    """Where the images are; those that are not there are counted and the first is named."""
    column = table.one(image, "--image")
    folder = table.path.parent
    paths = [folder / names[row] for row in rows]
    known: dict[Path, bool] = {}
    absent = [
        place for place, path in enumerate(paths) if not known.setdefault(path, path.is_file())
    ]
    if absent:
        row = int(rows[absent[0]]) + 1
        more = f", and {len(absent) - 1} others" if len(absent) > 1 else ""
        raise DataError(
            f"{table.where(row, column)}: there is no image {paths[absent[0]]}{more}; paths are"
            f" relative to {folder}"
        )
    return paths


def _parts(
    table: Table,
    split: str | None,
    rows: Rows,
    y: npt.NDArray[np.int64],
    holdout: int | None,
    seed: int,
) -> tuple[Rows, Rows, Rows]:
    """Which of the rows are for training, validation and test."""
    if split is None:
        order = stratified_order(y, seed)
        kept = round(0.85 * len(order))
        if kept < 2 or kept == len(order):
            raise DataError(
                f"{table.path} has {len(order)} usable rows: too few to train, validate and test on"
            )
        train, validation = hold_out(
            order[:kept], round(0.15 * len(order)) if holdout is None else holdout
        )
        return train, validation, np.sort(order[kept:])
    name = table.one(split, "--split")
    cells = table.text(name)[rows]
    for place, cell in enumerate(cells):
        if cell not in _PARTS:
            raise DataError(
                f"{table.where(int(rows[place]) + 1, name)} is {cell!r}: it must be train,"
                " validation or test"
            )
    train, validation, test = (np.flatnonzero(cells == part) for part in _PARTS)
    if len(train) == 0 or len(test) == 0:
        raise DataError(
            f"{table.path}, column {name!r}: {len(train)} rows are for train and {len(test)} for"
            " test; both need some"
        )
    if holdout:
        if len(validation):
            raise DataError(
                f"{table.path}, column {name!r} names validation rows already: leave out --holdout"
            )
        order = stratified_order(y[train], seed)
        own, held = hold_out(order, holdout)
        train, validation = train[own], train[held]
    return train, validation, test


def _no_duplicates(path: Path, names: Sequence[str]) -> None:
    twice = [name for name in names if list(names).count(name) > 1]
    if twice:
        raise DataError(f"{path}: the condition {twice[0]} is asked for twice")


def _given(vectors: npt.NDArray[np.float32] | None) -> npt.NDArray[np.float32]:
    assert vectors is not None
    return vectors
