"""The objectives, as functions of a tile of scores S_ij = cos(x_i, y_j) / temperature.

Three logarithms per anchor describe them all:

    pos_i  = S_ii
    marg_i = log sum_{j != i} exp S_ij
    cond_i = log sum_j w_ji exp S_ij

and every loss is -(a - logaddexp(a, b)) = softplus(b - a) of two of them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.nn.functional import softplus

from cclk.losses.core import Layout, TileResult, exponentiate, in_range
from cclk.operator.neighborhoods import Neighborhoods
from cclk.operator.operators import LocalRows, Near, Rows

_LARGEST_ERROR = 1e-5
"""Scores are computed again in float64 for anchors whose gradient would be off by more."""


@dataclass
class NeighborWeights:
    """The weights of a tile over all its columns, from the weights over samples.

    A sample that appears in two views (`within`) counts once: each view has half of its weight, or
    all of it if `per_view`. The anchor itself is never its own neighbor, so its positive alone
    carries its own weight.
    """

    rows: Rows
    layout: Layout
    counts_own: bool = False
    per_view: bool = False

    def near(self, neighborhoods: Neighborhoods, tile: int, share: float) -> Near:
        """The entries of a tile that matter, over columns instead of samples.

        Args:
            neighborhoods: Of the rows.
            tile: The number of one of its tiles.
            share: The weight of each anchor that may be dropped.
        """
        assert isinstance(self.rows, LocalRows)
        samples, weights, dropped = self.rows.near(neighborhoods, tile, share)
        if not self.layout.within:
            return Near(samples, weights, dropped)
        in_batch = samples < self.layout.batch
        batch = weights[:, in_batch]
        if not self.per_view:
            batch = batch.mul_(0.5)
            weights[:, in_batch] = batch
        columns = torch.cat([samples, samples[in_batch] + self.layout.samples])
        return Near(columns, torch.cat([weights, batch], dim=1), dropped)

    def tile(self, start: int, stop: int) -> Tensor:
        layout = self.layout
        weights = self.rows(layout.first + start, layout.first + stop)
        if not layout.within:
            return weights
        batch = weights[:, : layout.batch]
        if not self.per_view:
            batch.mul_(0.5)
        weights = torch.cat([weights, batch], dim=1)
        if self.counts_own:
            if not self.per_view:
                layout.positive(weights, start, stop).mul_(2.0)
            layout.own(weights, start, stop).zero_()
        return weights


@dataclass
class Floor:
    """The logarithm of the smallest possible estimate, and how many estimates were raised to it."""

    log: float
    of_temperature: bool = False
    """Whether it is -1 / temperature, which has a gradient where the temperature is learned."""
    anchors: int = 0
    floored: list[Tensor] = field(default_factory=list)

    def forget(self, anchors: int) -> None:
        """Forget the estimates of the last anchors, which are computed again."""
        self.anchors -= anchors
        self.floored.pop()

    def share(self) -> Tensor:
        """The share of anchors whose estimate was raised, 0-d."""
        return sum(self.floored, torch.zeros(())) / max(self.anchors, 1)


@dataclass
class Marginal:
    """InfoNCE: softplus(marg - pos)."""

    layout: Layout
    temperature: float

    def tile(self, scores: Tensor, start: int, stop: int) -> TileResult:
        positive = self.layout.positive(scores, start, stop).clone()
        self.layout.fill(scores, start, stop, -math.inf)
        scores, shift = exponentiate(scores, self.temperature)
        total = scores.sum(dim=1)
        return _positive_against(positive, unshifted(total.log(), shift), scores, total)


@dataclass
class WeightedNegatives:
    """Fair and HardNeg CCL-K: softplus(log n + cond - pos), with n negatives as in InfoNCE."""

    layout: Layout
    temperature: float
    weights: NeighborWeights
    log_count: float = field(init=False)
    floor: Floor = field(init=False)
    neighborhoods: Neighborhoods | None = field(default=None, init=False)
    """Where only some columns of an anchor matter; None to compute all of them."""

    @property
    def scores_all(self) -> bool:
        """Whether all columns have a weight, whatever the condition."""
        return self.weights.counts_own

    def __post_init__(self) -> None:
        self.log_count = math.log(self.layout.negatives)
        self.floor = Floor(-1 / self.temperature, of_temperature=True)

    def tile(self, scores: Tensor, start: int, stop: int) -> TileResult:
        positive = self.layout.positive(scores, start, stop).clone()
        return self.contrast(positive, scores, self.weights.tile(start, stop))[0]

    def contrast(
        self, positive: Tensor, scores: Tensor, weights: Tensor
    ) -> tuple[TileResult, ConditionalMean]:
        """The result on any columns, and the estimate; `scores` and `weights` are overwritten.

        Args:
            positive: Scores of the positives, (rows,).
            scores: Scores of the columns, (rows, columns).
            weights: Weights of the columns, (rows, columns).
        """
        cond = estimate(scores, weights, self.temperature, self.floor)
        result = _positive_against(positive, cond.log + self.log_count, cond.terms, cond.total)
        result.coefficient = result.coefficient.where(cond.alive, 0.0)
        if self.floor.of_temperature and result.pull is not None:
            result.of_floor = -result.pull.where(~cond.alive, 0.0)
        return result, cond


@dataclass
class CorrectedNegatives(WeightedNegatives):
    """HardNeg CCL-K with a share of uniform negatives, and corrected for a share tau_plus of false
    ones: (c - tau_plus e^pos) / (1 - tau_plus) instead of c.
    """

    uniform_share: float
    tau_plus: float

    @property
    def scores_all(self) -> bool:
        return self.uniform_share > 0

    def tile(self, scores: Tensor, start: int, stop: int) -> TileResult:
        positive = self.layout.positive(scores, start, stop).clone()
        weights = self.weights.tile(start, stop)
        if self.uniform_share:
            uniform = torch.full_like(weights, self.uniform_share / self.layout.negatives)
            self.layout.fill(uniform, start, stop, 0.0)
            weights.mul_(1 - self.uniform_share).add_(uniform)
        return self.contrast(positive, scores, weights)[0]

    def contrast(
        self, positive: Tensor, scores: Tensor, weights: Tensor
    ) -> tuple[TileResult, ConditionalMean]:
        tau = self.tau_plus
        if not tau:
            return super().contrast(positive, scores, weights)
        cond = estimate(scores, weights, self.temperature, self.floor)
        positive = positive.to(cond.log.dtype)
        false = tau * (positive - cond.log).clamp_max(60.0).exp()
        corrected = cond.log + torch.log1p(-false.clamp_max(1 - 1e-7)) - math.log1p(-tau)
        alive = cond.alive & (false < 1 - 1e-7) & (corrected > self.floor.log)
        self.floor.floored[-1] = (~alive).sum()
        negative = corrected.where(alive, self.floor.log) + self.log_count
        pressure = (negative - positive).sigmoid()
        per_unit = (pressure / (1 - false)).where(alive, 0.0)
        dtype = cond.terms.dtype
        result = TileResult(
            softplus(negative - positive).to(dtype),
            cond.terms,
            (per_unit / cond.total).where(alive, 0.0).to(dtype),
            (-pressure - per_unit * false).to(dtype),
        )
        if self.floor.of_temperature:
            result.of_floor = pressure.where(~alive, 0.0).to(dtype)
        return result, cond


class ClusterNegatives(WeightedNegatives):
    """The cluster baseline Fair-InfoNCE: the sum over the other samples of the anchor's cluster."""

    def __post_init__(self) -> None:
        self.log_count = 0.0
        self.floor = Floor(-math.inf)


