"""Results as Markdown, with the published numbers next to ours."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from cclk_paper.experiments.frontier_table import frontier_tables, summary
from cclk_paper.experiments.measure import (
    IN_PERCENT,
    LOWER_IS_BETTER,
    TITLES,
    Measure,
    difference,
    mean_and_deviation,
)
from cclk_paper.experiments.plan import Overrides
from cclk_paper.experiments.results import CellResult, ExperimentResult, with_same_seeds
from cclk_paper.experiments.scoreboard import verdict_of

_SMOKE = (
    "**A smoke run shows only that everything runs: its numbers are not evidence for or against any"
    " claim.**"
)


def markdown(result: ExperimentResult) -> str:
    """Format a result: its settings, its tables, and whether the paper's claims hold."""
    lines = [f"## {result.title}", ""]
    lines += [f"`{result.experiment}`, {result.source}. {_how(result)}", ""]
    if result.size == "smoke":
        lines += [_SMOKE, ""]
    if result.figure:
        neighbors = ", ".join(
            f"{name.removeprefix('W, ')} {value}"
            for name, value in result.figure.effective_neighbors.items()
        )
        text = f"`{result.figure.kernel}` on {result.figure.dataset}; effective neighbors of the"
        return "\n".join([*lines, f"{text} median anchor: {neighbors}.", ""])
    if result.frontier:
        lines += [summary(result, result.frontier), ""]
        return "\n".join([*lines, *frontier_tables(result, result.frontier)])
    for column, planned in result.columns.items():
        cells = [cell for cell in planned if cell.runs]
        if len(cells) < len(planned):
            waiting = ", ".join(dict.fromkeys(cell.row for cell in planned if not cell.runs))
            lines += [f"**{column}**: not run yet: {waiting}.", ""]
        if not cells:
            continue
        curves = len({cell.row for cell in cells}) < len(cells)
        table = _curves(cells, result) if curves else _rows(cells, result)
        lines += [f"**{column}**", "", *table, ""]
        lines += _claims(cells, result) if result.size != "smoke" else []
    return "\n".join([*lines, *_choices(result)])


def _how(result: ExperimentResult) -> str:
    if result.figure:
        return f"`{result.command}`, cclk {result.version}."
    note = f"{result.note[0].upper()}{result.note[1:]}. " if result.note else ""
    seeds = len(result.seeds)
    others = ", ".join(
        f"{count} for {column}" for column, count in result.column_seeds.items() if count != seeds
    )
    hours = result.process_seconds / 3600
    return (
        f"{note}{seeds} seed{'s' if seeds > 1 else ''}{others and f' ({others})'}, mean ± standard"
        f" deviation on the {result.split} split; {hours:.1f} hours of one-thread processes."
        f" `{result.command}`, cclk {result.version}, torch {result.torch}."
    )


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _rows(cells: Sequence[CellResult], result: ExperimentResult) -> list[str]:
    """One row per method, one column per measure, the paper's numbers next to ours."""
    published = [name for name in result.measures if any(name in cell.paper for cell in cells)]
    header = ["method"]
    for name in result.measures:
        header += [TITLES[name], "paper"] if name in published else [TITLES[name]]
    lines = [_row(*header), "|---" * len(header) + "|"]
    for cell in cells:
        shown = [cell.row + _fewer(cell, result)]
        for name in result.measures:
            shown.append(mean_and_deviation(cell.values(name), name))
            if name in published:
                shown.append(_published(cell, name))
        lines.append(_row(*shown))
    return lines


def _fewer(cell: CellResult, result: ExperimentResult) -> str:
    """The number of seeds of a cell that does not have all of them."""
    seeds = len(cell.runs)
    total = result.column_seeds.get(cell.column, len(result.seeds))
    return "" if seeds >= total else f" ({seeds} of {total} seeds)"


def _curves(cells: Sequence[CellResult], result: ExperimentResult) -> list[str]:
    """A table for each accuracy and R^2: one row per method, one column per value of x."""
    axis = result.axis or "value of the setting"
    values = sorted({cell.x for cell in cells if cell.x is not None})
    lines: list[str] = []
    for name in result.measures:
        if name.endswith("mse"):
            continue
        lines += ["", _row(f"{TITLES[name]}; {axis}", *(f"{x:,g}" for x in values))]
        lines += ["|---" * (len(values) + 1) + "|"]
        for row in dict.fromkeys(cell.row for cell in cells):
            by_x = {cell.x: cell for cell in cells if cell.row == row}
            shown, paper = [""] * len(values), [""] * len(values)
            for number, x in enumerate(values):
                if x in by_x:
                    shown[number] = mean_and_deviation(by_x[x].values(name), name)
                    shown[number] += _fewer(by_x[x], result)
                    paper[number] = _published(by_x[x], name)
            lines += [_row(row, *shown), *([_row(f"{row}, paper", *paper)] if any(paper) else [])]
    return lines[1:]


