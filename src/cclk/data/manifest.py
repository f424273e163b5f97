"""Datasets from tables, CSV or Parquet: one row per sample, with an image or numbers, condition
columns, and optionally a label.

    people.csv      path,age,site,smiling
                    a/001.jpg,34,Oslo,1
                    a/002.jpg,61,Bonn,0

Image paths are relative to the file; images are read when they are needed. The kind of each
condition column is inferred, or set as in "site:categorical" ("hour:circular" keeps the kind, and
evaluation also reads the angle):

    continuous      a number, or a date (2024-05-31, as days)                       kernel rbf
    categorical     text, or integers with at most 10 distinct values               kernel delta
    attributes      texts joined by ';' (an empty cell: no attributes), or columns  kernel rbf
                    of 0 and 1, selected by a pattern such as has_*
    embedding       a list in each cell, or several columns of numbers              kernel rbf
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import torch

from cclk._numerals import as_float, disguised
from cclk.columns import (
    CIRCULAR,
    Array,
    Column,
    Kind,
    by_size_then_alphabet,
    encode,
    is_binary,
    kind_of,
    requested_period,
)
from cclk.data.dataset import UNLABELED, Dataset, Split
from cclk.data.folder import data_folder
from cclk.data.splits import Rows, draw_groups, hold_out, stratified_order
from cclk.data.streamed import StreamedImages
from cclk.data.table_file import Doubles, Strings, TableFile, shown
from cclk.errors import DataError, warn
from cclk.registry import KERNELS

Missing = Literal["error", "drop", "impute"]
Mask = npt.NDArray[np.bool_]
KINDS: tuple[Kind, ...] = get_args(Kind)
_PARTS = ("train", "validation", "test")
_CANDIDATES = 100
"""Columns without a use that are searched for ids; a table may have thousands."""
_ROWS_OF_ONE = 20
"""Mean number of rows from which a value is not suspected to be an id."""


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
    split_by: str | None = None,
    row_id: str | None = None,
    missing: Missing = "error",
    size: int = 32,
    gray: bool = False,
) -> Dataset:
    """Return the dataset that a table describes.

    Args:
        path: the .csv or .parquet file.
        data_dir: the folder of decoded images; None: CCLK_DATA, else ~/.cache/cclk.
        seed: seed of the split, if no column defines it.
        holdout: number of training rows held out for validation; None: 15 % of all rows, or none if
            a column defines the split.
        image: the column of image paths, relative to the file.
        features: instead of images, columns of numbers or patterns such as sensor_*.
        condition: columns or patterns, optionally with a kind or a kernel: "age",
            "site:categorical", "dose:laplacian". Some methods need none.
        label: the column that probes predict; without it, only leakage can be evaluated.
        split: a column of train, validation and test; by default 70, 15 and 15 % are drawn.
        split_by: a column that names persons or the like, whose rows are all in one split.
        row_id: a column that names each row; by default rows are numbered.
        missing: how to handle missing values: "error" counts them, "drop" drops their rows,
            "impute" fills in the median, a separate category, or no attribute. Missing images and
            labels cannot be imputed.
        size: height and width of the images, in pixels; images are cropped to a square.
        gray: read images as gray, not as color.
    """
    table = TableFile(path)
    if (image is None) == (features is None):
        raise DataError(f"{path}: the input must be either an image column or feature columns")
    if missing not in get_args(Missing):
        raise DataError(f"missing is {missing!r}: choose error, drop or impute")
    columns = [
        _read_condition(table, text)
        for text in ([condition] if isinstance(condition, str) else condition)
    ]
    names = [column.name for column in columns]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise DataError(f"{path}: the condition {repeated[0]} is requested twice")
    inputs = _input_columns(table, features) if features is not None else []
    _warn_of_leaks(path, columns, inputs, {"label": label, "split": split, "id": row_id})

    optional: dict[str, Mask] = {
        column.name: np.asarray(np.isnan(column.values).any(axis=1)) for column in columns
    }
    required: dict[str, Mask] = {}
    vectors = np.empty((len(table), 0), np.float32)
    if inputs:
        vectors = _vectors(table, inputs)
        for name, lacks in zip(inputs, np.isnan(vectors).T, strict=True):
            optional[name] = lacks | optional.get(name, False)
    paths = table.paths(table.one(image, "the image")) if image is not None else None
    labels = _label_cells(table, label) if label is not None else None
    groups = None
    if split_by is not None:
        split_by = table.one(split_by, "what to split by")
        groups = table.text(split_by)
    for column_name, cells in ((image, paths), (label, labels), (split_by, groups)):
        if column_name is not None and cells is not None:
            required[column_name] = np.array([cell is None for cell in cells])
    rows = _complete_rows(table, optional, required, missing)

    classes, y = _classes(labels, rows)
    if groups is not None and split_by is not None:
        parts = _grouped_parts(table, split, rows, groups[rows], split_by, holdout, seed)
    else:
        parts = _parts(table, split, rows, y, holdout, seed)
        used = {image, label, split, row_id, *inputs}
        used |= {name for column in columns for name in (column.name, *column.column.value_names)}
        others = [name for name in table.names if name not in used]
        _warn_of_ids(table, others, image, columns, rows, parts)
    train, validation, test = parts
    # Only training rows determine what is filled in.
    filled = [column.filled(rows, train) for column in columns]
    _warn_of_rounding(path, columns, filled)
    x: torch.Tensor | StreamedImages
    if image is not None and paths is not None:
        x = _images(table, image, paths, rows, size, gray, data_dir)
    else:
        numbers = _impute(vectors[rows].astype(np.float64), train, inputs)
        x = torch.from_numpy(numbers.astype(np.float32))
    values = np.concatenate([np.empty((len(rows), 0)), *filled], axis=1).astype(np.float32)
    ids = tuple(_ids(table, row_id, rows))
    samples = Split(x, torch.from_numpy(y), torch.from_numpy(values), ids)
    layout = f" ({table.layout})" if table.layout else ""
    content = f"images of {size} x {size}" if image is not None else f"{len(inputs)} numbers each"
    conditions = "; ".join(column.description() for column in columns) or "no condition"
    return Dataset(
        name=path.stem,
        train=samples.subset(train),
        validation=samples.subset(validation),
        test=samples.subset(test),
        classes=classes,
        columns=tuple(
            column.described(values) for column, values in zip(columns, filled, strict=True)
        ),
        description=f"{path.name}{layout}: {len(rows):,} rows, {content}; {conditions}",
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
    """Return the samples of a table and their ids, without labels and conditions; arguments are
    those of `load`, and no input may be missing.
    """
    table = TableFile(path)
    rows = np.arange(len(table))
    ids = _ids(table, row_id, rows)
    if image is None:
        return input_vectors(table, _input_columns(table, features or ())), ids
    column = table.matching(image, "the images the encoder was trained on")[0]
    paths = table.paths(column)
    for row, cell in enumerate(paths, 1):
        if cell is None:
            raise DataError(f"{table.where(row, column)} is empty: every row needs an image")
    return _images(table, column, paths, rows, size, gray, data_dir), ids


def input_vectors(table: TableFile, inputs: Sequence[str]) -> torch.Tensor:
    """Return columns of numbers, none of which may be missing, as float32 (n, k)."""
    vectors = _vectors(table, inputs)
    empty = np.argwhere(np.isnan(vectors))
    if len(empty):
        row, column = empty[0]
        raise DataError(
            f"{table.where(int(row) + 1, inputs[column])} is empty: every row needs all inputs"
        )
    return torch.from_numpy(vectors)


@dataclass(frozen=True)
class _ConditionColumn:
    """A condition column and its values, with NaN for missing cells."""

    column: Column
    values: Doubles
    dates: bool = False
    """Whether the values are days since 1970-01-01."""

    @property
    def name(self) -> str:
        return self.column.name

    def filled(self, rows: Rows, train: Rows) -> Doubles:
        """Return the values of these rows, with missing ones imputed from the training rows."""
        values = self.values[rows]
        if self.column.kind == "categorical":
            return np.where(np.isnan(values), len(self.column.categories), values)
        if self.column.kind == "attributes":
            return np.nan_to_num(values)
        return _impute(values, train, [self.name] * values.shape[1])

    def described(self, filled: Doubles) -> Column:
        """Return the column, with a category for missing cells if any were imputed."""
        column = self.column
        if column.kind == "categorical" and (filled == len(column.categories)).any():
            if column.period:
                raise DataError(
                    f"condition {self.name} is requested as circular, but has missing values, which"
                    ' become a category: drop these rows with missing="drop", or omit :circular'
                )
            return replace(column, categories=(*column.categories, "missing"))
        return column

    def description(self) -> str:
        column, values = self.column, self.values
        kernel = f" (kernel {column.kernel})" if column.kernel else ""
        after = ""
        match column.kind:
            case "continuous":
                low, high = np.nanmin(values), np.nanmax(values)
                what = f"a number from {low:g} to {high:g}"
                if self.dates:
                    first, last = (np.datetime64(int(np.floor(day)), "D") for day in (low, high))
                    what = f"a date from {first} to {last}"
            case "categorical":
                what = f"one of {len(column.categories)} categories ({_some(column.categories)})"
            case "attributes":
                names = [name.removeprefix(f"{self.name}=") for name in column.value_names]
                what = f"a set of {column.width} attributes ({_some(names)})"
                none = int((values == 0).all(axis=1).sum())
                after = f", of which {none:,} rows have none" if none else ""
            case _:
                what = f"a vector of {column.width} numbers"
        circular = f" on a circle of {column.period:.4g}" if column.period else ""
        return f"{self.name} is {what}{circular}{kernel}{after}"


def _some(names: Sequence[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def _read_condition(table: TableFile, text: str) -> _ConditionColumn:
    pattern, _, how = text.partition(":") if text not in table.names else (text, "", "")
    circular = how == CIRCULAR and how not in KERNELS
    if how and how not in KINDS and not circular and not KERNELS.accepts(how):
        raise DataError(
            f"condition {text!r}: {how!r} is neither a kind ({', '.join((*KINDS, CIRCULAR))}) nor a"
            f" kernel ({', '.join(KERNELS)})"
        )
    names = table.matching(pattern, "a condition")
    if circular:
        return _read_circular(table, pattern, names)
    kernel = how if how not in KINDS else ""
    kind: Kind | None = how if how in KINDS else "categorical" if kernel == "delta" else None
    if len(names) > 1 or table.is_list(names[0]):
        return _read_several(table, pattern, names, kind, kernel)
    return _read_single(table, names[0], kind, kernel)


def _read_several(
    table: TableFile, pattern: str, names: Sequence[str], kind: Kind | None, kernel: str
) -> _ConditionColumn:
    """Read several columns, or a column of lists, as attributes or as an embedding."""
    if table.is_list(names[0]):
        values = table.vectors(names[0])
        names = [f"{names[0]}[{number}]" for number in range(values.shape[1])]
    else:
        values = np.column_stack([table.numbers(name) for name in names])
    if kind == "attributes" and not is_binary(values):
        raise DataError(
            f"{table.path}: {pattern} is requested as attributes, but has values other than 0 and 1"
        )
    if kind in ("continuous", "categorical"):
        raise DataError(
            f"{table.path}: {pattern} is {len(names)} columns: they can be attributes or an"
            f" embedding, not {kind}"
        )
    name = pattern.rstrip("*_") or pattern
    column = Column(name, kind or kind_of(values), len(names), tuple(names), kernel)
    return _ConditionColumn(column, values)


def _read_circular(table: TableFile, pattern: str, names: Sequence[str]) -> _ConditionColumn:
    """Read numbers on a circle; their kind is inferred, and evaluation also reads their angle."""
    if len(names) > 1 or table.is_list(names[0]):
        raise DataError(f"{table.path}: {pattern} is several numbers: circular is for a single one")
    read = _read_single(table, names[0], None, "")
    numbers = table.numbers(names[0])
    where = f"{table.path}, column {names[0]!r}"
    period = requested_period(names[0], numbers[~np.isnan(numbers)], where)
    return replace(read, column=replace(read.column, period=period))


def _read_single(table: TableFile, name: str, kind: Kind | None, kernel: str) -> _ConditionColumn:
    cells: Array = table.text(name)
    if all(cell is None for cell in cells):
        raise DataError(f"{table.path}, column {name!r} has no values at all: omit it")
    date, numeric = table.is_date(name), table.is_numeric(name)
    if kind is None and (date or kernel not in ("", "delta")):
        kind = "continuous"
    if kind == "embedding":
        raise DataError(
            f"{table.path}, column {name!r} holds single values: an embedding is a list in each"
            " cell, or a pattern of columns"
        )
    remedy = f", or request {name}:categorical"
    if kind is None and table.is_category(name):
        kind = "categorical"
    if kind is None:
        kind = kind_of(table.numbers(name, remedy) if numeric else cells)
        if kind == "categorical" and not numeric and (fault := disguised(cells.tolist())):
            raise DataError(f"{table.where(fault[0] + 1, name)} {fault[1]}{remedy}")
    if kind == "continuous":
        cells = table.numbers(name, remedy)
    elif kind == "attributes":
        cells = table.text(name, empty="")
    elif numeric:
        cells = np.array([cell if cell is None else _plain(cell) for cell in cells], dtype=object)
    values, column = encode(cells, kind, name)
    if column.width == 0:
        raise DataError(f"{table.path}, column {name!r} has no attributes at all: omit it")
    column = replace(column, kernel=kernel)
    return _ConditionColumn(column, values, dates=kind == "continuous" and date)


def _plain(text: str) -> str:
    """Give 1.0 and 1, and True and true, the same name."""
    try:
        value = float(text)
    except ValueError:
        return text.lower()
    return str(int(value)) if value.is_integer() else repr(value)


def _input_columns(table: TableFile, patterns: str | Sequence[str]) -> list[str]:
    patterns = [patterns] if isinstance(patterns, str) else patterns
    return list(dict.fromkeys(n for each in patterns for n in table.matching(each, "features")))


def _vectors(table: TableFile, inputs: Sequence[str]) -> npt.NDArray[np.float32]:
    with np.errstate(invalid="ignore"):  # a signaling NaN in a Parquet file
        return np.column_stack([table.numbers(name) for name in inputs]).astype(np.float32)


def _label_cells(table: TableFile, label: str) -> Strings:
    name = table.one(label, "the label")
    cells = table.text(name)
    if table.is_numeric(name) or disguised(cells.tolist()):
        known = (number for cell in set(cells) if cell and (number := as_float(cell)) is not None)
        distinct = set(known)
        if len(distinct) > 20 and not all(number.is_integer() for number in distinct):
            raise DataError(
                f"{table.path}, column {name!r} has {len(distinct)} distinct decimals: a label is"
                " one of a few classes"
            )
    return cells


def _warn_of_leaks(
    path: Path,
    columns: Sequence[_ConditionColumn],
    inputs: Sequence[str],
    others: Mapping[str, str | None],
) -> None:
    """Warn if a condition, which an encoder may have to ignore, or a label is also an input."""
    label = others["label"]
    for what, name in others.items():
        if name is not None and name in inputs:
            warn(f"{path}: the {what} {name} is also an input: remove it from the features")
    for column in columns:
        both = [name for name in column.column.value_names if name in inputs]
        if both:
            warn(
                f"{path}: the condition {column.name} is also an input ({', '.join(both[:3])}):"
                " remove it from the features to ignore it"
            )
        if label is not None and label in (column.name, *column.column.value_names):
            warn(
                f"{path}: {label} is both the label and a condition: if it is ignored it cannot be"
                " predicted, if it is used the evaluation is trivial"
            )


def _warn_of_rounding(
    path: Path, columns: Sequence[_ConditionColumn], filled: Sequence[Doubles]
) -> None:
    """Warn of values so close together that most of them are equal in single precision."""
    for column, values in zip(columns, filled, strict=True):
        if column.column.kind == "continuous":
            distinct, kept = len(np.unique(values)), len(np.unique(values.astype(np.float32)))
            if kept < distinct / 2:
                warn(
                    f"{path}, condition {column.name}: its {distinct:,} distinct values become"
                    f" {kept:,} in 32-bit precision: subtract its smallest value first"
                )


def _complete_rows(
    table: TableFile, optional: dict[str, Mask], required: dict[str, Mask], missing: Missing
) -> Rows:
    """Return the rows to use. `optional` and `required` hold, by column, which rows lack a value
    that can be imputed, and which lack an image or a label.
    """
    lacking = required if missing == "impute" else optional | required
    incomplete = np.logical_or.reduce([np.zeros(len(table), dtype=bool), *lacking.values()])
    if incomplete.any() and missing != "drop":
        counts = [f"{int(bad.sum())} in {name}" for name, bad in lacking.items() if bad.any()]
        impute = ', missing="impute" fills in all but images and labels'
        raise DataError(
            f"{table.path} has missing values: {', '.join(counts)} (the first in row"
            f' {int(np.argmax(incomplete)) + 1}); missing="drop" drops such rows'
            f"{impute if missing == 'error' else ''}"
        )
    if incomplete.all():
        raise DataError(f"{table.path}: every row has a missing value; no rows remain to train on")
    return np.flatnonzero(~incomplete)


def _impute(values: Doubles, train: Rows, names: Sequence[str]) -> Doubles:
    """Replace missing numbers by the median of their column in the training rows."""
    if not np.isnan(values).any():
        return values
    known = [column[~np.isnan(column)] for column in values[train].T]
    for name, column in zip(names, known, strict=True):
        if not len(column):
            raise DataError(f"column {name!r} has no values in the training rows: omit it")
    medians = np.array([np.median(column) for column in known])
    return np.where(np.isnan(values), medians, values)


def _classes(labels: Strings | None, rows: Rows) -> tuple[tuple[str, ...], Rows]:
    if labels is None:
        return (UNLABELED,), np.zeros(len(rows), np.int64)
    names = tuple(sorted(set(labels[rows]), key=by_size_then_alphabet))
    code = {name: number for number, name in enumerate(names)}
    return names, np.array([code[cell] for cell in labels[rows]], dtype=np.int64)


def _ids(table: TableFile, row_id: str | None, rows: Rows) -> list[str]:
    if row_id is None:
        return [str(row + 1) for row in rows]
    name = table.one(row_id, "the row id")
    cells, seen = table.text(name), dict[str, int]()
    for row in rows:
        cell = cells[row]
        if cell is None:
            raise DataError(f"{table.where(row + 1, name)} is empty: every row needs its id")
        if cell in seen:
            raise DataError(
                f"{table.where(row + 1, name)} is {shown(cell)}, the id of row {seen[cell]} too:"
                " ids must differ"
            )
        seen[cell] = int(row) + 1
    return list(seen)


def _images(
    table: TableFile,
    column: str,
    cells: Strings,
    rows: Rows,
    size: int,
    gray: bool,
    data_dir: Path | None,
) -> StreamedImages:
    folder = table.path.parent
    paths = [folder / cells[row] for row in rows]
    exists: dict[Path, bool] = {}
    absent = [n for n, path in enumerate(paths) if not exists.setdefault(path, path.is_file())]
    if absent:
        where = table.where(int(rows[absent[0]]) + 1, table.one(column, "the image"))
        more = f", and {len(absent) - 1} others" if len(absent) > 1 else ""
        raise DataError(
            f"{where}: the image {paths[absent[0]]} is missing{more}; paths are relative to"
            f" {folder}"
        )
    return StreamedImages(
        paths, size, mode="L" if gray else "RGB", cache_dir=data_folder(data_dir) / "decoded"
    )


_ID = re.compile(
    r"(^|[\W_])(p?id|uuid|guid|persons?|patients?|subjects?|users?|participants?|customers?"
    r"|clients?|donors?|animals?|mouse|speakers?|individuals?|household|family|session|video|scan"
    r"|slide)([\W_]|$)|[a-z]ID$|(person|patient|subject|user|participant|donor)id$",
)


def _warn_of_ids(
    table: TableFile,
    others: Sequence[str],
    image: str | None,
    columns: Sequence[_ConditionColumn],
    rows: Rows,
    parts: tuple[Rows, Rows, Rows],
) -> None:
    """Warn of a column that seems to name persons, by its name or since the condition is the same
    in all rows of a value, if rows of a value are in several splits; or of images that are.
    """
    part = np.empty(len(rows), np.int64)
    for number, members in enumerate(parts):
        part[members] = number
    for name in (*others[:_CANDIDATES], *filter(None, [image])):
        if table.is_list(name):
            continue
        named = _ID.search(name) or _ID.search(name.lower()) or name == image
        cells = table.text(name)[rows]
        known = np.array([cell is not None for cell in cells])
        values, codes = np.unique(cells[known].astype(str), return_inverse=True)
        if len(values) in (1, len(codes)):
            continue
        if not named and not _determines(codes, len(values), columns, rows[known]):
            continue
        pairs = np.unique(np.stack([codes, part[known]]), axis=1)
        divided = int((np.bincount(pairs[0]) > 1).sum())
        if divided:
            warn(
                f"{table.path}: {divided:,} of {len(values):,} values of {name} have rows"
                " in several splits: if features can tell persons or the like apart, scores are too"
                f" high; split_by={name!r} keeps the rows of each in one split"
            )


def _determines(codes: Rows, count: int, columns: Sequence[_ConditionColumn], rows: Rows) -> bool:
    """Return whether a condition of many values is the same in the few rows of each value, and the
    values are not only other names of its categories.
    """
    for column in columns:
        values = np.nan_to_num(column.values[rows])
        _, of_row = np.unique(values, axis=0, return_inverse=True)
        of_row = of_row.reshape(-1)
        first = np.zeros(count, np.int64)
        first[codes] = of_row
        distinct = len(np.unique(of_row))
        recoded = column.column.kind == "categorical" and distinct == count
        few = len(codes) <= _ROWS_OF_ONE * count
        if (few and not recoded and 2 * distinct >= count >= 10) and bool(
            (first[codes] == of_row).all()
        ):
            return True
    return False


def _grouped_parts(
    table: TableFile,
    split: str | None,
    rows: Rows,
    groups: Strings,
    split_by: str,
    holdout: int | None,
    seed: int,
) -> tuple[Rows, Rows, Rows]:
    """Return which of the rows are for training, validation and test, by groups of rows."""
    count = round(0.15 * len(rows)) if holdout is None else holdout
    if count < 1:
        raise DataError(
            f"holdout is {holdout}, but split_by needs validation rows, or probes would be tuned on"
            " rows of the same groups: omit holdout"
        )
    try:
        if split is None:
            train, test = draw_groups(groups, round(0.15 * len(rows)), seed)
            kept, held_out = draw_groups(groups[train], count, seed)
            return train[kept], train[held_out], test
        train, validation, test = _parts(
            table, split, rows, np.zeros(len(rows), np.int64), None, seed
        )
        seen: dict[str, str] = {}
        for part, members in zip(_PARTS, (train, validation, test), strict=True):
            for row in members:
                if seen.setdefault(groups[row], part) != part:
                    raise DataError(
                        f"{table.where(int(rows[row]) + 1, split_by)} is {shown(groups[row])},"
                        f" which is in {seen[groups[row]]} too: rows of one must be in one split"
                    )
        if len(validation):
            if holdout:
                raise DataError("there are validation rows already: omit holdout")
            return train, validation, test
        kept, held_out = draw_groups(groups[train], count, seed)
        return train[kept], train[held_out], test
    except DataError as error:
        where = "" if str(table.path) in str(error) else f"{table.path}, column {split_by!r}: "
        raise DataError(f"{where}{error}") from None


def _parts(
    table: TableFile, split: str | None, rows: Rows, y: Rows, holdout: int | None, seed: int
) -> tuple[Rows, Rows, Rows]:
    """Return which of the rows are for training, validation and test."""
    if split is None:
        order = stratified_order(y, seed)
        kept = round(0.85 * len(order))
        if kept < 2 or kept == len(order):
            raise DataError(
                f"{table.path} has {len(order)} usable rows: too few to train, validate and test on"
            )
        if holdout is None:
            holdout = round(0.15 * len(order))
        return *hold_out(order[:kept], holdout), np.sort(order[kept:])
    name = table.one(split, "the split")
    cells = table.text(name)[rows]
    for row, cell in zip(rows, cells, strict=True):
        if cell not in _PARTS:
            raise DataError(
                f"{table.where(int(row) + 1, name)} is {shown(cell)}: it must be train, validation"
                " or test"
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
                f"{table.path}, column {name!r} names validation rows already: omit holdout"
            )
        kept_rows, held_out = hold_out(stratified_order(y[train], seed), holdout)
        return train[kept_rows], train[held_out], test
    return train, validation, test
