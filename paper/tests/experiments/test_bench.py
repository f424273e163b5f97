"""`cclk-paper bench`: both stages on small data, as a user runs it."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cclk_paper.cli.main import main
from cclk_paper.experiments import job as jobs
from cclk_paper.experiments.registry import removal
from cclk_paper.experiments.results import read
from made_up_results import HerePool

from cclk.data.dataset import Dataset
from cclk.evaluation.panel import Splits
from cclk.training import loop as training
from cclk.training.settings import Settings

TINY = {
    "encoder": "lenet5", "augmentation": "none", "batch_size": 32, "steps": 2, "threads": 1,
}  # fmt: skip
ROWS = (removal.INFONCE, removal.PENALTY, removal.LEACE, removal.CORRELATION)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """One small dataset, few methods, one probe, and no worker processes."""
    monkeypatch.setattr(removal, "RECIPES", {"colordigits": removal.Recipe(TINY)})
    strengths = {removal.PENALTY: (1.0, 5.0), removal.CORRELATION: (1.0,)}
    monkeypatch.setattr(removal, "STRENGTHS", strengths)
    monkeypatch.setattr(removal, "SMOKE", {})
    monkeypatch.setattr(removal, "SMOKE_ROWS", 40)
    monkeypatch.setattr("cclk_paper.cli.bench.Pool", HerePool)

    def linear_probe(x: Splits, target: Splits, seed: int, quick: bool = False) -> dict[str, Any]:
        weight = np.linalg.lstsq(x.train, target.train, rcond=None)[0]
        return {"linear": x.test @ weight}

    module = importlib.import_module("cclk.evaluation.leakage")
    monkeypatch.setattr(module, "predict_by_panel", linear_probe)


@pytest.mark.usefixtures("tiny")
def test_both_stages_and_no_training_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[Path] = []
    train = training.train

    def counted(*arguments: object, **options: object) -> object:
        trained.append(Path(str(arguments[1])))
        return train(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(jobs.training, "train", counted)
    folders = ["--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")]
    command = ["bench", "removal", "--size", "smoke", *folders]
    assert main([*command, "--frontier-only", "--only", "InfoNCE"]) == 0
    result = read(tmp_path / "results" / "removal-smoke.json")
    assert {cell.row for cell in result.cells} == set(ROWS)
    measured = {cell.row for cell in result.cells if cell.tuning}
    assert measured == {removal.INFONCE, removal.LEACE}
    assert not any(cell.runs for cell in result.cells)
    assert "Not run yet: " in capsys.readouterr().out
    assert len(trained) == 1, "both measure the same encoder"

    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "colordigits" in shown
    result = read(tmp_path / "results" / "removal-smoke.json")
    assert result.command == "cclk-paper bench removal --size smoke"
    for cell in result.cells:
        (run,) = cell.tuning
        assert (run.split, run.seed) == ("validation", 0)
        assert set(run.measures) == {"accuracy", "worst_r2"}
        assert all(run.split == "test" for run in cell.runs)
    (reference,) = [cell for cell in result.cells if cell.row == removal.INFONCE]
    assert [run.seed for run in reference.runs] == [0]
    assert reference.runs[0].measures != reference.tuning[0].measures
    assert len(trained) == 2, "one more encoder, and none for the test split"

    content = json.loads((tmp_path / "results" / "removal-smoke.json").read_text())
    assert main([*command, "--quiet"]) == 0
    assert json.loads((tmp_path / "results" / "removal-smoke.json").read_text()) == content
    assert len(trained) == 2


@pytest.mark.usefixtures("tiny")
def test_jobs_of_the_same_data_load_them_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []
    load = jobs.load_dataset

    def counted(settings: Settings) -> Dataset:
        loaded.append(settings.data.dataset)
        return load(settings)

    monkeypatch.setattr(jobs, "_loaded", {})
    monkeypatch.setattr(jobs, "load_dataset", counted)
    folders = ["--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")]
    assert (
        main(["bench", "removal", "--size", "smoke", "--frontier-only", "--quiet", *folders]) == 0
    )
    assert loaded == ["colordigits"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fair"], "cclk: "),
        (["removal", "--size", "paper"], "cclk: "),
        (["removal", "--seeds", "0"], "cclk: --seeds is 0: it must be at least 1"),
        (["removal", "--only", "nobody"], "cclk: no cell of removal contains 'nobody': choose"),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    folders = ["--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")]
    assert main(["bench", *arguments, *folders]) == 2
    error = capsys.readouterr().err
    assert error.startswith(message)
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "cclk-paper bench removal --only adult" in shown
    assert "--frontier-only" in shown
