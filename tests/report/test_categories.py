"""Categories have the names they have in the user's file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from cclk import data
from cclk.data.dataset import Dataset, Split
from cclk.report import category_names

SITES = ("Oslo", "Bonn", "Lyon")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    lines = ["who,age,site,ward,traits,ill,x"]
    for row in range(60):
        site = "" if row % 20 == 7 else SITES[row % 3]
        lines.append(f"p{row},{row + 0.5},{site},{row % 2}.0,{('hat;bag', 'hat')[row % 2]},{row % 2},{row * 0.1}")
    path = tmp_path / "people.csv"
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize("row_id", [None, "who"])
def test_of_a_table(table: Path, row_id: str | None) -> None:
    options = {"features": "x", "condition": ["age", "site", "ward", "traits"], "label": "ill", "missing": "impute", "row_id": row_id}
    found = data.load(str(table), **options)
    assert category_names(found, str(table), row_id) == {
        "site": ("Bonn", "Lyon", "Oslo", "missing"),
        "ward": ("0.0", "1.0"),
        "traits=bag": ("no", "yes"),
        "traits=hat": ("no", "yes"),
    }


@pytest.mark.parametrize("kind", ["U", "S"])
def test_of_arrays(tmp_path: Path, kind: str) -> None:
    path, rows = tmp_path / "mine.npz", np.arange(60)
    x, y, sites = rows[:, None] * 0.1, rows % 2, np.array(SITES)[rows % 3].astype(kind)
    np.savez(path, x=x, y=y, condition=sites, x_test=x[:9], y_test=y[:9], condition_test=np.array(["Aix"] * 9).astype(kind))
    assert category_names(data.load(str(path)), str(path)) == {"condition": ("Aix", "Bonn", "Lyon", "Oslo")}


def test_of_labels_and_of_what_has_no_names() -> None:
    def dataset(condition: torch.Tensor) -> Dataset:
        y = torch.arange(6) % 3
        split = Split(torch.zeros(6, 2), y, condition[:, None].float())
        return Dataset("made up", split, split, split, ("cat", "dog", "fox"), ("kind",), "categorical", "")

    assert category_names(dataset(torch.arange(6) % 3), "made up") == {"kind": ("cat", "dog", "fox")}
    assert category_names(dataset(torch.arange(6) % 2), "made up") == {"kind": ("0", "1")}


def test_numbers_have_none() -> None:
    assert category_names(data.load("colordigits"), "colordigits") == {}
