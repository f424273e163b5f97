"""Claims of the paper against results whose numbers are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cclk_paper.experiments import CellResult, ExperimentResult, RunResult, scoreboard
from cclk_paper.experiments.plan import WeightsFigure
from cclk_paper.experiments.registry.paper_claims import CLAIMS
from cclk_paper.experiments.results_page import read_results
from cclk_paper.experiments.scoreboard import Answer, Check, PaperClaim

COLUMN = "data"


def cell(row: str, *accuracies: float, x: float | None = None) -> CellResult:
    runs = [
        RunResult(
            key=f"{row}{x}{seed}",
            seed=seed,
            split="test",
            version="0",
            measures={"accuracy": value / 100},
            train_seconds=1.0,
            measure_seconds=1.0,
        )
        for seed, value in enumerate(accuracies)
    ]
    return CellResult(row=row, column=COLUMN, settings={}, x=x, runs=tuple(runs))


def results(*cells: CellResult, figure: WeightsFigure | None = None) -> scoreboard.Results:
    named = ExperimentResult(
        experiment="one",
        size="cpu",
        title="",
        source="",
        command="",
        version="0",
        cells=cells,
        figure=figure,
    )
    return {"one": named}


HIGH, LOW, NOISY = cell("high", 80, 81), cell("low", 70, 71), cell("noisy", 60, 101)
WILD = cell("wild", 62, 101)
STRANGER = replace(cell("stranger", 1, 2, 3), runs=cell("stranger", 1, 2, 3).runs[2:])
CURVES = [
    cell(row, *values, x=x)
    for row, x, values in (
        ("upper", 1.0, (80, 80.2)),
        ("lower", 1.0, (70, 70.2)),
        ("upper", 2.0, (85, 85.2)),
        ("lower", 2.0, (84, 84.2)),
    )
]


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        (scoreboard.above("one", COLUMN, "high", "low"), Answer("holds", "+10.0 ± 0.7")),
        (scoreboard.above("one", COLUMN, "low", "high"), Answer("does not hold", "-10.0 ± 0.7")),
        (
            scoreboard.above("one", COLUMN, "noisy", "high"),
            Answer("cannot be told", "+0.0 ± 20.5"),
        ),
        (
            scoreboard.above("one", COLUMN, "noisy", "low"),
            Answer("cannot be told", "+10.0 ± 20.5"),
        ),
        (scoreboard.above("one", COLUMN, "high", "absent"), Answer("not run yet", "-")),
        (scoreboard.above("two", COLUMN, "high", "low"), Answer("not run yet", "-")),
        (
            scoreboard.below("one", COLUMN, "low", "high", "accuracy"),
            Answer("holds", "-10.0 ± 0.7"),
        ),
        (scoreboard.below("one", COLUMN, "low", "high", "auc"), Answer("not run yet", "-")),
        (
            scoreboard.consistent("one", COLUMN, ("high", "low"), 10.0),
            Answer("holds", "span 10.0"),
        ),
        (
            scoreboard.consistent("one", COLUMN, ("high", "low"), 8.0),
            Answer("does not hold", "span 10.0"),
        ),
        (
            scoreboard.consistent("one", COLUMN, ("high", "low"), 9.0),
            Answer("cannot be told", "span 10.0"),
        ),
        (
            scoreboard.consistent("one", COLUMN, ("high", "single"), 11.0),
            Answer("cannot be told", "span 10.0 (one seed)"),
        ),
        (
            scoreboard.consistent("one", COLUMN, ("high", "single"), 9.0),
            Answer("cannot be told", "span 10.0 (one seed)"),
        ),
        (
            scoreboard.consistent("one", COLUMN, ("high", "stranger"), 9.0),
            Answer("not comparable", "no seed in common"),
        ),
        (
            scoreboard.below("one", COLUMN, "stranger", "high", "accuracy"),
            Answer("not comparable", "no seed in common"),
        ),
        (
            scoreboard.peaks_at("one", COLUMN, ("low", "high"), "high"),
            Answer("holds", "+10.0 ± 0.7"),
        ),
        (
            scoreboard.rises("one", COLUMN, ("low", "high"), "accuracy"),
            Answer("holds", "+10.0 ± 0.7"),
        ),
        (
            scoreboard.rises("one", COLUMN, ("high", "low"), "accuracy"),
            Answer("does not hold", "-10.0 ± 0.7"),
        ),
        (
            scoreboard.rises("one", COLUMN, ("low", "wild", "high"), "accuracy"),
            Answer("cannot be told", "+10.0 ± 0.7"),
        ),
        (
            scoreboard.rises("one", COLUMN, ("low", "high", "lower", "highest"), "accuracy"),
            Answer("does not hold", "+15.0 ± 0.7"),
        ),
        (
            scoreboard.above("one", COLUMN, "single", "low"),
            Answer("cannot be told", "+20.0 (one seed)"),
        ),
        (
            scoreboard.everywhere_above("one", COLUMN, "upper", "lower"),
            Answer("holds", "+1.0 ± 0.1 to +10.0 ± 0.1"),
        ),
        (
            scoreboard.everywhere_above("one", COLUMN, "lower", "upper"),
            Answer("does not hold", "-10.0 ± 0.1 to -1.0 ± 0.1"),
        ),
        (scoreboard.everywhere_above("two", COLUMN, "lower", "upper"), Answer("not run yet", "-")),
        (scoreboard.falls("one", COLUMN, "upper", 2.0, 1.0), Answer("holds", "-5.0 ± 0.1")),
        (scoreboard.falls("one", COLUMN, "upper", 2.0, 3.0), Answer("not run yet", "-")),
        (scoreboard.unavailable("no data"), Answer("cannot be run here", "no data")),
    ],
)
def test_checks(check: Check, expected: Answer) -> None:
    found = results(
        HIGH, LOW, NOISY, STRANGER, *CURVES, cell("single", 90), cell("highest", 85, 86), WILD
    )
    assert check(found) == expected


def test_rows_are_compared_over_the_seeds_that_all_have() -> None:
    """Five lucky seeds of one kernel are not above one seed of another."""
    found = results(cell("five", 80, 83, 83, 83, 83), cell("one", 80))
    consistent = scoreboard.consistent("one", COLUMN, ("five", "one"), 2.0)
    assert consistent(found) == Answer("cannot be told", "span 0.0 (one seed)")
    above = scoreboard.above("one", COLUMN, "five", "one")
    assert above(found) == Answer("cannot be told", "+0.0 (one seed)")


def test_matrices_that_follow_each_other() -> None:
    same = [[9.0, 1.0, 2.0], [1.0, 9.0, 3.0], [2.0, 3.0, 9.0]]
    other = [[0.0, 3.0, 2.0], [3.0, 0.0, 1.0], [2.0, 1.0, 0.0]]
    figure = WeightsFigure("", "", [], {"K": same, "W": same, "V": other}, {})
    check = scoreboard.follows
    assert check("one", "W", "K")(results(figure=figure)) == Answer("holds", "1.00")
    assert check("one", "V", "K")(results(figure=figure)) == Answer("does not hold", "-1.00")
    assert check("one", "X", "K")(results(figure=figure)) == Answer("not run yet", "-")


def test_the_table_counts_verdicts_and_has_a_row_for_each_claim() -> None:
    claims = [
        PaperClaim("Table 1", "high", "+9", scoreboard.above("one", COLUMN, "high", "low"), "x"),
        PaperClaim("Table 2", "low", "+1", scoreboard.above("one", COLUMN, "low", "high"), "x"),
    ]
    lines = scoreboard.table(claims, results(HIGH, LOW)).splitlines()
    assert lines[0] == "2 claims: 1 holds, 1 does not hold."
    assert lines[-2] == "| Table 1 | high | +9 | +10.0 ± 0.7 | x | holds |"
    assert lines[-1] == "| Table 2 | low | +1 | -10.0 ± 0.7 | x | does **not** hold |"


def test_every_claim_of_the_paper_finds_its_cells() -> None:
    """A renamed row or column would silently become "not run yet"."""
    found = read_results(Path(__file__).parents[3] / "results")
    planned = {
        (name, cell.column, cell.row) for name, result in found.items() for cell in result.cells
    }
    assert len(CLAIMS) > 25
    asked: list[tuple[str, str, str]] = []
    original = scoreboard.cell_of

    def record(
        results: scoreboard.Results, name: str, column: str, row: str, x: float | None = None
    ) -> CellResult | None:
        asked.append((name, column, row))
        return original(results, name, column, row, x)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scoreboard, "cell_of", record)
        for claim in CLAIMS:
            claim.check(found)
    assert set(asked) <= planned
