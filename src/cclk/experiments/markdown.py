"""Results as Markdown, for the documentation and the terminal, with the published figures beside
ours.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from cclk.experiments.measure import LOWER_IS_BETTER, WORDS, Measure
from cclk.experiments.plan import Overrides
from cclk.experiments.results import CellResult, ExperimentResult

_SMOKE = (
    "**A smoke run shows that everything runs, and nothing else: its numbers are neither for nor"
    " against any claim.**"
)


def mean_and_deviation(found: Sequence[float], measure: Measure) -> str:
    """Mean and standard deviation.

    >>> mean_and_deviation([95.1, 95.3], "accuracy"), mean_and_deviation([0.2], "linear_r2"), mean_and_deviation([], "knn")
    ('95.2 ± 0.1', '0.20', '-')
    """
    if not found:
        return "-"
    digits = 2 if measure.endswith("r2") else 1 if abs(statistics.mean(found)) < 1000 else 0
    mean = f"{statistics.mean(found):,.{digits}f}"
    return f"{mean} ± {statistics.stdev(found):,.{digits}f}" if len(found) > 1 else mean


def markdown(result: ExperimentResult) -> str:
    """A whole result: what it is, its tables, and whether the paper's order holds."""
    lines = [
        f"## {result.title}",
        "",
        f"`{result.experiment}`, {result.source}. {_how(result)}",
        "",
    ]
    if result.size == "smoke":
        lines += [_SMOKE, ""]
    if result.figure:
        neighbors = ", ".join(
            f"{name.removeprefix('W, ')} {value}"
            for name, value in result.figure.effective_neighbors.items()
        )
        lines += [
            (
                f"`{result.figure.kernel}` on {result.figure.dataset}; effective neighbors of the"
                f" median anchor: {neighbors}."
            ),
            "",
        ]
        return "\n".join(lines)
    for column, planned in result.columns.items():
        cells = [cell for cell in planned if cell.runs]
        if len(cells) < len(planned):
            waiting = ", ".join(dict.fromkeys(cell.row for cell in planned if not cell.runs))
            lines += [f"**{column}**: not run yet: {waiting}.", ""]
        if not cells:
            continue
        curves = len({cell.row for cell in cells}) < len(cells)
        lines += [
            f"**{column}**",
            "",
            *(_curves(cells, result) if curves else _rows(cells, result)),
            "",
        ]
        lines += _judged(cells, result) if result.size != "smoke" else []
    lines += _choices(result)
    return "\n".join(lines)


def _how(result: ExperimentResult) -> str:
    note = f"{result.note[0].upper()}{result.note[1:]}. " if result.note else ""
    if result.figure:
        return f"`{result.command}`, cclk {result.version}."
    seeds = len(result.seeds)
    hours = result.process_seconds / 3600
    split = "test" if result.split == "test" else "validation"
    return (
        f"{note}{seeds} seed{'s' if seeds > 1 else ''}, mean ± standard deviation on the {split}"
        f" split; {hours:.1f} hours of one-thread processes. `{result.command}`, cclk"
        f" {result.version}, torch {result.torch}."
    )


def _rows(cells: Sequence[CellResult], result: ExperimentResult) -> list[str]:
    """One line per method, one column per measure, the paper's figures beside ours."""
    published = [name for name in result.measures if any(name in cell.paper for cell in cells)]
    header: list[str] = []
    for name in result.measures:
        header += [WORDS[name], "paper"] if name in published else [WORDS[name]]
    lines = ["| method | " + " | ".join(header) + " |", "|---" * (len(header) + 1) + "|"]
    for cell in cells:
        shown: list[str] = []
        for name in result.measures:
            shown.append(mean_and_deviation(cell.values(name), name))
            if name in published:
                shown.append(_published(cell, name))
        lines.append(f"| {cell.row}{_fewer(cell, result)} | " + " | ".join(shown) + " |")
    return lines


def _fewer(cell: CellResult, result: ExperimentResult) -> str:
    """How many seeds a cell has, if not all that the result speaks of."""
    return (
        ""
        if len(cell.runs) == len(result.seeds)
        else f" ({len(cell.runs)} of {len(result.seeds)} seeds)"
    )


def _curves(cells: Sequence[CellResult], result: ExperimentResult) -> list[str]:
    """One line per method, one column per place on the axis; a table for each accuracy and each
    R^2.
    """
    lines: list[str] = []
    for name in result.measures:
        if not name.endswith("mse"):
            lines += ["", *_curve(cells, name, result)]
    return lines[1:]


