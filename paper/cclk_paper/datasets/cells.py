"""PBMC 68k, reduced: the expression of 765 genes in 700 blood cells of ten types, with technical
and cell-cycle scores to ignore and the type to predict.

    <data folder>/cells/pbmc68k_reduced.h5ad   as distributed with scanpy

Inputs are the logarithms of normalized counts (`raw.X`), standardized by the training cells: `X`
has been scaled by all cells already. Mitochondrial genes (MT-*) are left out, because percent_mito
is the share of their counts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt

from cclk.data.dataset import Dataset
from cclk.data.splits import hold_out, stratified_order
from cclk_paper.datasets.image_folder import damaged
from cclk_paper.datasets.tabular import table_path, tabular_dataset

_SCORES = ("percent_mito", "S_score", "G2M_score")
_LABEL = "bulk_labels"
_SOURCE = (
    "https://github.com/scverse/scanpy (src/scanpy/datasets/10x_pbmc68k_reduced.h5ad, from"
    " https://www.10xgenomics.com/datasets), rename it"
)


def load(*, data_dir: Path | None = None, seed: int = 0, holdout: int | None = None) -> Dataset:
    """Return the dataset; the condition is percent_mito, S_score and G2M_score. A fixed fifth of
    the cells is for tests.

    Args:
        data_dir: the data folder; None: CCLK_DATA, else ~/.cache/cclk.
        seed: seed of the cells held out.
        holdout: number of training cells held out for validation; None: a fifth.
    """
    path = table_path(data_dir, "cells/pbmc68k_reduced.h5ad", "PBMC 68k, reduced,", _SOURCE)
    try:
        with h5py.File(path, "r") as file:
            labels, types = _categories(file)
            scores = {name: file["obs"][name][()].astype(np.float64) for name in _SCORES}
            genes, expression = _expression(file, len(labels))
    except (OSError, KeyError, ValueError, IndexError, TypeError, AttributeError) as error:
        raise damaged(path, f"is not in the layout of scanpy ({str(error)[:200]})") from error
    if not all(np.isfinite(values).all() for values in (expression, *scores.values())):
        raise damaged(path, "has values that are not finite numbers")
    if not ((labels >= 0) & (labels < len(types))).all():
        raise damaged(path, f"has cells without one of the {len(types)} types")
    train, test = hold_out(stratified_order(labels, seed=0), len(labels) // 5)
    return tabular_dataset(
        "cells",
        {
            name: values
            for name, values in zip(genes, expression.T, strict=True)
            if not name.startswith("MT-")
        },
        labels,
        scores,
        train,
        test,
        classes=tuple(types),
        holdout=holdout,
        seed=seed,
        description=f"PBMC 68k, reduced: {len(labels)} cells of {len(types)} types",
    )


def _categories(file: Any) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Return the code of the type of each cell, and the names of the types.

    anndata stores them in obs; before version 0.7, obs was one array, and the names were in uns.
    """
    column = file["obs"][_LABEL]
    old = isinstance(column, np.ndarray)
    names = file[f"uns/{_LABEL}_categories"] if old else column["categories"]
    codes = column if old else column["codes"][()]
    return codes.astype(np.int64), [name.decode() for name in names[()].tolist()]


def _expression(file: Any, cells: int) -> tuple[list[str], npt.NDArray[np.float64]]:
    """Return the names of the genes, and the matrix (cells, genes), stored by its nonzero values in
    the order of the rows.
    """
    old = "raw.X" in file
    matrix, genes = (file["raw.X"], file["raw.var"]) if old else (file["raw/X"], file["raw/var"])
    names = genes["index" if old else genes.attrs["_index"]][()].tolist()
    values, columns, starts = (matrix[name][()] for name in ("data", "indices", "indptr"))
    table = np.zeros((cells, len(names)))
    table[np.repeat(np.arange(cells), np.diff(starts)), columns] = values
    return [name.decode() for name in names], table
