"""The weights that an anchor gives to the other samples: variants of W = (K + ridge I)^-1 K.

name       w(z_j, z_i)                                               own pair
"loo"      W_ji / (1 - W_ii), clipped at 0: fitted without anchor i  excluded
"paper"    W_ji, possibly negative: Proposition 2.2, literally       included
"authors"  W_ji if at least 1e-6, with K_ii = 1: the authors' code   excluded
"nw"       K_ji / sum_{k != i} K_ki of the positive part of K:       excluded
           a kernel average (Nadaraya-Watson), without a solve
"auto"     those of the loss: "nw" for `FairCCLK` if the kernel is large between
           close values only, as RBF and Delta are, else "loo"
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass

import torch
from torch import Tensor, nn

from cclk._eager import eager
from cclk.condition import Condition, as_condition
from cclk.errors import CclkError, SettingsError
from cclk.kernels import Kernel
from cclk.weights.neighborhoods import Neighborhoods, find
from cclk.weights.operators import LocalRows, Near, Operator, Rows
from cclk.weights.solvers import Solver, check_ridge, check_solver, solve

MODES = ("auto", "loo", "paper", "authors", "nw")


@dataclass(frozen=True)
class Conditioning:
    """How a condition becomes weights."""

    kernel: Kernel
    ridge: float = 0.01
    solver: Solver = "auto"
    weights: str = "auto"
    """Name of a variant; "auto" is replaced by the one that it stands for."""
    default: InitVar[str] = "nw"
    """The weights of the loss, which "auto" stands for if the kernel is local, else "loo": an
    average over another kernel is one over all samples.
    """

    def __post_init__(self, default: str) -> None:
        if not isinstance(self.kernel, Kernel):
            raise SettingsError(
                f"kernel is {self.kernel!r}: it must be a kernel from cclk.kernels, such as RBF()"
            )
        check_ridge(self.ridge), check_solver(self.solver)
        if self.weights not in MODES:
            raise CclkError(
                f"weights is {self.weights!r}: it must be one of {', '.join(map(repr, MODES))}"
            )
        if self.weights == "auto":
            object.__setattr__(self, "weights", default if self.kernel.local else "loo")


def conditioning(source: object, ridge: float, solver: Solver, weights: str) -> Conditioning:
    """Return how a loss weights samples, or how a kernel with these options does.

    Args:
        source: A conditional loss, whose options are not to be passed again, or a kernel.
        ridge, solver, weights: As in the losses; "auto" weights of a kernel are those of
            `FairCCLK`.
    """
    own, defaults = getattr(source, "conditioning", None), (ridge, solver) == (0.01, "auto")
    if isinstance(own, Conditioning):
        if not defaults or weights != "auto":
            raise CclkError(
                "a loss has its own ridge, solver and weights: pass its kernel to use others"
            )
        return own
    if not isinstance(source, Kernel):
        raise CclkError(
            f"loss is a {type(source).__name__}: pass a loss with a kernel, such as FairCCLK, or a"
            " kernel"
        )
    how = Conditioning(source, ridge, solver, weights)
    if how.weights == "nw" != weights and not defaults:
        raise CclkError(
            "the default weights of this kernel, nw, have no ridge and no solver: pass"
            " weights='paper' or 'loo' to use them"
        )
    return how


@dataclass(frozen=True)
class Weights:
    """The weights of every anchor over all samples of the joined batch, by row tiles."""

    rows: Rows
    condition: Condition
    counts_own: bool = False
    """Whether the anchor's own pair is included (weights="paper")."""
    per_view: bool = False
    """Whether each view of a sample has all of its weight (weights="authors"), not a half."""
    dead_below: float = 1e-3
    """An anchor is dead if its weights sum to less than this."""
    solver: str = "none"
    reason: str = "a kernel average needs no solve"
    operator: Operator | None = None
    """The operator W; None for "nw"."""


