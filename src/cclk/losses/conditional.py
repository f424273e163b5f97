"""What the three CCL-K losses share: from kernel and condition to weights, and from weights to a
loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from cclk.condition import Condition, as_condition
from cclk.eager import eager
from cclk.errors import warn
from cclk.kernels import RBF, Kernel
from cclk.kernels.bandwidth import Scale
from cclk.losses.base import ContrastiveLoss
from cclk.losses.batch import Batch
from cclk.losses.core import Layout, Objective, in_range
from cclk.losses.objectives import Floor, NeighborWeights
from cclk.losses.options import Options, Reduction, Support, Temperature, Views, split_support
from cclk.operator.diagnose import complaint
from cclk.operator.solvers import Solver, check_ridge, check_solver
from cclk.operator.weights import check_mode, weigh


@dataclass(frozen=True)
class Conditioning:
    """How a condition becomes weights."""

    kernel: Kernel
    ridge: float = 0.01
    solver: Solver = "auto"
    weights: str = "loo"

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise ValueError(
                f"kernel is {self.kernel!r}: it must be a kernel from cclk.kernels, such as RBF()"
            )
        check_ridge(self.ridge), check_solver(self.solver), check_mode(self.weights)

    @property
    def as_released(self) -> bool:
        """The authors' code sums over views instead of averaging, and leaves the positive in
        every denominator.
        """
        return self.weights == "release"


@dataclass(frozen=True)
class Report:
    """How the last call of a loss went."""

    solver: str
    reason: str
    """Why this solver."""
    floored: Tensor
    """The share of anchors whose estimate fell below the smallest possible value and was put
    there, 0-d.
    """
    complaint: str | None
    """What is wrong with the kernel on this batch; only examined when asked for."""


MakeObjective = Callable[[Layout, float, NeighborWeights, Floor], Objective]


@eager
def conditional_contrast(
    x: Tensor,
    y: Tensor,
    condition: object,
    support: Support | None,
    conditioning: Conditioning,
    options: Options,
    make: MakeObjective,
    *,
    embeddings_condition: bool = False,
    examine: bool = False,
    training: bool = True,
) -> tuple[Tensor, Report]:
    """A conditional loss and its report.

    Args:
        embeddings_condition: Without a condition, use the detached embedding of the anchor's view.
        examine: Also judge the weights of this batch.
        training: Whether this is a training batch, on which an unfitted kernel may be fitted
            without a further warning.
    """
    extra, extra_condition = split_support(support)
    # Weights of both signs cancel, and what is left of them needs more digits than float32 has.
    batch = Batch(x, y, extra, options, precise=conditioning.weights == "paper")
    # At low temperatures a score can outweigh any weight, so that the smallest weights count and
    # need float64's range.
    dtype = batch.dtype if in_range(batch.dtype, options.scale) else torch.float64
    own = condition is None and embeddings_condition
    floor = _floor(conditioning, options)
    weights, found, shares = None, None, []
    with batch.without_autocast():
        for direction in batch.directions():
            if weights is None or own:
                if own:
                    anchors = {"embedding": y if direction.swapped else x}
                    further = (
                        extra_condition
                        if isinstance(extra_condition, Mapping)
                        else {"embedding": extra_condition}
                    )
                    table = joined_table(
                        batch,
                        anchors,
                        extra,
                        {"embedding": extra} if extra_condition is None else further,
                    )
                else:
                    table = joined_table(batch, condition, extra, extra_condition)
                conditioning.kernel.ensure_fitted(table, training=training)
                weights = weigh(
                    conditioning.kernel,
                    table,
                    conditioning.ridge,
                    conditioning.solver,
                    conditioning.weights,
                    dtype,
                )
                if examine and found is None:
                    found = complaint(conditioning.kernel, table, weights)
            neighbors = NeighborWeights(
                weights.rows, direction.layout, weights.counts_own, conditioning.as_released
            )
            shares.append(
                batch.contrast(direction, make(direction.layout, options.scale, neighbors, floor))
            )
        assert weights is not None
        return batch.reduce(shares), Report(weights.solver, weights.reason, floor.share(), found)


def _floor(conditioning: Conditioning, options: Options) -> Floor:
    """exp f is at least exp(-1/temperature), and so must be its mean; the authors' code only
    keeps it above 1e-7.
    """
    return (
        Floor(math.log(1e-7))
        if conditioning.as_released
        else Floor(-1 / options.scale, of_temperature=True)
    )


def joined_table(
    batch: Batch, condition: object, extra: Tensor | None, extra_condition: object
) -> Condition:
    """The condition of the joined batch and its support."""
    table = as_condition(condition, device=batch.device)
    if len(table) != batch.local:
        raise ValueError(
            f"condition has {len(table)} rows but x has {batch.local}: every sample needs its own"
        )
    table = batch.join_condition(table)
    if extra is None:
        return table
    more = as_condition(extra_condition, name="support[1]", device=batch.device)
    if len(more) != len(extra):
        raise ValueError(
            f"support[1] has {len(more)} rows but support[0] has {len(extra)}: each extra neighbor"
            " needs its condition"
        )
    return table.join(more)


class ConditionalLoss(ContrastiveLoss):
    """A loss with a kernel on the condition.

    Args:
        kernel: How similar two values of the condition are. The default suits numbers; `Delta` is
            for categories.
        ridge: Regularization of the operator W = (K + ridge I)^-1 K.
        solver: "auto", "exact", "features", "nystrom" or `cclk.Nystrom(landmarks)`; `report.reason`
            says what "auto" selected and why.
        weights: "loo" (leave-one-out), "paper" (the literal equation), "release" (the authors'
            code) or "nw" (kernel average).
        temperature, views, symmetric, gather_distributed, reduction: As in `ContrastiveLoss`.
    """

    report: Report | None = None
    """How the last call went: solver, why, and the share of floored anchors."""
    release_ridge = 0.01

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        ridge: float = 0.01,
        solver: Solver = "auto",
        weights: str = "loo",
        temperature: Temperature = 0.1,
        views: Views = "cross",
        symmetric: bool = False,
        gather_distributed: bool = False,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            temperature=temperature,
            views=views,
            symmetric=symmetric,
            gather_distributed=gather_distributed,
            reduction=reduction,
        )
        self.conditioning = Conditioning(
            self.default_kernel() if kernel is None else kernel, ridge, solver, weights
        )
        self._examined = False

    @classmethod
    def release(
        cls,
        kernel: Kernel,
        *,
        ridge: float | None = None,
        solver: Solver = "auto",
        temperature: Temperature = 0.5,
        gather_distributed: bool = False,
        reduction: Reduction = "mean",
    ) -> Self:
        """The behavior of the authors' release: both views as anchors, within-view pairs, W's
        diagonal 0, small weights cut.

        Args:
            kernel: As in the loss.
            ridge: The release's own by default: 0.01, and 100 for `HardNegCCLK`.
            solver, temperature, gather_distributed, reduction: As in the loss.
        """
        return cls(
            kernel,
            ridge=cls.release_ridge if ridge is None else ridge,
            solver=solver,
            weights="release",
            temperature=temperature,
            views="all",
            symmetric=True,
            gather_distributed=gather_distributed,
            reduction=reduction,
        )

    @staticmethod
    def default_kernel() -> Kernel:
        """The kernel of a loss that was built without one."""
        return RBF(length_scale="auto")

    @property
    def kernel(self) -> Kernel:
        """The kernel, with its fitted length scales."""
        return self.conditioning.kernel

    @eager
    def compute(
        self,
        x: Tensor,
        y: Tensor,
        condition: object,
        support: Support | None,
        make: MakeObjective,
        own: bool = False,
    ) -> Tensor:
        """The loss; keeps the report, and warns once if the first batch shows a kernel that
        cannot work.
        """
        loss, self.report = conditional_contrast(
            x, y, condition, support, self.conditioning, self.options, make,
            embeddings_condition=own, examine=not self._examined, training=self.training,
        )  # fmt: skip
        if not self._examined:
            self._examined = True
            if self.report.complaint is not None:
                warn(f"{self.report.complaint} (kernel {self.kernel!r}; cclk.diagnose tells more)")
        return loss

    def settings(self) -> dict[str, object]:
        shown: dict[str, object] = {"kernel": self.kernel, "ridge": self.conditioning.ridge}
        if self.conditioning.solver != "auto":
            shown["solver"] = self.conditioning.solver
        return shown | {"weights": self.conditioning.weights}

    def get_extra_state(self) -> dict[str, dict[str, Scale]]:
        """The fitted length scales, so that a checkpoint brings them back."""
        return {"kernel": self.kernel.state_dict()}

    def set_extra_state(self, state: dict[str, dict[str, Scale]]) -> None:
        self.kernel.load_state_dict(state["kernel"])
