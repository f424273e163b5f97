"""Which weights an anchor gives to the others: four readings of the same operator W = (K + ridge
I)^-1 K.

| name | w(z_j, z_i) | the anchor's own pair |
|---|---|---|
| "loo" | W_ji / (1 - W_ii), negative ones clipped to 0: the operator fitted without the anchor |
left out | | "paper" | W_ji, also where negative: Proposition 2.2 to the letter | counted | |
"release" | W_ji where at least 1e-6, from a K whose diagonal is set to 1: what the authors' code
does | left out | | "nw" | K_ji / sum_{k != i} K_ki of the positive K: a plain kernel average
(Nadaraya-Watson), needs no solve | left out |
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cclk.condition import Condition, as_condition
from cclk.eager import eager
from cclk.kernels import Kernel
from cclk.operator.operators import Operator, Rows
from cclk.operator.solvers import Solver, check_ridge, check_solver, solve

MODES = ("loo", "paper", "release", "nw")


def check_mode(weights: str) -> str:
    """Complain early about weights that do not exist."""
    if weights not in MODES:
        raise ValueError(f"weights is {weights!r}: it must be one of {', '.join(map(repr, MODES))}")
    return weights


@dataclass(frozen=True)
class Weights:
    """The weights of every anchor over all samples of the joined batch, by row tiles, and how
    they were obtained.
    """

    rows: Rows
    counts_own: bool
    """Whether the anchor's own pair is among its neighbors (weights="paper")."""
    dead_below: float
    """An anchor whose weights sum to less than this has nobody to compare itself with."""
    solver: str
    reason: str
    operator: Operator | None = None
    """What was solved; None for "nw"."""


def weigh(
    kernel: Kernel,
    condition: Condition,
    ridge: float,
    solver: Solver,
    weights: str,
    dtype: torch.dtype,
) -> Weights:
    """The weights of a fitted kernel on a condition, ready to be asked for by row tiles."""
    if weights == "nw":
        return Weights(
            KernelAverage(kernel, condition, dtype),
            False,
            1e-3,
            "none",
            "a kernel average needs no solve",
        )
    solution = solve(kernel, condition, ridge, solver, unit_diagonal=weights == "release")
    operator = solution.operator
    if weights == "paper":
        rows = operator.with_rows_scaled(None, dtype)
    elif weights == "release":
        rows = WithoutOwn(operator.with_rows_scaled(None, dtype), least=1e-6)
    else:
        # An anchor that explains itself wholly leaves 0 / 0; the bound keeps the quotient finite.
        rows = WithoutOwn(
            operator.with_rows_scaled(1 / operator.complement.clamp_min(1e-12), dtype), least=0.0
        )
    # W's own rows are small wherever W_ii is near 1; the release's cut is the measure there.
    return Weights(
        rows,
        weights == "paper",
        1e-3 if weights == "loo" else 1e-6,
        solution.solver,
        solution.reason,
        operator,
    )


class WithoutOwn(Rows):
    """Rows with the own entry removed and entries below a bound cut to 0."""

    def __init__(self, rows: Rows, least: float) -> None:
        self.inner, self.least = rows, least

    def __call__(self, start: int, stop: int) -> Tensor:
        tile = self.inner(start, stop)
        tile[:, start:stop].fill_diagonal_(0)
        if self.least > 0:
            return tile.masked_fill_(tile < self.least, 0.0)
        return tile.relu_()


class KernelAverage(Rows):
    """K_ji / sum_{k != i} K_ki, from the kernel alone, where K is positive; an anchor similar to
    nobody has no weights.
    """

    def __init__(self, kernel: Kernel, condition: Condition, dtype: torch.dtype) -> None:
        self.kernel, self.condition, self.dtype = kernel, condition, dtype

    def __call__(self, start: int, stop: int) -> Tensor:
        with torch.no_grad():
            tile = self.kernel.evaluate(
                self.condition.rows(slice(start, stop)), self.condition
            ).relu()
            tile[:, start:stop].fill_diagonal_(0)
            total = tile.sum(dim=1, keepdim=True)
            return tile.div_(total.where(total > 0, 1.0)).to(self.dtype)


@eager
def conditional_weights(
    kernel: Kernel,
    condition: object,
    ridge: float = 0.01,
    solver: Solver = "auto",
    *,
    weights: str = "paper",
) -> Tensor:
    """W = (K + ridge I)^-1 K, with W[j, i] = w(z_j, z_i): how much sample j counts in the
    condition of anchor i.

    Args:
        kernel: a kernel; if it is not fitted yet, it is fitted on this condition.
        condition: n rows.
        ridge: the regularization, positive.
        solver: "exact", "features", "nystrom", "auto", or `cclk.Nystrom(landmarks)`.
        weights: "paper" for W itself; "loo", "release" or "nw" for the weights a loss makes of it.

    Returns:
        Shape (n, n), in the dtype of the condition (float64 unless it is a floating-point tensor).

    >>> import torch
    >>> from cclk.kernels import Delta
    >>> conditional_weights(Delta(), torch.tensor([0, 0, 1]), ridge=1.0)
    tensor([[0.3333, 0.3333, 0.0000],
            [0.3333, 0.3333, 0.0000],
            [0.0000, 0.0000, 0.5000]], dtype=torch.float64)
    """
    table = as_condition(condition)
    if len(table) == 0:
        raise ValueError("condition has no rows")
    kernel.ensure_fitted(table)
    found = weigh(
        kernel, table, check_ridge(ridge), check_solver(solver), check_mode(weights), torch.float64
    )
    return found.rows(0, len(table)).T.to(table.dtype)