def _published(cell: CellResult, name: Measure) -> str:
    return "{} ± {}".format(*cell.paper[name]) if name in cell.paper else ""


def _claims(cells: Sequence[CellResult], result: ExperimentResult) -> list[str]:
    """Every claim against these cells; of several rows to beat, the closest is named."""
    by_row = {cell.row: cell for cell in cells}
    lines = []
    for claim in result.claims:
        name = claim.measure
        others = [row for row in claim.others if row in by_row and by_row[row].values(name)]
        if claim.row not in by_row or not by_row[claim.row].values(name) or not others:
            continue
        sign = -1 if name in LOWER_IS_BETTER else 1
        # Rows are compared over the seeds that all of them have; without one, not at all.
        seeds = with_same_seeds([by_row[row] for row in (claim.row, *others)])
        ours, *theirs = (cell.values(name) for cell in seeds)
        side = "above" if sign > 0 else "below"
        text = f"- {claim.row} {side} "
        if not ours:
            lines.append(f"{text}{', '.join(others)} in {TITLES[name]}: not comparable")
            continue
        closest = max(range(len(others)), key=lambda n: sign * statistics.mean(theirs[n]))
        rivals = f"all {len(others)} baselines (the closest: {others[closest]})"
        text += others[0] if len(others) == 1 else rivals
        lines.append(f"{text} in {TITLES[name]}: {judge(ours, theirs[closest], name)}")
    return [*lines, ""] if lines else []


def judge(better: Sequence[float], worse: Sequence[float], measure: Measure) -> str:
    """Describe whether and by how much one beats the other, with the standard error.

    >>> judge([95.1, 95.3, 95.2], [90.0, 90.4, 90.2], "accuracy")
    'holds, by 5.0 ± 0.1'
    >>> judge([1.0, 1.0], [2.0, 2.0], "accuracy")
    'does **not** hold: -1.0 ± 0.0'
    >>> judge([95.0], [90.0], "accuracy")
    'cannot be told: 5.0 (one seed)'
    """
    gain, error = difference(better, worse)
    gain = -gain if measure in LOWER_IS_BETTER else gain
    digits = 2 if measure.endswith("r2") else 1
    size = f"{round(gain, digits) + 0.0:.{digits}f}"
    size += " (one seed)" if math.isnan(error) else f" ± {error:.{digits}f}"
    verdict = verdict_of(gain, error)
    if verdict == "holds":
        return f"holds, by {size}"
    return f"{'does **not** hold' if verdict == 'does not hold' else verdict}: {size}"


_ALL_LISTED = 6
"""Choices up to this number are all listed."""


def _choices(result: ExperimentResult) -> list[str]:
    """The settings that were selected on the validation split, and from what."""
    selected = [
        f"- {cell.row}, {cell.column}: {_selection(cell)}"
        for cell in result.cells
        if len(cell.choices) > 1 and cell.selected is not None
    ]
    return ["Selected on the validation split:", "", *selected, ""] if selected else []


def _selection(cell: CellResult) -> str:
    """The selected choice of a cell, and, of few, the others; with their accuracies, unless they
    were selected by leakage too.
    """
    assert cell.selected is not None
    accuracies = {
        run.choice: run.measures.get("accuracy")
        for run in cell.tuning
        if IN_PERCENT.issuperset(run.measures)
    }

    def shown(number: int) -> str:
        accuracy = accuracies.get(number)
        reached = "" if accuracy is None else f" ({100 * accuracy:.1f} %)"
        return _settings(cell.choices[number]) + reached

    count = len(cell.choices)
    if count > _ALL_LISTED:
        return f"{shown(cell.selected)}, of {count}"
    others = (shown(number) for number in range(count) if number != cell.selected)
    return f"{shown(cell.selected)}, not {', nor '.join(others)}"


def _settings(choice: Overrides) -> str:
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in choice.items()
    )
