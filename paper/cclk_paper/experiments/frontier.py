"""Selection from a frontier: which cell of a row serves a limit of leakage or of lost utility.

Cells are selected by their run on the validation split, and compared by their runs on test.
"""

from __future__ import annotations

from collections.abc import Sequence

from cclk_paper.experiments.measure import Measure
from cclk_paper.experiments.plan import Frontier
from cclk_paper.experiments.results import CellResult

LEAKAGE: Measure = "worst_r2"


def to_run(frontier: Frontier, cells: Sequence[CellResult]) -> list[CellResult]:
    """Return the cells that are selected for any limit, which are to be measured on test.

    The reference and what is selected for the headline come first: an interrupted benchmark can
    then compare all rows at one limit.

    Args:
        frontier: the limits.
        cells: of all rows and columns; those without a run on validation are not selected.
    """
    first: list[CellResult | None] = []
    more: list[CellResult | None] = []
    for row, column in dict.fromkeys((cell.row, cell.column) for cell in cells):
        if row == frontier.reference:
            first += _measured(cells, row, column)
        first.append(within_leakage(frontier, cells, row, column, frontier.headline))
        more += [within_leakage(frontier, cells, row, column, n) for n in frontier.leakage]
        more += [within_loss(frontier, cells, row, column, n) for n in frontier.loss]
    return list({id(cell): cell for cell in (*first, *more) if cell is not None}.values())


def within_leakage(
    frontier: Frontier, cells: Sequence[CellResult], row: str, column: str, limit: float
) -> CellResult | None:
    """Return the cell of a row with the highest utility whose leakage is at most a limit.

    Args:
        frontier: names the utility of the column.
        cells: of all rows and columns.
        row: the row to select from.
        column: the column to select from.
        limit: of the leakage on validation.

    Returns:
        None if there is no such cell.
    """
    utility = frontier.utility[column]
    allowed = [cell for cell in _measured(cells, row, column) if _value(cell, LEAKAGE) <= limit]
    return max(
        allowed, key=lambda cell: (_value(cell, utility), -_value(cell, LEAKAGE)), default=None
    )


def within_loss(
    frontier: Frontier, cells: Sequence[CellResult], row: str, column: str, limit: float
) -> CellResult | None:
    """Return the cell of a row with the lowest leakage that loses at most a limit of utility.

    Args:
        frontier: names the utility of the column and the reference that it is lost from.
        cells: of all rows and columns.
        row: the row to select from.
        column: the column to select from.
        limit: of the loss on validation.

    Returns:
        None if there is no such cell, or if the reference has not been run.
    """
    utility = frontier.utility[column]
    reference = _measured(cells, frontier.reference, column)
    if not reference:
        return None
    least = max(_value(cell, utility) for cell in reference) - limit - 1e-9  # rounding
    allowed = [cell for cell in _measured(cells, row, column) if _value(cell, utility) >= least]
    return min(
        allowed, key=lambda cell: (_value(cell, LEAKAGE), -_value(cell, utility)), default=None
    )


def _measured(cells: Sequence[CellResult], row: str, column: str) -> list[CellResult]:
    return [cell for cell in cells if (cell.row, cell.column) == (row, column) and cell.tuning]


def _value(cell: CellResult, measure: Measure) -> float:
    """A measure of the run on validation."""
    return cell.tuning[0].measures[measure]
