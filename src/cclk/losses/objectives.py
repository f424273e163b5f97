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
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import softplus

from cclk.losses.core import Layout, TileResult
from cclk.weights.neighborhoods import Neighborhoods
from cclk.weights.operators import LocalRows, Near
from cclk.weights.variants import Weights

LARGEST_UNSHIFTED = {torch.float32: 30.0, torch.float64: 300.0}
"""Scores up to this size can be exponentiated as they are; larger ones after subtracting their
row's largest.
"""


@dataclass(frozen=True)
class ColumnWeights:
    """The weights of a tile over all its columns, from the weights over samples.

    A sample that appears in two views (`within`) counts once: each view has half of its weight, or
    all of it if the weights are per view. The anchor itself is never its own neighbor, so its
    positive alone carries its own weight.
    """

    samples: Weights
    layout: Layout

    def near(self, neighborhoods: Neighborhoods, tile: int, share: float) -> Near:
        """The entries of a tile that matter, over columns instead of samples.

        Args:
            neighborhoods: Of the rows.
            tile: The number of one of its tiles.
            share: The weight of each anchor that may be dropped.
        """
        assert isinstance(self.samples.rows, LocalRows)
        samples, weights, dropped = self.samples.rows.near(neighborhoods, tile, share)
        if not self.layout.within:
            return Near(samples, weights, dropped)
        in_batch = samples < self.layout.batch
        batch = weights[:, in_batch]
        if not self.samples.per_view:
            batch = batch.mul_(0.5)
            weights[:, in_batch] = batch
        columns = torch.cat([samples, samples[in_batch] + self.layout.samples])
        return Near(columns, torch.cat([weights, batch], dim=1), dropped)

    def tile(self, start: int, stop: int) -> Tensor:
        layout, per_view = self.layout, self.samples.per_view
        weights = self.samples.rows(layout.first + start, layout.first + stop)
        if not layout.within:
            return weights
        batch = weights[:, : layout.batch]
        if not per_view:
            batch.mul_(0.5)
        weights = torch.cat([weights, batch], dim=1)
        if self.samples.counts_own:
            if not per_view:
                layout.positive(weights, start, stop).mul_(2.0)
            layout.own(weights, start, stop).zero_()
        return weights


@dataclass(frozen=True)
class TiledObjective(ABC):
    """An objective that computes its own gradient."""

    layout: Layout
    temperature: float

    learns_floor: ClassVar[bool] = True
    """Whether the floor is -1 / temperature, which has a gradient if the temperature is learned."""

    @property
    def log_floor(self) -> float:
        """The logarithm of the smallest possible estimate."""
        return -1 / self.temperature

    @abstractmethod
    def tile(self, scores: Tensor, start: int, stop: int) -> TileResult:
        """As in `core.Objective`."""


class Marginal(TiledObjective):
    """InfoNCE: softplus(marg - pos)."""

    def tile(self, scores: Tensor, start: int, stop: int) -> TileResult:
        positive = self.layout.positive(scores, start, stop).clone()
        self.layout.fill(scores, start, stop, -math.inf)
        scores, shift = exponentiate(scores, self.temperature)
        total = scores.sum(dim=1)
        return _positive_against(positive, unshifted(total.log(), shift), scores, total)


@dataclass(frozen=True)
class WeightedObjective(TiledObjective):
    """A tiled objective of weights."""

    weights: ColumnWeights


class WeightedNegatives(WeightedObjective):
    """Fair and HardNeg CCL-K: softplus(log n + cond - pos), with n negatives as in InfoNCE."""

    @property
    def scores_all(self) -> bool:
        """Whether all columns have a weight, whatever the condition."""
        return self.weights.samples.counts_own

    @property
    def log_count(self) -> float:
        """log n."""
        return math.log(self.layout.negatives)

    def tile(self, scores: Tensor, start: int, stop: int) -> TileResult:
        weights = self.weights.tile(start, stop)
        positive = self.layout.positive(scores, start, stop).clone()
        return self.contrast(positive, scores, weights)[0]

    def contrast(
        self, positive: Tensor, scores: Tensor, weights: Tensor
    ) -> tuple[TileResult, ConditionalMean]:
        """The result on any columns, and the estimate; `scores` and `weights` are overwritten.

        Args:
            positive: Scores of the positives, (rows,).
            scores: Scores of the columns, (rows, columns).
            weights: Weights of the columns, (rows, columns).
        """
        cond = estimate(scores, weights, self.temperature, self.log_floor)
        result = _positive_against(positive, cond.log + self.log_count, cond.terms, cond.total)
        result.coefficient = result.coefficient.where(cond.alive, 0.0)
        result.clamped = (~cond.alive).sum()
        if self.learns_floor and result.positive_grad is not None:
            result.floor_grad = -result.positive_grad.where(~cond.alive, 0.0)
        return result, cond