def weigh(
    how: Conditioning, condition: Condition, dtype: torch.dtype, negligible: float = 0.0
) -> Weights:
    """Return the weights of a fitted kernel on a condition.

    Args:
        how: A fitted kernel and its options.
        condition: The condition of n samples.
        dtype: The dtype of the weights.
        negligible: Weights of "nw" up to this one may be set to 0.
    """
    kernel, weights = how.kernel, how.weights
    if weights == "nw":
        return Weights(KernelAverage(kernel, condition, dtype, negligible), condition)
    authors = weights == "authors"
    solution = solve(kernel, condition, how.ridge, how.solver, unit_diagonal=authors)
    operator = solution.operator
    # The bound keeps the quotient finite if an anchor explains itself entirely (0 / 0).
    factor = 1 / operator.complement.clamp_min(1e-12) if weights == "loo" else None
    rows = operator.with_rows_scaled(factor, dtype)
    if weights != "paper":
        rows = WithoutOwn(rows, least=1e-6 if authors else 0.0)
    return Weights(
        rows,
        condition,
        counts_own=weights == "paper",
        per_view=authors,
        # Rows of W itself are small wherever W_ii is near 1, hence the authors' threshold.
        dead_below=1e-3 if weights == "loo" else 1e-6,
        solver=solution.solver,
        reason=solution.reason,
        operator=operator,
    )


class WithoutOwn(LocalRows):
    """Rows without the own entry, and with entries below a bound set to 0."""

    def __init__(self, rows: Rows, least: float) -> None:
        self.inner, self.least = rows, least

    def __call__(self, start: int, stop: int) -> Tensor:
        tile = self.inner(start, stop)
        tile[:, start:stop].fill_diagonal_(0)
        return self._bounded(tile)

    def neighborhoods(self, rows: range, share: float) -> tuple[Neighborhoods | None, str]:
        if not isinstance(self.inner, LocalRows):
            return None, "all pairs are computed: every sample has a weight"
        return self.inner.neighborhoods(rows, share)

    def near(self, neighborhoods: Neighborhoods, tile: int, share: float) -> Near:
        assert isinstance(self.inner, LocalRows)
        samples, weights, dropped = self.inner.near(neighborhoods, tile, share)
        weights.masked_fill_(neighborhoods.tiles[tile][:, None] == samples, 0.0)
        return Near(samples, self._bounded(weights), dropped)

    def _bounded(self, tile: Tensor) -> Tensor:
        if self.least > 0:
            return tile.masked_fill_(tile < self.least, 0.0)
        return tile.relu_()


