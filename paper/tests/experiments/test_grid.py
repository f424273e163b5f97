"""A grid: what is in its file, what is run and what is not, how it chooses, and how it ends when
it is stopped.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cclk_paper.cli.main import main
from cclk_paper.experiments import Cell, Experiment, ExperimentResult, Pool, reproduce
from cclk_paper.experiments import job as jobs
from cclk_paper.experiments import pool as pools
from cclk_paper.experiments.grid import TUNING_SEEDS
from cclk_paper.experiments.job import Job
from cclk_paper.experiments.markdown import markdown
from cclk_paper.experiments.plan import Size, WeightsFigure, score
from cclk_paper.experiments.results import RunResult, key_of, read
from faults import children, command_of, is_running
from made_up_results import TINY, FakePool, HerePool, Measures, made, no_display

import cclk
from cclk.errors import RunError
from cclk.training.run_folder import RunFolder

GOOD: Measures = {"accuracy": 0.5, "knn": 0.25}
TWO_CELLS = (
    Cell("InfoNCE", "digits", {"method": "infonce"}, paper={"accuracy": (77.8, 1.5)}),
    Cell("Fair", "digits", {"method": "fair-cclk"}),
)


def go(experiment: Experiment, pool: Pool, folder: Path, **options: Any) -> ExperimentResult:
    given: dict[str, Any] = {
        "results_folder": folder / "results",
        "runs_folder": folder / "runs",
        "command": "cclk test",
        "quiet": True,
    }
    return reproduce(experiment, "cpu", pool, **(given | options))


def nothing_is_run(job: Job) -> Measures:
    pytest.fail(f"{job.title} was run again")


WRONG = (Cell("Fair", "digits", {"batch_size": 2000}), Cell("Later", "digits", {}))


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ExperimentResult, ValueError]:
    """In one process: two cells of two seeds, really trained, and then a grid that cannot be."""
    folder = tmp_path_factory.mktemp("real")
    pool = Pool(1)
    pool.threads = 1  # also where there are more cores: tests run side by side
    with pool:
        content = go(made(*TWO_CELLS), pool, folder)
        with pytest.raises(ValueError, match="seed") as raised:
            go(made(*WRONG, name="wrong", seeds=1), pool, folder / "wrong")
    return folder, content, raised.value


@pytest.fixture
def real(worked: tuple[Path, ExperimentResult, ValueError]) -> tuple[Path, ExperimentResult]:
    return worked[:2]


@pytest.fixture
def copied(real: tuple[Path, ExperimentResult], tmp_path: Path) -> Path:
    return Path(shutil.copytree(real[0], tmp_path / "copy"))


def test_the_file_of_a_real_grid(real: tuple[Path, ExperimentResult]) -> None:
    folder, result = real
    assert [path.name for path in (folder / "results").iterdir()] == ["made-up.json"]
    assert read(folder / "results" / "made-up.json") == result
    content = json.loads((folder / "results" / "made-up.json").read_text())
    about = {
        name: content[name]
        for name in (
            "experiment",
            "size",
            "title",
            "source",
            "command",
            "version",
            "seeds",
            "split",
            "measures",
        )
    }
    assert about == {
        "experiment": "made-up",
        "size": "cpu",
        "title": "Made up",
        "source": "nowhere",
        "command": "cclk test",
        "version": cclk.__version__,
        "seeds": [0, 1],
        "split": "test",
        "measures": ["accuracy", "knn"],
    }
    assert content["common"] == TINY
    assert content["process_seconds"] >= 0
    first, second = content["cells"]
    assert (first["row"], first["column"], first["settings"], first["paper"]) == (
        "InfoNCE",
        "digits",
        {"method": "infonce"},
        {"accuracy": [77.8, 1.5]},
    )
    assert (
        second["row"],
        second["paper"],
        second["choices"],
        second["selected"],
        second["tuning"],
    ) == ("Fair", {}, [], None, [])
    for cell, method in ((first, "infonce"), (second, "fair-cclk")):
        assert [run["seed"] for run in cell["runs"]] == [0, 1]
        for run in cell["runs"]:
            assert run["key"] == key_of(
                {**TINY, "method": method, "holdout": 0}, "test", run["seed"]
            )
            assert run["version"] == cclk.__version__
            assert set(run["measures"]) == {"accuracy", "knn"}
            assert all(0 <= value <= 1 for value in run["measures"].values())
            assert {"train_seconds", "measure_seconds"} <= set(run)
            trained = {**TINY, "method": method, "holdout": 0}
            name = Job("", trained, run["seed"], "test", ()).folder
            settings = json.loads(
                (folder / "runs" / "made-up-cpu" / name / "settings.json").read_text()
            )
            assert (settings["seed"], settings["method"], settings["train"]["steps"]) == (
                run["seed"],
                method,
                2,
            )
    measured = [
        tuple(run["measures"].values()) for cell in content["cells"] for run in cell["runs"]
    ]
    assert len(set(measured)) == 4


def test_a_finished_grid_runs_nothing(copied: Path, real: tuple[Path, ExperimentResult]) -> None:
    assert go(made(*TWO_CELLS), FakePool(nothing_is_run), copied) == real[1]


def test_a_missing_run_is_run_alone_and_comes_out_the_same(
    copied: Path, real: tuple[Path, ExperimentResult], tmp_path: Path
) -> None:
    path = copied / "results" / "made-up.json"
    content = json.loads(path.read_text())
    gone = content["cells"][1]["runs"].pop(0)
    path.write_text(json.dumps(content))
    pool = FakePool(lambda job: GOOD)
    found = go(made(*TWO_CELLS), pool, copied)
    assert [(job.key, job.seed, job.title) for job in pool.ran] == [
        (gone["key"], 0, "Fair, digits")
    ]
    assert [run.measures for run in found.cells[1].runs] == [
        GOOD,
        real[1].cells[1].runs[1].measures,
    ]
    # Trained again from nothing, and taken up from its finished folder.
    (job,) = pool.ran
    for folder in (tmp_path / "elsewhere", copied / "runs" / "made-up-cpu"):
        again = jobs.run(job, folder)
        assert again is not None
        assert again.measures == gone["measures"]


def test_more_seeds_add_only_the_new_ones(
    copied: Path, real: tuple[Path, ExperimentResult]
) -> None:
    pool = FakePool(lambda job: GOOD)
    found = go(made(*TWO_CELLS), pool, copied, seeds=3)
    assert [(job.title, job.seed) for job in pool.ran] == [
        ("InfoNCE, digits", 2),
        ("Fair, digits", 2),
    ]
    assert found.seeds == (0, 1, 2)
    assert [cell.runs[:2] for cell in found.cells] == [cell.runs for cell in real[1].cells]
    assert [cell.runs[2].measures for cell in found.cells] == [GOOD, GOOD]


def test_only_runs_some_cells_and_keeps_the_others(tmp_path: Path) -> None:
    pool = FakePool(lambda job: GOOD)
    found = go(made(*TWO_CELLS), pool, tmp_path, only="Fair, dig")
    assert {job.title for job in pool.ran} == {"Fair, digits"}
    assert [len(cell.runs) for cell in found.cells] == [0, 2]
    found = go(made(*TWO_CELLS), pool, tmp_path, only="InfoNCE")
    assert [len(cell.runs) for cell in found.cells] == [2, 2]
    assert len(pool.ran) == 4
    with pytest.raises(
        ValueError,
        match=(
            r"^no cell of made-up contains 'nobody': choose from InfoNCE, digits; Fair, digits$"
        ),
    ):
        go(made(*TWO_CELLS), pool, tmp_path, only="nobody")


def test_runs_of_other_experiments_are_taken_over(
    copied: Path, real: tuple[Path, ExperimentResult]
) -> None:
    pool = FakePool(lambda job: GOOD)
    other = made(
        Cell("plain", "elsewhere", {"method": "infonce", "steps": 2}),
        Cell("new", "elsewhere", {"lr": 1.0}),
        name="other",
    )
    found = go(other, pool, copied)
    assert {job.title for job in pool.ran} == {"new, elsewhere"}
    assert found.cells[0].runs == real[1].cells[0].runs


def test_a_run_that_was_measured_less_is_measured_again_and_then_no_more(copied: Path) -> None:
    """Two files share runs, and one has fewer measures: neither makes the other run for ever."""
    more = made(*TWO_CELLS, name="a-later-one", measures=("accuracy", "knn", "linear_r2"))
    pool = FakePool(lambda job: GOOD | {"linear_r2": 0.1})
    found = go(more, pool, copied)
    assert len(pool.ran) == 4
    assert all(run.measures["linear_r2"] == 0.1 for cell in found.cells for run in cell.runs)
    go(more, FakePool(nothing_is_run), copied)
    go(made(*TWO_CELLS), FakePool(nothing_is_run), copied)
    go(more, FakePool(nothing_is_run), copied)


def test_where_data_lie_does_not_matter_and_all_else_does(tmp_path: Path) -> None:
    settings = {"method": "infonce", "lr": 0.1}
    key = key_of(settings, "test", 0)
    assert key_of({"lr": 0.1, "method": "infonce", "data_dir": "/somewhere"}, "test", 0) == key
    others = [
        ({**settings, "lr": 0.2}, "test", 0),
        (settings, "validation", 0),
        (settings, "test", 1),
        ({"method": "infonce"}, "test", 0),
    ]
    assert len({key, *(key_of(*other) for other in others)}) == 5
    pool = FakePool(lambda job: GOOD)
    first = go(made(*TWO_CELLS), pool, tmp_path, overrides={"data_dir": "/here"})
    assert all(job.settings["data_dir"] == "/here" for job in pool.ran)
    assert "/here" not in json.dumps(first.to_json())
    go(made(*TWO_CELLS), FakePool(nothing_is_run), tmp_path, overrides={"data_dir": "/there"})


def test_equal_cells_are_run_once(tmp_path: Path) -> None:
    pool = FakePool(lambda job: GOOD)
    found = go(
        made(
            Cell("a", "c", {"lr": 0.1}, x=1.0),
            Cell("a", "c", {"lr": 0.1}, x=2.0),
            axis="x",
            seeds=1,
        ),
        pool,
        tmp_path,
    )
    assert len(pool.ran) == 1
    assert [len(cell.runs) for cell in found.cells] == [1, 1]
    assert [cell.x for cell in found.cells] == [1.0, 2.0]
    assert found.process_seconds == 2, "1.5 seconds, told once"


CHOICES = ({"lr": 0.1}, {"lr": 0.2}, {"lr": 0.3})
TUNED = (
    Cell("leader", "digits", {"method": "fair-cclk"}, choices=CHOICES),
    Cell("follower", "digits", {"method": "fair-infonce"}, tuned_like="leader"),
    Cell("leader", "elsewhere", {"method": "infonce"}, choices=CHOICES),
    Cell("plain", "digits", {"method": "infonce", "temperature": 0.5}),
)


def planned(job: Job) -> Measures:
    """The best is 0.2 for fair-cclk, by accuracy less leak; 0.3 has the best accuracy. For
    infonce 0.1 and 0.3 are equally good.
    """
    by_lr = {
        "fair-cclk": {0.1: (0.6, 0.1), 0.2: (0.8, 0.1), 0.3: (0.9, 0.8)},
        "infonce": {0.1: (0.7, 0.2), 0.2: (0.5, 0.1), 0.3: (0.7, 0.2)},
    }
    accuracy, leak = by_lr.get(str(job.settings["method"]), {}).get(
        job.settings.get("lr"), (0.5, 0.5)
    )  # type: ignore[call-overload]
    return {"accuracy": accuracy, "knn": 0.0, "nonlinear_r2": leak}


def test_score() -> None:
    assert score({"accuracy": 0.9}) == 0.9
    assert score({"accuracy": 0.9, "nonlinear_r2": 0.25}) == pytest.approx(0.65)
    assert score({"accuracy": 0.9, "nonlinear_r2": -3.0}) == 0.9, "worse than the mean is no merit"


def test_choices_are_made_on_validation_and_then_hold(tmp_path: Path) -> None:
    experiment = made(
        *TUNED, measures=("accuracy", "knn", "nonlinear_r2"), common=TINY | {"holdout": 100}
    )
    pool = FakePool(planned)
    found = go(experiment, pool, tmp_path)
    tried = [job for job in pool.ran if job.choice is not None]
    assert pool.ran[: len(tried)] == tried, "all choices first"
    assert Counter((job.settings["method"], job.settings["lr"]) for job in tried) == {
        (method, lr): TUNING_SEEDS for method in ("fair-cclk", "infonce") for lr in (0.1, 0.2, 0.3)
    }
    assert {(job.split, job.settings["holdout"]) for job in tried} == {("validation", 100)}
    assert tried[1].title == "leader, digits, choice 2 of 3"

    final = {(job.title, job.seed): job for job in pool.ran[len(tried) :]}
    assert len(final) == 8
    assert all(job.split == "test" for job in final.values())
    for seed in (0, 1):
        assert final["leader, digits", seed].settings == {
            **TINY,
            "method": "fair-cclk",
            "lr": 0.2,
            "holdout": 0,
        }
        assert final["follower, digits", seed].settings == {
            **TINY,
            "method": "fair-infonce",
            "lr": 0.2,
            "holdout": 0,
        }
        assert final["leader, elsewhere", seed].settings == {
            **TINY,
            "method": "infonce",
            "lr": 0.1,
            "holdout": 0,
        }, "the first of equals"
        assert "lr" not in final["plain, digits", seed].settings

    leader, follower, elsewhere, plain = found.cells
    assert [cell.selected for cell in found.cells] == [1, None, 0, None]
    assert leader.choices == CHOICES
    assert [(run.choice, run.split) for run in leader.tuning] == [
        (0, "validation"),
        (1, "validation"),
        (2, "validation"),
    ]
    assert follower.tuned_like == "leader"
    assert (follower.tuning, plain.tuning) == ((), ())
    assert all(
        run.choice is None and run.split == "test"
        for cell in (leader, follower, elsewhere, plain)
        for run in cell.runs
    )
    assert go(experiment, FakePool(nothing_is_run), tmp_path) == found


def test_a_study_stays_on_validation(tmp_path: Path) -> None:
    """Nothing is given back to training, and the run that was chosen is not run again."""
    pool = FakePool(planned)
    found = go(
        made(TUNED[0], split="validation", seeds=1, common=TINY | {"holdout": 100}), pool, tmp_path
    )
    assert {(job.split, job.settings["holdout"]) for job in pool.ran} == {("validation", 100)}
    assert len(pool.ran) == 3
    assert found.cells[0].runs[0].measures["accuracy"] == 0.9, (
        "this plan asks for no leak, so the most accurate"
    )


def test_a_single_choice_is_no_choice(tmp_path: Path) -> None:
    """It holds, for its followers too, and nothing is tried for it."""
    pool = FakePool(planned)
    leader = Cell("leader", "digits", {"method": "fair-cclk"}, choices=({"lr": 0.7},))
    found = go(made(leader, TUNED[1]), pool, tmp_path)
    assert [(job.choice, job.split, job.settings["lr"]) for job in pool.ran] == [
        (None, "test", 0.7)
    ] * 4
    assert (found.cells[0].selected, found.cells[0].tuning) == (0, ())
    assert [len(cell.runs) for cell in found.cells] == [2, 2]


def test_only_a_follower_is_tuned_like_its_leader_all_the_same(tmp_path: Path) -> None:
    pool = FakePool(planned)
    found = go(
        made(*TUNED, measures=("accuracy", "knn", "nonlinear_r2")), pool, tmp_path, only="follower"
    )
    assert [job.title for job in pool.ran if job.choice is None] == ["follower, digits"] * 2
    assert [job.settings["lr"] for job in pool.ran] == [0.1, 0.2, 0.3, 0.2, 0.2]
    assert [len(cell.runs) for cell in found.cells] == [0, 2, 0, 0]
    assert [cell.selected for cell in found.cells] == [1, None, None, None]


def test_nothing_is_told_of_a_cell_whose_choice_is_still_open(tmp_path: Path) -> None:
    """Though a run with just the cell's own settings is known."""
    plain = made(
        Cell("leader", "x", {"method": "fair-cclk", "holdout": 0}),
        Cell("f", "x", {"method": "fair-infonce", "holdout": 0}),
        name="p",
    )
    pool = FakePool(planned)
    go(plain, pool, tmp_path)
    assert len(pool.ran) == 4
    found = go(made(*TUNED), pool, tmp_path, only="plain")
    assert [len(cell.runs) for cell in found.cells] == [0, 0, 0, 2]


