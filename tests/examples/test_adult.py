"""The example on Adult at small size: what its encoders get to see, and its page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import adult as shown
from examples import adult


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("adult") / "result.json"
    adult.main(["--sample", "--json", str(path)])
    return path


def test_the_whole_example(result: Path) -> None:
    found = json.loads(result.read_text())
    assert found["command"].startswith("python -m examples.adult --sample")
    runs = {row["method"]: row["runs"][0] for row in found["rows"]}
    assert set(runs) == {"inputs", "CorrelationRemover", "contrastive", "fair"}
    for run in runs.values():
        assert 0.7 < run["accuracy"] < 0.9
        assert run["baseline_mse"] == pytest.approx(
            adult.read_sample()[1]["age"].var(ddof=0), rel=0.05
        )
        assert run["linear_r2"] == pytest.approx(
            1 - run["linear_mse"] / run["baseline_mse"], abs=0.01
        )
        assert 0 < run["demographic_parity"] < 1
        assert 0 < run["equalized_odds"] <= 1
    # What is linear in the age is gone by construction, and the age can be read all the better from
    # what was subtracted.
    assert abs(runs["CorrelationRemover"]["linear_r2"]) < 0.05
    assert runs["CorrelationRemover"]["nonlinear_r2"] > 0.9
    assert runs["inputs"]["nonlinear_r2"] > 0.25
    for method in adult.METHODS:
        choices = [row for row in found["choices"] if row["method"] == method]
        assert [row["choice"] for row in choices] == adult.QUICK.choices()
        assert [
            row["balance"] == max(other["balance"] for other in choices) for row in choices
        ] == [row["selected"] for row in choices]


def test_the_table_and_the_image(result: Path, tmp_path: Path) -> None:
    table = shown.table(result)
    assert all(name.partition("{")[0] in table for name in shown.NAMES.values())
    first, second = (shown.figure(result, folder).read_bytes() for folder in (tmp_path, tmp_path))
    assert b"</svg>" in first
    assert first == second


def test_what_is_seen() -> None:
    train, test = adult.read_sample()
    assert (len(train), len(test)) == (1000, 500)
    data = adult.splits(train, test, seed=0)
    assert not {"age", "income", "fnlwgt"} & {name.split("__")[-1] for name in data.train.inputs}
    # Prepared by the training rows alone: other test rows change nothing of them.
    np.testing.assert_allclose(data.train.inputs.mean(), 0, atol=1e-9)
    pd.testing.assert_frame_equal(
        data.train.inputs, adult.splits(train, test[:100], seed=0).train.inputs
    )
    rows = [set(part.inputs.index) for part in (data.train, data.validation)]
    assert not rows[0] & rows[1]
    assert rows[0] | rows[1] == set(train.index)
    assert data.reported.inputs.index.equals(test.index)
    # Choices are made on training rows, with others held out for the probes.
    choosing = adult.splits(train, None, seed=0)
    seen = [
        set(part.inputs.index) for part in (choosing.train, choosing.validation, choosing.reported)
    ]
    assert sum(map(len, seen)) == len(set.union(*seen)) == len(train)
    assert set.union(*seen) == set(train.index)


def test_decisions_by_age_group() -> None:
    """Features that say the age and nothing else: young people are never called rich, and the
    gap is between groups.
    """
    data = adult.splits(*adult.read_sample(), seed=0)
    features = [
        part.age.to_frame().to_numpy() > 44 for part in (data.train, data.validation, data.reported)
    ]
    rich = [
        adult.People(part.inputs, part.age, part.age > 44)
        for part in (data.train, data.validation, data.reported)
    ]
    found = adult.measure([2.0 * part for part in features], adult.Splits(*rich), seed=0)
    assert found["accuracy"] == found["balanced_accuracy"] == found["auc"] == 1
    assert found["demographic_parity"] == 1
    assert found["nonlinear_r2"] > 0.4


def test_missing_files_are_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        adult.main(["--data-dir", str(tmp_path)])
    assert stopped.value.code == 2
    assert "adult.data is not in" in capsys.readouterr().err


def test_files_as_published(tmp_path: Path) -> None:
    row = (
        "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White,"
        " Male, 2174, 0, 40, United-States, "
    )
    (tmp_path / "tabular").mkdir()
    (tmp_path / "tabular" / "adult.data").write_text(f"{row}<=50K\n{row}>50K\n\n")
    (tmp_path / "tabular" / "adult.test").write_text(f"|1x3 Cross validator\n{row}>50K.\n\n")
    train, test = adult.read(tmp_path)
    assert train["income"].tolist() == ["<=50K", ">50K"]
    assert (len(test), test["age"][0], test["workclass"][0]) == (1, 39, "State-gov")


def test_a_result_that_could_not_be_written_is_told_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        adult.main(["--sample", "--json", str(tmp_path / "nowhere" / "result.json")])
    assert "there is no folder" in capsys.readouterr().err
