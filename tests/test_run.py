"""The library API: `cclk.train`, `cclk.check` and the verbs of a `Run`."""

from __future__ import annotations

import csv
import inspect
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import cclk
from cclk.cli.main import main
from cclk.cli.setting_options import COMMON
from cclk.cli.table_options import TableOptions
from cclk.errors import RunError, SettingsError
from cclk.training.own_table import OwnTable
from cclk.training.settings import Settings, load

SHORT = {"steps": 3, "batch_size": 32, "projection": 8, "encoder_options": {"hidden": [8]}}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "people.csv"
    numbers = np.random.default_rng(0).normal(size=(120, 3))
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "c", "age", "site", "ill"])
        for row, values in enumerate(numbers):
            age = 40 + 10 * values[0] + row % 5
            writer.writerow([*values, age, "OB"[row % 2], int(values[1] > 0)])
    return path


@pytest.fixture(scope="module")
def run(table: Path, tmp_path_factory: pytest.TempPathFactory) -> cclk.Run:
    return cclk.train(
        table,
        features=["a", "b", "c"],
        condition=["age", "site"],
        label="ill",
        method="fair-cclk",
        overrides=SHORT,
        out=tmp_path_factory.mktemp("runs") / "people",
        quiet=True,
    )


def test_the_same_run_as_the_command_line(run: cclk.Run, table: Path, tmp_path: Path) -> None:
    options = ["--features", "a", "b", "c", "--condition", "age", "site", "--label", "ill"]
    options += ["--method", "fair-cclk", "--steps", "3", "--batch-size", "32"]
    options += ["--projection", "8", "--encoder-options", "{ hidden = [8] }"]
    out = tmp_path / "run"
    assert main(["train", "--data", str(table), *options, "--out", str(out), "--quiet"]) == 0
    assert cclk.Run(out).settings == run.settings
    for name, value in cclk.Run(out).network.state_dict().items():
        assert torch.equal(value, run.network.state_dict()[name])


def test_leakage_of_each_column_on_the_splits_of_the_run(run: cclk.Run, tmp_path: Path) -> None:
    measured = run.leakage()
    copy = cclk.Run(shutil.copytree(run.folder, tmp_path / "run"))
    evaluation = copy.evaluate(quiet=True)
    assert evaluation.leakage == measured, "there is one measure of leakage"
    splits = (run.dataset.train, run.dataset.validation, run.dataset.test)
    names = np.repeat(["train", "validation", "test"], [len(split) for split in splits])
    inputs = torch.cat([torch.as_tensor(split.x[:]) for split in splits])
    ages = torch.cat([split.condition[:, :1] for split in splits])
    expected = cclk.leakage(inputs, {"age": ages}, names, run.settings.seed)["age"]
    assert evaluation.baselines["inputs"]["age"] == expected
    untrained = evaluation.baselines["untrained"]["age"].worst
    assert untrained is not None
    assert untrained != evaluation.leakage["age"].worst
    assert copy.evaluate(bootstrap=5, quiet=True, baselines=False).baselines == {}
    assert list(measured) == ["age", "site"]
    assert measured.sizes["test"] == len(run.dataset.test)
    assert measured["site"].majority is not None


def test_a_run_and_its_verbs(run: cclk.Run, table: Path, tmp_path: Path) -> None:
    assert run.evaluation is None
    evaluation = run.evaluate(bootstrap=20, quiet=True)
    assert set(evaluation.encoder.leakage) == {"age", "site"}
    assert run.evaluation is not None
    assert run.evaluation.to_json() == evaluation.to_json()
    features = run.embed(table, quiet=True)
    assert features.shape == (120, run.encoder.width)
    np.testing.assert_array_equal(features, run.encoder.embed(table))
    written = run.embed(table, tmp_path / "features.npz", row_id="age", quiet=True)
    with np.load(written) as stored:
        np.testing.assert_array_equal(stored["features"], features)
    assert run.export("safetensors").name == "export.safetensors"
    page = run.report(tmp_path / "pages" / "report.html", beside=[run])
    assert f">{run.name} <small>" in page.read_text()
    assert run.resume(quiet=True).metrics() == run.metrics()
    assert json.loads((run.folder / "settings.json").read_text())["command"] == ""


def test_check_returns_findings(table: Path) -> None:
    findings = cclk.check(table, features=["a", "b"], condition="age", overrides=SHORT)
    assert {finding.level for finding in findings} <= {"fine", "warning"}
    assert any("effective neighbors" in finding.text for finding in findings)
    assert "training mlp will take about" in findings[-1].text


def test_settings_come_from_one_source(table: Path, tmp_path: Path) -> None:
    settings = load(preset="digits-fair", overrides={"steps": 1, "batch_size": 16})
    trained = cclk.train(settings=settings, out=tmp_path / "run", quiet=True)
    assert trained.settings == settings
    with pytest.raises(RunError, match="pass settings or other arguments"):
        cclk.train(settings=settings, method="infonce")
    with pytest.raises(RunError, match="nothing to train"):
        cclk.train()
    with pytest.raises(SettingsError, match="label is a column of a table"):
        cclk.train(label="ill", method="infonce")
    with pytest.raises(RunError, match="already contains a run"):
        cclk.train(settings=settings, out=tmp_path / "run", quiet=True)
    with pytest.raises(RunError, match="bootstrap is 0"):
        trained.evaluate(bootstrap=0)
    with pytest.raises(RunError, match="batch_size is 0"):
        trained.embed("colordigits", batch_size=0)


def test_one_set_of_names_and_defaults() -> None:
    """`train`, `check`, the table and the options of the command line agree."""
    train = inspect.signature(cclk.train).parameters
    check = inspect.signature(cclk.check).parameters
    own = inspect.signature(OwnTable).parameters
    options = inspect.signature(TableOptions).parameters
    assert list(own) == list(options)
    assert {name: item.default for name, item in own.items()} == {
        name: item.default for name, item in options.items()
    }
    assert list(check) == [name for name in train if name not in ("out", "command", "quiet")]
    for name, item in check.items():
        assert item.default == train[name].default
        assert name not in own or item.default == own[name].default
    assert set(COMMON) < set(check), "the settings on the help page of cclk train"
    assert Settings().method == "fair-cclk"
