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
from typing import Literal

from cclk.experiments.measure import Measure, difference
from cclk.experiments.results import CellResult, ExperimentResult

Verdict = Literal[
    "holds",
    "holds within two standard errors",
    "does not hold",
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
    """Check that a row is above another one: by more than two standard errors, or just above.

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
        values = [cell.values(measure) if cell else [] for cell in cells]
        if not all(values):
            return NOT_RUN
        gain, error = difference(*values)
        return Answer(_sign(gain, error), _signed(gain, error))

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
        if answer is NOT_RUN:
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
            if not all(cells):
                return NOT_RUN
            gains.append(difference(*(cell.values("accuracy") for cell in cells if cell)))
        if not gains:
            return NOT_RUN
        verdicts = [_sign(*gain) for gain in gains]
        order: tuple[Verdict, ...] = ("does not hold", "holds within two standard errors", "holds")
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
        if not all(cells):
            return NOT_RUN
        loss, error = difference(*(cell.values("accuracy") for cell in cells if cell))
        return Answer(_sign(loss, error), _signed(-loss, error))

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
    """Check that rows are close: the largest and the smallest mean differ by at most a limit.

    Args:
        experiment: Name of the experiment.
        column: The column of all rows.
        rows: The rows that should be close.
        limit: Of the difference.
        measure: What is compared.
    """

    def check(results: Results) -> Answer:
        means = _means(results, experiment, column, rows, measure)
        if means is None:
            return NOT_RUN
        span = max(means) - min(means)
        return Answer("holds" if span <= limit else "does not hold", f"span {span:.1f}")

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
        if _means(results, experiment, column, rows, "accuracy") is None:
            return NOT_RUN
        others = [row for row in rows if row != peak]
        closest = max(others, key=lambda row: _mean(results, experiment, column, row))
        return above(experiment, column, peak, closest)(results)

    return check


def rises(experiment: str, column: str, rows: Sequence[str], measure: Measure) -> Check:
    """Check that a measure rises along rows: no step goes down, and the ends differ clearly.

    Args:
        experiment: Name of the experiment.
        column: The column of all rows.
        rows: In the order in which the measure should rise.
        measure: What should rise.
    """

    def check(results: Results) -> Answer:
        means = _means(results, experiment, column, rows, measure)
        if means is None:
            return NOT_RUN
        ends = above(experiment, column, rows[-1], rows[0], measure)(results)
        ordered = all(low <= high for low, high in pairwise(means))
        if ends.verdict == "holds" and not ordered:
            return Answer("holds within two standard errors", ends.figure)
        return ends

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


_ORDER: tuple[Verdict, ...] = (
    "holds",
    "holds within two standard errors",
    "does not hold",
    "not run yet",
    "cannot be run here",
)


def _sign(gain: float, error: float) -> Verdict:
    if gain <= 0:
        return "does not hold"
    return "holds" if gain > 2 * error else "holds within two standard errors"


def _signed(gain: float, error: float) -> str:
    digits = 1 if abs(gain) < 100 else 0
    deviation = "" if math.isnan(error) else f" ± {error:.{digits}f}"
    return f"{gain:+.{digits}f}{deviation}"


def _mean(
    results: Results, experiment: str, column: str, row: str, measure: Measure = "accuracy"
) -> float:
    cell = cell_of(results, experiment, column, row)
    values = cell.values(measure) if cell else []
    return statistics.mean(values) if values else math.nan


def _means(
    results: Results, experiment: str, column: str, rows: Sequence[str], measure: Measure
) -> list[float] | None:
    """The mean of each row, or None if one has not been run."""
    means = [_mean(results, experiment, column, row, measure) for row in rows]
    return None if any(map(math.isnan, means)) else means
