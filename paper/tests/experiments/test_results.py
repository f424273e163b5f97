"""Committed results: they are read to the last digit, written with the same keys, and found
finished.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from cclk_paper.cli.main import main
from cclk_paper.experiments import (
    EXPERIMENTS,
    CellResult,
    ExperimentResult,
    RunResult,
    experiment,
    pending,
)
from cclk_paper.experiments.registry import BENCHES
from cclk_paper.experiments.registry.removal import REVERSAL
from cclk_paper.experiments.results import experiments_in, finished_runs, key_of, read, write

from cclk.training.settings import load

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "results"
FILES = experiments_in(RESULTS)


def test_there_are_committed_results() -> None:
    assert len(FILES) > 12


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_committed_results_are_read_and_written_as_they_were(path: Path, tmp_path: Path) -> None:
    result = read(path)
    write(tmp_path / path.name, result)
    assert json.loads((tmp_path / path.name).read_text()) == json.loads(path.read_text())
    assert read(tmp_path / path.name) == result


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_committed_runs_are_finished(name: str) -> None:
    """Only what a committed result lacks is still to be run."""
    plan = experiment(name).plan("cpu")
    missing = pending(experiment(name), "cpu", results_folder=RESULTS)
    finished = finished_runs(RESULTS)
    for job in missing:  # another experiment may have measured less of the same run
        assert job.key not in finished or set(job.measures) - set(finished[job.key].measures)
    assert bool(missing) == any(
        len(cell.runs) < plan.column_seeds.get(cell.column, plan.seeds)
        for cell in read(RESULTS / f"{name}.json").cells
    )


def test_committed_runs_of_the_benchmark_are_finished() -> None:
    """Every committed run is one of the plan's, and none of them is to be run again."""
    bench, finished = experiment("removal"), finished_runs(RESULTS)
    missing = {job.key for job in pending(bench, "cpu", results_folder=RESULTS)}
    assert not missing & finished.keys()
    planned = [(cell.row, cell.column, cell.x, cell.settings) for cell in bench.plan("cpu").cells]
    for cell in read(RESULTS / "removal.json").cells:
        assert (cell.row, cell.column, cell.x, cell.settings) in planned


def test_runs_made_with_a_fault_are_marked() -> None:
    """Gradient reversal of several columns was divided by their number twice; others are not
    concerned.
    """
    for cell in read(RESULTS / "removal.json").cells:
        several = cell.column in ("crime", "cells")
        for run in (*cell.tuning, *cell.runs):
            assert bool(run.fault) == (several and cell.row == REVERSAL), (cell.row, cell.column)


@pytest.mark.parametrize("name", EXPERIMENTS + BENCHES)
def test_committed_results_name_their_place_in_the_paper(name: str) -> None:
    assert read(RESULTS / f"{name}.json").source == experiment(name).source


@pytest.mark.parametrize("name", ["fair", "insufficient"])
def test_a_finished_experiment_runs_nothing_and_keeps_its_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "cclk_paper.experiments.job.run", lambda *_: pytest.fail("a finished run was run again")
    )
    shutil.copytree(RESULTS, tmp_path / "results")
    folders = ["--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")]
    only = ["--only", "our recipe"] if name == "fair" else []
    assert (
        main(["reproduce", name, "--size", "cpu", "--quiet", "--workers", "1", *only, *folders])
        == 0
    )
    after, before = (
        json.loads((folder / f"{name}.json").read_text())
        for folder in (tmp_path / "results", RESULTS)
    )
    assert after == before
    assert not (tmp_path / "runs").exists()


def test_runs_measured_by_several_experiments_have_all_their_measures(tmp_path: Path) -> None:
    common = {
        "key": "k",
        "seed": 0,
        "split": "test",
        "version": "0",
        "train_seconds": 1.0,
        "measure_seconds": 1.0,
    }
    for name, run in (
        ("a", RunResult(**common, measures={"accuracy": 0.5})),
        ("b", RunResult(**common, measures={"knn": 0.4})),
    ):  # type: ignore[arg-type]
        result = ExperimentResult(
            experiment=name, size="cpu", title="", source="", command="", version="0",
            cells=(CellResult(row="r", column="c", settings={}, runs=(run,)),),
        )  # fmt: skip
        write(tmp_path / f"{name}.json", result)
    assert finished_runs(tmp_path)["k"].measures == {"accuracy": 0.5, "knn": 0.4}


def test_keys_of_settings_do_not_change() -> None:
    """They identify finished runs; these were computed when the first results were committed."""
    cell = read(RESULTS / "fair.json").cells[0]
    common = read(RESULTS / "fair.json").common
    settings = {**common, **cell.settings, "holdout": 0}
    assert [run.key for run in cell.runs] == [
        key_of(settings, "test", run.seed) for run in cell.runs
    ]
    assert load(overrides=settings).method == "infonce"
