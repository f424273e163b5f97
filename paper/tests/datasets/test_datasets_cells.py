"""PBMC 68k, reduced: a small file in the layout of scanpy's, and which genes become inputs."""

from __future__ import annotations

import re
from pathlib import Path

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest
import torch

from cclk import datasets
from cclk.errors import DataError

CELLS = 50
GENES = ["HES4", "MT-ND3", "PCNA", "SILENT"]


def expression() -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Gene 0 identifies the cell, gene 2 is often 0, the last gene always."""
    number = np.arange(CELLS, dtype=np.float32)
    return np.stack([number, number + 1, number % 3, 0 * number], axis=1)


@pytest.fixture(params=["before anndata 0.7", "anndata"])
def path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    path = tmp_path / "cells" / "pbmc68k_reduced.h5ad"
    path.parent.mkdir()
    number = np.arange(CELLS)
    scores = {"percent_mito": number / 100, "S_score": -number, "G2M_score": number**2}
    types, table = [b"CD19+ B", b"Dendritic"], expression()
    row, column = np.nonzero(table)
    with h5py.File(path, "w") as file:
        file["X"] = table - 1
        if request.param == "anndata":
            raw = "raw/X"
            for name, values in scores.items():
                file[f"obs/{name}"] = values.astype(np.float32)
            file["obs/bulk_labels/codes"] = (number % 2).astype(np.int8)
            file["obs/bulk_labels/categories"] = np.array(types, dtype=h5py.string_dtype())
            file["raw/var/index"] = np.array(GENES, dtype=h5py.string_dtype())
            file["raw/var"].attrs["_index"] = "index"
        else:
            raw, kinds = "raw.X", [(name, "<f4") for name in scores]
            cells = np.zeros(CELLS, dtype=[("index", "S16"), ("bulk_labels", "i1"), *kinds])
            cells["bulk_labels"] = number % 2
            for name, values in scores.items():
                cells[name] = values
            file["obs"], file["uns/bulk_labels_categories"] = cells, np.array(types)
            genes = [(name.encode(),) for name in GENES]
            file["raw.var"] = np.array(genes, dtype=[("index", "S9")])
        file[f"{raw}/data"], file[f"{raw}/indices"] = table[row, column], column.astype(np.int32)
        file[f"{raw}/indptr"] = np.searchsorted(row, np.arange(CELLS + 1)).astype(np.int32)
    return path


def test_cells_scores_and_types(path: Path) -> None:
    cells = datasets.load("cells", data_dir=path.parents[1])
    parts = (cells.train, cells.validation, cells.test)
    assert list(map(len, parts)) == [32, 8, 10]
    assert cells.condition_names == ("percent_mito", "S_score", "G2M_score")
    assert cells.classes == ("CD19+ B", "Dendritic")
    seen = []
    for part in parts:
        number = (100 * part.condition[:, 0]).round()
        assert torch.equal(part.condition[:, 1:], torch.stack([-number, number**2], dim=1))
        assert torch.equal(part.y, number.long() % 2)
        assert int(part.y.sum()) == len(part) // 2, "splits are stratified"
        seen += number.tolist()
    assert sorted(seen) == list(range(CELLS))


def test_inputs_are_raw_expression_scaled_by_the_training_cells(path: Path) -> None:
    cells = datasets.load("cells", data_dir=path.parents[1], holdout=0)
    assert cells.inputs == ("HES4", "PCNA"), "neither mitochondrial nor constant genes"
    raw = expression()[:, [0, 2]]
    train, test = (
        raw[(100 * part.condition[:, 0]).round().long()] for part in (cells.train, cells.test)
    )
    expected = (test - train.mean(axis=0)) / train.std(axis=0)
    np.testing.assert_allclose(torch.as_tensor(cells.test.x), expected, rtol=1e-4, atol=1e-5)


def test_the_seed_selects_the_cells_held_out(path: Path) -> None:
    first, same, other = (
        datasets.load("cells", data_dir=path.parents[1], seed=seed) for seed in (0, 0, 1)
    )
    assert torch.equal(first.validation.condition, same.validation.condition)
    assert not torch.equal(first.validation.condition, other.validation.condition)
    assert torch.equal(first.test.condition, other.test.condition)


def test_a_missing_file_is_named_with_its_source(tmp_path: Path) -> None:
    message = r"is not complete in \S+/cells, missing: pbmc68k_reduced\.h5ad; get it from"
    with pytest.raises(DataError, match=message):
        datasets.load("cells", data_dir=tmp_path)


def test_damaged_files(path: Path) -> None:
    def loading(message: str) -> None:
        with pytest.raises(DataError, match=re.escape(message)):
            datasets.load("cells", data_dir=path.parents[1])

    with h5py.File(path, "r+") as file:
        raw = "raw.X" if "raw.X" in file else "raw/X"
        file[f"{raw}/data"][3] = np.nan
    loading("has values that are not finite numbers: replace it")
    with h5py.File(path, "r+") as file:
        file[f"{raw}/data"][3] = 1
        if raw == "raw.X":
            cells = file["obs"][:]
            cells["bulk_labels"][0] = -1
            file["obs"][:] = cells
        else:
            file["obs/bulk_labels/codes"][0] = 2
    loading("has cells without one of the 2 types")
    with h5py.File(path, "r+") as file:
        file[f"{raw}/indices"][0] = 99
    loading("is not in the layout of scanpy (")
    with h5py.File(path, "r+") as file:
        del file[raw]
    loading("is not in the layout of scanpy (")
    path.write_bytes(b"no HDF5")
    loading("is not in the layout of scanpy (")
