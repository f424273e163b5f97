"""The base class of the conditional losses: from kernel and condition to weights, and from weights
to a loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import ClassVar, Self

import torch
from torch import Tensor

from cclk._eager import eager
from cclk.condition import Condition, as_condition
from cclk.errors import DataError, warn
from cclk.kernels import RBF, Kernel
from cclk.kernels.bandwidth import Scale
from cclk.losses import release, sparse
from cclk.losses.autograd import AutogradObjective, MakeObjective, TileLayout
from cclk.losses.base import ContrastiveLoss
from cclk.losses.batch import Batch
from cclk.losses.core import in_range
from cclk.losses.objectives import NeighborWeights, WeightedNegatives, WeightedPositives
from cclk.losses.options import Options, Reduction, Support, Views, split_support
from cclk.operator.diagnose import complaint
from cclk.operator.solvers import Solver
from cclk.operator.weights import Conditioning, weigh


@dataclass(frozen=True)
class Report:
    """Diagnostics of the last call of a loss."""

    solver: str
    reason: str
    """Why this solver was selected."""
    pairs: str
    """Which pairs of samples were scored, and why."""
    floored: Tensor
    """The share of anchors whose estimate was below the smallest possible value and was raised to
    it, 0-d; 0 for objectives without a floor.
    """
    complaint: str | None
    """What is wrong with the kernel on this batch; only examined on the first call."""


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
    embedding_condition: bool = False,
    examine: bool = False,
    training: bool = True,
) -> tuple[Tensor, Report]:
    """Compute a conditional loss and its report.

    Args:
        make: The objective.
        embedding_condition: If the condition is None, use the detached embedding of the anchor.
        examine: Also examine whether the kernel fits the batch.
        training: Whether this is a training batch; if not, the warning that the kernel was not
            fitted mentions it.
    """
    kernel = conditioning.kernel
    extra, extra_condition = split_support(support)
    # Weights of both signs cancel, and their small sums need more digits than float32 has.
    batch = Batch(x, y, extra, options, precise=conditioning.weights == "paper")
    # At low temperatures a score can outweigh any weight, so that the smallest weights count and
    # need float64's range.
    dtype = batch.dtype if in_range(batch.dtype, options.scale) else torch.float64
    if conditioning.weights == "release":
        make = release.as_released(make)
    conditions = [condition]
    if condition is None and embedding_condition:
        views = (x, y) if options.symmetric else (x,)
        conditions = [{"embedding": view} for view in views]
        if not isinstance(extra_condition, Mapping):
            extra_condition = {"embedding": extra if extra_condition is None else extra_condition}
    with batch.without_autocast():
        directions = batch.directions()
        tables = [joined_condition(batch, each, extra, extra_condition) for each in conditions]
        for table in tables:
            kernel.ensure_fitted(table, training=training)
        negligible = sparse.negligible(dtype, options.scale, len(tables[0]))
        weights = [weigh(conditioning, table, dtype, negligible) for table in tables]
        objectives = [
            make(layout, options.scale, NeighborWeights(each.rows, layout, each.counts_own))
            for (_, _, layout), each in zip(directions, cycle(weights), strict=False)
        ]
        pairs = sparse.prepare(objectives, batch.dtype)
        loss = batch.reduce(list(map(batch.contrast, directions, objectives)))
        return loss, Report(
            weights[0].solver,
            weights[0].reason,
            pairs,
            torch.stack([objective.floor.share() for objective in objectives]).mean(),
            complaint(kernel, tables[0], weights[0]) if examine else None,
        )


def joined_condition(
    batch: Batch, condition: object, extra: Tensor | None, extra_condition: object
) -> Condition:
    """The condition of the joined batch and its support."""
    table = as_condition(condition, device=batch.device)
    if len(table) != batch.rows:
        raise DataError(
            f"condition has {len(table)} rows but x has {batch.rows}: every sample needs one row"
        )
    table = batch.join_condition(table)
    if extra is None:
        return table
    more = as_condition(extra_condition, name="support[1]", device=batch.device)
    if len(more) != len(extra):
        raise DataError(
            f"support[1] has {len(more)} rows but support[0] has {len(extra)}: each extra neighbor"
            " needs its condition"
        )
    return table.join(more)


class ConditionalLoss(ContrastiveLoss):
    r"""Base class of losses that weight samples by the similarity of their conditions.

    .. math:: L = \frac1b \sum_i \ell(S_i, w_i), \quad S_{ij} = \cos(x_i, y_j) /
              \mathrm{temperature}, \quad w_{ij} = w(z_j, z_i)

    A subclass overrides `objective`, which returns the loss of each anchor from its scores and
    weights. The base class computes everything else: unit embeddings, the two directions, pairs
    within a view, the support, gathering over processes, the kernel (fitted on the first batch if
    it has not been), the weights, and the reduction. Gradients come from autograd.

    Args:
        kernel: Similarity of two values of the condition. The default, `RBF(length_scale="auto")`,
            is for numbers; `Delta` is for categories.
        ridge: Regularization of the operator W = (K + ridge I)^-1 K.
        solver: How W is computed: "auto", "exact", "features", "nystrom" or
            `cclk.Nystrom(landmarks)`. After a call, `loss.report` holds the selected solver and
            the reason.
        weights: "loo" (leave-one-out), "paper" (the literal equation), "release" (the authors'
            code), "nw" (kernel average) or "auto", the default of the loss: `default_weights`,
            here "loo".
        temperature: Scores are cosine similarities divided by the temperature.
        views: "cross" compares an anchor with the samples of the other view, as the paper's
            equations do; "all" also with those of the same view, as SimCLR does.
        symmetric: Average the loss with x as anchors and the loss with y as anchors.
        gather_distributed: Compute the loss of the joined batch of all `torch.distributed`
            processes. Gradients averaged over processes, as by DistributedDataParallel, are those
            of the joined batch.
        reduction: "mean", "sum" or "none" over anchors.
        learn_temperature: Learn the logarithm of the temperature, from this one on and not below
            0.01. Pass `loss.parameters()` to the optimizer as well.

    Shape:
        x, y: (b, d), of any norm.
        condition: (b,), (b, k), a data frame or a mapping of columns.
        support: ((q, d), q rows of condition), more candidates.
        Result: a scalar, or (b,) with reduction="none".

    Example:
        >>> import torch
        >>> from cclk.kernels import Delta
        >>> class Alignment(ConditionalLoss):
        ...     def objective(self, scores, weights, layout):
        ...         return (weights * (scores[layout.positive][:, None] - scores)).sum(dim=1)
        >>> x = torch.eye(4)
        >>> Alignment(Delta(), ridge=1e-6, temperature=1.0)(x, x, torch.tensor([0, 0, 1, 1]))
        tensor(1.0000)

    Reference:
        Tsai et al., Conditional Contrastive Learning with Kernel, ICLR 2022.
    """

    report: Report | None = None
    """Diagnostics of the last call."""
    embedding_condition: ClassVar[bool] = False
    """Whether the anchor's embedding, detached, is the condition if none is passed."""
    default_weights: ClassVar[str] = "loo"
    """What weights="auto" stands for: "nw" with kernels that are large between close values only,
    or "loo".
    """
    release_ridge: ClassVar[float] = release.RIDGE
    tiled: ClassVar[type[WeightedNegatives] | type[WeightedPositives] | None] = None
    """The objective with a hand-written slope; used unless a subclass overrides `objective`."""

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        ridge: float = 0.01,
        solver: Solver = "auto",
        weights: str = "auto",
        temperature: float = 0.1,
        views: Views = "cross",
        symmetric: bool = False,
        gather_distributed: bool = False,
        reduction: Reduction = "mean",
        learn_temperature: bool = False,
    ) -> None:
        super().__init__(
            temperature,
            views=views,
            symmetric=symmetric,
            gather_distributed=gather_distributed,
            reduction=reduction,
            learn_temperature=learn_temperature,
        )
        self.conditioning = Conditioning(
            self.default_kernel() if kernel is None else kernel,
            ridge,
            solver,
            weights,
            self.default_weights,
        )
        self._examined = False

    @classmethod
    def release(
        cls,
        kernel: Kernel,
        *,
        ridge: float | None = None,
        solver: Solver = "auto",
        temperature: float = release.TEMPERATURE,
        gather_distributed: bool = False,
        reduction: Reduction = "mean",
    ) -> Self:
        """Return the loss as the authors' released code computes it: weights="release",
        views="all" and symmetric=True.

        Args:
            kernel: As in the loss.
            ridge: The default is that of the release: 0.01, and 100 for `HardNegCCLK`.
            solver: As in the loss.
            temperature: As in the loss; the default is that of the release.
            gather_distributed: As in the loss.
            reduction: As in the loss.
        """
        return cls(
            kernel,
            ridge=cls.release_ridge if ridge is None else ridge,
            solver=solver,
            temperature=temperature,
            gather_distributed=gather_distributed,
            reduction=reduction,
            **release.OPTIONS,
        )

    @staticmethod
    def default_kernel() -> Kernel:
        """The kernel of a loss that is constructed without one."""
        return RBF(length_scale="auto")

    @property
    def kernel(self) -> Kernel:
        """The kernel, with its fitted length scales."""
        return self.conditioning.kernel

    def objective(self, scores: Tensor, weights: Tensor, layout: TileLayout) -> Tensor:
        """Return the loss of each of n anchors against m candidates, shape (n,).

        Called with one tile of anchors at a time, and again in the backward pass, so it must
        depend on nothing but its arguments and the parameters of the loss.

        Args:
            scores: S, (n, m), at most 1 / temperature in absolute value. float64 where the
                exponential of a score would overflow float32, else in the dtype of the embeddings.
            weights: w, (n, m), in the dtype of the scores, without gradient. The weights of a
                sample are split evenly between its two views. Rows sum to 1 with weights="nw", to
                approximately 1 with "loo", and to 0 for an anchor without neighbors. The positive
                has weight 0 except with "paper", whose weights may be negative.
            layout: The positive of each anchor, and the order of the columns.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no objective: override"
            " `objective(self, scores, weights, layout)`, which returns the loss of each anchor"
        )

    def tiled_objective(self) -> MakeObjective | None:
        """Return the objective with a hand-written slope, if there is one."""
        return self.tiled

    @eager
    def forward(
        self, x: Tensor, y: Tensor, condition: object = None, support: Support | None = None
    ) -> Tensor:
        """Compute the loss and the report, and warn once if the kernel does not fit the batch."""
        overridden = type(self).objective is not ConditionalLoss.objective
        make = self.tiled_objective()
        loss, self.report = conditional_contrast(
            x,
            y,
            condition,
            support,
            self.conditioning,
            self.options,
            partial(AutogradObjective, self.objective) if overridden or make is None else make,
            embedding_condition=self.embedding_condition,
            examine=not self._examined,
            training=self.training,
        )
        self._examined = True
        if self.report.complaint is not None:
            warn(f"{self.report.complaint} (kernel {self.kernel!r}; see cclk.diagnose)")
        return loss

    def settings(self) -> dict[str, object]:
        shown: dict[str, object] = {"kernel": self.kernel, "ridge": self.conditioning.ridge}
        if self.conditioning.solver != "auto":
            shown["solver"] = self.conditioning.solver
        return shown | {"weights": self.conditioning.weights}

    def get_extra_state(self) -> dict[str, dict[str, Scale]]:
        """The fitted length scales, so that a checkpoint restores them."""
        return {"kernel": self.kernel.state_dict()}

    def set_extra_state(self, state: dict[str, dict[str, Scale]]) -> None:
        self.kernel.load_state_dict(state["kernel"])