def _curve(cells: Sequence[CellResult], name: Measure, result: ExperimentResult) -> list[str]:
    places, axis = (
        sorted({cell.x for cell in cells if cell.x is not None}),
        result.axis or "value of the setting",
    )
    lines = [
        f"| {WORDS[name]}; {axis} | " + " | ".join(f"{x:,g}" for x in places) + " |",
        "|---" * (len(places) + 1) + "|",
    ]
    for row in dict.fromkeys(cell.row for cell in cells):
        here = {cell.x: cell for cell in cells if cell.row == row}
        shown = (
            (
                mean_and_deviation(here[x].values(name), name) + _fewer(here[x], result)
                if x in here
                else ""
            )
            for x in places
        )
        lines.append(f"| {row} | " + " | ".join(shown) + " |")
        if any(name in cell.paper for cell in here.values()):
            lines.append(
                f"| {row}, paper | "
                + " | ".join(_published(here[x], name) if x in here else "" for x in places)
                + " |"
            )
    return lines


def _published(cell: CellResult, name: Measure) -> str:
    if name not in cell.paper:
        return ""
    mean, spread = cell.paper[name]
    return f"{mean} ± {spread}"


def _judged(cells: Sequence[CellResult], result: ExperimentResult) -> list[str]:
    """Every claim of the experiment against these cells, in words; of several rows to beat the
    closest is told.
    """
    by_row = {cell.row: cell for cell in cells}
    lines = []
    for claim in result.claims:
        name = claim.measure
        others = [row for row in claim.others if row in by_row and by_row[row].values(name)]
        if claim.row not in by_row or not by_row[claim.row].values(name) or not others:
            continue
        sign = 1 if name in LOWER_IS_BETTER else -1
        closest = min(others, key=lambda row: sign * statistics.mean(by_row[row].values(name)))
        whom = (
            closest if len(others) == 1 else f"all {len(others)} baselines (the closest: {closest})"
        )
        ours, theirs = _same_seeds(by_row[claim.row], by_row[closest])
        verdict = judge(ours.values(name), theirs.values(name), name)
        lines.append(
            f"- {claim.row} {'below' if sign > 0 else 'above'} {whom} in {WORDS[name]}: {verdict}"
        )
    return [*lines, ""] if lines else []


def _same_seeds(one: CellResult, other: CellResult) -> tuple[CellResult, CellResult]:
    """Both with the seeds that both have: a seed that is lucky for all is no merit of those that
    ran it.
    """
    seeds = {run.seed for run in one.runs} & {run.seed for run in other.runs}
    first, second = (
        replace(cell, runs=tuple(run for run in cell.runs if run.seed in seeds))
        for cell in (one, other)
    )
    return (first, second) if seeds else (one, other)


def judge(better: Sequence[float], worse: Sequence[float], measure: Measure) -> str:
    """Whether one beats the other, by how much, and whether that is more than twice its standard
    error.

    >>> judge([95.1, 95.3, 95.2], [90.0, 90.4, 90.2], "accuracy")
    'holds, by 5.0 ± 0.1'
    >>> judge([1.0, 1.0], [2.0, 2.0], "accuracy")
    'does **not** hold: -1.0 ± 0.0'
    >>> judge([95.0], [90.0], "accuracy")
    'holds, by 5.0 (one seed)'
    """
    gain = statistics.mean(better) - statistics.mean(worse)
    gain = -gain if measure in LOWER_IS_BETTER else gain
    error = math.sqrt(
        sum(statistics.variance(part) / len(part) for part in (better, worse) if len(part) > 1)
    )
    digits = 2 if measure.endswith("r2") else 1
    size = f"{gain:.{digits}f}" + (
        f" ± {error:.{digits}f}" if min(len(better), len(worse)) > 1 else " (one seed)"
    )
    if gain <= 0:
        return f"does **not** hold: {size}"
    return f"holds, by {size}" if gain > 2 * error else f"holds, but within the spread: {size}"


def _choices(result: ExperimentResult) -> list[str]:
    """What was chosen on the validation split, and among how many."""
    found = [
        f"- {cell.row}, {cell.column}: {_settings(cell.choices[cell.chosen])}, of"
        f" {len(cell.choices)}"
        for cell in result.cells
        if len(cell.choices) > 1 and cell.chosen is not None
    ]
    return ["Chosen on the validation split:", "", *found, ""] if found else []


def _settings(choice: Overrides) -> str:
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in choice.items()
    )
