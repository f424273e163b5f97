"""Evaluations as a table, and on disk."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cclk.evaluation.files import read_evaluation, write_evaluation
from cclk.evaluation.table import amount, evaluation_table, look


def measure(value: float) -> dict[str, float]:
    return {"value": value, "low": value - 0.01, "high": value + 0.01}


def continuous(accuracy: float, linear: float, network: float) -> dict[str, Any]:
    return {
        "accuracy": {"linear": measure(accuracy), "knn": measure(accuracy - 0.05)},
        "leakage": {
            "linear": {"r2": measure(linear), "mse": measure(5000 * (1 - linear))},
            "nonlinear": {"r2": measure(network), "mse": measure(5000 * (1 - network))},
            "baseline_mse": measure(5000),
        },
    }


def categorical(accuracy: float, linear: float) -> dict[str, Any]:
    leakage = {"linear": {"accuracy": measure(linear)}, "nonlinear": {"accuracy": measure(linear)}, "baseline_accuracy": measure(0.1)}
    return {"accuracy": {"linear": measure(accuracy), "knn": measure(accuracy)}, "leakage": leakage}


def shown(evaluations: dict[str, Any]) -> str:
    console = Console(width=120)
    with console.capture() as capture:
        console.print(evaluation_table(evaluations, label="digit", condition="colour"))
    return capture.get()


def test_table_shows_every_run_and_representation() -> None:
    text = shown(
        {
            "first": {"encoder": continuous(0.928, 0.99, 0.999), "projection": continuous(0.8, 0.5, 0.6)},
            "[b]odd[/b]": {"encoder": categorical(0.7, 0.3)},
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
        "MSE 2,500",
        "30.0 %",
        "majority",
    ):
        assert expected in text, expected


def test_table_has_these_cells() -> None:
    mixed = {"accuracy": continuous(0.9, 0, 0)["accuracy"], "leakages": {"age": continuous(0, 0.3, 0.4)["leakage"], "site": {}}}
    runs = {
        "first": {"how": 1, "encoder": continuous(0.928, 0.99, 0.999), "projection": mixed},
        "second": {"encoder": categorical(0.7, 0.3)},
    }
    table = evaluation_table(runs)
    assert str(table.title) == "What is read of the label, and what leaks of each condition"
    assert table.caption == "on the test split; below each value, its 95 % interval"
    assert {str(column.header): [str(cell) for cell in column.cells] for column in table.columns} == {
        "run,\nfeatures": ["first\nencoder", "projection", "", "second\nencoder"],
        "label\nlinear": ["92.8 %\n91.8…93.8", "90.0 %\n89.0…91.0", "", "70.0 %\n69.0…71.0"],
        "label\nkNN": ["87.8 %\n86.8…88.8", "85.0 %\n84.0…86.0", "", "70.0 %\n69.0…71.0"],
        "leak of": ["condition", "age", "site", "condition"],
        "\nlinear": ["R² 0.99\n0.98…1.00", "R² 0.30\n0.29…0.31", "-", "30.0 %\n29.0…31.0"],
        "\nnon-linear": ["R² 1.00\n0.99…1.01", "R² 0.40\n0.39…0.41", "-", "30.0 %\n29.0…31.0"],
        "beside the\nbaseline": ["MSE 50.0\nmean 5,000", "MSE 3,500\nmean 5,000", "-", "10.0 %\nmajority"],
    }
    assert [row.end_section for row in table.rows] == [False, False, True, True]
    justify = [column.justify for column in table.columns]
    assert justify == ["left", "right", "right", "left", "right", "right", "right"]
    one = evaluation_table({"first": runs["first"] | {"projection": {}}}, label="digit", condition="color")
    assert str(one.title) == "What is read of the digit, and what leaks of the color"


def test_numbers_in_words() -> None:
    assert [amount(value) for value in (0, 0.00123456, -1.5, 999.6)] == ["0", "0.00123", "-1.50", "1,000"]
    evaluation = {"accuracy": {"linear": measure(0.5), "knn": 0.3}}
    assert look(evaluation, "accuracy.linear") == measure(0.5)
    for path in ("accuracy", "accuracy.knn", "accuracy.linear.value", "accuracy.linear.low.value", "leakage.linear"):
        assert look(evaluation, path) is None


def test_several_condition_columns_fit_a_terminal_of_80() -> None:
    number, category = continuous(0.9, 0.3, 0.4), categorical(0.9, 0.6)
    part = {"accuracy": number["accuracy"], "leakages": {"age": number["leakage"], "traits": category["leakage"]}}
    console = Console(width=80)
    with console.capture() as capture:
        console.print(evaluation_table({"garments": {"encoder": part, "projection": part}}, label="garment"))
    text = capture.get()
    assert not re.search(r"…\s", text), "nothing is cut off"
    for expected in ("what leaks of each condition", "garments", "projection", "non-linear", "89.0…91.0", "0.29…0.31", "mean 5,000"):
        assert expected in text, expected
    rows = [line.split() for line in text.splitlines()]
    assert any("age" in row and "0.30" in row for row in rows)
    assert any("traits" in row and "60.0" in row for row in rows), "each column has a line of its own"


def test_runs_with_conditions_of_their_own_and_names_with_brackets() -> None:
    """Negative R², whose intervals are the widest, are not cut short either."""
    runs = {
        "first": {"encoder": continuous(0.9, -0.05, -0.05), "projection": continuous(0.9, -0.05, -0.05)},
        "second": {"encoder": categorical(0.9, 0.6)},
    }
    console = Console(width=80)
    with console.capture() as capture:
        console.print(evaluation_table(runs, label="household_pay [k$]", condition={"first": "age [/y]", "second": "site"}))
    text = capture.get()
    assert "What is read of the household_pay [k$], and what leaks of each condition" in " ".join(text.split())
    assert text.count("-0.06…-0.04") == 4
    rows = [line.split() for line in text.splitlines()]
    assert any("[/y]" in row and "-0.05" in row for row in rows)
    assert any("site" in row and "60.0" in row for row in rows)


def test_table_of_what_was_not_measured() -> None:
    text = shown({"bare": {"encoder": {"accuracy": {"linear": measure(0.5)}, "leakage": {}}}})
    assert "50.0 %" in text
    assert "-" in text


def test_evaluation_goes_to_disk_whole_or_not_at_all(tmp_path: Path) -> None:
    assert read_evaluation(tmp_path) is None
    evaluation = {"encoder": continuous(0.9, 0.8, 0.7)}
    assert write_evaluation(tmp_path, evaluation) == tmp_path / "evaluation.json"
    assert read_evaluation(tmp_path) == evaluation
    with pytest.raises(ValueError, match="Out of range"):
        write_evaluation(tmp_path, {"bad": float("nan")})
    assert read_evaluation(tmp_path) == evaluation
    assert [path.name for path in tmp_path.iterdir()] == ["evaluation.json"], "no leftovers"


@pytest.mark.parametrize("text", ["{", "[]"])
def test_damaged_evaluation_names_its_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "evaluation.json").write_text(text)
    with pytest.raises(ValueError, match=r"evaluation\.json .*evaluate the run again"):
        read_evaluation(tmp_path)
