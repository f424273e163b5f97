"""Categories have the names they have in the user's file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cclk_paper.datasets.labeled import labeled_dataset

from cclk import datasets
from cclk.report.run_view import category_names

SITES = ("Oslo", "Bonn", "Lyon")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    lines = ["who,age,site,ward,traits,ill,x"]
    for row in range(60):
        site = "" if row % 20 == 7 else SITES[row % 3]
        lines.append(
            f"p{row},{row + 0.5},{site},{row % 2}.0,{('hat;bag', 'hat')[row % 2]},"
            f"{row % 2},{row * 0.1}"
        )
    path = tmp_path / "people.csv"
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize("row_id", [None, "who"])
def test_of_a_table(table: Path, row_id: str | None) -> None:
    options = {
        "features": "x",
        "condition": ["age", "site", "ward", "traits"],
        "label": "ill",
        "missing": "impute",
        "row_id": row_id,
    }
    found = datasets.load(str(table), **options)
    assert category_names(found) == {
        "site": ("Bonn", "Lyon", "Oslo", "missing"),
        "ward": ("0", "1"),
        "traits=bag": ("no", "yes"),
        "traits=hat": ("no", "yes"),
    }


@pytest.mark.parametrize("kind", ["U", "S"])
def test_of_arrays(tmp_path: Path, kind: str) -> None:
    path, rows = tmp_path / "mine.npz", np.arange(60)
    x, y, sites = rows[:, None] * 0.1, rows % 2, np.array(SITES)[rows % 3].astype(kind)
    np.savez(
        path,
        x=x,
        y=y,
        condition=sites,
        x_test=x[:9],
        y_test=y[:9],
        condition_test=np.array(["Aix"] * 9).astype(kind),
    )
    assert category_names(datasets.load(str(path))) == {
        "condition": ("Aix", "Bonn", "Lyon", "Oslo")
    }


def test_of_labels() -> None:
    images, labels = np.zeros((40, 1, 4, 4), np.uint8), np.arange(40, dtype=np.uint8) % 2
    found = labeled_dataset(
        "made up", (images, labels), (images, labels), classes=("cat", "dog"), holdout=4, seed=0
    )
    assert category_names(found) == {"label": ("cat", "dog")}


def test_numbers_have_none() -> None:
    assert category_names(datasets.load("colordigits")) == {}
