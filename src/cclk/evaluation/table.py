"""Evaluations as a table for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cclk.evaluation.estimate import Estimate
from cclk.evaluation.leakage_card import ColumnLeakage
from cclk.evaluation.scores import Evaluation

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


_NAME = 20
"""Characters of a run's name that are not broken over lines."""


def evaluation_table(evaluations: Mapping[str, Evaluation], *, label: str = "label") -> Table:
    """Return a table of accuracies and leakage, by the linear and the worst probe, with intervals.

    Args:
        evaluations: name of a run -> its evaluation.
        label: what the labels are, in the singular: "digit".
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    columns = {
        column
        for evaluation in evaluations.values()
        for scores in evaluation.features.values()
        for column in scores.leakage.columns
    }
    of = "each condition" if len(columns) > 1 else f"the {next(iter(columns), '')}"
    title = f"Accuracy on the {label}" + (f" and leakage of {of}" if columns else "")
    # Names of a user's columns may contain brackets, which only a Text shows unchanged.
    table = Table(
        title=Text(title),
        caption="on the test split; below each value, its 95 % interval",
        box=SIMPLE_HEAD,
        padding=(0, 0, 0, 1),
        show_edge=False,
        pad_edge=False,
    )
    longest = max((len(name) for name in evaluations), default=0)
    table.add_column("run,\nfeatures", overflow="fold", min_width=min(longest, _NAME))
    table.add_column(Text(f"{label}\nlinear"), justify="right")
    table.add_column(Text(f"{label}\nkNN"), justify="right")
    if columns:
        table.add_column("leakage\nof", overflow="fold")
        for heading in ("\nlinear", "\nworst"):
            # A truncated interval could be mistaken for another.
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("worst\nprobe")

    for run, evaluation in evaluations.items():
        for number, (name, scores) in enumerate(evaluation.features.items()):
            accuracy = [_estimate(scores.accuracy.linear), _estimate(scores.accuracy.knn)]
            start = [Text.assemble(("" if number else f"{run}\n", "bold"), name), *accuracy]
            for column, leakage in scores.rows:
                probes = [_estimate(leakage.linear), _estimate(leakage.worst)]
                cells = [Text(column or "-"), *probes, _probe(leakage)]
                table.add_row(*start, *(cells if columns else ()))
                start = [Text(), Text(), Text()]
        table.add_section()
    return table


def _estimate(estimate: Estimate | None) -> Text:
    return _cell(estimate.titled, estimate.interval("…")) if estimate else _cell()


def _probe(leakage: ColumnLeakage) -> Text:
    """The worst probe; below it, its accuracy for a category and that of the majority."""
    accuracy = leakage.accuracy.get(leakage.worst_probe)
    note = f"{accuracy} (majority {leakage.majority})" if accuracy and leakage.majority else ""
    return _cell(leakage.worst_probe, note)


def _cell(value: str = "", note: str = "") -> Text:
    from rich.text import Text

    return Text.assemble(value, "\n", (note, "dim")) if value else Text("-", "dim")
