"""The headline claims what the intervals allow, and no more."""

from __future__ import annotations

from typing import Any

from made_up_runs import categorical, evaluation, several_columns

from cclk.report import RunView
from cclk.report.words import headline


def run(method: str, part: dict[str, Any] | None, name: str = "") -> RunView:
    found = None if part is None else {"encoder": part}
    return RunView(name or method, {"method": method}, evaluation=found, label="digit", condition="colour")


def test_two_runs() -> None:
    said = headline([run("infonce", evaluation(0.928, 0.99, 0.999)), run("fair-cclk", evaluation(0.965, 0.37, 0.42))])
    assert said == (
        "Compared with infonce, fair-cclk reads the digit better (92.8 % → 96.5 %) and lets through less of the colour "
        "(R² 0.99 → 0.37 for a linear probe, 1.00 → 0.42 for a non-linear probe)."
    )


def test_order_does_not_matter_and_worse_is_said() -> None:
    said = headline([run("fair-cclk", evaluation(0.7, 0.99, 0.999)), run("infonce", evaluation(0.9, 0.4, 0.5))])
    assert "Compared with infonce, fair-cclk reads the digit worse (90.0 % → 70.0 %) and lets through more of the colour" in said


def test_within_the_uncertainty_nothing_is_claimed() -> None:
    said = headline([run("infonce", evaluation(0.928, 0.5, 0.6)), run("fair-cclk", evaluation(0.935, 0.49, 0.59))])
    assert "reads the digit about as well (92.8 % → 93.5 %) and lets through about as much of the colour" in said
    said = headline([run("infonce", evaluation(0.9, 0.9, 0.6)), run("fair-cclk", evaluation(0.9, 0.5, 0.6))])
    assert "lets through a different amount of the colour" in said, "the probes disagree"


def test_runs_of_one_method_count_together() -> None:
    runs = [run("infonce", evaluation(0.9 + 0.01 * i, 0.9, 0.9), f"a{i}") for i in range(3)]
    runs += [run("fair-cclk", evaluation(0.95 + 0.01 * i, 0.3, 0.3), f"b{i}") for i in range(3)]
    assert "Compared with infonce (mean of 3 runs), fair-cclk (mean of 3 runs) reads the digit better (91.0 % → 96.0 %)" in headline(runs)
    wild = [run("infonce", evaluation(0.9, 0.9, 0.9)), *(run("fair-cclk", evaluation(v, 0.3, 0.3)) for v in (0.86, 0.99, 0.95))]
    assert "about as well" in headline(wild), "runs that differ that much show no clear gain"


def test_several_methods() -> None:
    said = headline([run("infonce", evaluation(0.8, 0.9, 0.9)), run("b", evaluation(0.85, 0.3, 0.3)), run("c", evaluation(0.95, 0.3, 0.3))])
    assert said.startswith("Compared with infonce, c reads the digit better")
    assert said.endswith("1 other method is compared below.")


def test_one_run() -> None:
    assert headline([run("infonce", evaluation(0.928, 0.99, 1.0))]) == (
        "infonce reads the digit with 92.8 % accuracy. A linear probe explains 99 % of the variance of the colour."
    )
    assert "explains nothing of the variance" in headline([run("infonce", evaluation(0.928, -0.3, 0.0))])
    assert "guesses the colour right in 40.0 % of cases" in headline([run("infonce", categorical(0.928, 0.4, 0.5))])


def test_several_condition_columns() -> None:
    assert headline([run("fair-cclk", several_columns())]) == (
        "fair-cclk reads the digit with 90.0 % accuracy. "
        "A linear probe explains 30 % of the variance of the age and guesses the site right in 60.0 % of cases."
    )
    assert headline([run("infonce", several_columns()), run("fair-cclk", several_columns())]).endswith(
        "and lets through about as much of the age (R² 0.30 → 0.30 for a linear probe, 0.40 → 0.40 for a non-linear probe) "
        "and about as much of the site (accuracy 60.0 % → 60.0 % for a linear probe, 70.0 % → 70.0 % for a non-linear probe)."
    )


def test_what_was_not_measured_is_not_told() -> None:
    assert headline([run("infonce", None)]).startswith("This run is not evaluated yet")
    assert headline([run("infonce", None), run("b", None)]).startswith("These runs are not evaluated yet")
    mixed = headline([run("infonce", evaluation(0.8, 0.9, 0.9)), run("b", categorical(0.95, 0.9, 0.9)), run("c", None)])
    assert mixed == "Compared with infonce, b reads the digit better (80.0 % → 95.0 %)."
