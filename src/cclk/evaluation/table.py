"""Evaluations as a table for the terminal, and how their values are written."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

REPRESENTATIONS = ("encoder", "projection")
PROBES = {"linear": "linear", "nonlinear": "non-linear"}


def look(evaluation: Mapping[str, Any], path: str) -> Mapping[str, float] | None:
    """The measure at a path like "accuracy.linear", or None if it was not measured."""
    place: Any = evaluation
    for name in path.split("."):
        place = place.get(name) if isinstance(place, Mapping) else None
    return place if isinstance(place, Mapping) and "value" in place else None


def leak(evaluation: Mapping[str, Any], probe: str) -> tuple[str, Mapping[str, float]] | None:
    """("r2" or "accuracy", measure) of what a probe reads of the condition, or None if that was not measured."""
    for unit in ("r2", "accuracy"):
        if measure := look(evaluation, f"leakage.{probe}.{unit}"):
            return unit, measure
    return None


def leaks_of(part: Mapping[str, Any], condition: str = "condition") -> dict[str, Mapping[str, Any]]:
    """Each condition column's name to its leak, as {"leakage": ...}; a condition that is one whole goes by the name given."""
    return {name: {"leakage": found} for name, found in part.get("leakages", {}).items()} or {condition: part}


def percent(value: float) -> str:
    """0.928 as "92.8 %"."""
    return f"{100 * value:.1f} %"


def number(value: float) -> str:
    """An R^2; never "-0.00"."""
    return f"{round(value, 2) + 0.0:.2f}"


def amount(value: float) -> str:
    """A number in its own units, to three figures.

    >>> amount(5430.2), amount(48.83), amount(0.01234)
    ('5,430', '48.8', '0.0123')
    """
    if value == 0:
        return "0"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def evaluation_table(
    evaluations: Mapping[str, Mapping[str, Any]], *, label: str = "label", condition: str | Mapping[str, str] = "condition"
) -> Table:
    """A table of one or several runs: accuracies and leaks of each representation, with their 95 % intervals.

    Args:
        evaluations: run name -> the content of its `evaluation.json`.
        condition: what the condition is called; run name -> that, where each run has its own; "" for a run without one.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    called = {run: condition if isinstance(condition, str) else condition[run] for run in evaluations}
    parts = [part for evaluation in evaluations.values() for part in evaluation.values() if isinstance(part, Mapping)]
    conditions = {name for name in called.values() if name}
    several = any(part.get("leakages") for part in parts) or len(conditions) > 1
    of = "each condition" if several else f"the {next(iter(conditions), '')}"
    title = f"What is read of the {label}" + (f", and what leaks of {of}" if conditions else "")
    caption = "on the test split; below each value, its 95 % interval"
    # Columns of a user's table may have brackets in their names, which only a Text leaves alone.
    table = Table(title=Text(title), caption=caption, box=SIMPLE_HEAD, padding=(0, 0, 0, 1), show_edge=False, pad_edge=False)
    table.add_column("run,\nfeatures", overflow="fold")
    table.add_column(Text(f"{label}\nlinear"), justify="right")
    table.add_column(Text(f"{label}\nkNN"), justify="right")
    if conditions:
        table.add_column("leak of", overflow="fold")
        for heading in ("\nlinear", "\nnon-linear", "beside the\nbaseline"):
            table.add_column(heading, justify="right", no_wrap=True)  # an interval cut short could be taken for another

    def cell(text: str, measure: Mapping[str, float], factor: float, digits: int) -> Text:
        low, high = (f"{factor * measure[side]:,.{digits}f}" for side in ("low", "high"))
        return Text.assemble(text, "\n", (f"{low}…{high}", "dim"))

    def share(measure: Mapping[str, float] | None) -> Text:
        return cell(percent(measure["value"]), measure, 100, 1) if measure else Text("-", "dim")

    def leaked(found: tuple[str, Mapping[str, float]] | None) -> Text:
        if found is None or found[0] == "accuracy":
            return share(found[1] if found else None)
        return cell(f"R² {number(found[1]['value'])}", found[1], 1, 2)

    def beside(part: Mapping[str, Any]) -> Text:
        error, plain = look(part, "leakage.linear.mse"), look(part, "leakage.baseline_mse")
        if error and plain:
            return Text.assemble(f"MSE {amount(error['value'])}\n", (f"mean {amount(plain['value'])}", "dim"))
        majority = look(part, "leakage.baseline_accuracy")
        return Text.assemble(f"{percent(majority['value'])}\n", ("majority", "dim")) if majority else Text("-", "dim")

    for run, evaluation in evaluations.items():
        for place, representation in enumerate(name for name in REPRESENTATIONS if name in evaluation):
            part = evaluation[representation]
            for line, (name, leaks) in enumerate(leaks_of(part, called[run]).items()):
                leaks_told = (Text(name or "-"), leaked(leak(leaks, "linear")), leaked(leak(leaks, "nonlinear")), beside(leaks))
                table.add_row(
                    Text() if line else Text.assemble(("" if place else f"{run}\n", "bold"), representation),
                    Text() if line else share(look(part, "accuracy.linear")),
                    Text() if line else share(look(part, "accuracy.knn")),
                    *(leaks_told if conditions else ()),
                )
        table.add_section()
    return table
