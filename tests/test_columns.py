"""One rule says what a column is, wherever it comes from: CSV, Parquet, .npz, data frames,
mappings and the estimator.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from cclk import datasets
from cclk._numerals import disguised
from cclk.columns import Column, as_numbers, kind_of
from cclk.condition import as_condition, infer_condition
from cclk.errors import DataError
from cclk.estimator import _condition

N = 60
ROWS = np.arange(N)
DAYS = np.datetime64("2024-05-01") + ROWS
COLUMNS: dict[str, tuple[Any, str]] = {
    "text": (np.array(["Oslo", "Bonn", "Rome"])[ROWS % 3], "categorical"),
    "text with many values": (np.array([f"person {row}" for row in ROWS]), "categorical"),
    "truth values": (ROWS % 2 == 0, "categorical"),
    "few whole numbers": (ROWS % 10, "categorical"),
    "few whole floats": ((ROWS % 10).astype(float), "categorical"),
    "many whole numbers": (ROWS % 11, "continuous"),
    "an age in years": (20 + ROWS, "continuous"),
    "whole floats": ((20 + ROWS).astype(float), "continuous"),
    "few decimals": (ROWS % 3 / 2, "continuous"),
    "decimals": (ROWS / 7, "continuous"),
    "dates as text": (DAYS.astype(str), "continuous"),
    "numbers as text": ((20 + ROWS).astype(str), "continuous"),
    "codes and a letter": (np.array(["1", "2", "A"])[ROWS % 3], "categorical"),
    "sizes": (np.array(["XS", "S", "40", "42"])[ROWS % 4], "categorical"),
    "few doses": (np.array(["5mg", "10mg", "20mg"])[ROWS % 3], "categorical"),
    "ranges": (np.array([f"{row}-{row + 9}" for row in ROWS]), "categorical"),
    "house numbers": (np.array([f"{row}{'abcd'[row % 4]}" for row in ROWS]), "categorical"),
    "words joined by semicolons": (np.array(["a;b", "b", "c;a"])[ROWS % 3], "attributes"),
}


def csv(values: Any, folder: Path) -> Column:
    pd.DataFrame({"z": values, "x": ROWS * 0.1}).to_csv(folder / "t.csv", index=False)
    return datasets.load(str(folder / "t.csv"), features="x", condition="z").columns[0]


def parquet(values: Any, folder: Path) -> Column:
    pa.parquet.write_table(pa.table({"z": values, "x": ROWS * 0.1}), folder / "t.parquet")
    return datasets.load(str(folder / "t.parquet"), features="x", condition="z").columns[0]


def npz(values: Any, folder: Path) -> Column:
    np.savez(
        folder / "t.npz",
        x=ROWS[:, None] * 0.1,
        y=ROWS % 2,
        condition=values,
        condition_names=np.array(["z"]),
    )
    return datasets.load(str(folder / "t.npz")).columns[0]


SOURCES: dict[str, Callable[[Any, Path], Column]] = {
    "csv": csv,
    "parquet": parquet,
    "npz": npz,
    "data frame": lambda values, _: infer_condition(pd.DataFrame({"z": values})).columns[0],
    "mapping": lambda values, _: infer_condition({"z": values.tolist()}).columns[0],
    "estimator": lambda values, _: _condition(pd.Series(values, name="z"), N).columns[0],
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("column", COLUMNS)
def test_every_source_has_the_same_rule(column: str, source: str, tmp_path: Path) -> None:
    values, kind = COLUMNS[column]
    found = SOURCES[source](values, tmp_path)
    assert (found.name, found.kind, found.kernel) == ("z", kind, "")
    if kind == "categorical" and column != "truth values":
        names = {
            str(int(value)) if isinstance(value, float) else str(value) for value in values.tolist()
        }
        assert set(found.categories) == names, "categories have their names"
    assert found.width == (3 if kind == "attributes" else 1)
    if kind == "attributes":
        assert found.categories == ("z=a", "z=b", "z=c")


def with_cell(values: Any, cell: str) -> Any:
    """The values as text, with another cell in row 7."""
    texts = np.asarray(values).astype("U20")
    texts[7] = cell
    return texts


DISGUISED: dict[str, tuple[Any, int, str]] = {
    "a word": (with_cell(20 + ROWS, "unknown"), 7, "'unknown'"),
    "a dash": (with_cell(ROWS / 7, "-"), 7, "'-'"),
    "a limit": (with_cell(ROWS / 7, "<0.1"), 7, "'<0.1'"),
    "another unit": (with_cell([f"{row} cm" for row in ROWS], "1 m"), 0, "'0 cm'"),
    "a unit": (np.array([f"{150 + row}cm" for row in ROWS]), 0, "'150cm'"),
    "percent": (np.array([f"{row}%" for row in ROWS]), 0, "'0%'"),
    "a currency": (np.array([f"$ {1000 + row}" for row in ROWS]), 0, "'$ 1000'"),
    "thousands": (with_cell(700 + ROWS, "1,234"), 7, "'1,234'"),
    "decimal commas": (np.array([f"{row},5" for row in ROWS]), 0, "'0,5'"),
    "points for thousands": (with_cell(700 + ROWS, "1.234.567"), 7, "'1.234.567'"),
    "a point for thousands": (with_cell(700 + ROWS, "1.234"), 7, "'1.234'"),
    "other dates": (np.array([f"{1 + row % 28}/12/2024" for row in ROWS]), 0, "'1/12/2024'"),
    "a date that is not one": (with_cell(DAYS, "unknown"), 7, "'unknown'"),
    "times": (np.array([f"08:{row:02}" for row in ROWS]), 0, "'08:00'"),
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("column", DISGUISED)
def test_numbers_in_disguise_are_not_categories(column: str, source: str, tmp_path: Path) -> None:
    values, row, shown = DISGUISED[column]
    with pytest.raises(DataError) as caught:
        SOURCES[source](values, tmp_path)
    message = str(caught.value)
    assert shown in message
    assert f"row {row + (source in ('csv', 'parquet'))}" in message
    assert "categorical" in message


def test_columns_can_be_requested_as_categories(tmp_path: Path) -> None:
    frame = pd.DataFrame({"z": DISGUISED["a word"][0], "x": ROWS * 0.1})
    frame.to_csv(tmp_path / "t.csv")
    path = str(tmp_path / "t.csv")
    found = [
        *datasets.load(path, features="x", condition="z:categorical").columns,
        *infer_condition({"z:categorical": frame["z"]}).columns,
        *infer_condition({"z": frame["z"].astype("category")}).columns,
    ]
    frame["z"] = frame["z"].astype("category")
    frame.to_parquet(tmp_path / "t.parquet")
    found += datasets.load(str(tmp_path / "t.parquet"), features="x", condition="z").columns
    assert [(each.name, each.kind, len(each.categories)) for each in found] == [
        ("z", "categorical", 60)
    ] * 4


def test_a_batch_with_numbers_and_text_is_an_error() -> None:
    """Its kind would depend on whether a batch has a cell of text."""
    with pytest.raises(DataError, match="row 2 is 'unknown', text beside numbers"):
        as_condition({"age": np.array([1.0, 2.0, "unknown"], dtype=object)})


@pytest.mark.parametrize("source", ["parquet", "npz", "data frame", "estimator"])
def test_dates_are_numbers(source: str, tmp_path: Path) -> None:
    assert SOURCES[source](DAYS, tmp_path).kind == "continuous"


def test_declared_categories_are_categories() -> None:
    frame = pd.DataFrame(
        {
            "year": pd.Series(1990 + ROWS % 30, dtype="category"),
            "known": pd.array(ROWS % 2 == 0, "boolean"),
        }
    )
    assert [column.kind for column in infer_condition(frame).columns] == [
        "categorical",
        "categorical",
    ]


def test_vectors() -> None:
    assert kind_of(np.array([[0.0, 1.0], [1.0, 1.0]])) == "attributes"
    assert kind_of(np.array([[0.0, 1.5], [1.0, 1.0]])) == "embedding"
    assert infer_condition(np.zeros((N, 4))).columns == (Column("condition", "continuous", 4),)
    assert [column.kind for column in infer_condition(np.stack([ROWS, ROWS % 2], 1)).columns] == [
        "continuous",
        "categorical",
    ]


@pytest.mark.parametrize(
    ("name", "options", "column"),
    [
        ("colordigits", {}, Column("color", "continuous", 3, ("red", "green", "blue"))),
        ("colordigits", {"segments": True}, Column("segments", "continuous", 7, tuple("abcdefg"))),
    ],
)
def test_named_datasets_keep_their_kinds(
    name: str, options: dict[str, Any], column: Column
) -> None:
    assert datasets.load(name, **options).columns == (column,)


def test_a_signaling_nan_is_an_ordinary_nan() -> None:
    signaling = np.array([0x7F800001, 0], dtype=np.uint32).view(np.float32)
    assert np.isnan(as_numbers(signaling, "age")).tolist() == [True, False]


def test_numbers_and_text_can_be_requested_as_categories() -> None:
    condition = infer_condition({"dose:categorical": np.array([1.5, 2.5, "unknown"], dtype=object)})
    assert condition.columns[0].kind == "categorical"
    assert set(condition.columns[0].categories) == {"1.5", "2.5", "unknown"}


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["2024-01-02", "1.5", "2.5", "x"], "is '2024-01-02', but 2 of 4 cells are numbers"),
        (["x", "03.04.2024", "04.04.2024", "1.5"], "is 'x', but 2 of 4 cells are dates"),
        (["x", "10:30", "10:31", "1.5"], "is 'x', but 2 of 4 cells are times"),
    ],
)
def test_cells_of_other_kinds_are_not_counted(cells: list[str], message: str) -> None:
    fault = disguised(cells)
    assert fault is not None
    assert fault[1].startswith(message)
