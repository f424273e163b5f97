"""The base classes of the losses: shared arguments, and the path from two views to a number."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from cclk._eager import eager
from cclk.errors import SettingsError, warn
from cclk.kernels import RBF, Kernel
from cclk.kernels.bandwidth import Scale
from cclk.losses import authors as authors_code
from cclk.losses import sparse
from cclk.losses.autograd import AutogradObjective
from cclk.losses.batch import Batch
from cclk.losses.core import Run
from cclk.losses.objectives import LARGEST_UNSHIFTED, ColumnWeights
from cclk.losses.options import SMALLEST_LEARNED, Options, Reduction, Support, Views
from cclk.weights.diagnose import judge
from cclk.weights.solvers import Solver
from cclk.weights.variants import Conditioning, Weights, weigh

_SHARED = {
    "{options}": """\
        temperature: Scores are cosine similarities divided by the temperature.
        views: "cross" compares an anchor with the samples of the other view, as the paper's
            equations do; "all" also with those of the same view, as SimCLR does.
        symmetric: Average the loss with x as anchors and the loss with y as anchors.
        gather_distributed: Compute the loss of the joined batch of all `torch.distributed`
            processes. Gradients averaged over processes, as by DistributedDataParallel, are those
            of the joined batch.
        reduction: "mean", "sum" or "none" over anchors.
        learn_temperature: Learn the logarithm of the temperature, from this one on and not below
            0.01. Pass `loss.parameters()` to the optimizer as well.""",
    "{kernel}": """\
        kernel: Similarity of two values of the condition. The default, `RBF(length_scale="auto")`,
            is for numbers; `Delta` is for categories.""",
    "{weights}": """\
        ridge: Regularization of the operator W = (K + ridge I)^-1 K.
        solver: How W is computed: "auto", "exact", "features", "nystrom" or
            `cclk.Nystrom(landmarks)`. After a call, `loss.report` holds the selected solver and
            the reason.
        weights: "loo" (leave-one-out), "paper" (the literal equation), "authors" (the authors'
            code), "nw" (kernel average) or "auto", the default of the loss: {default}.""",
    "{shape}": """\
        x, y: (b, d), of any norm.
        condition: (b,), (b, k), a data frame or a mapping of columns.
        support: ((q, d), q rows of condition), more candidates.
        Result: a scalar, or (b,) with reduction="none".""",
}
"""Sections of docstrings: of the options that a class inherits."""
_DEFAULTS = {
    "loo": '"loo"',
    "nw": (
        '"nw", but "loo"\n            for kernels that are not large between close values only,'
        " such as Linear and Cosine"
    ),
}


_EXAMINED = 512
"""Anchors whose neighbors are counted in the first call."""


class ContrastiveLoss(nn.Module):
    """A contrastive loss of two views of a batch.

    A subclass is data: `objective`, and what the constructor does not yet have.
    """

    objective: Callable[..., Any]
    """The class of a `TiledObjective`, or a method `objective(scores, weights, layout)`."""
    default_weights: ClassVar[str] = "loo"
    _double_from: float = math.inf
    """The number of samples from which the loss is computed in float64."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Complete the docstring by the arguments that all losses share."""
        super().__init_subclass__(**options)
        default = _DEFAULTS.get(cls.default_weights, repr(cls.default_weights))
        for name, text in _SHARED.items():
            filled = text.replace("{default}", default)
            cls.__doc__ = (cls.__doc__ or "").replace(f"        {name}", filled)

    def __init__(
        self,
        temperature: float = 0.1,
        *,
        views: Views = "cross",
        symmetric: bool = False,
        gather_distributed: bool = False,
        reduction: Reduction = "mean",
        learn_temperature: bool = False,
    ) -> None:
        super().__init__()
        self.options = Options(temperature, views, symmetric, gather_distributed, reduction)
        if learn_temperature and temperature < SMALLEST_LEARNED:
            raise SettingsError(
                f"temperature is {temperature:g}: a learned one is at least {SMALLEST_LEARNED:g}"
            )
        self.log_temperature = (
            nn.Parameter(torch.tensor(math.log(temperature))) if learn_temperature else None
        )
        """The logarithm of the temperature, if it is learned."""

    @property
    def temperature(self) -> float | Tensor:
        """The current temperature: a number, or a tensor with a gradient if it is learned."""
        if self.log_temperature is None:
            return self.options.temperature
        least = math.log(SMALLEST_LEARNED)
        if float(self.log_temperature.detach()) < least:
            # Of the parameter, not of its exponential, which would have no gradient from then on.
            with torch.no_grad():
                self.log_temperature.clamp_(min=least)
        return self.log_temperature.exp()

    @eager
    def forward(
        self, x: Tensor, y: Tensor, condition: object = None, support: Support | None = None
    ) -> Tensor:
        """Compute the loss; `condition` and the condition of the support may be ignored."""
        temperature = self.temperature
        scale = _number(temperature)
        batch = Batch(x, y, support, self.options, temperature, self._double_from)
        with _without_autocast(x.device.type):
            weights = self._weights(batch, condition, scale)
            losses, clamped = [], []
            for number, direction in enumerate(batch.directions()):
                if number < len(weights):  # both directions may have the same
                    run, pairs = self._run(batch, weights[number], scale)
                loss, count = batch.contrast(direction, run)
                losses.append(loss)
                clamped.append(count)
            self._report(batch, weights[0], pairs, clamped)
            return batch.reduce(losses)

    def _weights(
        self, batch: Batch, condition: object, temperature: float
    ) -> list[Weights] | list[None]:
        """The weights of both directions, or of each one; none for an unconditional loss."""
        return [None]

    def _run(
        self, batch: Batch, weights: Weights | None, temperature: float
    ) -> tuple[Run | AutogradObjective, str]:
        """What computes the losses of a direction, and which pairs are scored and why."""
        layout = batch.layout
        columns = [] if weights is None else [ColumnWeights(weights, layout)]
        if inspect.ismethod(self.objective):
            return AutogradObjective(self.objective, layout, *columns), sparse.ALL
        make = self.objective
        if weights is not None and weights.per_view:
            make = authors_code.FORMS.get(make, make)
        return sparse.runner(make(layout, temperature, *columns), batch.dtype)

    def _report(
        self, batch: Batch, weights: Weights | None, pairs: str, clamped: list[Tensor]
    ) -> None:
        """Keep diagnostics of the call."""

    def settings(self) -> dict[str, object]:
        """The settings that `repr` shows before the common options."""
        return {}

    def extra_repr(self) -> str:
        shown = {name: repr(value) for name, value in self.settings().items()}
        shown["temperature"] = (
            repr(self.temperature)
            if self.log_temperature is None
            else f"{_number(self.temperature):.4g} (learned)"
        )
        for field in fields(self.options)[1:]:
            value = getattr(self.options, field.name)
            if value != field.default:
                shown[field.name] = repr(value)
        return ", ".join(f"{name}={value}" for name, value in shown.items())


