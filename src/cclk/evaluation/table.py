"""Evaluations as a table for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cclk.evaluation.scores import Estimate, Evaluation, Leakage

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


def evaluation_table(evaluations: Mapping[str, Evaluation], *, label: str = "label") -> Table:
    """Accuracies and leakages of one or several runs, by their names, with 95 % intervals."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    columns = {
        column
        for found in evaluations.values()
        for scores in found.features.values()
        for column in scores.leakage
    }
    of = "each condition" if len(columns) > 1 else f"the {next(iter(columns), '')}"
    title = f"What is read of the {label}" + (f", and what leaks of {of}" if columns else "")
    caption = "on the test split; below each value, its 95 % interval"
    # Columns of a user's table may have brackets in their names, which only a Text leaves alone.
    table = Table(
        title=Text(title),
        caption=caption,
        box=SIMPLE_HEAD,
        padding=(0, 0, 0, 1),
        show_edge=False,
        pad_edge=False,
    )
    table.add_column("run,\nfeatures", overflow="fold")
    table.add_column(Text(f"{label}\nlinear"), justify="right")
    table.add_column(Text(f"{label}\nkNN"), justify="right")
    if columns:
        table.add_column("leak of", overflow="fold")
        for heading in ("\nlinear", "\nnon-linear", "beside the\nbaseline"):
            table.add_column(
                heading, justify="right", no_wrap=True
            )  # an interval cut short could be taken for another

    for run, evaluation in evaluations.items():
        for place, (name, scores) in enumerate(evaluation.features.items()):
            accuracy = [_estimate(scores.accuracy.linear), _estimate(scores.accuracy.knn)]
            start = [Text.assemble(("" if place else f"{run}\n", "bold"), name), *accuracy]
            for column, leakage in scores.rows:
                leaked = [
                    Text(column or "-"),
                    _estimate(leakage.linear),
                    _estimate(leakage.nonlinear),
                    _baseline(leakage),
                ]
                table.add_row(*start, *(leaked if columns else ()))
                start = [Text(), Text(), Text()]
        table.add_section()
    return table


def _estimate(found: Estimate | None) -> Text:
    from rich.text import Text

    return (
        Text.assemble(found.titled, "\n", (found.interval("…"), "dim"))
        if found
        else Text("-", "dim")
    )


def _baseline(leakage: Leakage) -> Text:
    from rich.text import Text

    if leakage.guess:
        return Text.assemble(f"{leakage.guess}\n", ("majority", "dim"))
    if leakage.linear_mse and leakage.baseline:
        return Text.assemble(f"{leakage.linear_mse.titled}\n", (f"mean {leakage.baseline}", "dim"))
    return Text("-", "dim")
