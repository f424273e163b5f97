"""The demo: three encoders, one report of all of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from evaluation.made_up_scores import number, scores

from cclk.cli import demo as command
from cclk.evaluation import Evaluation, write_evaluation
from cclk.training.run_folder import RunFolder

LEAKS = {"untrained": 0.98, "digits-infonce": 0.99, "digits-fair": 0.16}


def pretend(run: RunFolder, *_: Any) -> Evaluation:
    """What an evaluation of this run could find, without the time it takes."""
    leaked = LEAKS[run.name.partition("-seed")[0]]
    evaluation = Evaluation(scores(0.9, color=number(leaked, leaked)))
    write_evaluation(run.folder, evaluation)
    return evaluation


@pytest.mark.parametrize("seeds", [1, 2])
def test_every_run_is_in_the_report(
    seeds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cclk.run.evaluate_run", pretend)
    runs = {
        name: (preset, {"steps": 2, **changes}) for name, (preset, changes) in command.RUNS.items()
    }
    monkeypatch.setattr(command, "RUNS", runs)
    command.demo(out=tmp_path, seeds=seeds)
    page = (tmp_path / "report.html").read_text()
    names = [
        name if seeds == 1 else f"{name}-seed{seed}" for name in LEAKS for seed in range(seeds)
    ]
    for name in names:
        assert f"</span>{name} <small>" in page, name
    mean = " (mean of 2 seeds)" if seeds == 2 else ""
    said = " ".join(capsys.readouterr().out.split())
    assert (
        f"digits-fair{mean} leaks less of the color (linear R² 0.99 → 0.16; worst R² 0.99 →"
        " 0.16)" in said
    )
    assert f"Compared with digits-infonce{mean}, untrained{mean} " in said
    assert set(json.loads((tmp_path / "demo.json").read_text())["evaluations"]) == set(LEAKS)