@dataclass
class WeightedPositives:
    """WeaklySup CCL-K: softplus(marg - cond)."""

    layout: Layout
    temperature: float
    weights: NeighborWeights
    floor: Floor = field(init=False)

    def __post_init__(self) -> None:
        self.floor = Floor(-1 / self.temperature, of_temperature=True)

    def exclude_positive(self, tile: Tensor, start: int, stop: int, value: float) -> None:
        """Overwrite the entries of the positives, which the marginal does not contain."""
        self.layout.positive(tile, start, stop).fill_(value)

    def tile(self, scores: Tensor, start: int, stop: int) -> TileResult:
        weights = self.weights.tile(start, stop)
        if self.layout.within:
            self.layout.own(scores, start, stop).fill_(-math.inf)
        cond = estimate(scores, weights, self.temperature, self.floor)
        shift = None
        if cond.exponentials is not None:
            slope = cond.exponentials
            self.exclude_positive(slope, start, stop, 0.0)
        else:
            self.exclude_positive(scores, start, stop, -math.inf)
            slope, shift = exponentiate(scores, self.temperature)
        marginal = slope.sum(dim=1)
        gap = unshifted(marginal.log(), shift) - cond.log
        slope.mul_(marginal.reciprocal()[:, None])
        slope.addcmul_(cond.terms, cond.total.reciprocal().neg_().where(cond.alive, 0.0)[:, None])
        pressure = gap.sigmoid().to(slope.dtype)
        of_floor = pressure.where(~cond.alive, 0.0).neg_() if self.floor.of_temperature else None
        return TileResult(softplus(gap).to(slope.dtype), slope, pressure, of_floor=of_floor)


