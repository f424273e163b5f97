"""Datasets of tables: categories one-hot, amounts as logarithms, everything standardized.

Means, standard deviations and categories are those of all rows that are not test rows. So the
inputs are the same for every seed and every number of rows held out, and an encoder trained with
some rows held out can be applied to all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from cclk.columns import Column
from cclk.data.dataset import Dataset, Split
from cclk.data.folder import data_folder
from cclk.data.randomness import generator
from cclk.data.splits import Rows, hold_out, stratified_order
from cclk.data.table_file import Doubles, TableFile
from cclk.errors import DataError
from cclk_paper.datasets.image_folder import check_files
from cclk_paper.datasets.labeled import Floats

RARE = 0.005
"""Categories of fewer than this share of the rows are merged."""
_LARGEST_HOLDOUT = 5_000

Inputs = Mapping[str, npt.NDArray[Any]]
"""Columns (n,) by name."""


def table_path(data_dir: Path | None, part: str, title: str, source: str) -> Path:
    """Return the path of a file that must be downloaded by hand, after checking that it exists.

    Args:
        data_dir: the data folder; None: CCLK_DATA, else ~/.cache/cclk.
        part: the path of the file in the data folder.
        title: the name of the dataset.
        source: where the file can be downloaded.
    """
    path = data_folder(data_dir) / part
    check_files(
        path.parent, title, [path.name], f"get it from {source} and put it into that folder"
    )
    return path


def numbers(table: TableFile, name: str) -> Doubles:
    """Return a column of numbers, none of which may be missing.

    Args:
        table: the table.
        name: the name of the column.
    """
    values = table.numbers(table.one(name, "a column of this dataset"))
    missing = np.flatnonzero(np.isnan(values))
    if len(missing):
        raise DataError(f"{table.where(int(missing[0]) + 1, name)} is empty: it must be a number")
    return values


def flags(table: TableFile, name: str) -> npt.NDArray[np.int64]:
    """Return a column of numbers that are all 0 or 1.

    Args:
        table: the table.
        name: the name of the column.
    """
    values = numbers(table, name)
    wrong = np.flatnonzero(~np.isin(values, (0, 1)))
    if len(wrong):
        where = table.where(int(wrong[0]) + 1, name)
        raise DataError(f"{where} is {values[wrong[0]]:g}: it must be 0 or 1")
    return values.astype(np.int64)


def one_hot(name: str, cells: npt.NDArray[Any], train: Rows) -> dict[str, npt.NDArray[np.bool_]]:
    """Return a column for each category of the training rows, and one for all rare ones.

    Without rare categories, a category that occurs only in other rows is 0 in all columns.

    Args:
        name: the name of the column; those of the result are `name=category`.
        cells: the category of each row.
        train: the training rows.
    """
    categories, count = np.unique(cells[train], return_counts=True)
    common = categories[count >= RARE * len(train)]
    columns = {f"{name}={category}": cells == category for category in common.tolist()}
    if len(common) < len(categories):
        columns[f"{name}=other"] = ~np.isin(cells, common)
    return columns


def standardized(inputs: Inputs, train: Rows) -> tuple[Floats, tuple[str, ...]]:
    """Return columns with mean 0 and variance 1 on the training rows, and their names.

    Columns that are constant on the training rows are dropped.

    Args:
        inputs: the columns.
        train: the training rows.
    """
    varying = {name: values for name, values in inputs.items() if np.ptp(values[train] * 1.0) > 0}
    if not varying:
        raise DataError("all input columns are constant: the table has too few different rows")
    table = np.column_stack([values.astype(np.float64) for values in varying.values()])
    scaled = (table - table[train].mean(axis=0)) / table[train].std(axis=0)
    return scaled.astype(np.float32), tuple(varying)


def tabular_dataset(
    name: str,
    inputs: Inputs,
    labels: npt.NDArray[np.integer[Any]],
    condition: Inputs,
    train: Rows,
    test: Rows,
    *,
    classes: tuple[str, ...],
    holdout: int | None,
    seed: int,
    description: str,
    groups: npt.NDArray[Any] | None = None,
) -> Dataset:
    """Return a dataset of vectors, with one column of the condition for each of its numbers.

    Args:
        name: the name of the dataset.
        inputs: the input columns, not yet standardized.
        labels: the label of each row.
        condition: the columns of the condition.
        train: the training rows, before any are held out.
        test: the test rows.
        classes: the names of the labels.
        holdout: the number of training rows held out for validation; None: a fifth, at most 5,000.
        seed: seed of the rows held out.
        description: one-line summary of the contents.
        groups: the group of each row. Groups are held out completely or not at all, so that
            slightly fewer rows than `holdout` may be held out.
    """
    x, names = standardized(inputs, train)
    samples = Split(
        torch.from_numpy(x),
        torch.from_numpy(labels.astype(np.int64)),
        torch.from_numpy(np.column_stack(list(condition.values())).astype(np.float32)),
    )
    if holdout is None:
        holdout = min(len(train) // 5, _LARGEST_HOLDOUT)
    if groups is None:
        kept, held_out = hold_out(stratified_order(labels[train], seed), holdout)
    else:
        kept, held_out = _hold_out_groups(groups[train], holdout, seed)
    return Dataset(
        name=name,
        train=samples.subset(train[kept]),
        validation=samples.subset(train[held_out]),
        test=samples.subset(test),
        classes=classes,
        columns=tuple(map(Column, condition)),
        description=description,
        inputs=names,
    )


def _hold_out_groups(groups: npt.NDArray[Any], holdout: int, seed: int) -> tuple[Rows, Rows]:
    hold_out(np.arange(len(groups)), holdout)  # checks the number
    _, group, count = np.unique(groups, return_inverse=True, return_counts=True)
    order = generator(seed, "held-out groups").permutation(len(count))
    held_out = np.isin(group, order[np.cumsum(count[order]) <= holdout])
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)
