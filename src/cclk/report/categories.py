"""The names of the categories of a condition, which a dataset keeps as codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cclk.data.dataset import Column, Dataset
from cclk.data.tables import Table


def category_names(dataset: Dataset, source: str, row_id: str | None = None) -> dict[str, tuple[str, ...]]:
    """The name of each condition column that holds categories -> the names of these, in the order of their codes.

    Args:
        source: what the dataset was loaded from: a name, or the path of a .csv, .parquet or .npz file.
        row_id: the column of the table that names its rows; by default they are numbered.
    """
    names: dict[str, tuple[str, ...]] = {}
    for column in dataset.columns:
        own = dataset.condition_names[column.place]
        if column.kind == "attributes":
            names |= dict.fromkeys(own, ("no", "yes"))
        elif column.kind == "categorical":
            known = _names(dataset, column, Path(source).expanduser(), row_id)
            highest = max(known, default=0)
            names[own[0]] = tuple(known.get(code, str(code)) for code in range(highest + 1))
    return names


def _names(dataset: Dataset, column: Column, path: Path, row_id: str | None) -> dict[int, str]:
    splits = (dataset.train, dataset.validation, dataset.test)
    codes = [int(code) for split in splits for code in split.condition[:, column.start].tolist()]
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            values = [arrays[name].ravel() for name in ("condition", "condition_validation", "condition_test") if name in arrays]
        return {code: _text(value) for code, value in enumerate(np.unique(np.concatenate(values)).tolist())}
    if path.suffix in (".csv", ".parquet"):
        table = Table(path)
        ids = map(str, range(1, len(table) + 1)) if row_id is None else table.text(row_id)
        cells = dict(zip(ids, table.text(column.name), strict=True))
        rows = [row for split in splits for row in split.ids]
        return {code: cells[row] or "missing" for code, row in zip(codes, rows, strict=True)}
    if codes == [label for split in splits for label in split.y.tolist()]:  # the label is the condition
        return dict(enumerate(dataset.classes))
    return {code: str(code) for code in codes}


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
