"""The objectives, as functions of a tile of scores S_ij = cos(x_i, y_j) / temperature.

Three logarithms per anchor describe them all:

    pos_i  = S_ii
    marg_i = log sum_{j != i} exp S_ij
    cond_i = log sum_j w_ji exp S_ij

and every loss is -(a - logaddexp(a, b)) = softplus(b - a) of two of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import softplus

from cclk.losses.core import Layout, TileResult, exponentiate, in_range
from cclk.operator.operators import Rows


@dataclass
class NeighborWeights:
    """The weights of a tile over all its columns, made from the weights over samples.

    A sample that appears in two views (`within`) counts once: its weight is shared between them,
    unless `summed`. The anchor itself is never its own neighbor, so its positive alone carries its
    own weight.
    """

    rows: Rows
    layout: Layout
    counts_own: bool = False
    summed: bool = False

    def tile(self, start: int, stop: int) -> Tensor:
        layout = self.layout
        weights = self.rows(layout.first + start, layout.first + stop)
        if not layout.within:
            return weights
        batch = weights[:, : layout.batch]
        if not self.summed:
            batch.mul_(0.5)
        weights = torch.cat([weights, batch], dim=1)
        if self.counts_own:
            if not self.summed:
                layout.positive(weights, start, stop).mul_(2.0)
            layout.own(weights, start, stop).zero_()
        return weights


@dataclass
class Floor:
    """The smallest estimate that is believed, in logarithms, and how many anchors were below it
    and put there.
    """

    log: float
    of_temperature: bool = False
    """Whether it is -1 / temperature, which has a gradient where the temperature is learned."""
    anchors: int = 0
    floored: list[Tensor] = field(default_factory=list)

    def share(self) -> Tensor:
        """The share of such anchors, a 0-d tensor on the device of the scores."""
        return torch.stack(self.floored).sum() / self.anchors


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
    """Fair and HardNeg CCL-K: softplus(log n + cond - pos); the cluster baseline Fair-InfoNCE
    with n = 1 and no floor.
    """

    layout: Layout
    temperature: float
    weights: NeighborWeights
    log_count: float
    floor: Floor

    def tile(self, scores: Tensor, start: int, stop: int) -> TileResult:
        positive = self.layout.positive(scores, start, stop).clone()
        weights = self.weights.tile(start, stop)
        if not self.weights.counts_own:
            self.layout.fill(scores, start, stop, -math.inf)
        elif self.layout.within:
            self.layout.own(scores, start, stop).fill_(-math.inf)
        terms, total, cond, alive = conditional(scores, weights, self.temperature, self.floor)
        result = _positive_against(positive, cond + self.log_count, terms, total)
        result.coefficient = result.coefficient.where(alive, 0.0)
        if self.floor.of_temperature and result.pull is not None:
            result.of_floor = -result.pull.where(~alive, 0.0)
        return result


@dataclass
class WeightedPositives:
    """WeaklySup CCL-K: softplus(marg - cond)."""

    layout: Layout
    temperature: float
    weights: NeighborWeights
    floor: Floor
    marginal_has_positive: bool

    def tile(self, scores: Tensor, start: int, stop: int) -> TileResult:
        weights = self.weights.tile(start, stop)
        if self.layout.within:
            self.layout.own(scores, start, stop).fill_(-math.inf)
        terms, total, cond, alive = conditional(scores, weights, self.temperature, self.floor)
        shift = None
        if in_range(scores.dtype, self.temperature):  # then `conditional` has exponentiated them
            if not self.marginal_has_positive:
                self.layout.positive(scores, start, stop).zero_()
        else:
            if not self.marginal_has_positive:
                self.layout.positive(scores, start, stop).fill_(-math.inf)
            scores, shift = exponentiate(scores, self.temperature)
        everyone = scores.sum(dim=1)
        gap = unshifted(everyone.log(), shift) - cond
        slope = scores.mul_(everyone.reciprocal()[:, None])
        slope.addcmul_(terms, total.reciprocal().neg_().where(alive, 0.0)[:, None])
        pressure = gap.sigmoid().to(slope.dtype)
        of_floor = pressure.where(~alive, 0.0).neg_() if self.floor.of_temperature else None
        return TileResult(softplus(gap).to(slope.dtype), slope, pressure, of_floor=of_floor)


@dataclass
class ClusterPositives:
    """The cluster baseline WeaklySup-InfoNCE: the mean over same-cluster positives j of
    logsumexp_k S_ik - S_ij.
    """

    layout: Layout
    temperature: float
    weights: NeighborWeights

    def tile(self, scores: Tensor, start: int, stop: int) -> TileResult:
        mask = self.weights.tile(start, stop)
        share = mask.div_(mask.sum(dim=1, keepdim=True))
        aligned = (share * scores).sum(dim=1)
        if self.layout.within:
            self.layout.own(scores, start, stop).fill_(-math.inf)
        scores, shift = exponentiate(scores, self.temperature)
        total = scores.sum(dim=1)
        slope = scores.mul_(total.reciprocal()[:, None]).sub_(share)
        return TileResult(unshifted(total.log(), shift) - aligned, slope, torch.ones_like(total))


@dataclass
class ReweightedNegatives:
    """Robinson et al. 2021: the n negatives weighed by exp(beta S), with a share tau_plus of
    false ones taken off.
    """

    layout: Layout
    temperature: float
    beta: float
    tau_plus: float

    def tile(self, scores: Tensor, start: int, stop: int) -> TileResult:
        count, beta, tau = self.layout.negatives, self.beta, self.tau_plus
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
        # (reweighted - tau n pos) / (1 - tau), at least n exp(-1 / temperature), all in logarithms.
        false = tau * count * (positive - reweighted).clamp_max(60.0).exp()
        floor = math.log(count) - 1 / self.temperature
        corrected = reweighted + torch.log1p(-false.clamp_max(1 - 1e-7)) - math.log1p(-tau)
        alive = (false < 1 - 1e-7) & (corrected > floor)
        negative = corrected.where(alive, floor)
        pressure = (negative - positive).sigmoid()
        per_unit = (pressure / (1 - false)).where(alive, 0.0)
        of_floor = pressure.where(~alive, 0.0)
        slope = harder.mul_(((1 + beta) / total)[:, None]).addcmul_(hard, (-beta / weight)[:, None])
        return TileResult(
            softplus(negative - positive), slope, per_unit, -pressure - per_unit * false, of_floor
        )


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


def conditional(
    scores: Tensor, weights: Tensor, temperature: float, floor: Floor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """cond_i = log sum_j w_ji exp S_ij, with the terms of the sum.

    exp f lies between exp(-1/temperature) and exp(1/temperature), so an estimate below the former
    (possible with negative weights, or none) is put on the floor and its gradient stops: `alive` is
    False.

    Returns:
        The terms (rows, columns), up to a factor per row; their sums; cond, in the precision of the
        weights; alive. Scores that are `in_range` are exponentiated in place, others are left
        alone.
    """
    if in_range(scores.dtype, temperature):
        terms = weights.mul_(scores.exp_())
        total = terms.sum(dim=1)
        cond = total.log()
    else:
        # Shifted by the largest of log |w| + S: the largest score alone may belong to a weight of
        # 1e-30 and hide all the others.
        exponents = weights.abs().log_().add_(scores)
        shift = exponents.amax(dim=1, keepdim=True)
        shift = shift.where(shift.isfinite(), 0.0)
        terms = exponents.sub_(shift).exp_().copysign_(weights).to(scores.dtype)
        total = terms.sum(dim=1)
        cond = total.log() + shift[:, 0]
    alive = (total > 0) & (cond > floor.log)
    floor.anchors += len(total)
    floor.floored.append((~alive).sum())
    return terms, total, cond.where(alive, floor.log), alive
