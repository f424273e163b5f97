"""Results in words and tables: means and spreads, verdicts on claims, curves, choices, and what
is missing.
"""

from __future__ import annotations

import statistics
from dataclasses import replace

import pytest
from cclk_paper.experiments import CellResult, Claim, ExperimentResult, RunResult
from cclk_paper.experiments.markdown import judge, markdown
from cclk_paper.experiments.measure import Measure, mean_and_deviation
from cclk_paper.experiments.plan import WeightsFigure
from hypothesis import given
from hypothesis import strategies as st
from made_up_results import cell, result

LEAKS: tuple[Measure, ...] = ("accuracy", "knn", "linear_r2", "linear_mse")
few = st.lists(st.floats(0, 100).map(lambda value: round(value, 3)), min_size=1, max_size=5)


def rows(text: str) -> list[list[str]]:
    """The cells of the lines of all tables, without the rules below their heads."""
    lines = [
        line for line in text.splitlines() if line.startswith("|") and not line.startswith("|---")
    ]
    return [[part.strip() for part in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize(
    ("found", "measure", "text"),
    [
        ([95.0, 96.0, 97.0], "accuracy", "96.0 ± 1.0"),
        ([0.1, 0.2], "linear_r2", "0.15 ± 0.07"),
        ([-0.004], "nonlinear_r2", "-0.00"),
        ([5430.4, 5431.4], "baseline_mse", "5,431 ± 1"),
        ([48.84], "linear_mse", "48.8"),
        ([], "accuracy", "-"),
    ],
)
def test_mean_and_deviation(found: list[float], measure: Measure, text: str) -> None:
    assert mean_and_deviation(found, measure) == text


def test_accuracies_are_per_cent_and_what_was_not_measured_is_left_out() -> None:
    measured = cell("a", "c", {"accuracy": 0.5, "linear_mse": 7.0}, {"accuracy": 0.75})
    assert measured.values("accuracy") == [50.0, 75.0]
    assert measured.values("linear_mse") == [7.0]
    assert measured.values("knn") == []


@given(few, few, st.sampled_from(["accuracy", "linear_mse", "linear_r2", "nonlinear_r2"]))
def test_a_verdict_is_plain_statistics(
    better: list[float], worse: list[float], measure: Measure
) -> None:
    verdict = judge(better, worse, measure)
    sign = -1 if measure.endswith("r2") else 1
    gain = sign * (statistics.mean(better) - statistics.mean(worse))
    if len(better) > 1 and len(worse) > 1:
        error = (
            statistics.variance(better) / len(better) + statistics.variance(worse) / len(worse)
        ) ** 0.5
        digits = 2 if measure.endswith("r2") else 1
        shown = round(gain, digits) + 0.0  # never -0.0
        assert verdict.endswith(f"{shown:.{digits}f} ± {error:.{digits}f}")
        assert verdict.startswith("holds, by") == (gain > 2 * error)
        assert verdict.startswith("does **not** hold") == (gain < -2 * error)
    else:
        assert verdict.startswith("cannot be told"), "one seed decides nothing"
        assert verdict.endswith("(one seed)"), "no spread is claimed where none is known"
        assert "±" not in verdict


@given(few, few, st.sampled_from(["accuracy", "linear_mse", "linear_r2", "nonlinear_r2"]))
def test_verdicts_are_antisymmetric(
    first: list[float], second: list[float], measure: Measure
) -> None:
    one, other = judge(first, second, measure), judge(second, first, measure)
    assert one.startswith("cannot be told") == other.startswith("cannot be told"), "a tie is a tie"
    assert one.startswith("holds") == ("**not**" in other)


def test_lower_is_better_for_a_share_that_leaks_and_higher_for_an_error() -> None:
    assert judge([0.1, 0.1], [0.9, 0.9], "nonlinear_r2") == "holds, by 0.80 ± 0.00"
    assert judge([0.9, 0.9], [0.1, 0.1], "linear_r2") == "does **not** hold: -0.80 ± 0.00"
    assert judge([60.0, 60.0], [50.0, 50.0], "linear_mse") == "holds, by 10.0 ± 0.0"
    assert judge([90.0, 94.0], [88.0, 92.0], "accuracy") == "cannot be told: 2.0 ± 2.8"


def test_a_table_with_the_papers_figures_beside_ours() -> None:
    text = markdown(
        result(
            cell(
                "InfoNCE",
                "ours",
                {"accuracy": 0.8, "knn": 0.7},
                {"accuracy": 0.9, "knn": 0.7},
                paper={"accuracy": (84.1, 1.8)},
            ),
            cell("Fair", "ours", {"accuracy": 0.95, "knn": 0.75}),
            cell("Missing", "ours"),
            cell("InfoNCE", "theirs", {"accuracy": 0.5, "knn": 0.25}),
            note="everything is smaller",
        )
    )
    assert rows(text) == [
        ["method", "accuracy, %", "paper", "kNN accuracy, %"],
        ["InfoNCE", "85.0 ± 7.1", "84.1 ± 1.8", "70.0 ± 0.0"],
        ["Fair (1 of 2 seeds)", "95.0", "", "75.0"],
        ["method", "accuracy, %", "kNN accuracy, %"],
        ["InfoNCE (1 of 2 seeds)", "50.0", "25.0"],
    ]
    assert "not run yet: Missing." in text
    lines = text.splitlines()
    assert lines[0] == "## Made up"
    assert (
        lines[2]
        == "`made-up`, nowhere. Everything is smaller. 2 seeds, mean ± standard deviation on the"
        " test split; 1.5 hours of one-thread processes. `cclk-paper reproduce made-up --size cpu`,"
        " cclk 0.1, torch 2.0."
    )
    assert lines.index("**ours**") < lines.index("**theirs**")
    for place, line in enumerate(lines):
        if line.startswith("| method"):
            assert lines[place - 1] == "", "else it is no table"
            assert lines[place + 1] == "|---" * line.count(" | ") + "|---|"


def test_validation_and_one_seed_are_told() -> None:
    text = markdown(
        result(cell("a", "c", {"accuracy": 0.5, "knn": 0.5}), split="validation", seeds=(0,))
    )
    assert "1 seed, mean ± standard deviation on the validation split" in text


def test_a_claim_is_judged_by_the_seeds_that_both_have() -> None:
    lucky: list[dict[Measure, float]] = [
        {"accuracy": right, "knn": 0.5} for right in (0.8, 0.8, 0.9)
    ]
    claims = (Claim("accuracy", "ours", ("theirs",)),)
    text = markdown(
        result(cell("ours", "c", *lucky), cell("theirs", "c", *lucky[:2]), claims=claims)
    )
    assert "cannot be told: 0.0 ± 0.0" in text


def test_curves_are_turned_round() -> None:
    """One line per method, one column per place; places in order, holes left empty, runs that
    are missing told.
    """
    text = markdown(
        result(
            cell(
                "Cluster",
                "f",
                {"accuracy": 0.2, "knn": 0.0, "linear_r2": 0.5},
                x=1000.0,
                paper={"accuracy": (24.4, 0.9)},
            ),
            cell("Kernel", "f", {"accuracy": 0.5, "knn": 0.0, "linear_r2": 0.25}, x=1000.0),
            cell(
                "Cluster",
                "f",
                {"accuracy": 0.1, "knn": 0.0, "linear_r2": 0.75},
                x=1.5,
                paper={"accuracy": (3.0, 1.5)},
            ),
            cell("Kernel", "f", x=1.5),
            cell("Kernel", "f", {"accuracy": 0.6, "knn": 0.0, "linear_r2": 0.125}, x=20.0),
            measures=("accuracy", "knn", "linear_r2"),
            axis="images",
        )
    )
    assert rows(text) == [
        ["accuracy, %; images", "1.5", "20", "1,000"],
        ["Cluster", "10.0", "", "20.0"],
        ["Cluster, paper", "3.0 ± 1.5", "", "24.4 ± 0.9"],
        ["Kernel", "", "60.0", "50.0"],
        ["kNN accuracy, %; images", "1.5", "20", "1,000"],
        ["Cluster", "0.0", "", "0.0"],
        ["Kernel", "", "0.0", "0.0"],
        ["condition R², linear; images", "1.5", "20", "1,000"],
        ["Cluster", "0.75", "", "0.50"],
        ["Kernel", "", "0.12", "0.25"],
    ]
    heads = [place for place, line in enumerate(text.splitlines()) if "; images" in line]
    assert all(text.splitlines()[place - 1] == "" for place in heads)


def twice(row: str, accuracy: float, r2: float, mse: float) -> CellResult:
    """Two runs that differ a little."""
    first: dict[Measure, float] = {"accuracy": accuracy, "linear_r2": r2, "linear_mse": mse}
    return cell(
        row,
        "ours",
        first,
        {"accuracy": accuracy + 0.01, "linear_r2": r2 + 0.01, "linear_mse": mse + 1},
    )


def fair_result(measure: Measure, others: list[str], row: str = "Fair") -> ExperimentResult:
    return result(
        twice("Fair", 0.95, 0.20, 60.0),
        twice("plain", 0.74, 0.98, 5.0),
        twice("3", 0.80, 0.60, 70.0),
        twice("5", 0.90, 0.70, 50.0),
        cell("20", "ours"),
        cell("plain", "elsewhere", {"accuracy": 0.99, "linear_r2": 0.0, "linear_mse": 99.0}),
        measures=LEAKS,
        claims=(Claim(measure, row, tuple(others)),),
    )


@pytest.mark.parametrize(
    ("measure", "others", "verdict"),
    [
        ("accuracy", ["plain"], "- Fair above plain in accuracy, %: holds, by 21.0 ± 0.7"),
        (
            "accuracy",
            ["3", "5", "20"],
            "- Fair above all 2 baselines (the closest: 5) in accuracy, %: holds, by 5.0 ± 0.7",
        ),
        (
            "linear_r2",
            ["3", "5", "20"],
            (
                "- Fair below all 2 baselines (the closest: 3) in condition R², linear: holds, by"
                " 0.40 ± 0.01"
            ),
        ),
        (
            "linear_mse",
            ["3", "5"],
            (
                "- Fair above all 2 baselines (the closest: 3) in condition MSE, linear: does"
                " **not** hold: -10.0 ± 0.7"
            ),
        ),
    ],
)
def test_claims_are_judged_by_the_closest_baseline(
    measure: Measure, others: list[str], verdict: str
) -> None:
    """In each column that has both, and without rows that have not been run."""
    text = markdown(fair_result(measure, others))
    assert [line for line in text.splitlines() if line.startswith("- ")] == [verdict]


def test_a_claim_waits_for_its_runs() -> None:
    assert "- Fair" not in markdown(fair_result("accuracy", ["20"]))
    assert "- 20" not in markdown(fair_result("accuracy", ["3"], row="20"))


def tuned(*accuracies: float) -> tuple[RunResult, ...]:
    """One run for each choice."""
    return tuple(
        RunResult(
            key=str(number), seed=0, split="validation", version="0.1", choice=number,
            measures={"accuracy": accuracy}, train_seconds=1.0, measure_seconds=1.0,
        )
        for number, accuracy in enumerate(accuracies)
    )  # fmt: skip


def test_choices_are_told() -> None:
    choices = ({"lr": 3e-4, "temperature": 0.05}, {"lr": 0.001, "temperature": 0.2})
    text = markdown(
        result(
            cell("Fair", "ours", {"accuracy": 0.5, "knn": 0.5}, choices=choices, selected=0),
            replace(
                cell(
                    "Clusters",
                    "ours",
                    {"accuracy": 0.5, "knn": 0.5},
                    choices=({"clusters": 5}, {"clusters": 1000}),
                    selected=1,
                ),
                tuning=tuned(0.5, 0.75),
            ),
            replace(
                cell("Many", "ours", choices=[{"lr": lr} for lr in range(1, 8)], selected=2),
                tuning=tuned(0.7, 0.8, 0.9, 0.6, 0.5, 0.5, 0.5),
            ),
            cell("Single", "ours", {"accuracy": 0.5, "knn": 0.5}, choices=choices[:1], selected=0),
            cell("Open", "ours", choices=choices),
            cell("Plain", "ours"),
        )
    )
    listed = text[text.index("Selected on the validation split:") :].splitlines()
    assert listed == [
        "Selected on the validation split:",
        "",
        "- Fair, ours: lr 0.0003, temperature 0.05, not lr 0.001, temperature 0.2",
        "- Clusters, ours: clusters 1000 (75.0 %), not clusters 5 (50.0 %)",
        "- Many, ours: lr 3 (90.0 %), of 7",
    ]
    assert "Chosen" not in markdown(result(cell("Plain", "ours")))


def test_a_image_is_described() -> None:
    figure = WeightsFigure("colordigits", "RBF(2)", [], {}, {"W, loo": 3.1, "W, nw": 2.9})
    text = markdown(result(figure=figure))
    assert "`made-up`, nowhere. `cclk-paper reproduce made-up --size cpu`, cclk 0.1." in text
    assert (
        "`RBF(2)` on colordigits; effective neighbors of the median anchor: loo 3.1, nw 2.9."
        in text
    )