@dataclass(frozen=True)
class CorrectedNegatives(WeightedNegatives):
    """HardNeg CCL-K with a share of uniform negatives, and corrected for a share tau_plus of false
    ones: (c - tau_plus e^pos) / (1 - tau_plus) instead of c.
    """

    uniform_share: float
    tau_plus: float

    @property
    def scores_all(self) -> bool:
        return self.uniform_share > 0 or super().scores_all

    def tile(self, scores: Tensor, start: int, stop: int) -> TileResult:
        positive = self.layout.positive(scores, start, stop).clone()
        weights = self.weights.tile(start, stop)
        if self.uniform_share:
            uniform = torch.full_like(weights, self.uniform_share / self.layout.negatives)
            weights.mul_(1 - self.uniform_share)
            weights.add_(self.layout.fill(uniform, start, stop, 0.0))
        return self.contrast(positive, scores, weights)[0]

    def contrast(
        self, positive: Tensor, scores: Tensor, weights: Tensor
    ) -> tuple[TileResult, ConditionalMean]:
        if not self.tau_plus:
            return super().contrast(positive, scores, weights)
        cond = estimate(scores, weights, self.temperature, self.log_floor)
        dtype = cond.terms.dtype
        with torch.enable_grad():
            log = cond.log.detach().requires_grad_()
            positive = positive.to(log.dtype).requires_grad_()
            floor = torch.full_like(log, self.log_floor).requires_grad_()
            negative, alive = without_false_negatives(log, positive, self.tau_plus, floor)
            alive = alive & cond.alive
            loss = softplus(negative.where(alive, floor) + self.log_count - positive)
            of_log, of_positive, of_floor = (
                gradient.to(dtype)
                for gradient in torch.autograd.grad(loss.sum(), (log, positive, floor))
            )
        coefficient = (of_log / cond.total).where(alive, 0.0).to(dtype)
        return TileResult(
            loss.detach().to(dtype), cond.terms, coefficient, of_positive, of_floor, (~alive).sum()
        ), cond


class ClusterNegatives(WeightedNegatives):
    """The cluster baseline Fair-InfoNCE: the sum over the other samples of the anchor's cluster."""

    log_count = 0.0
    log_floor = -math.inf
    learns_floor = False


class WeightedPositives(WeightedObjective):
    """WeaklySup CCL-K: softplus(marg - cond)."""

    excludes_positive: ClassVar[bool] = True
    """Whether the marginal lacks the positive pair."""

    def tile(self, scores: Tensor, start: int, stop: int) -> TileResult:
        weights = self.weights.tile(start, stop)
        if self.layout.within:
            self.layout.own(scores, start, stop).fill_(-math.inf)
        cond = estimate(scores, weights, self.temperature, self.log_floor)
        shift, slope = None, cond.exponentials
        if self.excludes_positive:
            excluded, value = (scores, -math.inf) if slope is None else (slope, 0.0)
            self.layout.positive(excluded, start, stop).fill_(value)
        if slope is None:
            slope, shift = exponentiate(scores, self.temperature)
        marginal = slope.sum(dim=1)
        gap = unshifted(marginal.log(), shift) - cond.log
        slope.mul_(marginal.reciprocal()[:, None])
        slope.addcmul_(cond.terms, cond.total.reciprocal().neg_().where(cond.alive, 0.0)[:, None])
        negative_prob = gap.sigmoid().to(slope.dtype)
        return TileResult(
            softplus(gap).to(slope.dtype),
            slope,
            negative_prob,
            floor_grad=negative_prob.where(~cond.alive, 0.0).neg_() if self.learns_floor else None,
            clamped=(~cond.alive).sum(),
        )