def test_a_watched_run_needs_its_curve(tmp_path: Path) -> None:
    """Numbers alone, from an experiment that did not watch, are not enough; what is watched on
    stays held out.
    """
    cell = Cell("leader", "digits", {"method": "fair-cclk"}, choices=CHOICES)
    pool = FakePool(planned)
    go(made(cell, common=TINY | {"holdout": 100}, watch=5), pool, tmp_path)
    assert {job.settings["holdout"] for job in pool.ran} == {100}
    assert [job.watch for job in pool.ran] == [0, 0, 0, 5, 5]
    went = len(pool.ran)
    go(made(cell, common=TINY | {"holdout": 100}, watch=5), pool, tmp_path)
    assert [job.watch for job in pool.ran[went:]] == [5, 5]


def test_a_real_watched_run_has_a_curve_to_its_last_step(tmp_path: Path) -> None:
    job = Job(
        "a", {**TINY, "method": "infonce", "steps": 3}, 0, "test", ("accuracy", "knn"), watch=2
    )
    found = jobs.run(job, tmp_path)
    assert found is not None
    assert found.curve is not None
    assert [round(point.epoch * (1200 // 32)) for point in found.curve] == [2, 3]
    again = jobs.run(job, tmp_path)
    assert again is not None
    assert again.curve == found.curve


def test_what_is_wrong_with_a_cell_is_one_line_that_names_it(
    worked: tuple[Path, ExperimentResult, ValueError], tmp_path: Path
) -> None:
    """In training as in measuring, and through a real process."""
    told = str(worked[2])
    assert re.match(r"Fair, digits, seed 0: .*2000", told)
    assert "\n" not in told
    unheld = Job(
        "Fair, digits", {**TINY, "holdout": 0, "method": "infonce"}, 1, "validation", ("accuracy",)
    )
    with pytest.raises(
        ValueError, match=r"^Fair, digits, seed 1: the validation split of colordigits is empty"
    ):
        jobs.run(unheld, tmp_path)


def test_a_damaged_results_file_is_told_before_anything_runs(tmp_path: Path) -> None:
    path = tmp_path / "results" / "made-up.json"
    path.parent.mkdir()
    path.write_text('{"experiment": "made-up", "cel')
    with pytest.raises(
        ValueError, match=r"made-up\.json is not a valid .* \(.*\): repair it, or delete it"
    ) as raised:
        go(made(*TWO_CELLS), FakePool(nothing_is_run), tmp_path)
    assert "\n" not in str(raised.value)
    assert path.read_text() == '{"experiment": "made-up", "cel'


def test_a_image_needs_no_runs(tmp_path: Path) -> None:
    def figure(size: Size, data_dir: Path | None) -> WeightsFigure:
        return WeightsFigure(
            f"{size} in {data_dir}", "RBF(2)", [[1, 2, 3]], {"K": [[1.0]]}, {"W": 1.5}
        )

    experiment = Experiment(
        "drawn", "Drawn", "nowhere", lambda size: pytest.fail("planned"), figure=figure
    )
    found = go(experiment, FakePool(nothing_is_run), tmp_path)
    assert found.figure == figure("cpu", None)
    assert read(tmp_path / "results" / "drawn.json") == found
    tree = json.loads((tmp_path / "results" / "drawn.json").read_text())
    assert list(tree) == [
        "experiment",
        "size",
        "title",
        "source",
        "command",
        "version",
        "torch",
        "cores",
        "figure",
    ]
    elsewhere = go(experiment, FakePool(nothing_is_run), tmp_path, overrides={"data_dir": "/data"})
    assert elsewhere.figure == figure("cpu", Path("/data"))


def test_a_job_that_cannot_be_done_does_not_keep_the_others_from_it(tmp_path: Path) -> None:
    def answer(job: Job) -> Measures:
        if "Fair" in job.title:
            raise ValueError(f"{job.title}, seed {job.seed}: it has diverged")
        return GOOD

    class Failing(FakePool):
        def _submit(self, job: Job, folder: Path) -> Future[RunResult | None]:
            future: Future[RunResult | None] = Future()
            try:
                future.set_result(self.found(job, folder))
            except ValueError as error:
                future.set_exception(error)
            return future

    told = (
        r"^Fair, digits, seed 0: it has diverged \(and 1 more of 4 runs failed; the others are"
        r" kept\)$"
    )
    with pytest.raises(ValueError, match=told):
        go(made(*reversed(TWO_CELLS)), Failing(answer), tmp_path)
    kept = read(tmp_path / "results" / "made-up.json").cells
    assert {cell.row: len(cell.runs) for cell in kept} == {"Fair": 0, "InfoNCE": 2}


def test_one_process_writes_results_and_runs(tmp_path: Path) -> None:
    experiment, refused = made(*TWO_CELLS), []

    def answer(job: Job) -> Measures:
        for folders in ({}, {"results_folder": tmp_path / "others"}, {"runs_folder": tmp_path}):
            with pytest.raises(
                RunError, match=f"is being written by process {os.getpid()} on"
            ) as e:
                go(experiment, FakePool(nothing_is_run), tmp_path, **folders)
            refused.append(str(e.value).partition(" is being")[0])
        go(made(*TWO_CELLS, name="another"), FakePool(lambda job: GOOD), tmp_path)
        return GOOD

    result = go(experiment, FakePool(answer), tmp_path, seeds=1, only="Fair")
    file, runs = tmp_path / "results" / "made-up.json", tmp_path / "runs" / "made-up-cpu"
    assert refused == [str(file), str(runs), str(file)]
    assert [len(cell.runs) for cell in result.cells] == [1, 1], "also those of the other experiment"
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith("lock")]


def test_what_cannot_be_kept_stops_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Running jobs are saved; to finish them could take hours."""
    stopped: list[bool] = []
    monkeypatch.setattr(pools, "_terminate_workers", lambda: stopped.append(True))
    with Pool(1):
        pass
    assert not stopped
    with pytest.raises(OSError, match="could not be written"), Pool(1):
        raise OSError("results.json could not be written")
    assert stopped


def test_a_column_with_more_seeds(tmp_path: Path) -> None:
    cells = (Cell("Fair", "few", {"seed": 0}), Cell("Fair", "many", {"temperature": 0.3}))
    experiment = made(*cells, column_seeds={"many": 5})
    found = go(experiment, FakePool(lambda job: GOOD), tmp_path)
    assert [len(cell.runs) for cell in found.cells] == [2, 5]
    assert (found.seeds, found.column_seeds) == ((0, 1), {"many": 5})
    assert read(tmp_path / "results" / "made-up.json") == found
    assert "2 seeds (5 for many)" in markdown(found)
    assert "of 5 seeds" not in markdown(found)
    assert go(experiment, FakePool(nothing_is_run), tmp_path, seeds=1) == found
    more = go(experiment, FakePool(lambda job: GOOD), tmp_path, seeds=7)
    assert [len(cell.runs) for cell in more.cells] == [7, 7]
    assert "7 seeds, mean" in markdown(more)


def test_a_command_that_adds_nothing_does_not_sign(tmp_path: Path) -> None:
    experiment = made(*TWO_CELLS)
    go(experiment, FakePool(lambda job: GOOD), tmp_path, command="first", seeds=3)
    path = tmp_path / "results" / "made-up.json"
    path.write_text(
        path.read_text().replace(f'"version": "{cclk.__version__}"', '"version": "old"', 1)
    )
    for seeds in (1, 3):
        found = go(experiment, FakePool(nothing_is_run), tmp_path, command="second", seeds=seeds)
        assert (found.command, found.version, found.seeds) == ("first", "old", (0, 1, 2))
    found = go(experiment, FakePool(lambda job: GOOD), tmp_path, command="third", seeds=4)
    assert (found.command, found.version, found.seeds) == ("third", cclk.__version__, (0, 1, 2, 3))


def test_other_data_are_other_runs(tmp_path: Path) -> None:
    for name in ("aa", "bb"):
        pool = FakePool(lambda job: GOOD)
        go(made(*TWO_CELLS, data=name), pool, tmp_path)
        assert len(pool.ran) == 4
        go(made(*TWO_CELLS, data=name), FakePool(nothing_is_run), tmp_path)


def test_a_run_goes_on_where_its_data_are_now(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    new.mkdir()
    settings = {**TINY, "method": "infonce"}
    job = Job("a", {**settings, "data_dir": str(old)}, 0, "test", ("accuracy",))
    moved = Job("a", {**settings, "data_dir": str(new)}, 0, "test", ("accuracy",))
    assert job.key == moved.key
    assert jobs.run(job, tmp_path / "runs") is not None
    assert jobs.run(moved, tmp_path / "runs") is not None
    assert RunFolder(tmp_path / "runs" / job.folder).settings.data.data_dir == new


def test_a_signal_between_runs_hands_out_no_more(tmp_path: Path) -> None:
    from cclk.errors import Stopped

    def answer(job: Job) -> Measures:
        if job.seed == 1:
            signal.raise_signal(signal.SIGTERM)
        return GOOD

    pool = FakePool(answer)
    before = signal.getsignal(signal.SIGTERM)
    todo = [Job("a", {"method": "infonce"}, seed, "test", ("accuracy", "knn")) for seed in range(4)]
    kept = []
    with no_display() as display, pytest.raises(Stopped, match="the same command to resume"):
        pool.run(todo, tmp_path, lambda job, found: kept.append(job.seed), display)
    assert kept == [0, 1], "what is finished is kept"
    assert signal.getsignal(signal.SIGTERM) == before


def test_ctrl_c_in_any_part_of_a_run_stops_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its training, in it, and while it is measured; handlers are as before then, and the
    run can go on.
    """
    job = Job("a", {**TINY, "method": "infonce", "steps": 3}, 0, "test", ("accuracy", "knn"))
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    def struck(*_: Any, **__: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        time.sleep(0)
        pytest.fail("went on")

    for name in ("load", "measure"):
        with monkeypatch.context() as patched:
            patched.setattr(jobs, name, struck)
            assert jobs.run(job, tmp_path) is None
    with monkeypatch.context() as patched:
        patched.setattr(jobs, "_stopped", [signal.SIGINT])
        assert jobs.run(job, tmp_path / "new") is None
    assert not (tmp_path / "new").exists()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert jobs.run(job, tmp_path) is not None


@contextmanager
def one_core() -> Iterator[None]:
    """What is started here has one core, hence one thread."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def workers_of(process: int) -> list[int]:
    return [child for child in children(process) if "spawn_main" in command_of(child)]


@pytest.mark.parametrize("moment", ["start", "work", "kill", "kill -9"])
def test_ctrl_c_on_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Exit 128 + signal and one line, nothing half-written, and the same command finishes what was
    begun. A command that is killed takes its workers along.
    """
    begin = [
        sys.executable,
        "-m",
        "cclk_paper",
        "reproduce",
        "insufficient",
        "--size",
        "smoke",
        "--workers",
        "1",
        "--quiet",
    ]
    command = [*begin, "--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")]
    with one_core():
        process = subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    result = tmp_path / "results" / "insufficient-smoke.json"

    def ready() -> bool:
        if moment != "start":
            return result.exists()
        return bool(workers_of(process.pid))  # which are still importing

    until = time.monotonic() + 120
    while not ready() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.005)
    if moment == "start":
        time.sleep(0.4)
    if moment == "kill -9":
        workers = workers_of(process.pid)
        assert workers
        process.kill()
        process.communicate(timeout=120)
        while any(map(is_running, workers)):
            assert time.monotonic() < until
            time.sleep(0.05)
        return
    if moment == "kill":
        os.kill(process.pid, signal.SIGTERM)  # by hand: the command hands it on
    else:
        os.killpg(process.pid, signal.SIGINT)  # as the terminal does: everybody gets it
    output, told = process.communicate(timeout=120)
    assert (process.returncode, output) == (143 if moment == "kill" else 130, "")
    assert (
        told
        == "cclk: stopped; finished runs are kept and the others are saved: run the same command to"
        " resume\n"
    )
    assert not [path for path in tmp_path.rglob("*") if "draft" in path.name]
    before = {}
    if moment != "start":
        before = {
            run["key"]: run
            for cell in json.loads(result.read_text())["cells"]
            for run in cell["runs"]
        }
        assert before  # another run may have ended meanwhile
    else:
        assert not result.exists()
        return
    monkeypatch.setattr("cclk_paper.cli.reproduce.Pool", HerePool)
    assert main(command[3:]) == 0
    after = {
        run["key"]: run for cell in json.loads(result.read_text())["cells"] for run in cell["runs"]
    }
    assert len(after) == 2
    assert {key: after[key] for key in before} == before
