"""The scoreboard: every claim of the paper in a row, with the paper's figure, ours and a verdict.

A claim is checked against the results of its experiment; those at size paper count before those at
size cpu, where smaller networks and other datasets substitute for the paper's.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, get_args

from cclk_paper.experiments.measure import Measure, difference
from cclk_paper.experiments.results import CellResult, ExperimentResult, with_same_seeds

Verdict = Literal[
    "holds",
    "does not hold",
    "cannot be told",
    "not comparable",
    "not run yet",
    "cannot be run here",
]
Results = Mapping[str, ExperimentResult]
"""Results by their names on the page: the experiment, and its size if that is not cpu."""


@dataclass(frozen=True)
class Answer:
    """The answer of results to a claim."""

    verdict: Verdict
    figure: str = ""
    """Our figure, in the terms of the claim."""


Check = Callable[[Results], Answer]
NOT_RUN = Answer("not run yet", "-")
NOT_COMPARABLE = Answer("not comparable", "no seed in common")
_OPPOSITE = str.maketrans("+-", "-+")


@dataclass(frozen=True)
class PaperClaim:
    """A sentence or an order of the paper that results can confirm or refute."""

    source: str
    """Table, figure or section."""
    text: str
    published: str
    """The paper's figure."""
    check: Check
    bed: str
    """What our figure was measured on."""


def cell_of(
    results: Results, experiment: str, column: str, row: str, x: float | None = None
) -> CellResult | None:
    """Return a cell that has been run, or None.

    Args:
        results: All results.
        experiment: Name of the experiment.
        column: The column.
        row: The row.
        x: Position of the cell if its row is a curve; None for any.
    """
    cells = results[experiment].cells if experiment in results else ()
    for cell in cells:
        if (cell.column, cell.row) == (column, row) and (x is None or cell.x == x) and cell.runs:
            return cell
    return None


def above(
    experiment: str,
    column: str,
    row: str,
    other: str,
    measure: Measure = "accuracy",
    x: float | None = None,
) -> Check:
    """Check that a row is above another one, over the seeds that both have.

    It holds, or does not hold, if the difference has this sign, or the other one, by more than two
    standard errors. Between the two, and with one seed, it cannot be told.

    Args:
        experiment: Name of the experiment.
        column: The column of both.
        row: The row that should be above.
        other: The row that should be below.
        measure: What is compared.
        x: Position of both cells if rows are curves.
    """

    def check(results: Results) -> Answer:
        cells = [cell_of(results, experiment, column, each, x) for each in (row, other)]
        gain = _gain(cells, measure)
        return gain if isinstance(gain, Answer) else Answer(verdict_of(*gain), _signed(*gain))

    return check


def below(experiment: str, column: str, row: str, other: str, measure: Measure) -> Check:
    """Check that a row is below another one, as `above` does.

    Args:
        experiment: Name of the experiment.
        column: The column of both.
        row: The row that should be below.
        other: The row that should be above.
        measure: What is compared.
    """

    def check(results: Results) -> Answer:
        answer = above(experiment, column, other, row, measure)(results)
        if answer in (NOT_RUN, NOT_COMPARABLE):
            return answer
        return replace(answer, figure=answer.figure.translate(_OPPOSITE))

    return check


def everywhere_above(experiment: str, column: str, row: str, other: str) -> Check:
    """Check that a curve is above another one at every position; the smallest gain decides.

    Args:
        experiment: Name of the experiment.
        column: The column of both.
        row: The curve that should be above.
        other: The curve that should be below.
    """

    def check(results: Results) -> Answer:
        gains = []
        for x in positions(results, experiment, column):
            cells = [cell_of(results, experiment, column, each, x) for each in (row, other)]
            gain = _gain(cells, "accuracy")
            if isinstance(gain, Answer):
                return gain
            gains.append(gain)
        if not gains:
            return NOT_RUN
        verdicts = [verdict_of(*gain) for gain in gains]
        order: tuple[Verdict, ...] = ("does not hold", "cannot be told", "holds")
        low, high = (_signed(*choose(gains)) for choose in (min, max))
        return Answer(min(verdicts, key=order.index), f"{low} to {high}")

    return check


def falls(experiment: str, column: str, row: str, start: float, stop: float) -> Check:
    """Check that a curve is lower at one position than at another.

    Args:
        experiment: Name of the experiment.
        column: The column of the curve.
        row: The curve.
        start: The position with the higher accuracy.
        stop: The position with the lower accuracy.
    """

    def check(results: Results) -> Answer:
        cells = [cell_of(results, experiment, column, row, x) for x in (start, stop)]
        loss = _gain(cells, "accuracy")
        if isinstance(loss, Answer):
            return loss
        return Answer(verdict_of(*loss), _signed(-loss[0], loss[1]))

    return check


def follows(experiment: str, title: str, other: str, least: float = 0.5) -> Check:
    """Check that a matrix of a figure orders pairs of different samples as another one does.

    Args:
        experiment: Name of the experiment.
        title: Title of the first matrix.
        other: Title of the second matrix.
        least: Rank correlation from which on it does.
    """

    def check(results: Results) -> Answer:
        figure = results[experiment].figure if experiment in results else None
        if figure is None or not {title, other} <= set(figure.panels):
            return NOT_RUN
        ranks = []
        for name in (title, other):
            rows = enumerate(figure.panels[name])
            pairs = [value for i, row in rows for j, value in enumerate(row) if i != j]
            order = {value: rank for rank, value in enumerate(sorted(set(pairs)))}
            ranks.append([order[value] for value in pairs])
        correlation = statistics.correlation(*ranks)
        return Answer("holds" if correlation >= least else "does not hold", f"{correlation:.2f}")

    return check