class MeanOfLogs(WeightedObjective):
    """The mean over positives j, with shares v_ij that sum to 1, of logsumexp_k S_ik - S_ij."""

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


@dataclass(frozen=True)
class OuterPositives(MeanOfLogs):
    """WeaklySup CCL-K with a mean of logarithms: the weights as shares, beside the own pair's."""

    own_share: float

    def shares(self, start: int, stop: int) -> Tensor:
        samples = replace(self.weights.samples, per_view=False)  # shares of samples, not of views
        weights = replace(self.weights, samples=samples).tile(start, stop)
        weights.relu_()  # "paper" has negative ones
        self.layout.positive(weights, start, stop).zero_()
        # If the weights sum to less than 1, the remainder goes to the anchor's own pair.
        weights.mul_((1 - self.own_share) / weights.sum(dim=1, keepdim=True).clamp_min(1.0))
        self.layout.positive(weights, start, stop).copy_(1 - weights.sum(dim=1))
        return weights


@dataclass(frozen=True)
class ReweightedNegatives(TiledObjective):
    """Robinson et al. 2021: the n negatives weighted by exp(beta S), corrected for a share
    tau_plus of false negatives. Its slope comes from autograd, tile by tile.
    """

    beta: float
    tau_plus: float

    def tile(self, scores: Tensor, start: int, stop: int) -> TileResult:
        with torch.enable_grad():
            scores = scores.detach().requires_grad_()
            floor = scores.new_full((len(scores),), self.log_floor).requires_grad_()
            loss = self._loss(scores, floor, start, stop)
            slope, of_floor = torch.autograd.grad(loss.sum(), (scores, floor))
        return TileResult(loss.detach(), slope, torch.ones_like(floor), floor_grad=of_floor)

    def _loss(self, scores: Tensor, floor: Tensor, start: int, stop: int) -> Tensor:
        excluded = torch.zeros_like(scores, dtype=torch.bool)
        self.layout.fill(excluded, start, stop, True)
        negatives = scores.masked_fill(excluded, -math.inf)
        shift = negatives.detach().amax(dim=1, keepdim=True)
        negatives = negatives - shift
        harder = ((1 + self.beta) * negatives).exp().sum(dim=1)
        hard = (self.beta * negatives).exp().sum(dim=1) if self.beta else self.layout.negatives
        log = (harder / hard).log() + shift[:, 0]
        positive = self.layout.positive(scores, start, stop)
        negative, _ = without_false_negatives(log, positive, self.tau_plus, floor)
        return softplus(negative + math.log(self.layout.negatives) - positive)


def without_false_negatives(
    log: Tensor, positive: Tensor, tau_plus: float, floor: Tensor
) -> tuple[Tensor, Tensor]:
    """log((e^log - tau_plus e^positive) / (1 - tau_plus)), at least the floor, and where it is
    above it.
    """
    false = tau_plus * (positive - log).clamp_max(60.0).exp()
    corrected = log + torch.log1p(-false.clamp_max(1 - 1e-7)) - math.log1p(-tau_plus)
    alive = (false < 1 - 1e-7) & (corrected > floor)
    return corrected.where(alive, floor), alive


def in_range(dtype: torch.dtype, temperature: float) -> bool:
    """Whether any score at this temperature can be exponentiated as it is."""
    return 1 / temperature <= LARGEST_UNSHIFTED[dtype]


def exponentiate(scores: Tensor, temperature: float) -> tuple[Tensor, Tensor | None]:
    """exp(scores - shift), which overwrites the scores, and the shift (rows, 1); None if they are
    in range without a shift.
    """
    if in_range(scores.dtype, temperature):
        return scores.exp_(), None
    shift = scores.amax(dim=1, keepdim=True)
    return scores.sub_(shift).exp_(), shift


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
    negative_prob = gap.sigmoid().to(terms.dtype)
    return TileResult(softplus(gap).to(terms.dtype), terms, negative_prob / total, -negative_prob)


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


def estimate(
    scores: Tensor, weights: Tensor, temperature: float, log_floor: float
) -> ConditionalMean:
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
    alive = (total > 0) & (cond > log_floor)
    return ConditionalMean(terms, total, cond.where(alive, log_floor), alive, exponentials)
