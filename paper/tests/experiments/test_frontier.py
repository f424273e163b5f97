"""Selection on validation, and the tables of what was selected on test."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cclk_paper.experiments import Cell, CellResult, Frontier, reproduce
from cclk_paper.experiments.figures import draw
from cclk_paper.experiments.frontier import to_run, within_leakage, within_loss
from cclk_paper.experiments.frontier_table import summary
from cclk_paper.experiments.job import Job
from cclk_paper.experiments.markdown import markdown
from made_up_results import FakePool, Measures, cell, made, result, run

FRONTIER = Frontier(
    utility={"adult": "auc", "digits": "accuracy"},
    reference="InfoNCE",
    ours=("Ours", "Known"),
    labeled=("Known",),
)


def point(
    row: str,
    column: str,
    utility: float,
    leakage: float,
    *test: tuple[float, float],
    x: float | None = None,
) -> CellResult:
    """A cell with utility and leakage on validation, and on test for each seed."""
    name = FRONTIER.utility[column]
    measured = [{name: first, "worst_r2": second} for first, second in test]
    validation = replace(run(0, {name: utility, "worst_r2": leakage}), split="validation")
    return cell(row, column, *measured, x=x, tuning=(validation,))  # type: ignore[arg-type]


CELLS = (
    point("InfoNCE", "adult", 0.90, 0.50, (0.90, 0.50), (0.92, 0.54)),
    point("Ours", "adult", 0.89, 0.30, (0.88, 0.30), x=1),
    point("Ours", "adult", 0.85, 0.15, (0.86, 0.16), (0.84, 0.18), x=5),
    point("Ours", "adult", 0.80, 0.09, (0.80, 0.08), x=20),
    point("HSIC", "adult", 0.84, 0.20, (0.82, 0.22), (0.80, 0.22), x=1),
    point("HSIC", "adult", 0.70, 0.12, x=10),
    point("Known", "adult", 0.89, 0.05, (0.88, 0.05), x=1),
    point("InfoNCE", "digits", 0.95, 0.9, (0.95, 0.9)),
    point("Ours", "digits", 0.80, 0.15, (0.80, 0.15), x=1),
    point("HSIC", "digits", 0.90, 0.18, (0.91, 0.19), x=1),
    CellResult(row="LEACE", column="digits", settings={}),
)


@pytest.mark.parametrize(
    ("row", "limit", "x"),
    [("Ours", 0.1, 20), ("Ours", 0.2, 5), ("Ours", 0.4, 1), ("HSIC", 0.2, 1), ("HSIC", 0.15, 10)],
)
def test_the_highest_utility_within_a_limit_of_leakage(row: str, limit: float, x: float) -> None:
    found = within_leakage(FRONTIER, CELLS, row, "adult", limit)
    assert found is not None
    assert (found.row, found.column, found.x) == (row, "adult", x)


def test_the_lowest_leakage_within_a_loss_of_utility() -> None:
    for row, limit, x in (("Ours", 0.02, 1), ("Ours", 0.06, 5), ("HSIC", 0.06, 1)):
        found = within_loss(FRONTIER, CELLS, row, "adult", limit)
        assert found is not None
        assert found.x == x
    assert within_loss(FRONTIER, CELLS, "HSIC", "adult", 0.02) is None
    without = [one for one in CELLS if one.row != "InfoNCE"]
    assert within_loss(FRONTIER, without, "Ours", "adult", 0.5) is None


def test_no_cell_within_a_limit() -> None:
    assert within_leakage(FRONTIER, CELLS, "HSIC", "adult", 0.1) is None
    assert within_leakage(FRONTIER, CELLS, "LEACE", "digits", 1.0) is None, "it was not run"


def test_what_is_run_on_test() -> None:
    selected = {(one.row, one.column, one.x) for one in to_run(FRONTIER, CELLS)}
    assert selected == {
        (one.row, one.column, one.x)
        for one in CELLS
        if one.tuning and (one.row, one.x) != ("HSIC", 10)
    }


def test_the_headline_is_run_first() -> None:
    """An interrupted benchmark can then compare all rows at one limit."""
    order = [(one.row, one.x) for one in to_run(FRONTIER, CELLS) if one.column == "adult"]
    assert order == [
        ("InfoNCE", None), ("Ours", 5), ("HSIC", 1), ("Known", 1), ("Ours", 20), ("Ours", 1),
    ]  # fmt: skip


def test_nothing_is_best_before_all_are_measured() -> None:
    weak = point("HSIC", "adult", 0.60, 0.05, x=50)
    text = markdown(result(*CELLS, weak, measures=("accuracy", "worst_r2"), frontier=FRONTIER))
    (ours,) = (line for line in text.splitlines() if line.startswith("| Ours | 80.0 (0.08) | **"))
    assert "**85.0 ± 1.4 (0.17)**" in ours, "all were measured at this limit"


def test_the_figures(tmp_path: Path) -> None:
    """One for each dataset, of all strengths on validation; labels are not compared."""
    paths = draw(result(*CELLS, measures=("accuracy", "worst_r2"), frontier=FRONTIER), tmp_path)
    assert [path.name for path in paths] == ["made-up-adult.svg", "made-up-digits.svg"]
    text = paths[0].read_text()
    for shown in ("AUC, %", "adult, validation split, one seed", "HSIC", "Ours"):
        assert f"<!-- {shown} -->" in text
    assert "<!-- Known -->" not in text
    assert "<!-- LEACE -->" not in paths[1].read_text(), "it was not run"


def test_the_table() -> None:
    text = markdown(result(*CELLS, measures=("accuracy", "worst_r2"), frontier=FRONTIER))
    assert (
        "At a leakage of at most 0.2, selected on validation, one of our methods keeps the most"
        " utility on 1 of 1 dataset (adult). Not all methods have been measured on digits, which"
        " does not count."
    ) in text
    lines = text.splitlines()
    assert (
        "| method | AUC, % at leakage ≤ 0.1 | AUC, % at leakage ≤ 0.2 | AUC, % at leakage ≤ 0.4 |"
        " leakage at ≤ 2 points lost | leakage at ≤ 6 points lost |"
    ) in lines
    assert ("| InfoNCE | - | - | - | 0.52 ± 0.03 (91.0) | 0.52 ± 0.03 (91.0) |") in lines
    assert (
        "| Ours | **80.0 (0.08)** | **85.0 ± 1.4 (0.17)** | **88.0 (0.30)** |"
        " **0.30 (88.0)** | **0.17 ± 0.01 (85.0)** |"
    ) in lines
    hsic = "| HSIC | - | 81.0 ± 1.4 (0.22) | 81.0 ± 1.4 (0.22) | - | 0.22 ± 0.00 (81.0) |"
    assert hsic in lines
    known = "| Known (uses labels) | 88.0 (0.05) | 88.0 (0.05) | 88.0 (0.05) | 0.05 (88.0) |"
    assert any(line.startswith(known) for line in lines), "never in bold"
    assert "| LEACE | not run | not run | not run | not run | not run |" in lines
    digits = [line for line in lines if line.startswith("| Ours | -")]
    assert digits
    assert "**" not in digits[0], "not all methods were run"
    assert "Not run yet: LEACE." in lines


def test_a_summary_of_what_is_there() -> None:
    def summarized(*cells: CellResult) -> str:
        return summary(result(*cells, frontier=FRONTIER), FRONTIER)

    assert summarized(CellResult(row="Ours", column="adult", settings={})).startswith("No dataset")
    infonce = CELLS[0]
    assert "0 of 1 dataset. No method without labels reaches this limit on adult." in summarized(
        infonce, CELLS[6]
    )
    assert "on 0 of 1 dataset. It cannot be told on digits (HSIC, by 11.0 points (one seed))." in (
        summarized(*CELLS[7:10])
    )
    ours, near, far, more = (
        point(row, "digits", first, 0.15, (first, 0.15), (first + 0.02, 0.15), x=1)
        for row, first in (("Ours", 0.80), ("ICL", 0.81), ("HSIC", 0.90), ("LEACE", 0.85))
    )
    assert "It cannot be told on digits (ICL, by 1.0 ± 1.4 points)." in summarized(
        CELLS[7], ours, near
    ), "within two standard errors"
    assert (
        "Rivals are ahead on digits (HSIC, by 10.0 ± 1.4 points and LEACE, by 5.0 ± 1.4 points)."
    ) in summarized(CELLS[7], ours, near, far, more), "every rival that is ahead"
    assert "ahead on adult (HSIC; none of ours reaches the limit)." in summarized(infonce, CELLS[4])
    assert "on 1 of 1 dataset (adult)." in summarized(infonce, CELLS[2], CELLS[4])
    assert "no rival keeps" not in summarized(infonce, CELLS[2], CELLS[4])
    assert "On adult no rival keeps this limit." in summarized(infonce, CELLS[2])


def test_the_summary_names_the_other_limits_at_which_rivals_are_ahead() -> None:
    text = summary(
        result(
            CELLS[0],
            point("Ours", "adult", 0.85, 0.15, (0.86, 0.16), (0.84, 0.18), x=5),
            point("HSIC", "adult", 0.89, 0.30, (0.90, 0.31), (0.89, 0.32), x=1),
            frontier=FRONTIER,
        ),
        FRONTIER,
    )
    assert text.endswith(
        " Rivals are also ahead at a leakage of at most 0.4 on adult (HSIC, by 4.5 ± 1.1 points);"
        " at a loss of at most 2 points on adult (none of ours keeps this limit)."
    )
    unmeasured = point("HSIC", "adult", 0.89, 0.30, x=1)
    text = summary(result(CELLS[0], CELLS[2], unmeasured, frontier=FRONTIER), FRONTIER)
    assert text.endswith("At limits other than 0.2, not all has been measured on adult.")


def test_rows_made_with_a_fault_are_marked() -> None:
    fault = "Made with a fault."
    cells = [
        replace(one, tuning=tuple(replace(run, fault=fault) for run in one.tuning))
        if one.row == "HSIC" and one.column == "adult"
        else one
        for one in CELLS
    ]
    text = markdown(result(*cells, frontier=FRONTIER))
    assert text.count("| HSIC † |") == 1
    assert text.count("| HSIC |") == 1, "that of the other dataset has none"
    assert text.count(f"† {fault}") == 1
    assert "†" not in markdown(result(*CELLS, frontier=FRONTIER))


def test_the_two_stages_of_a_grid(tmp_path: Path) -> None:
    """Every cell is tried once; what is selected, and the reference, run the seeds of a column."""
    cells = (
        Cell("InfoNCE", "adult", {"lr": 1.0}),
        *(Cell("Ours", "adult", {"lr": 0.1 * x}, x=x) for x in (1, 2, 3)),
        Cell("InfoNCE", "digits", {"lr": 2.0}),
        Cell("Broken", "digits", {"lr": 3.0}),
    )
    leakage = {0.1: 0.3, 0.2: 0.2, 0.3: 0.25}

    def answer(job: Job) -> Measures:
        if job.settings["lr"] == 3.0:
            raise ValueError("diverged")
        rate = float(str(job.settings["lr"]))
        measures: Measures = {"worst_r2": leakage.get(round(rate, 1), 0.9), "accuracy": 0.5}
        return measures | ({"auc": 0.9 - rate / 10} if "auc" in job.measures else {})

    class Fragile(FakePool):
        def _submit(self, job, folder):  # type: ignore[no-untyped-def]
            try:
                return super()._submit(job, folder)
            except ValueError as error:
                from concurrent.futures import Future

                failed: Future[object] = Future()
                failed.set_exception(error)
                return failed

    experiment = made(
        *cells,
        seeds=3,
        column_seeds={"digits": 2},
        frontier=FRONTIER,
        measures=("accuracy", "worst_r2"),
        train_on_holdout=False,
    )
    pool = Fragile(answer)
    options = {
        "results_folder": tmp_path / "results", "runs_folder": tmp_path / "runs", "quiet": True,
    }  # fmt: skip
    with pytest.raises(ValueError, match=r"^diverged$"):
        reproduce(experiment, "cpu", pool, command="", **options)  # type: ignore[arg-type]
    ran = [(job.title, job.split, job.seed) for job in pool.ran]
    assert len(set(ran)) == len(ran)
    assert [split for _, split, _ in ran[:6]] == ["validation"] * 6
    assert {(title, seed) for title, split, seed in ran if split == "test"} == {
        *(("InfoNCE, adult", seed) for seed in range(3)),
        *(("InfoNCE, digits", seed) for seed in range(2)),
        *(("Ours, adult, 2", seed) for seed in range(3)),
        *(("Ours, adult, 1", seed) for seed in range(3)),
    }
    first, other = (next(job for job in pool.ran if job.split == s) for s in ("validation", "test"))
    assert first.settings == other.settings
    assert (first.key != other.key, first.folder == other.folder) == (True, True)
