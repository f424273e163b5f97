"""Adult: official files in miniature, and which columns become inputs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from cclk import datasets
from cclk.errors import DataError

PERSON = "{age}, Private, 77516, Bachelors, {years}, Divorced, Sales, {tie}, White, {sex}, {gain}, 0, 40, {country}, {income}"  # noqa: E501


def person(number: int, income: str = "", **values: object) -> str:
    defaults = {
        "age": 20 + number % 50,
        "years": 9 + number % 4,
        "tie": ("Wife", "Husband", "Unmarried")[number % 3],
        "sex": ("Male", "Female")[number % 2],
        "gain": 100 * (number % 5),
        "country": "Peru" if number == 7 else "United-States",
        "income": income or ("<=50K", ">50K")[number % 4 == 0],
    }
    return PERSON.format(**(defaults | values))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tabular").mkdir()
    train = [person(number) for number in range(240)]
    test = [person(number, country="Chad", gain=99_999) + "." for number in range(40)]
    (tmp_path / "tabular" / "adult.data").write_text("\n".join([*train, "", ""]))
    (tmp_path / "tabular" / "adult.test").write_text("\n".join(["|1x3 Cross validator", *test, ""]))
    return tmp_path


def test_conditions_and_labels_of_the_official_split(folder: Path) -> None:
    adult = datasets.load("adult", data_dir=folder)
    assert [len(part) for part in (adult.train, adult.validation, adult.test)] == [192, 48, 40]
    assert (adult.condition_names, adult.condition_kind) == (("age",), "continuous")
    assert adult.classes == ("<=50K", ">50K")
    assert adult.test.condition[:, 0].tolist() == [20 + number % 50 for number in range(40)]
    assert adult.test.y.tolist() == [int(number % 4 == 0) for number in range(40)]
    full = datasets.load("adult", data_dir=folder, holdout=0)
    assert full.train.condition[:3, 0].tolist() == [20, 21, 22]
    assert full.train.y[:5].tolist() == [1, 0, 0, 0, 1]
    assert len(datasets.load("adult", data_dir=folder, holdout=9).validation) == 9


def test_inputs_without_the_age(folder: Path) -> None:
    adult = datasets.load("adult", data_dir=folder)
    assert adult.inputs == (
        "relationship=Husband", "relationship=Unmarried", "relationship=Wife", "sex=Female",
        "sex=Male", "native-country=United-States", "native-country=other", "capital-gain",
        "education-num",
    )  # fmt: skip
    assert adult.train.x.shape == (192, len(adult.inputs))
    assert adult.train.x.dtype == torch.float32


def test_training_rows_determine_scale_and_categories(folder: Path) -> None:
    full = datasets.load("adult", data_dir=folder, holdout=0)
    x = full.train.x
    assert isinstance(x, torch.Tensor)
    torch.testing.assert_close(x.mean(dim=0), torch.zeros(x.shape[1]), atol=1e-5, rtol=0)
    torch.testing.assert_close(x.std(dim=0, correction=0), torch.ones(x.shape[1]))
    gains = np.log1p(100 * (np.arange(240) % 5))
    expected = (np.log1p(99_999) - gains.mean()) / gains.std()
    assert isinstance(full.test.x, torch.Tensor)
    assert full.test.x[0, full.inputs.index("capital-gain")] == pytest.approx(expected, rel=1e-5)
    # Chad is not in the training rows, where Peru is rare.
    other = full.test.x[:, full.inputs.index("native-country=other")]
    assert torch.equal(
        other, torch.full((40,), float(x[7, full.inputs.index("native-country=other")]))
    )


def test_the_seed_selects_the_rows_held_out_alone(folder: Path) -> None:
    first, same, other = (datasets.load("adult", data_dir=folder, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(torch.as_tensor(first.train.x), torch.as_tensor(same.train.x))
    assert not torch.equal(first.validation.condition, other.validation.condition)
    assert torch.equal(torch.as_tensor(first.test.x), torch.as_tensor(other.test.x))


def test_a_missing_file_is_named_with_its_source(folder: Path) -> None:
    (folder / "tabular" / "adult.test").unlink()
    message = (
        f"Adult is not complete in {folder / 'tabular'}, missing: adult.test; get it from"
        " https://archive.ics.uci.edu/dataset/2/adult and put it into that folder"
    )
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        datasets.load("adult", data_dir=folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("39, Private", "line 1: it has 2 cells instead of 15"),
        (person(0, age="old"), "line 1: age is 'old': it must be an integer of at least 0"),
        (person(0, gain="-1"), "line 1: capital-gain is '-1': it must be an integer"),
        (person(1) + "\n" + person(2, income="much"), "line 2: the income is 'much': it must be"),
        ("|1x3 Cross validator\n", "adult.data has no rows: replace it"),
        ("\xff", "is not a CSV file in UTF-8"),
        (person(1), "all input columns are constant"),
    ],
)
def test_damaged_files(folder: Path, content: str, message: str) -> None:
    (folder / "tabular" / "adult.data").write_bytes(content.encode("latin-1"))
    with pytest.raises(DataError, match=re.escape(message)):
        datasets.load("adult", data_dir=folder)


def test_a_bad_holdout_is_named(folder: Path) -> None:
    with pytest.raises(DataError, match="holdout is 240: it must be an integer from 0 to 239"):
        datasets.load("adult", data_dir=folder, holdout=240)
