"""The library API: `cclk.train`, `cclk.check` and the verbs of a `Run`."""

from __future__ import annotations

import csv
import importlib
import inspect
import json
import shutil
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cclk
from cclk.cli.check import check as check_command
from cclk.cli.main import main
from cclk.cli.setting_options import COMMON
from cclk.cli.train import train as train_command
from cclk.errors import DataError, RunError, SettingsError
from cclk.evaluation import (
    ColumnLeakage,
    Estimate,
    Evaluation,
    FeatureScores,
    write_evaluation,
)
from cclk.training.resolve import resolve
from cclk.training.settings import TableSettings, load, setting_fields

SHORT = {"steps": 3, "batch_size": 32, "projection": 8, "encoder_options": {"hidden": [8]}}


def people(path: Path, rows: int) -> Path:
    numbers = np.random.default_rng(0).normal(size=(rows, 3))
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "c", "age", "site", "ill"])
        for row, values in enumerate(numbers):
            age = 40 + 10 * values[0] + row % 5
            writer.writerow([*values, age, "OB"[row % 2], int(values[1] > 0)])
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return people(tmp_path_factory.mktemp("table") / "people.csv", 120)


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
    stored, expected = (
        json.loads((folder / "settings.json").read_text()) for folder in (out, run.folder)
    )
    assert {**stored, "command": ""} == expected
    for name, value in cclk.Run(out).network.state_dict().items():
        assert torch.equal(value, run.network.state_dict()[name])