def consistent(
    experiment: str, column: str, rows: Sequence[str], limit: float, measure: Measure = "accuracy"
) -> Check:
    """Check that rows are close: over the seeds that all have, the largest and the smallest mean
    differ by at most a limit.

    If they differ by more, but not by two standard errors more, it cannot be told, and neither can
    it with one seed.

    Args:
        experiment: Name of the experiment.
        column: The column of all rows.
        rows: The rows that should be close.
        limit: Of the difference.
        measure: What is compared.
    """

    def check(results: Results) -> Answer:
        values = _values(results, experiment, column, rows, measure)
        if isinstance(values, Answer):
            return values
        ordered = sorted(values, key=statistics.mean)
        span, error = difference(ordered[-1], ordered[0])
        figure = f"span {span:.1f}" + (" (one seed)" if len(ordered[0]) == 1 else "")
        if span <= limit and not math.isnan(error):
            return Answer("holds", figure)
        return Answer(verdict_of(limit - span, error), figure)

    return check


def peaks_at(experiment: str, column: str, rows: Sequence[str], peak: str) -> Check:
    """Check that one row has the highest accuracy of all.

    Args:
        experiment: Name of the experiment.
        column: The column of all rows.
        rows: All rows.
        peak: The row that should be the highest.
    """

    def check(results: Results) -> Answer:
        values = _values(results, experiment, column, rows, "accuracy")
        if isinstance(values, Answer):
            return values
        by_row = dict(zip(rows, values, strict=True))
        highest = by_row.pop(peak)
        gain = difference(highest, max(by_row.values(), key=statistics.mean))
        return Answer(verdict_of(*gain), _signed(*gain))

    return check


def rises(experiment: str, column: str, rows: Sequence[str], measure: Measure) -> Check:
    """Check that a measure rises along rows: no step goes down, and the ends differ.

    It does not hold if any step goes down, or the ends do, by more than two standard errors.

    Args:
        experiment: Name of the experiment.
        column: The column of all rows.
        rows: In the order in which the measure should rise.
        measure: What should rise.
    """

    def check(results: Results) -> Answer:
        values = _values(results, experiment, column, rows, measure)
        if isinstance(values, Answer):
            return values
        ends = difference(values[-1], values[0])
        steps = [difference(high, low) for low, high in pairwise(values)]
        verdicts = [verdict_of(*step) for step in (ends, *steps)]
        if "does not hold" in verdicts:
            return Answer("does not hold", _signed(*ends))
        ordered = all(gain >= 0 for gain, _ in steps)
        return Answer(verdicts[0] if ordered else "cannot be told", _signed(*ends))

    return check


def unavailable(reason: str) -> Check:
    """Answer that a claim cannot be checked here.

    Args:
        reason: Why not.
    """
    return lambda results: Answer("cannot be run here", reason)


def positions(results: Results, experiment: str, column: str) -> list[float]:
    """Return the positions of the curves of a column, in order."""
    cells = results[experiment].cells if experiment in results else ()
    return sorted({cell.x for cell in cells if cell.column == column and cell.x is not None})


def table(claims: Sequence[PaperClaim], results: Results) -> str:
    """Return the scoreboard as Markdown: a sentence with the counts, and a row for each claim.

    Args:
        claims: The claims, in the order of the paper.
        results: All results.
    """
    answers = [claim.check(results) for claim in claims]
    counts = {
        verdict: sum(answer.verdict == verdict for answer in answers)
        for verdict in dict.fromkeys(sorted((each.verdict for each in answers), key=_ORDER.index))
    }
    counted = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    lines = [
        f"{len(claims)} claims: {counted}.",
        "",
        "| source | claim | paper | ours | measured on | verdict |",
        "|---|---|---|---|---|---|",
    ]
    for claim, answer in zip(claims, answers, strict=True):
        verdict = answer.verdict if answer.verdict != "does not hold" else "does **not** hold"
        cells = (claim.source, claim.text, claim.published, answer.figure, claim.bed, verdict)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


_ORDER: tuple[Verdict, ...] = get_args(Verdict)


def verdict_of(gain: float, error: float) -> Verdict:
    """Return whether a gain is one: beyond two standard errors, in its direction or against it.

    Args:
        gain: The difference in the direction of the claim.
        error: Its standard error; NaN if there is one seed, which cannot tell.

    Example:
        >>> verdict_of(1.0, 0.4), verdict_of(-1.0, 0.4), verdict_of(1.0, 0.6)
        ('holds', 'does not hold', 'cannot be told')
    """
    if abs(gain) > 2 * error:
        return "holds" if gain > 0 else "does not hold"
    return "cannot be told"


def _signed(gain: float, error: float) -> str:
    digits = 1 if abs(gain) < 100 else 0
    deviation = " (one seed)" if math.isnan(error) else f" ± {error:.{digits}f}"
    return f"{round(gain, digits) + 0.0:+.{digits}f}{deviation}"


def _gain(cells: Sequence[CellResult | None], measure: Measure) -> Answer | tuple[float, float]:
    """The difference of two cells over the seeds that both have, and its standard error; or the
    reason why there is none.
    """
    values = _shared(cells, measure)
    return values if isinstance(values, Answer) else difference(*values)


def _values(
    results: Results, experiment: str, column: str, rows: Sequence[str], measure: Measure
) -> Answer | list[list[float]]:
    """The values of each row over the seeds that all rows have; or why there are none."""
    return _shared([cell_of(results, experiment, column, row) for row in rows], measure)


def _shared(cells: Sequence[CellResult | None], measure: Measure) -> Answer | list[list[float]]:
    run = [cell for cell in cells if cell is not None and cell.values(measure)]
    if len(run) < len(cells):
        return NOT_RUN
    values = [cell.values(measure) for cell in with_same_seeds(run)]
    return values if all(values) else NOT_COMPARABLE
