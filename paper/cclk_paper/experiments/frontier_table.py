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
from cclk_paper.experiments.scoreboard import verdict_of


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

    Every rival that is ahead is named, at every limit, with the difference over the seeds that both
    have, and so are the columns on which no rival keeps the headline's limit. A difference within
    two standard errors, or of one seed, does not count as a lead. Rows that use labels are not
    compared.

    Args:
        result: of an experiment, maybe with cells that have not been run.
        frontier: of its plan.
    """
    ahead, tied, behind, alone, without, partial = [], [], [], [], [], []
    columns = {name: cells for name, cells in result.columns.items() if any(c.runs for c in cells)}
    for column, cells in columns.items():
        one = _compare(cells, column, frontier, frontier.headline)
        if one is None:
            partial.append(column)
        elif one.best is None and not one.rivals:
            without.append(column)
        elif one.best is None:
            names = _listed([cell.row for cell in one.rivals])
            behind.append(f"{column} ({names}; none of ours reaches the limit)")
        elif one.leads:
            behind.append(f"{column} ({_listed(one.leads)})")
        elif one.ties:
            tied.append(f"{column} ({_listed(one.ties)})")
        else:
            ahead.append(column)
            alone += [] if one.rivals else [column]
    verb = "does" if len(partial) == 1 else "do"
    missing = (
        f" Not all methods have been measured on {_listed(partial)}, which {verb} not count."
        if partial
        else ""
    )
    measured = len(columns) - len(partial)
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
    if tied:
        text += f" It cannot be told on {_listed(tied)}."
    if behind:
        text += f" Rivals are ahead on {_listed(behind)}."
    if without:
        text += f" No method without labels reaches this limit on {_listed(without)}."
    compared = {column: cells for column, cells in columns.items() if column not in partial}
    return text + _other_limits(compared, frontier) + missing


def _other_limits(columns: Mapping[str, Sequence[CellResult]], frontier: Frontier) -> str:
    """Where rivals are ahead at the limits that are not the headline's."""
    limits = [(n, False) for n in frontier.leakage if n != frontier.headline]
    limits += [(n, True) for n in frontier.loss]
    parts, waiting = [], []
    for limit, lost in limits:
        behind = []
        for column, cells in columns.items():
            one = _compare(cells, column, frontier, limit, lost)
            if one is None:
                waiting.append(column)
            elif one.best is None and one.rivals:
                behind.append(f"{column} (none of ours keeps this limit)")
            elif one.leads:
                behind.append(f"{column} ({_listed(one.leads)})")
        name = (
            f"loss of at most {100 * limit:g} points" if lost else f"leakage of at most {limit:g}"
        )
        parts += [f"a {name} on {_listed(behind)}"] if behind else []
    text = f" Rivals are also ahead at {'; at '.join(parts)}." if parts else ""
    if waiting:
        names = [column for column in columns if column in waiting]
        text += f" At limits other than {frontier.headline:g}, not all has been measured on"
        text += f" {_listed(names)}."
    return text


@dataclass(frozen=True)
class _Comparison:
    """What was selected for a limit: the best of ours against every rival."""

    best: CellResult | None
    rivals: Sequence[CellResult]
    leads: Sequence[str]
    """Rivals that are ahead of the best of ours, and by how much; the largest lead first."""
    ties: Sequence[str]
    """Rivals of which it cannot be told."""


def _compare(
    cells: Sequence[CellResult], column: str, frontier: Frontier, limit: float, lost: bool = False
) -> _Comparison | None:
    """Compare utility at a limit of leakage, or leakage at a limit of lost utility; None if not
    everything that was selected has been measured.
    """
    if not _complete(cells, column, frontier, limit, lost):
        return None
    measure = LEAKAGE if lost else frontier.utility[column]
    sign, digits, unit = (-1, 2, "R²") if lost else (1, 1, "points")
    selected = _selected(cells, column, frontier, limit, lost)
    rivals = [cell for cell in selected if cell.row not in frontier.ours]
    best = max(
        (cell for cell in selected if cell.row in frontier.ours),
        key=lambda cell: sign * statistics.mean(cell.values(measure)),
        default=None,
    )
    leads: list[tuple[float, str]] = []
    ties: list[tuple[float, str]] = []
    for rival in rivals:
        if best is None:
            break
        theirs, ours = (cell.values(measure) for cell in with_same_seeds([rival, best]))
        gain, error = difference(theirs, ours) if theirs else (0.0, math.nan)
        gain *= sign
        verdict = verdict_of(gain, error)
        size = f"{gain:.{digits}f} {unit} (one seed)"
        if not math.isnan(error):
            size = f"{gain:.{digits}f} ± {error:.{digits}f} {unit}"
        text = f"{rival.row}, by {size}"
        if verdict != "does not hold":
            (leads if verdict == "holds" else ties).append((gain, text))
    first, second = ([text for _, text in sorted(some, reverse=True)] for some in (leads, ties))
    return _Comparison(best, rivals, first, second)


def _selected(
    cells: Sequence[CellResult], column: str, frontier: Frontier, limit: float, lost: bool
) -> list[CellResult]:
    """The cells of the rows without labels that are selected for a limit."""
    select = within_loss if lost else within_leakage
    kept = (select(frontier, cells, row, column, limit) for row in _unlabeled(cells, frontier))
    return [cell for cell in kept if cell is not None]


@dataclass(frozen=True)
class _Entry:
    """A cell that was selected for a limit, measured on test."""

    value: float | None
    """What is compared; None if it has not been measured yet."""
    text: str


def _complete(
    cells: Sequence[CellResult], column: str, frontier: Frontier, limit: float, lost: bool = False
) -> bool:
    """Whether every row without labels has been measured, and what was selected of it on test."""
    rows = _unlabeled(cells, frontier)
    return all(cell.tuning for cell in cells if cell.row in rows) and all(
        cell.runs for cell in _selected(cells, column, frontier, limit, lost)
    )


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
    complete = _complete(cells, column, frontier, frontier.headline)
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
