"""What the three CCL-K losses share: from kernel and condition to weights, and from weights to a loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, Unpack

from torch import Tensor

from cclk.condition import Condition, as_condition
from cclk.kernels import RBF, Kernel
from cclk.losses.base import ContrastiveLoss, Support, split_support
from cclk.losses.batch import Batch, CommonOptions, Direction, Options
from cclk.losses.core import Objective
from cclk.losses.objectives import Floor, PartnerWeights
from cclk.notices import warn
from cclk.operator.diagnose import complaint
from cclk.operator.solvers import Solver, check_ridge, check_solver
from cclk.operator.weights import Weights, check_mode, weigh


@dataclass(frozen=True)
class Conditioning:
    """How a condition becomes weights."""

    kernel: Kernel
    ridge: float = 0.01
    solver: Solver = "auto"
    weights: str = "loo"

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise ValueError(f"kernel is {self.kernel!r}: it must be a kernel from cclk.kernels, such as RBF()")
        check_ridge(self.ridge), check_solver(self.solver), check_mode(self.weights)

    @property
    def as_released(self) -> bool:
        """The authors' code sums over views instead of averaging, and leaves the positive in every denominator."""
        return self.weights == "release"

    def weigh(self, table: Condition, batch: Batch) -> Weights:
        """The weights over a joined batch; the kernel is fitted on it if nobody did before."""
        self.kernel.ensure_fitted(table)
        return weigh(self.kernel, table, self.ridge, self.solver, self.weights, batch.dtype)


@dataclass(frozen=True)
class Report:
    """How the last call of a loss went."""

    solver: str
    reason: str
    """Why this solver."""
    floored: Tensor
    """The share of anchors whose estimate fell below the smallest possible value and was put there, 0-d."""
    complaint: str | None
    """What is wrong with the kernel on this batch; only looked at when asked for."""


MakeObjective = Callable[[Direction, PartnerWeights, Floor], Objective]


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
) -> tuple[Tensor, Report]:
    """A conditional loss and its report.

    Args:
        embeddings_condition: without a condition, the detached embedding of the anchor's view serves as one.
        examine: also judge the weights of this batch.
    """
    extra, extra_condition = split_support(support)
    batch = Batch(x, y, extra, options)
    own = condition is None and embeddings_condition
    floor, weights, found = Floor(_log_floor(conditioning, options)), None, None

    def objective(direction: Direction) -> Objective:
        nonlocal weights, found
        if weights is None or own:
            if own:
                table = joined_table(batch, y if direction.swapped else x, extra, extra if extra_condition is None else extra_condition)
            else:
                table = joined_table(batch, condition, extra, extra_condition)
            weights = conditioning.weigh(table, batch)
            if examine and found is None:
                found = complaint(conditioning.kernel, table, weights)
        partners = PartnerWeights(weights.rows, direction.layout, weights.counts_own, conditioning.as_released)
        return make(direction, partners, floor)

    loss = batch.loss(objective)
    assert weights is not None
    return loss, Report(weights.solver, weights.reason, floor.share(), found)


def _log_floor(conditioning: Conditioning, options: Options) -> float:
    """exp f is at least exp(-1/temperature), and so must be its mean; the authors' code only keeps it above 1e-7."""
    return math.log(1e-7) if conditioning.as_released else -1 / options.temperature


def joined_table(batch: Batch, condition: object, extra: Tensor | None, extra_condition: object, name: str = "condition") -> Condition:
    """The condition of the joined batch and its support."""
    table = as_condition(condition, name=name, device=batch.device)
    if len(table) != batch.local:
        raise ValueError(f"{name} has {len(table)} rows but x has {batch.local}: every sample needs its own")
    table = batch.join_condition(table)
    if extra is None:
        return table
    more = as_condition(extra_condition, name="support[1]", device=batch.device)
    if len(more) != len(extra):
        raise ValueError(f"support[1] has {len(more)} rows but support[0] has {len(extra)}: each extra partner needs its {name}")
    return table.join(more)


class ConditionalLoss(ContrastiveLoss):
    """A loss with a kernel on the condition.

    Args:
        kernel: how alike two outcomes of the condition are. The default suits numbers; `Delta` is for categories.
        ridge: regularisation of the operator W = (K + ridge I)^-1 K.
        solver: "auto", "exact", "features", "nystrom" or `cclk.Nystrom(landmarks)`; `report.reason` tells what "auto" chose and why.
        weights: "loo" (leave-one-out), "paper" (the literal equation), "release" (the authors' code) or "nw" (kernel average).
        Others: as in `ContrastiveLoss`.
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
        **options: Unpack[CommonOptions],
    ) -> None:
        super().__init__(**options)
        self.conditioning = Conditioning(self.default_kernel() if kernel is None else kernel, ridge, solver, weights)
        self._examined = False

    @classmethod
    def release(cls, kernel: Kernel, *, ridge: float | None = None, temperature: float = 0.5, **options: Any) -> Self:
        """The behaviour of the authors' release: both views as anchors, within-view pairs, W's diagonal 0, small weights cut."""
        ridge = cls.release_ridge if ridge is None else ridge
        return cls(kernel, ridge=ridge, temperature=temperature, weights="release", views="all", symmetric=True, **options)

    @staticmethod
    def default_kernel() -> Kernel:
        """The kernel of a loss that was given none."""
        return RBF(length_scale="auto")

    @property
    def kernel(self) -> Kernel:
        """The kernel, with its fitted length scales."""
        return self.conditioning.kernel

    def compute(self, x: Tensor, y: Tensor, condition: object, support: Support | None, make: MakeObjective, own: bool = False) -> Tensor:
        """The loss; keeps the report, and warns once if the first batch shows a kernel that cannot work."""
        loss, self.report = conditional_contrast(
            x, y, condition, support, self.conditioning, self.options, make,
            embeddings_condition=own, examine=not self._examined,
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

    def get_extra_state(self) -> dict[str, dict[str, float]]:
        """The fitted length scales, so that a checkpoint brings them back."""
        return {"kernel": self.kernel.state()}

    def set_extra_state(self, state: dict[str, dict[str, float]]) -> None:
        self.kernel.load_state(state["kernel"])