@dataclass
class MeanOfLogs(ABC):
    """The mean over positives j, with shares v_ij that sum to 1, of logsumexp_k S_ik - S_ij."""

    layout: Layout
    temperature: float
    weights: NeighborWeights

    @abstractmethod
    def shares(self, start: int, stop: int) -> Tensor:
        """v of a tile of anchors, (rows, columns), at least 0; 0 at the anchors themselves."""

    def tile(self, scores: Tensor, start: int, stop: int) -> TileResult:
        shares = self.shares(start, stop).to(scores.dtype)
        aligned = (shares * scores).sum(dim=1)
        if self.layout.within:
            self.layout.own(scores, start, stop).fill_(-math.inf)
        scores, shift = exponentiate(scores, self.temperature)
        total = scores.sum(dim=1)
        slope = scores.mul_(total.reciprocal()[:, None]).sub_(shares)
        return TileResult(unshifted(total.log(), shift) - aligned, slope, torch.ones_like(total))


class ClusterPositives(MeanOfLogs):
    """The cluster baseline WeaklySup-InfoNCE: the same share for all samples of the cluster."""

    def shares(self, start: int, stop: int) -> Tensor:
        mask = self.weights.tile(start, stop)
        return mask.div_(mask.sum(dim=1, keepdim=True))


@dataclass
class OuterPositives(MeanOfLogs):
    """WeaklySup CCL-K with a mean of logarithms: the weights as shares, beside the own pair's."""

    own_share: float
    floor: Floor = field(default_factory=lambda: Floor(-math.inf))

    def __post_init__(self) -> None:
        self.weights = replace(self.weights, per_view=False)  # shares of samples, not of views

    def shares(self, start: int, stop: int) -> Tensor:
        weights = self.weights.tile(start, stop).relu_()  # "paper" has negative ones
        self.layout.positive(weights, start, stop).zero_()
        # Weights that sum to less than 1 tell of few neighbors: the own pair has the rest.
        weights.mul_((1 - self.own_share) / weights.sum(dim=1, keepdim=True).clamp_min(1.0))
        self.layout.positive(weights, start, stop).copy_(1 - weights.sum(dim=1))
        return weights