class KernelAverage(LocalRows):
    """K_ji / sum_{k != i} K_ki of the positive part of K; 0 for an anchor without neighbors.

    Args:
        kernel: A fitted kernel.
        condition: The condition of n samples.
        dtype: The dtype of the weights.
        negligible: Weights up to this one are set to 0. Numbers below the smallest normal one,
            which narrow kernels have many of, make products many times slower.
    """

    def __init__(
        self, kernel: Kernel, condition: Condition, dtype: torch.dtype, negligible: float = 0.0
    ) -> None:
        self.kernel, self.condition, self.dtype = kernel, condition, dtype
        self.negligible = negligible

    @torch.no_grad()
    def __call__(self, start: int, stop: int) -> Tensor:
        anchors = self.condition.rows(slice(start, stop))
        tile = self.kernel.evaluate(anchors, self.condition).relu()  # may be the caller's
        tile[:, start:stop].fill_diagonal_(0)
        total = tile.sum(dim=1, keepdim=True)
        return self._weights(tile.mul_(_reciprocal(total)))

    @torch.no_grad()
    def support(self, start: int, stop: int) -> Tensor:
        """sum_{k != i} K_ki / K_ii, which the average divides by: tiny if all others are far."""
        anchors = self.condition.rows(slice(start, stop))
        tile = self.kernel.evaluate(anchors, self.condition).relu()
        own = tile[:, start:stop].diagonal().clone()
        tile[:, start:stop].fill_diagonal_(0)
        return tile.sum(dim=1) * _reciprocal(own)

    def neighborhoods(self, rows: range, share: float) -> tuple[Neighborhoods | None, str]:
        return find(self.kernel, self.condition, rows, share)

    @torch.no_grad()
    def near(self, neighborhoods: Neighborhoods, tile: int, share: float) -> Near:
        candidates, anchors = neighborhoods.candidates(share), neighborhoods.tiles[tile]
        samples, dropped = neighborhoods.samples(candidates.blocks[tile]), candidates.dropped[tile]
        # One row for each sample, because rows can be selected much faster than columns.
        values = self.kernel.evaluate(self.condition.rows(samples), self.condition.rows(anchors))
        values.relu_()
        position = samples.new_empty(len(self.condition))
        position[samples] = torch.arange(len(samples), device=samples.device)
        values[position[anchors], torch.arange(len(anchors), device=samples.device)] = 0.0
        total = values.sum(dim=0)
        values.mul_(_reciprocal(total))
        dropped = (dropped / total).where(dropped > 0, 0.0) + len(samples) * self.negligible
        if not neighborhoods.line:
            # Boxes are coarse: most samples in them do not matter either.
            smallest, rows = values.amax(dim=1).sort()
            count = int(torch.searchsorted(smallest.cumsum(dim=0), share, right=True))
            kept = rows[count:].sort().values
            dropped += smallest[:count].sum()
            samples, values = samples[kept], values.index_select(0, kept)
        return Near(samples, self._weights(values).T, dropped)

    def _weights(self, values: Tensor) -> Tensor:
        weights = values.to(self.dtype)
        if self.negligible:
            torch.threshold_(weights, self.negligible, 0.0)
        return weights


def _reciprocal(total: Tensor) -> Tensor:
    """1 / total, by which multiplying is faster than dividing; 1 where it would overflow."""
    return total.where(total > 1e-300, 1.0).reciprocal_()


@eager
def conditional_weights(
    loss: nn.Module | Kernel,
    condition: object,
    ridge: float = 0.01,
    solver: Solver = "auto",
    *,
    weights: str = "auto",
) -> Tensor:
    """Return w(z_j, z_i), the weight of sample j for anchor i, in row j and column i.

    Args:
        loss: A loss with a kernel, such as `FairCCLK`, whose weights are returned; or a kernel. If
            the kernel has not been fitted, it is fitted on this condition.
        condition: The condition of n samples.
        ridge: Of a kernel: a positive number, the regularization.
        solver: Of a kernel: "auto", "exact", "features", "nystrom" or `cclk.Nystrom(landmarks)`.
        weights: Of a kernel: "loo", "authors" or "nw", as in the losses; "paper" for the operator
            W = (K + ridge I)^-1 K itself; or "auto", the weights of `FairCCLK`.

    Shape:
        condition: (n,) or (n, k), or a mapping of columns. Returns (n, n), in the dtype of the
            condition if it is a floating-point tensor, else float64.

    Example:
        >>> import torch
        >>> from cclk.kernels import Delta
        >>> conditional_weights(Delta(), torch.tensor([0, 0, 1]), ridge=1.0, weights="paper")
        tensor([[0.3333, 0.3333, 0.0000],
                [0.3333, 0.3333, 0.0000],
                [0.0000, 0.0000, 0.5000]], dtype=torch.float64)

    Reference:
        Tsai et al., "Conditional Contrastive Learning with Kernel", ICLR 2022, Proposition 2.2.
    """
    table = as_condition(condition)
    if len(table) == 0:
        raise CclkError("condition has no rows: pass at least one sample")
    how = conditioning(loss, ridge, solver, weights)
    how.kernel.ensure_fitted(table)
    rows = weigh(how, table, torch.float64).rows
    return rows(0, len(table)).T.to(table.dtype)
