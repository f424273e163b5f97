"""The result of a frontier as Markdown: a summary, and a table for each column."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cclk_paper.experiments.frontier import LEAKAGE, within_leakage, within_loss
from cclk_paper.experiments.measure import (
    LOWER_IS_BETTER,
    TITLES,
    Measure,
    difference,
    mean_and_deviation,
)
from cclk_paper.experiments.plan import Frontier
from cclk_paper.experiments.results import CellResult, ExperimentResult, with_same_seeds


def frontier_tables(result: ExperimentResult, frontier: Frontier) -> list[str]:
    """Return the lines of the tables.

    Args:
        result: of an experiment, maybe with cells that have not been run.
        frontier: of its plan.
    """
    lines: list[str] = []
    for column, cells in result.columns.items():
        if not any(cell.tuning or cell.runs for cell in cells):
            lines += [f"**{column}**: not run yet.", ""]
            continue
        lines += [f"**{column}**", "", *_table(cells, column, frontier), ""]
        faults = [fault for cell in cells for fault in _faults(cell)]
        lines += [line for fault in dict.fromkeys(faults) for line in (f"† {fault}", "")]
        waiting = [cell.row for cell in cells if not cell.tuning]
        if waiting:
            lines += [f"Not run yet: {', '.join(dict.fromkeys(waiting))}.", ""]
    return lines


def summary(result: ExperimentResult, frontier: Frontier) -> str:
    """Return on how many columns a row of this package is best at the headline's limit.

    Every rival that is ahead is named, with the difference over the seeds that both have, and so
    are the columns on which no rival keeps the limit. Rows that use labels are not compared.

    Args:
        result: of an experiment, maybe with cells that have not been run.
        frontier: of its plan.
    """
    ahead, behind, alone, without, partial = [], [], [], [], []
    for column, cells in result.columns.items():
        if not any(cell.runs for cell in cells):
            continue
        if not _complete(cells, column, frontier):
            partial.append(column)
            continue
        utility = frontier.utility[column]
        selected = [
            cell
            for row in _unlabeled(cells, frontier)
            if (cell := within_leakage(frontier, cells, row, column, frontier.headline))
        ]
        rivals = [cell for cell in selected if cell.row not in frontier.ours]
        best = max(
            (cell for cell in selected if cell.row in frontier.ours),
            key=lambda cell: statistics.mean(cell.values(utility)),
            default=None,
        )
        if not selected:
            without.append(column)
        elif best is None:
            names = _listed([cell.row for cell in rivals])
            behind.append(f"{column} ({names}; none of ours reaches the limit)")
        elif leads := _leads(best, rivals, utility):
            behind.append(f"{column} ({_listed(leads)})")
        else:
            ahead.append(column)
            alone += [] if rivals else [column]
    verb = "does" if len(partial) == 1 else "do"
    missing = (
        f" Not all methods have been measured on {_listed(partial)}, which {verb} not count."
        if partial
        else ""
    )
    measured = len(ahead) + len(behind) + len(without)
    if not measured:
        return f"No dataset has been measured with all methods yet.{missing}"
    sets = "dataset" if measured == 1 else "datasets"
    text = (
        f"At a leakage of at most {frontier.headline:g}, selected on validation, one of our methods"
        f" keeps the most utility on {len(ahead)} of {measured} {sets}"
        f"{f' ({_listed(ahead)})' if ahead else ''}."
    )
    if alone:
        text += f" On {_listed(alone)} no rival keeps this limit."
    if behind:
        text += f" Rivals are ahead on {_listed(behind)}."
    if without:
        text += f" No method without labels reaches this limit on {_listed(without)}."
    return text + missing


def _leads(best: CellResult, rivals: Sequence[CellResult], utility: Measure) -> list[str]:
    """Every rival that is ahead of the best of ours, and by how much; the largest lead first."""
    leads = []
    for rival in rivals:
        theirs, ours = (cell.values(utility) for cell in with_same_seeds([rival, best]))
        gain, error = difference(theirs, ours) if theirs else (0.0, math.nan)
        if gain > 0:
            deviation = "" if math.isnan(error) else f" ± {error:.1f}"
            leads.append((gain, f"{rival.row}, by {gain:.1f}{deviation} points"))
    return [text for _, text in sorted(leads, reverse=True)]


@dataclass(frozen=True)
class _Entry:
    """A cell that was selected for a limit, measured on test."""

    value: float | None
    """What is compared; None if it has not been measured yet."""
    text: str


def _complete(cells: Sequence[CellResult], column: str, frontier: Frontier) -> bool:
    """Whether every row without labels has been measured, and what was selected of it on test."""
    for row in _unlabeled(cells, frontier):
        if any(cell.row == row and not cell.tuning for cell in cells):
            return False
        selected = within_leakage(frontier, cells, row, column, frontier.headline)
        if selected is not None and not selected.runs:
            return False
    return True


def _table(cells: Sequence[CellResult], column: str, frontier: Frontier) -> list[str]:
    utility = frontier.utility[column]
    name = TITLES[utility]
    header = [
        "method",
        *(f"{name} at leakage ≤ {limit:g}" for limit in frontier.leakage),
        *(f"leakage at ≤ {100 * limit:g} points lost" for limit in frontier.loss),
    ]
    rows = list(dict.fromkeys(cell.row for cell in cells))
    rows = sorted(rows, key=lambda row: row in frontier.labeled)
    entries = {row: list(_entries(cells, row, column, frontier)) for row in rows}
    signs = list(enumerate([1] * len(frontier.leakage) + [-1] * len(frontier.loss)))
    best = [_best(entries, _unlabeled(cells, frontier), number, sign) for number, sign in signs]
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    complete = _complete(cells, column, frontier)
    for row in rows:
        faulty = any(_faults(cell) for cell in cells if cell.row == row)
        shown = [row + (" (uses labels)" if row in frontier.labeled else "") + " †" * faulty]
        for entry, (_, sign), value in zip(entries[row], signs, best, strict=True):
            if not any(cell.tuning for cell in cells if cell.row == row):
                shown.append("not run")
            elif entry is None:
                shown.append("-")
            elif (
                complete
                and entry.value is not None
                and row not in frontier.labeled
                and sign * entry.value == value
            ):
                shown.append(f"**{entry.text}**")
            else:
                shown.append(entry.text)
        lines.append(f"| {' | '.join(shown)} |")
    return lines


def _best(
    entries: Mapping[str, Sequence[_Entry | None]], rows: Sequence[str], number: int, sign: int
) -> float | None:
    """The best entry of a column, times its sign; None while one has not been measured."""
    selected = [entry for row in rows if (entry := entries[row][number]) is not None]
    values = [sign * entry.value for entry in selected if entry.value is not None]
    return max(values) if values and len(values) == len(selected) else None


def _entries(
    cells: Sequence[CellResult], row: str, column: str, frontier: Frontier
) -> Iterator[_Entry | None]:
    """The entries of a row, None where no cell keeps the limit."""
    utility = frontier.utility[column]
    for limit in frontier.leakage:
        cell = within_leakage(frontier, cells, row, column, limit)
        yield _entry(cell, utility, LEAKAGE)
    for limit in frontier.loss:
        cell = within_loss(frontier, cells, row, column, limit)
        yield _entry(cell, LEAKAGE, utility)


def _entry(cell: CellResult | None, measure: Measure, beside: Measure) -> _Entry | None:
    if cell is None:
        return None
    if not cell.runs:
        return _Entry(None, "not run")
    values, others = cell.values(measure), cell.values(beside)
    digits = 2 if beside in LOWER_IS_BETTER else 1
    other = f"{round(statistics.mean(others), digits) + 0.0:.{digits}f}"
    return _Entry(statistics.mean(values), f"{mean_and_deviation(values, measure)} ({other})")


def _faults(cell: CellResult) -> list[str]:
    """The known faults of the runs of a cell."""
    return [run.fault for run in (*cell.tuning, *cell.runs) if run.fault]


def _unlabeled(cells: Sequence[CellResult], frontier: Frontier) -> list[str]:
    rows = dict.fromkeys(cell.row for cell in cells)
    return [row for row in rows if row not in frontier.labeled]


def _listed(names: Sequence[str]) -> str:
    """Join names: "a, b and c"."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
