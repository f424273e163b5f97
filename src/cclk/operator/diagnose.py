"""What a kernel does to a batch, in numbers and in plain words."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from cclk.condition import Condition, as_condition
from cclk.eager import eager
from cclk.kernels import Kernel
from cclk.kernels.bandwidth import HasLengthScale, Scale, divisor, effective_neighbors
from cclk.kernels.base import Leaf, group_numbers
from cclk.kernels.stationary import format_scale
from cclk.operator.solvers import Solver, check_ridge, check_solver, solve
from cclk.operator.weights import Weights, check_mode, weigh

MANY_DEAD = 0.25
"""The share of dead anchors beyond which a kernel is called too narrow."""
FEW = 32
"""With fewer others than this, seeing most of them is no sign of anything."""
_SHARED_MARGIN = 1.1
"""An anchor may see this many times the samples that share its value before a kernel is called
too wide.
"""
_UNSEEN_RANGE = 0.1
"""A column whose values lie within this many length scales changes an RBF kernel by less than
half a percent.
"""
_TILE = 256


@dataclass(frozen=True)
class Diagnosis:
    """What each anchor of a batch sees. `print` it for the whole image; `verdict` is the
    sentence to act upon.
    """

    effective_sample_size: Tensor
    """(sum w)^2 / sum w^2 for each anchor, (n,): how many neighbors it has in effect; 0 for a
    dead one.
    """
    mass: Tensor
    """sum_j |w_ji| for each anchor, (n,)."""
    dead: Tensor
    """Anchors that see nobody, boolean (n,)."""
    negative_share: float
    """The share of negative entries in the operator W, before any clipping."""
    effective_rank: float
    """trace W: how many independent outcomes the operator tells apart."""
    solver: str
    reason: str
    healthy: bool
    verdict: str

    @property
    def dead_share(self) -> float:
        """The share of anchors that see nobody."""
        return float(self.dead.double().mean())

    def __str__(self) -> str:
        size = self.effective_sample_size
        low, middle, high = torch.quantile(
            size.double(), size.new_tensor([0.1, 0.5, 0.9]).double()
        ).tolist()
        return "\n".join(
            [
                self.verdict,
                (
                    f"  effective neighbors: median {middle:.1f} of {len(size) - 1} (10 % have"
                    f" fewer than {low:.1f}, 10 % more than {high:.1f})"
                ),
                f"  dead anchors: {int(self.dead.sum())} of {len(size)}",
                (
                    f"  effective rank of W: {self.effective_rank:.1f}; negative entries:"
                    f" {self.negative_share:.1%}"
                ),
                f"  solver: {self.solver} ({self.reason})",
            ]
        )


@eager
def diagnose(
    kernel: Kernel,
    condition: object,
    ridge: float = 0.01,
    solver: Solver = "auto",
    *,
    weights: str = "loo",
) -> Diagnosis:
    """Measure what a kernel and ridge make of a condition: effective neighbors, dead anchors,
    rank, and a plain verdict.

    Args:
        kernel: a kernel; if it is not fitted yet, it is fitted on this condition.
        condition: one batch, at the batch size to be used: what an anchor sees depends on it.
        ridge, solver, weights: as in the losses.

    >>> import torch
    >>> from cclk.kernels import RBF
    >>> print(diagnose(RBF(length_scale=1e-4), torch.linspace(0, 1, 8)).verdict.partition(":")[0])
    Bandwidth so small that 100 % of anchors see nobody
    """
    table = as_condition(condition)
    if len(table) < 2:
        raise ValueError(
            f"condition has {len(table)} rows: an anchor needs at least one other sample"
        )
    kernel.ensure_fitted(table)
    check_ridge(ridge), check_solver(solver), check_mode(weights)

    found = weigh(kernel, table, ridge, solver, weights, torch.float64)
    operator = found.operator or solve(kernel, table, ridge, solver).operator
    raw = operator.with_rows_scaled(None, torch.float64)
    tiles = [(start, min(start + _TILE, len(table))) for start in range(0, len(table), _TILE)]
    negatives = sum(int((raw(start, stop) < -1e-12).sum()) for start, stop in tiles)
    size, mass, dead = _look(found, len(table))
    rank = float((1 - operator.complement).sum())
    healthy, verdict = _judge(kernel, table, size, dead)
    return Diagnosis(
        size,
        mass,
        dead,
        negatives / len(table) ** 2,
        rank,
        found.solver,
        found.reason,
        healthy,
        verdict,
    )


def neighbors_of(
    kernel: Kernel,
    condition: object,
    ridge: float = 0.01,
    solver: Solver = "auto",
    *,
    weights: str = "loo",
    anchors: int | None = None,
) -> Tensor:
    """The effective neighbors of each anchor alone, (n,): the part of a diagnosis that is cheap
    enough for every logged step.

    Args:
        anchors: how many of the first samples are anchors; all by default. The others are neighbors
            only.
    """
    return examine(kernel, condition, ridge, solver, weights=weights, anchors=anchors)[0]


def examine(
    kernel: Kernel,
    condition: object,
    ridge: float = 0.01,
    solver: Solver = "auto",
    *,
    weights: str = "loo",
    anchors: int | None = None,
) -> tuple[Tensor, str | None]:
    """The effective neighbors of each anchor, (n,), and what is wrong with the kernel on this
    condition; None if nothing is.
    """
    table = as_condition(condition)
    kernel.ensure_fitted(table)
    size, _, dead = _look(
        weigh(kernel, table, ridge, solver, weights, torch.float64),
        len(table) if anchors is None else anchors,
    )
    healthy, verdict = _judge(kernel, table, size, dead)
    return size, None if healthy else verdict


def complaint(kernel: Kernel, table: Condition, weights: Weights) -> str | None:
    """What is wrong with these weights, judged by some of the anchors; None if nothing is."""
    size, _, dead = _look(weights, min(len(table), 2 * _TILE))
    healthy, verdict = _judge(kernel, table, size, dead)
    return None if healthy else verdict


def _look(weights: Weights, anchors: int) -> tuple[Tensor, Tensor, Tensor]:
    """Effective neighbors, mass and deadness of the first anchors."""
    sizes, masses = [], []
    for start in range(0, anchors, _TILE):
        stop = min(start + _TILE, anchors)
        tile = weights.rows(start, stop)
        tile[:, start:stop].fill_diagonal_(0)
        tile = tile.abs_()
        masses.append(tile.sum(dim=1))
        sizes.append(effective_neighbors(tile))
    mass = torch.cat(masses)
    dead = mass < weights.dead_below
    return torch.cat(sizes).masked_fill(dead, 0.0), mass, dead


def _judge(kernel: Kernel, table: Condition, size: Tensor, dead: Tensor) -> tuple[bool, str]:
    share, middle, others = float(dead.double().mean()), float(size.median()), len(table) - 1
    scaled = bool(_scaled_leaves(kernel))
    if bool((table.values == table.values[:1]).all()):
        return (
            False,
            (
                "The condition is constant in this batch: every anchor sees everybody alike, so it"
                " conditions on nothing."
            ),
        )
    if share >= MANY_DEAD:
        if scaled:
            return (
                False,
                (
                    f"Bandwidth so small that {share * 100:.0f} % of anchors see nobody:"
                    f" {_raise_above(kernel, table)}."
                ),
            )
        return (
            False,
            (
                f"{share * 100:.0f} % of anchors see nobody: their outcome is alone in the batch."
                " Use a larger batch, pass support=(y, condition), or choose a kernel that lets"
                " near outcomes help, such as RBF."
            ),
        )
    unseen = _unseen(kernel, table)
    if unseen is not None:
        return False, unseen
    if (
        others >= FEW
        and middle > 0.5 * others
        and middle > _SHARED_MARGIN * _sharing(kernel, table)
    ):
        return (
            False,
            (
                f"Nearly unconditional: the median anchor sees {middle:.0f} of {others} others"
                f" about alike. {_sharpen(kernel)}."
            ),
        )
    return (
        True,
        (
            f"Good: the median anchor has {middle:.1f} effective neighbors of {others}, and"
            f" {share * 100:.0f} % see nobody."
        ),
    )


def _scaled_leaves(kernel: Kernel) -> list[HasLengthScale]:
    return [leaf for leaf in kernel.leaves() if isinstance(leaf, HasLengthScale)]


def _sharing(kernel: Kernel, table: Condition) -> float:
    """How many others share the value of the median anchor in all columns of the kernel: no
    kernel can see fewer alike.
    """
    selected = [leaf.columns for leaf in kernel.leaves() if isinstance(leaf, Leaf)]
    values = torch.cat([table.select(columns) for columns in selected], dim=1)
    groups = group_numbers(values)
    return float((groups.bincount()[groups] - 1).median())


def _unseen(kernel: Kernel, table: Condition) -> str | None:
    """A column that is far too narrow for its length scale, beside others that are not."""
    for leaf in _scaled_leaves(kernel):
        widths = table.widths(leaf.columns)
        if len(widths) == 1 or leaf.length_scale_ is None:
            continue
        values = table.select(leaf.columns) / divisor(leaf.length_scale_, table, leaf.columns)
        ranges = torch.stack(
            [
                part.amax(dim=0).sub(part.amin(dim=0)).norm()
                for part in torch.split(values, widths, dim=1)
            ]
        )
        narrow = (ranges > 0) & (ranges < _UNSEEN_RANGE)
        if narrow.any() and not narrow.all():
            place = int(narrow.nonzero()[0])
            names = list(table.names) if leaf.columns is None and table.names else leaf.columns
            name = names[place] if isinstance(names, list | tuple) else place
            return (
                f"The kernel ignores column {name!r}, which varies by only"
                f" {float(ranges[place]):.2g} length scales: use length_scale='auto', or one number"
                " for each column."
            )
    return None


def _sharpen(kernel: Kernel) -> str:
    leaves = _scaled_leaves(kernel)
    if not leaves:
        return "Choose a sharper kernel, such as RBF"
    if all(leaf.length_scale == "auto" for leaf in leaves):
        return (
            f"Lower neighbors, now {max(leaf.neighbors for leaf in leaves):g}, or fit the kernel on"
            " the condition it is used with"
        )
    return "Lower length_scale, or use 'auto'"


def _raise_above(kernel: Kernel, table: Condition) -> str:
    """Advice with a number: what "auto" would choose here."""
    advised = copy.deepcopy(kernel)
    leaves = _scaled_leaves(advised)
    if all(leaf.length_scale == "auto" for leaf in leaves):
        return (
            f"raise neighbors above {max(leaf.neighbors for leaf in leaves):g}, or fit the kernel"
            " on the condition it is used with"
        )
    for leaf in leaves:
        leaf.length_scale = "auto"
    advised.fit(table, batch_size=len(table))
    after = [format_scale(_one_number(leaf.length_scale_ or 1.0), 2) for leaf in leaves]
    if len(leaves) == 1:
        return f'raise length_scale above {after[0]}, or use "auto"'
    pairs = ", ".join(
        f"{leaf.columns!r} above {scale}" for leaf, scale in zip(leaves, after, strict=True)
    )
    return f'raise the length_scale of {pairs}, or use "auto"'


def _one_number(scale: Scale) -> Scale:
    """One number instead of one per column, where they are about the same."""
    return max(scale) if isinstance(scale, tuple) and max(scale) < 3 * min(scale) else scale
