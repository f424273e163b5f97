"""Evaluations as a table."""

from __future__ import annotations

import re

from made_up_scores import category, estimate, number, panel, scores
from rich.console import Console

from cclk.evaluation import Accuracy, ColumnLeakage, Evaluation, FeatureScores, Leakage
from cclk.evaluation.table import evaluation_table


def continuous(accuracy: float, linear: float, network: float) -> FeatureScores:
    return scores(accuracy, accuracy - 0.05, condition=number(linear, network))


def categorical(accuracy: float, linear: float) -> FeatureScores:
    return scores(accuracy, condition=category(linear, linear))


def shown(evaluations: dict[str, Evaluation], label: str = "digit", width: int = 120) -> str:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(evaluation_table(evaluations, label=label))
    return capture.get()


def test_table_shows_every_run_and_representation() -> None:
    text = shown(
        {
            "first": Evaluation(continuous(0.928, 0.99, 0.999), continuous(0.8, 0.5, 0.6)),
            "[b]odd[/b]": Evaluation(categorical(0.7, 0.3)),
        }
    )
    for expected in (
        "first",
        "[b]odd[/b]",
        "encoder",
        "projection",
        "92.8 %",
        "R² 0.99",
        "91.8…93.8",
        "30.0 %",
        "30.0 % (majority 10.0 %)",
    ):
        assert expected in text, expected


def test_table_has_these_cells() -> None:
    mixed = scores(0.9, 0.85, age=number(0.3, 0.4), site=ColumnLeakage())
    runs = {
        "first": Evaluation(continuous(0.928, 0.99, 0.999), mixed),
        "second": Evaluation(categorical(0.7, 0.3)),
    }
    table = evaluation_table(runs)
    assert str(table.title) == "Accuracy on the label and leakage of each condition"
    assert table.caption == "on the test split; below each value, its 95 % interval"
    assert {
        str(column.header): [str(cell) for cell in column.cells] for column in table.columns
    } == {
        "run,\nfeatures": ["first\nencoder", "projection", "", "second\nencoder"],
        "label\nlinear": ["92.8 %\n91.8…93.8", "90.0 %\n89.0…91.0", "", "70.0 %\n69.0…71.0"],
        "label\nkNN": ["87.8 %\n86.8…88.8", "85.0 %\n84.0…86.0", "", "70.0 %\n69.0…71.0"],
        "leakage\nof": ["condition", "age", "site", "condition"],
        "\nlinear": ["R² 0.99\n0.98…1.00", "R² 0.30\n0.29…0.31", "-", "30.0 %\n29.0…31.0"],
        "\nworst": ["R² 1.00\n0.99…1.01", "R² 0.40\n0.39…0.41", "-", "30.0 %\n29.0…31.0"],
        "worst\nprobe": ["network\n", "network\n", "-", "linear\n30.0 % (majority 10.0 %)"],
    }
    assert [row.end_section for row in table.rows] == [False, False, True, True]
    justify = [column.justify for column in table.columns]
    assert justify == ["left", "right", "right", "left", "right", "right", "left"]
    one = evaluation_table({"first": Evaluation(scores(0.9, color=ColumnLeakage()))}, label="digit")
    assert str(one.title) == "Accuracy on the digit and leakage of the color"


def test_several_condition_columns_fit_a_terminal_of_80() -> None:
    part = scores(0.9, age=number(0.3, 0.4), traits=panel(0.1, 0.2, 0.45))
    text = shown({"garments": Evaluation(part, part)}, "garment", 80)
    assert not re.search(r"…\s", text), "nothing is cut off"
    for expected in (
        "leakage of each condition",
        "garments",
        "projection",
        "network",
        "bins",
        "95.0 %",
        "89.0…91.0",
        "0.29…0.31",
    ):
        assert expected in text, expected
    rows = [line.split() for line in text.splitlines()]
    assert any("age" in row and "0.30" in row for row in rows)
    assert any("traits" in row and "0.45" in row for row in rows), (
        "each column has a line of its own"
    )


def test_runs_with_conditions_of_their_own_and_names_with_brackets() -> None:
    """Negative R², whose intervals are the widest, are not cut short either."""
    age = scores(0.9, **{"age [/y]": number(-0.05, -0.05)})
    runs = {
        "first": Evaluation(age, age),
        "second": Evaluation(scores(0.9, site=category(0.6, 0.6))),
    }
    text = shown(runs, "household_pay [k$]", 80)
    assert "Accuracy on the household_pay [k$] and leakage of each condition" in " ".join(
        text.split()
    )
    assert text.count("-0.06…-0.04") == 4
    rows = [line.split() for line in text.splitlines()]
    assert any("[/y]" in row and "-0.05" in row for row in rows)
    assert any("site" in row and "60.0" in row for row in rows)


def test_table_of_what_was_not_measured() -> None:
    text = shown(
        {
            "bare": Evaluation(
                FeatureScores(Accuracy(estimate(0.5)), Leakage({"condition": ColumnLeakage()}))
            )
        }
    )
    assert "50.0 %" in text
    assert "-" in text
    assert "leak" not in shown({"bare": Evaluation(scores(0.5))}), "there is no condition"


def test_names_are_not_broken_at_80_columns() -> None:
    measured = Evaluation(scores(0.928, brightness=category(0.3, 0.3), color=number(0.9, 0.95)))
    assert "digits-infonce" in shown({"digits-infonce": measured}, width=80)