def _number(temperature: float | Tensor) -> float:
    return float(temperature.detach()) if isinstance(temperature, Tensor) else temperature


def _without_autocast(device: str) -> AbstractContextManager[object]:
    """Keep matrix products in the dtype of the batch."""
    enabled = torch.is_autocast_enabled(device)
    return torch.autocast(device, enabled=False) if enabled else nullcontext()


@dataclass(frozen=True)
class Report:
    """Diagnostics of the last call of a loss."""

    solver: str
    reason: str
    """Why this solver was selected."""
    pairs: str
    """Which pairs of samples were scored, and why."""
    clamped: Tensor
    """The share of anchors whose estimate was below the smallest possible value and was raised to
    it, 0-d; 0 for objectives without a floor.
    """
    problem: str | None
    """What is wrong with the kernel on this batch; only examined on the first call."""


def _objective(self: ConditionalLoss, scores: Tensor, weights: Tensor, layout: object) -> Tensor:
    raise NotImplementedError(
        f"{type(self).__name__} has no objective: override"
        " `objective(self, scores, weights, layout)`, which returns the loss of each anchor"
    )


class ConditionalLoss(ContrastiveLoss):
    r"""Base class of losses that weight samples by the similarity of their conditions.

    .. math:: L = \frac1b \sum_i \ell(S_i, w_i), \quad S_{ij} = \cos(x_i, y_j) /
              \mathrm{temperature}, \quad w_{ij} = w(z_j, z_i)

    A subclass overrides `objective(self, scores, weights, layout)`, which returns the loss of each
    of n anchors against m candidates, (n,). The base class computes everything else: unit
    embeddings, the two directions, pairs within a view, the support, gathering over processes, the
    kernel (fitted on the first batch if it has not been), the weights, and the reduction. Gradients
    come from autograd. The objective is called with one tile of anchors at a time, and again in the
    backward pass, so it must depend on nothing but its arguments and the parameters of the loss:

    - scores: S, (n, m), at most 1 / temperature in absolute value. float64 where the exponential of
      a score would overflow float32, else in the dtype of the embeddings.
    - weights: w, (n, m), in the dtype of the scores, without gradient. The weights of a sample are
      split evenly between its two views. Rows sum to 1 with weights="nw", to approximately 1 with
      "loo", and to 0 for an anchor without neighbors. The positive has weight 0 except with
      "paper", whose weights may be negative.
    - layout: `TileLayout`, the positive of each anchor, and the order of the columns.

    Args:
        {kernel}
        {weights}
        {options}

    Shape:
        {shape}

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

    objective: Callable[..., Any] = _objective
    report: Report | None = None
    """Diagnostics of the last call."""
    embedding_condition: ClassVar[bool] = False
    """Whether the anchor's embedding, detached, is the condition if none is passed."""
    default_weights: ClassVar[str] = "loo"
    """What weights="auto" stands for: "nw" with kernels that are large between close values only,
    or "loo".
    """
    default_kernel: ClassVar[type[Kernel]] = RBF
    """The kernel of a loss that is constructed without one."""
    authors_ridge: ClassVar[float] = authors_code.RIDGE

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
        kernel = self.default_kernel() if kernel is None else kernel
        self.conditioning = Conditioning(kernel, ridge, solver, weights, self.default_weights)
        if weights == "paper":
            # Weights of both signs cancel, and their small sums need more digits than float32 has.
            self._double_from = 0

    @classmethod
    def authors(
        cls,
        kernel: Kernel,
        *,
        ridge: float | None = None,
        solver: Solver = "auto",
        temperature: float = authors_code.TEMPERATURE,
        gather_distributed: bool = False,
        reduction: Reduction = "mean",
    ) -> Self:
        """Return the loss as the authors' released code computes it: weights="authors",
        views="all" and symmetric=True.

        Args:
            kernel: As in the loss.
            ridge: The default is that of the authors' code: 0.01, and 100 for `HardNegCCLK`.
            solver: As in the loss.
            temperature: As in the loss; the default is that of the authors' code.
            gather_distributed: As in the loss.
            reduction: As in the loss.
        """
        return cls(
            kernel,
            ridge=cls.authors_ridge if ridge is None else ridge,
            solver=solver,
            temperature=temperature,
            gather_distributed=gather_distributed,
            reduction=reduction,
            **authors_code.OPTIONS,
        )

    @property
    def kernel(self) -> Kernel:
        """The kernel, with its fitted length scales."""
        return self.conditioning.kernel

    def _weights(
        self, batch: Batch, condition: object, temperature: float
    ) -> list[Weights] | list[None]:
        if condition is None and self.embedding_condition:
            extra, further = batch.support or (None, None)
            if not isinstance(further, Mapping):
                further = {"embedding": extra if further is None else further}
            views = batch.views[: 1 + self.options.symmetric]
            tables = [batch.table({"embedding": view}, further) for view in views]
        else:
            tables = [batch.table(condition)]
        # At low temperatures a score can outweigh any weight, so that the smallest weights count
        # and need float64's range.
        in_range = 1 / temperature <= LARGEST_UNSHIFTED[batch.dtype]
        dtype = batch.dtype if in_range else torch.float64
        negligible = sparse.negligible(dtype, temperature, batch.layout.samples)
        weights = []
        for table in tables:
            self.conditioning.kernel.ensure_fitted(table, training=self.training)
            weights.append(weigh(self.conditioning, table, dtype, negligible))
        return weights

    def _report(
        self, batch: Batch, weights: Weights | None, pairs: str, clamped: list[Tensor]
    ) -> None:
        assert weights is not None
        problem = None
        if self.report is None:
            problem = judge(self.conditioning, weights, anchors=_EXAMINED, distant=True).problem
        share = torch.stack(clamped).sum() / max(len(clamped) * batch.layout.anchors, 1)
        self.report = Report(weights.solver, weights.reason, pairs, share, problem)
        if problem is not None:
            warn(f"{problem} (kernel {self.kernel!r}; see cclk.diagnose)")

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