@dataclass
class ReweightedNegatives:
    """Robinson et al. 2021: the n negatives weighted by exp(beta S), corrected for a share
    tau_plus of false negatives.

    The correction subtracts two numbers that can be nearly equal, which multiplies the rounding
    error of their scores. With `exact`, (n, d) anchors divided by the temperature and
    (columns, d) neighbors in float64, the scores of such anchors are computed again in float64.
    """

    layout: Layout
    temperature: float
    beta: float
    tau_plus: float
    exact: tuple[Tensor, Tensor] | None = None

    def tile(self, scores: Tensor, start: int, stop: int) -> TileResult:
        count, beta, tau = self.layout.negatives, self.beta, self.tau_plus
        dtype = scores.dtype
        positive = self.layout.positive(scores, start, stop).clone()
        self.layout.fill(scores, start, stop, -math.inf)
        shift = scores.amax(dim=1, keepdim=True)
        scores.sub_(shift)
        self.layout.fill(scores, start, stop, 0.0)
        hard = (scores * beta).exp_()
        harder = scores.mul_(1 + beta).exp_()
        self.layout.fill(hard, start, stop, 0.0)
        self.layout.fill(harder, start, stop, 0.0)
        weight, total = hard.sum(dim=1), harder.sum(dim=1)
        reweighted = total.log() - weight.log() + shift[:, 0] + math.log(count)
        if self.exact is not None:
            positive, reweighted = self._refine(positive.double(), reweighted.double(), start)
        # (reweighted - tau n pos) / (1 - tau), at least n exp(-1 / temperature), all in logarithms.
        false = self._false(positive, reweighted)
        floor = math.log(count) - 1 / self.temperature
        corrected = reweighted + torch.log1p(-false.clamp_max(1 - 1e-7)) - math.log1p(-tau)
        alive = (false < 1 - 1e-7) & (corrected > floor)
        negative = corrected.where(alive, floor)
        pressure = (negative - positive).sigmoid()
        per_unit = (pressure / (1 - false)).where(alive, 0.0)
        of_floor = pressure.where(~alive, 0.0)
        slope = harder.mul_(((1 + beta) / total)[:, None]).addcmul_(hard, (-beta / weight)[:, None])
        return TileResult(
            softplus(negative - positive).to(dtype),
            slope,
            per_unit.to(dtype),
            (-pressure - per_unit * false).to(dtype),
            of_floor.to(dtype),
        )

    def _false(self, positive: Tensor, reweighted: Tensor) -> Tensor:
        """The share of the reweighted negatives that the correction subtracts; above 1 if the
        correction exceeds them.
        """
        share = (positive - reweighted).clamp_max(60.0).exp()
        return self.tau_plus * self.layout.negatives * share

    def _refine(self, positive: Tensor, reweighted: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """Compute both again, in float64, for the anchors whose correction cancels."""
        assert self.exact is not None
        anchors, neighbors = self.exact
        false = self._false(positive, reweighted)
        error = torch.finfo(torch.float32).eps / self.temperature
        rows = (false * error > _LARGEST_ERROR * (1 - false).abs()).nonzero()[:, 0]
        if len(rows):
            scores = anchors[start + rows] @ neighbors.T
            columns = self.layout.first + start + rows
            order = torch.arange(len(rows), device=rows.device)
            positive[rows] = scores[order, columns]
            scores[order, columns] = -math.inf
            if self.layout.within:
                scores[order, self.layout.samples + columns] = -math.inf
            harder = torch.logsumexp(scores * (1 + self.beta), dim=1)
            # beta = 0 would multiply -inf by 0
            hard = torch.logsumexp(scores.where(scores.isneginf(), scores * self.beta), dim=1)
            reweighted[rows] = harder - hard + math.log(self.layout.negatives)
        return positive, reweighted


def unshifted(logarithm: Tensor, shift: Tensor | None) -> Tensor:
    """Undo the shift of `exponentiate` on a logarithm of sums."""
    return logarithm if shift is None else logarithm + shift[:, 0]


def _positive_against(
    positive: Tensor, negative: Tensor, terms: Tensor, total: Tensor
) -> TileResult:
    """softplus(negative - positive), where negative is log(total) up to a constant and total the
    sum of the terms.
    """
    gap = negative - positive
    pressure = gap.sigmoid().to(terms.dtype)
    return TileResult(softplus(gap).to(terms.dtype), terms, pressure / total, -pressure)


@dataclass
class ConditionalMean:
    """cond_i = log sum_j w_ji exp S_ij of a tile of anchors."""

    terms: Tensor
    """The terms of the sum up to a factor per row, (rows, columns)."""
    total: Tensor
    """The sums of the terms, (rows,)."""
    log: Tensor
    """cond, in the precision of the weights, (rows,)."""
    alive: Tensor
    """Boolean (rows,): False where the estimate was raised to the floor, and has no gradient."""
    exponentials: Tensor | None
    """exp S, in the memory of the scores; None if out of range, when the scores are unchanged."""


def estimate(scores: Tensor, weights: Tensor, temperature: float, floor: Floor) -> ConditionalMean:
    """Estimate cond; `scores` and `weights` are overwritten.

    exp S lies between exp(-1/temperature) and exp(1/temperature), so an estimate below the former,
    which negative weights or a lack of weights can cause, is raised to the floor.
    """
    exponentials = None
    if in_range(scores.dtype, temperature):
        exponentials = scores.exp_()
        terms = weights.mul_(exponentials)
        total = terms.sum(dim=1)
        cond = total.log()
    else:
        # Shifted by the largest of log |w| + S: the largest score alone may belong to a weight of
        # 1e-30 and hide all the others.
        exponents = weights.abs().log_().add_(scores)
        shift = exponents.new_zeros(len(exponents), 1)
        if exponents.shape[1]:  # none of the columns may matter to any anchor of a tile
            shift = exponents.amax(dim=1, keepdim=True)
            shift = shift.where(shift.isfinite(), 0.0)
        terms = exponents.sub_(shift).exp_().copysign_(weights).to(scores.dtype)
        total = terms.sum(dim=1)
        cond = total.log() + shift[:, 0]
    alive = (total > 0) & (cond > floor.log)
    floor.anchors += len(total)
    floor.floored.append((~alive).sum())
    return ConditionalMean(terms, total, cond.where(alive, floor.log), alive, exponentials)
