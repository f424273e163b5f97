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
    Pool,
    RunResult,
    experiment,
    pending,
    reproduce,
)
from cclk_paper.experiments.registry import BENCHES
from cclk_paper.experiments.registry.removal import REVERSAL
from cclk_paper.experiments.results import experiments_in, finished_runs, key_of, read, write

from cclk.training.settings import load

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "results"
FILES = experiments_in(RESULTS)
MISSING = Path(__file__).with_name("missing_runs.json")
"""Experiment -> row, column and split -> the seeds that no committed result has."""


def test_there_are_committed_results() -> None:
    assert len(FILES) > 12


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_committed_results_are_read_and_written_as_they_were(path: Path, tmp_path: Path) -> None:
    result = read(path)
    write(tmp_path / path.name, result)
    assert json.loads((tmp_path / path.name).read_text()) == json.loads(path.read_text())
    assert read(tmp_path / path.name) == result


class IdlePool(Pool):
    """A pool that has no time for any run."""

    def run(self, *_: object) -> None:
        pass


@pytest.fixture
def no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some plans depend on files of the data folder."""
    monkeypatch.setenv("CCLK_DATA", str(tmp_path / "no-data"))


@pytest.mark.parametrize("name", EXPERIMENTS + BENCHES)
@pytest.mark.usefixtures("no_data")
def test_only_known_runs_are_missing(name: str) -> None:
    """The key of a run hashes the names of its settings: who renames a setting renames it in the
    committed results too, with the keys, or their runs are missing here.
    """
    missing: dict[str, list[int]] = {}
    for job in pending(experiment(name), "cpu", results_folder=RESULTS):
        missing.setdefault(f"{job.title} ({job.split})", []).append(job.seed)
    assert missing == json.loads(MISSING.read_text()).get(name, {})


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS + BENCHES if name != "weights"])
@pytest.mark.usefixtures("no_data")
def test_every_committed_run_is_found(name: str, tmp_path: Path) -> None:
    """A grid that has no time for any run writes the file that is committed: it finds every run by
    the key of a planned one, selects the same choices and drops nothing. Captions may be reworded:
    the column "optimiser" of fair-recipe is called "optimizer" since.
    """
    shutil.copytree(RESULTS, tmp_path / "results")
    reproduce(
        experiment(name),
        "cpu",
        IdlePool(1),
        results_folder=tmp_path / "results",
        runs_folder=tmp_path / "runs",
        command="none",
        quiet=True,
    )
    after, before = (
        json.loads((folder / f"{name}.json").read_text())
        for folder in (tmp_path / "results", RESULTS)
    )
    for cell in (*after["cells"], *before["cells"]):
        del cell["row"], cell["column"]
    assert after == before


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_committed_settings_are_settings_of_today(path: Path) -> None:
    """Also those of a sweep, whose keys hash its data, which no registry knows."""
    result = read(path)
    for cell in result.cells:
        for choice in cell.choices or ({},):
            load(overrides={**result.common, **cell.settings, **choice})


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