def test_the_same_findings_as_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = people(tmp_path / "people.csv", 400)
    findings = cclk.check(table, features=["a", "b"], condition="age", label="ill", steps=1)
    assert findings[-1].text.startswith("condition age: probes read R^2")
    options = ["--features", "a", "b", "--condition", "age", "--label", "ill", "--steps", "1"]
    assert main(["check", "--data", str(table), *options]) == 0
    lines = [line[3:] for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == len(findings)
    for line, finding in zip(lines, findings, strict=True):
        assert line == finding.text or "will take about" in line


def test_nothing_is_predicted_where_there_is_a_problem(table: Path) -> None:
    findings = cclk.check(table, features=["a", "b"], condition="age", batch_size=4000)
    assert findings[-1].level == "problem"


def test_the_same_outputs_as_the_command_line(
    run: cclk.Run, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = cclk.Run(shutil.copytree(run.folder, tmp_path / "a" / "people"))
    there = shutil.copytree(run.folder, tmp_path / "b" / "people")
    here.evaluate(bootstrap=20, quiet=True)
    assert main(["evaluate", str(there), "--bootstrap", "20", "--quiet"]) == 0
    here.embed(table, tmp_path / "a" / "features.csv", quiet=True)
    assert main(["embed", str(there), str(table), "--out", str(tmp_path / "b/features.csv")]) == 0
    here.export("safetensors")
    assert main(["export", str(there), "--format", "safetensors"]) == 0
    here.report(tmp_path / "a" / "report.html")
    assert main(["report", str(there), "--out", str(tmp_path / "b" / "report.html")]) == 0
    for name in ("people/evaluation.json", "features.csv", "people/export.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    pages = [(tmp_path / folder / "report.html").read_text() for folder in "ab"]
    assert pages[0].replace(str(here.folder), str(there)) == pages[1]


def test_commands_have_the_defaults_of_the_library(
    run: cclk.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("evaluate", "embed", "export", "report"):
        command = getattr(importlib.import_module(f"cclk.cli.{name}"), name)
        function = getattr(cclk.Run, name)
        options = inspect.signature(command).parameters
        for option, item in inspect.signature(function).parameters.items():
            if option in options and option not in ("out", "data"):
                assert options[option].default == item.default, (name, option)
    assert str(inspect.signature(cclk.Run.report).parameters["out"].default) == "report.html"

    def trained(**arguments: object) -> cclk.Run:
        passed.update(arguments)
        return run

    passed: dict[str, object] = {}
    monkeypatch.setattr("cclk.run.train", trained)
    assert main(["train", "--preset", "digits-fair", "--quiet"]) == 0
    defaults = inspect.signature(cclk.train).parameters
    assert passed.pop("preset") == "digits-fair"
    assert passed.pop("quiet") is True
    assert str(passed.pop("command")).startswith("cclk")
    assert passed.pop("overrides") == {}
    assert passed == {name: defaults[name].default for name in passed}


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
    assert evaluation.baselines["inputs"].leakage["age"] == expected
    untrained = evaluation.baselines["untrained"].leakage["age"].worst
    assert untrained is not None
    assert untrained != evaluation.leakage["age"].worst
    kept = copy.evaluate(bootstrap=5, quiet=True, baselines=False).baselines
    assert kept == evaluation.baselines, "measured before"
    assert copy.evaluation is not None
    assert copy.evaluation.baselines == kept
    (copy.folder / "evaluation.json").write_text("{")
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


def test_results_show_themselves(run: cclk.Run, tmp_path: Path) -> None:
    """At a prompt and in a notebook, where the last expression of a cell is shown."""
    copy = cclk.Run(shutil.copytree(run.folder, tmp_path / "a<b"))
    (copy.folder / "evaluation.json").unlink(missing_ok=True)
    assert repr(copy) == f"{copy.folder}: fair-cclk on people.csv\nnot evaluated"
    estimate = Estimate(0.25, 0.2, 0.3, "r2")
    measured = cclk.Leakage({"age": ColumnLeakage({"linear": estimate})})
    evaluation = Evaluation(FeatureScores(leakage=measured))
    write_evaluation(copy.folder, evaluation)
    assert repr(copy).endswith(str(evaluation))
    (copy.folder / "evaluation.json").write_text("{")
    assert "is not a valid evaluation" in repr(copy)
    (copy.folder / "encoder.safetensors").unlink()
    (copy.folder / "evaluation.json").unlink()
    assert repr(copy).endswith("not finished")
    diagnosis = cclk.diagnose(cclk.kernels.RBF(length_scale=0.1), torch.rand(20))
    for result in (copy, evaluation, measured, measured["age"], diagnosis):
        assert repr(result) == str(result)
        assert result._repr_html_() == f"<pre>{escape(str(result))}</pre>"
    assert "a&lt;b" in copy._repr_html_()
    assert str(measured["age"]) == "R² 0.25 (0.20 to 0.30), linear, the worst of 1 probes"
    assert str(ColumnLeakage()) == "constant"


def test_check_returns_findings(table: Path) -> None:
    findings = cclk.check(table, features=["a", "b"], condition="age", overrides=SHORT)
    assert {finding.level for finding in findings} <= {"fine", "warning"}
    assert any("effective neighbors" in finding.text for finding in findings)
    assert "training mlp will take about" in findings[-2].text
    assert "too few to forecast" in findings[-1].text


def test_settings_come_from_one_source(table: Path, tmp_path: Path) -> None:
    settings = load(preset="digits-fair", overrides={"steps": 1, "batch_size": 16})
    trained = cclk.train(settings=settings, out=tmp_path / "run", quiet=True)
    assert trained.settings == resolve(settings, trained.dataset)
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


def test_one_set_of_names() -> None:
    """`train`, `check`, the settings and the options of the command line agree."""
    train = inspect.signature(cclk.train).parameters
    check = inspect.signature(cclk.check).parameters
    own_of_train = ("out", "command", "quiet")
    assert list(check) == [name for name in train if name not in own_of_train]
    assert all(item == train[name] for name, item in check.items())
    sources = ("preset", "settings", "overrides", "trust_code")
    named = {name: item.default for name, item in check.items() if name not in sources}
    assert set(named.values()) == {None}, "the default is that of the settings"
    assert set(named) == {*TableSettings.model_fields, *COMMON, "temperature", "epochs"}
    for command in (train_command, check_command):
        options = inspect.signature(command).parameters
        assert {name for name, _, _ in setting_fields()} < set(options)
    with pytest.raises(TypeError, match="unexpected keyword argument 'out'"):
        cclk.check(dataset="colordigits", out="runs")


def test_nothing_that_was_asked_for_is_ignored(table: Path, tmp_path: Path) -> None:
    columns: dict[str, Any] = {"features": ["a", "b"], "condition": "age"}
    with pytest.raises(SettingsError, match="epochs and steps both set the length"):
        cclk.check(table, **columns, steps=2, epochs=1)
    with pytest.raises(SettingsError, match="gray is for images"):
        cclk.check(table, **columns, gray=True)
    with pytest.raises(SettingsError, match="image_size is for images"):
        cclk.check(dataset="colordigits", image_size=64)
    lines = table.read_text().splitlines()
    empty = tmp_path / "empty.csv"
    rows = (line.split(",") for line in lines[1:])
    empty.write_text("\n".join(["a,b,age,ill", *(f"{row[0]},,{row[3]},1" for row in rows)]))
    with pytest.raises(DataError, match="column 'b' has no values in the training rows"):
        cclk.check(empty, **columns, missing="impute")
    findings = cclk.check(empty, features=["a"], condition="age", label="ill", steps=1)
    assert any("the label has only one class (1)" in finding.text for finding in findings)
