"""Diagnosis of a kernel on a batch: effective numbers of neighbors, dead anchors, a verdict."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from cclk._eager import eager
from cclk._notebook import Shown
from cclk.condition import Condition, as_condition
from cclk.errors import CclkError
from cclk.kernels import Kernel
from cclk.kernels.bandwidth import HasLengthScale, divisor, effective_neighbors, scaled_leaves
from cclk.kernels.base import Leaf, group_numbers
from cclk.kernels.stationary import format_scale
from cclk.weights.operators import Operator
from cclk.weights.solvers import Solver
from cclk.weights.variants import Conditioning, KernelAverage, Weights, conditioning, weigh

MANY_DEAD = 0.25
"""The share of dead anchors above which a kernel is too narrow."""
FEW = 32
"""With fewer other samples than this, a kernel is never called too wide."""
_SHARED_MARGIN = 1.1
"""A kernel is too wide if it exceeds the number of samples with equal values by this factor."""
_UNSEEN_RANGE = 0.1
"""A column with a range of this many length scales changes an RBF kernel by less than 0.5 %."""
_TILE = 256


@dataclass(frozen=True, repr=False)
class Diagnosis(Shown):
    """The result of `cclk.diagnose`; `print` shows all of it."""

    effective_sample_size: Tensor
    """(sum w)^2 / sum w^2, the effective number of neighbors of each anchor, (n,); 0 if dead."""
    mass: Tensor
    """sum_j |w_ji| of each anchor, (n,)."""
    dead: Tensor
    """Anchors without neighbors, boolean (n,)."""
    weights: str
    """The weights in use."""
    solver: str
    """The solver in use."""
    reason: str
    """Why this solver was selected."""
    problem: str | None
    """What is wrong with the kernel for this condition, and a remedy."""
    operator: Operator | None
    """The operator W; None with the weights "nw", which need none."""
    others: int
    """The number of other samples."""

    @property
    def healthy(self) -> bool:
        """Whether the kernel suits the condition."""
        return self.problem is None

    @property
    def verdict(self) -> str:
        """The problem and its remedy, or that there is none."""
        return self.problem or (
            "Good. Median effective number of neighbors:"
            f" {float(self.effective_sample_size.median()):.1f} of {self.others}; anchors without"
            f" neighbors: {self.dead_share:.0%}."
        )

    @property
    def dead_share(self) -> float:
        """The share of anchors without neighbors."""
        return float(self.dead.double().mean())

    @cached_property
    def negative_share(self) -> float | None:
        """The share of negative entries in the operator W, before any clipping; None without."""
        if self.operator is None:
            return None
        rows, size = self.operator.with_rows_scaled(None, torch.float64), len(self.operator)
        negative = sum(
            int((rows(start, min(start + _TILE, size)) < -1e-12).sum())
            for start in range(0, size, _TILE)
        )
        return negative / size**2

    @property
    def effective_rank(self) -> float | None:
        """trace W: the number of independent values that the operator distinguishes; None without
        an operator.
        """
        return None if self.operator is None else float((1 - self.operator.complement).sum())

    def __str__(self) -> str:
        size = self.effective_sample_size.double()
        low, median, high = torch.quantile(size, size.new_tensor([0.1, 0.5, 0.9])).tolist()
        rank = (
            ""
            if self.operator is None
            else f"  effective rank of W: {self.effective_rank:.1f};"
            f" negative entries: {self.negative_share:.1%}\n"
        )
        return (
            f"{self.verdict}\n"
            f"  effective number of neighbors: {low:.1f} (10% quantile), {median:.1f} (median),"
            f" {high:.1f} (90% quantile)\n"
            f"  dead anchors: {int(self.dead.sum())} of {len(size)}\n"
            f"{rank}"
            f"  weights: {self.weights}; solver: {self.solver} ({self.reason})"
        )


@eager
def diagnose(
    loss: nn.Module | Kernel,
    condition: object,
    ridge: float = 0.01,
    solver: Solver = "auto",
    *,
    weights: str = "auto",
) -> Diagnosis:
    """Compute effective numbers of neighbors, dead anchors, rank and a verdict for one batch.

    Args:
        loss: A loss with a kernel, such as `FairCCLK`, whose weights are diagnosed; or a kernel. If
            the kernel has not been fitted, it is fitted on this condition.
        condition: The condition of one batch, of the batch size used in training: the number of
            neighbors depends on it.
        ridge: Of a kernel: regularization of the operator W = (K + ridge I)^-1 K.
        solver: Of a kernel: "auto", "exact", "features", "nystrom" or `cclk.Nystrom(landmarks)`.
        weights: Of a kernel: "loo", "paper", "authors" or "nw", as in the losses; or "auto", the
            weights of `FairCCLK`.

    Shape:
        condition: (n,) or (n, k), or a mapping of columns, with at least 2 rows.

    Example:
        >>> import torch
        >>> from cclk import FairCCLK
        >>> from cclk.kernels import RBF
        >>> loss = FairCCLK(RBF(length_scale=0.1))
        >>> print(diagnose(loss, torch.linspace(0, 1, 8)).verdict)
        Good. Median effective number of neighbors: 2.1 of 7; anchors without neighbors: 0%.
    """
    how = conditioning(loss, ridge, solver, weights)
    table = as_condition(condition)
    if len(table) < 2:
        raise CclkError(
            f"condition has {len(table)} rows: an anchor needs at least one other sample"
        )
    how.kernel.ensure_fitted(table)
    return judge(how, weigh(how, table, torch.float64))


def judge(
    how: Conditioning, weights: Weights, *, anchors: int | None = None, distant: bool = False
) -> Diagnosis:
    """Diagnose weights.

    Args:
        how: What they were computed with.
        weights: The weights.
        anchors: The number of leading samples that are anchors, at most; all by default. The others
            are neighbors only.
        distant: Whether samples at any distance count as neighbors in a kernel average, whose mass
            is 1 however far its samples are.
    """
    total = len(weights.condition)
    anchors = total if anchors is None else min(anchors, total)
    sizes, masses, deaths = [], [], []
    for start in range(0, anchors, _TILE):
        stop = min(start + _TILE, anchors)
        tile = weights.rows(start, stop)
        tile[:, start:stop].fill_diagonal_(0)
        tile = tile.abs_()
        mass = tile.sum(dim=1)
        masses.append(mass)
        sizes.append(effective_neighbors(tile))
        if not distant and isinstance(weights.rows, KernelAverage):
            mass = torch.minimum(mass, weights.rows.support(start, stop))
        deaths.append(mass < weights.dead_below)
    dead = torch.cat(deaths)
    size = torch.cat(sizes).masked_fill(dead, 0.0)
    return Diagnosis(
        size,
        torch.cat(masses),
        dead,
        how.weights,
        weights.solver,
        weights.reason,
        _problem(how.kernel, weights.condition, size, dead),
        weights.operator,
        total - 1,
    )


def _problem(kernel: Kernel, table: Condition, size: Tensor, dead: Tensor) -> str | None:
    dead_share, median, others = float(dead.double().mean()), float(size.median()), len(table) - 1
    if bool((table.values == table.values[:1]).all()):
        return "The condition is constant in this batch, so it has no effect."
    if dead_share >= MANY_DEAD:
        lonely = f"{dead_share:.0%} of anchors have no neighbors"
        if scaled_leaves(kernel):
            return f"The length scale is too small: {lonely}. {_widen(kernel, table)}."
        return (
            f"{lonely}, because no other sample in the batch has their value. Use a larger batch,"
            " pass support=(y, condition), or use a kernel of the distance, such as RBF."
        )
    if unseen := _unseen_column(kernel, table):
        return unseen
    wide = others >= FEW and median > 0.5 * others
    if wide and median > _SHARED_MARGIN * _sharing(kernel, table):
        return (
            f"Nearly unconditional. Median effective number of neighbors: {median:.0f} of {others}."
            f" {_sharpen(kernel)}."
        )
    return None


def _sharing(kernel: Kernel, table: Condition) -> float:
    """Return how many other samples have the values of the median anchor in the kernel's columns.

    No kernel can distinguish these.
    """
    columns = [leaf.columns for leaf in kernel.leaves() if isinstance(leaf, Leaf)] or [None]
    groups = group_numbers(torch.cat([table.select(each) for each in columns], dim=1))
    return float((groups.bincount()[groups] - 1).median())


def _unseen_column(kernel: Kernel, table: Condition) -> str | None:
    """Describe a column whose range is far below its length scale, if other columns differ."""
    for leaf in scaled_leaves(kernel):
        widths = table.widths(leaf.columns)
        if len(widths) == 1 or leaf.length_scale_ is None:
            continue
        values = table.select(leaf.columns) / divisor(leaf.length_scale_, table, leaf.columns)
        parts = torch.split(values, widths, dim=1)
        ranges = torch.stack([part.amax(dim=0).sub(part.amin(dim=0)).norm() for part in parts])
        narrow = (ranges > 0) & (ranges < _UNSEEN_RANGE)
        if narrow.any() and not narrow.all():
            number = int(narrow.nonzero()[0])
            names = list(table.names) if leaf.columns is None and table.names else leaf.columns
            name = names[number] if isinstance(names, list | tuple) else number
            return (
                f"The kernel ignores column {name!r}, which varies by only"
                f" {float(ranges[number]):.2g} length scales: use length_scale='auto', or one"
                " number for each column."
            )
    return None


def _refit(verb: str, leaves: list[HasLengthScale]) -> str | None:
    """Advise on "auto" scales, which cannot be replaced by "auto"; None if there are others."""
    if not all(leaf.length_scale == "auto" for leaf in leaves):
        return None
    neighbors = max(leaf.neighbors for leaf in leaves)
    return f"{verb} {neighbors:g}, or fit the kernel on the condition it is used with"


def _sharpen(kernel: Kernel) -> str:
    leaves = scaled_leaves(kernel)
    if not leaves:
        return "Use a sharper kernel, such as RBF"
    return _refit("Lower neighbors below", leaves) or "Lower length_scale, or use 'auto'"


def _widen(kernel: Kernel, table: Condition) -> str:
    """Advise with the length scale that "auto" would fit here."""
    advised = copy.deepcopy(kernel)
    leaves = scaled_leaves(advised)
    if advice := _refit("Raise neighbors above", leaves):
        return advice
    for leaf in leaves:
        leaf.length_scale = "auto"
    advised.fit(table, batch_size=len(table))
    scales = []
    for leaf in leaves:
        scale = leaf.length_scale_ or 1.0
        if isinstance(scale, tuple) and max(scale) < 3 * min(scale):
            scale = max(scale)  # nearly the same for all columns
        scales.append(format_scale(scale, 2))
    if len(leaves) == 1:
        return f"Raise length_scale above {scales[0]}, or use 'auto'"
    pairs = (f"{leaf.columns!r} above {scale}" for leaf, scale in zip(leaves, scales, strict=True))
    return f"Raise the length_scale of {', '.join(pairs)}, or use 'auto'"
