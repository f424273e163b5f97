"""The leakage penalty: a reader of the condition inside the loss, in closed form."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from cclk import _distributed as distributed
from cclk._eager import eager
from cclk.condition import Condition, as_condition
from cclk.errors import CclkError, DataError
from cclk.kernels import Kernel
from cclk.kernels.bandwidth import Scale
from cclk.removal.reader import EXACT_UP_TO, Bandwidths, Residuals, median_distance
from cclk.removal.targets import ColumnFunctions, condition_functions
from cclk.weights.solvers import check_ridge

Rows = tuple[Tensor, object]
"""Features (q, d) and their condition."""
BANDWIDTHS = (0.1, 0.3, 1.0)
RIDGE = 0.3
LANDMARKS = 512
SATURATION = 4.0
WHITENING = 1e-4
"""Added to the variances of standardized features before whitening: weaker directions stay weak."""


class LeakagePenalty(nn.Module):
    r"""The share of the condition that a kernel ridge regression reads from the features of other
    samples, summed over the columns of the condition.

    .. math:: \mathrm{leak} = \frac1m \sum_k \Bigl(1 - \min_{0 \le c \le 1}
              \frac{|T_k - c\,(T_k - R_k)|^2}{|T_k|^2}\Bigr), \quad
              R = \frac{G \Psi}{\mathrm{diag}\,G}, \quad
              T = \tfrac{n}{n-1} H \Psi, \quad G = (H (L + \mathrm{ridge}\,I) H)^+

    .. math:: L_{ij} = \frac1{|S|} \sum_{s \in S}
              \exp\Bigl(-\frac{|h_i - h_j|^2}{s\,\mathrm{median}\,|h - h'|^2}\Bigr), \quad
              H = I - \tfrac1n 1 1^\top

    Add it to a loss, `loss(x, y, z) + strength * penalty(features, z)` with a strength of 1 to 20,
    to make encoders forget the condition. Pass the features that will be used, not their
    projection, of samples without augmentation.

    The rows of h are the features, whitened in the batch: mean 0, and covariance I up to 1e-4. Psi
    are m functions of the condition with variance 1. R is the exact leave-one-out residual of
    kernel ridge regression from h to Psi with an intercept, and T that of the mean; bandwidth and
    whitening are those of the full batch. The prediction T - R is shrunk by the best factor c, so
    that a reader that only fits noise counts as none: the leak of independent features is 1/n, not
    negative, and it is 1 if everything can be read. The median has no gradient.

    **The gradient is that of (exp(4 u) - 1) / 4 where the leak without shrinkage (c = 1), u, is
    negative, and of u where it is positive.** It continues to mix samples when nothing can be read
    from a batch, since a probe with more samples would still read something; the exponential keeps
    one function of the condition from paying for another.

    The functions of a number are cos(pi k rank), k = 1 to 4; of a category, or of a number with at
    most 10 values, an indicator of each value that occurs twice; of a vector, the cosines of its
    first 8 principal coordinates. **The penalty is the sum of the leaks of all columns**, each
    between 0 and 1, so that every column is removed as strongly as if it were the only one: that of
    9 columns is between 0 and 9. After a call, `penalty.leaks` holds the leak of each column.

    Features with a standard deviation below 1e-12, or below 1e-6 of their largest value, are
    constant and have no gradient.

    Args:
        kernel: Read the leading 16 eigenvectors of the centered matrix of this kernel of the
            condition, weighted by their eigenvalues, instead of functions of each column. For
            combinations of columns, such as `Delta("site") * RBF("age")`.
        ridge: Regularization of the reader. A smaller ridge reads finer detail from more rows.
        bandwidths: The multiples S of the median squared distance.
        landmarks: Beyond 1,024 rows, the number of rows that represent the others (Nystrom's
            method), which costs O(n landmarks^2) instead of O(n^3).
        seed: Selects the landmarks.
        gather_distributed: Read the joined batch of all `torch.distributed` processes, not only the
            rows of each. Gradients averaged over processes, as by DistributedDataParallel, are
            those of the joined batch.

    Shape:
        features: (b, d), of any scale.
        condition: (b,), (b, k), a data frame or a mapping of columns.
        rows: ((q, d), q rows of condition), further samples without gradient that the reader learns
            from; the leak is that of the batch. n = b + q.
        Result: a scalar.

    Example:
        >>> import torch
        >>> z = torch.linspace(0, 1, 64)
        >>> features = torch.stack([z, z.flip(0) ** 2], dim=1).requires_grad_()
        >>> penalty = LeakagePenalty()
        >>> penalty(features, {"age": z})
        tensor(0.9939, grad_fn=<ToCopyBackward0>)
        >>> penalty.leaks["age"]
        0.9938...

    Reference:
        Sadeghi et al., Adversarial Representation Learning with Closed-Form Solvers, ECML 2021
        (OptNet-ARL); Sadeghi et al., On the Global Optima of Kernelized Adversarial Representation
        Learning, ICCV 2019 (Kernel-ARL). Neither leaves samples out.
    """

    leaks: dict[str, float]
    """The leak of each column in the last call."""

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        ridge: float = RIDGE,
        bandwidths: tuple[float, ...] = BANDWIDTHS,
        landmarks: int = LANDMARKS,
        seed: int = 0,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__()
        if not bandwidths or not all(0 < each < math.inf for each in bandwidths):
            raise CclkError(
                f"bandwidths is {bandwidths!r}: it must be positive numbers, such as {BANDWIDTHS}"
            )
        if landmarks < 1:
            raise CclkError(f"landmarks is {landmarks}: it must be at least 1")
        self.kernel, self.ridge = kernel, check_ridge(ridge)
        self.bandwidths, self.landmarks, self.seed = tuple(bandwidths), landmarks, seed
        self.gather_distributed = gather_distributed
        self.leaks = {}

    @eager
    def forward(self, features: Tensor, condition: object, rows: Rows | None = None) -> Tensor:
        """Compute the penalty and the leak of each column."""
        several = self.gather_distributed and distributed.active()
        table, more, further = _checked(features, condition, rows)
        if several:
            features, table = _gathered(features, table)
            further, more = _gathered(features[:0] if further is None else further, more)
        if len(features) < 2:
            raise DataError(
                f"features has {len(features)} rows{' over all processes' if several else ''}: a"
                " leave-one-out reader needs at least 2 samples"
            )
        table = table.join(more)
        if self.kernel is not None:
            self.kernel.ensure_fitted(table, training=self.training)
        dtype = torch.float64 if features.dtype == torch.float64 else torch.float32
        with torch.autocast(features.device.type, enabled=False):
            joined: Tensor = _Double.apply(features)  # type: ignore[no-untyped-call]
            if further is not None:
                joined = torch.cat([joined, further.detach().double()])
            functions = condition_functions(table, self.kernel)
            leaks = self._leaks(whitened(joined), functions, len(features))
            self.leaks = {name: float(leak.detach()) for name, leak in leaks.items()}
            return torch.stack(list(leaks.values())).sum().to(dtype)

    def _leaks(self, x: Tensor, functions: list[ColumnFunctions], batch: int) -> dict[str, Tensor]:
        psi = torch.cat([each.values for each in functions], dim=1)
        landmarks = None
        if len(x) > EXACT_UP_TO and self.landmarks < len(x):
            order = torch.randperm(len(x), generator=torch.Generator().manual_seed(self.seed))
            landmarks = order[: self.landmarks].to(x.device)
        kernel = Bandwidths(self.bandwidths, median_distance(x))
        residuals: Tensor = Residuals.apply(  # type: ignore[no-untyped-call]
            x, psi, kernel, self.ridge, landmarks
        )
        targets = psi[:batch] * (len(x) / (len(x) - 1))
        shares = explained(targets, residuals[:batch])
        parts = torch.split(shares, [each.values.shape[1] for each in functions])
        return {
            each.name: (part * each.weights).sum()
            for each, part in zip(functions, parts, strict=True)
        }

    def extra_repr(self) -> str:
        shown = {} if self.kernel is None else {"kernel": self.kernel}
        settings = {**shown, "ridge": self.ridge, "bandwidths": self.bandwidths}
        return ", ".join(f"{name}={value!r}" for name, value in settings.items())

    def get_extra_state(self) -> dict[str, dict[str, Scale]]:
        """The fitted length scales of the kernel, so that a checkpoint restores them."""
        return {} if self.kernel is None else {"kernel": self.kernel.state_dict()}

    def set_extra_state(self, state: dict[str, dict[str, Scale]]) -> None:
        if self.kernel is not None:
            self.kernel.load_state_dict(state["kernel"])


class _Double(torch.autograd.Function):
    """x in float64, with a gradient that is finite in the dtype of x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.dtype = x.dtype
        return x.double()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, incoming: Tensor) -> Tensor:
        largest = torch.finfo(ctx.dtype).max
        return incoming.clamp(-largest, largest).to(ctx.dtype)


def explained(targets: Tensor, residuals: Tensor) -> Tensor:
    """The share of each target that its best shrunk prediction explains, (m,), from 0 to 1, with
    the gradient of the bounded share without shrinkage.
    """
    predictions = targets - residuals
    total = targets.square().sum(dim=0)
    divisor = total.where(total > 0, 1.0)
    with torch.no_grad():
        factor = (predictions * targets).sum(dim=0)
        factor /= predictions.square().sum(dim=0).clamp_min(1e-300)
        rest = (targets - factor.clamp(0, 1) * predictions).square().sum(dim=0)
        value = torch.where(total > 0, 1 - rest / divisor, 0.0)
    unshrunk = torch.where(total > 0, 1 - residuals.square().sum(dim=0) / divisor, 0.0)
    objective = bounded(unshrunk)
    return value + (objective - objective.detach())


def bounded(leaks: Tensor) -> Tensor:
    """Positive leaks as they are; negative ones by an exponential with the same slope at 0."""
    negative = (SATURATION * leaks.clamp_max(0)).exp().sub(1) / SATURATION
    return torch.where(leaks > 0, leaks, negative)


def standardized(features: Tensor) -> Tensor:
    """Features with mean 0 and variance 1; constant features are 0, without a gradient."""
    # The result does not depend on the scale, but squares of huge numbers overflow.
    largest = features.detach().abs().amax(dim=0).clamp_min(1e-300)
    scaled = features / largest
    centered = scaled - scaled.mean(dim=0)
    variance = centered.square().mean(dim=0)
    std = variance.detach().sqrt()
    varies = (std > 1e-6) & (std * largest > 1e-12)
    return torch.where(varies, centered, 0.0) / torch.where(varies, variance, 1.0).sqrt()


def whitened(features: Tensor) -> Tensor:
    """Features with mean 0 and, up to `WHITENING`, covariance I.

    A condition in a weak direction is read as easily as in a strong one. Only distances matter, so
    any square root of the inverse covariance serves.
    """
    unit = standardized(features)
    covariance = unit.T @ unit / len(unit)
    covariance.diagonal().add_(WHITENING)
    factor = torch.linalg.cholesky(covariance)
    white: Tensor = torch.linalg.solve_triangular(factor, unit.T, upper=False).T
    return white


def _checked(
    features: Tensor, condition: object, rows: Rows | None
) -> tuple[Condition, Condition, Tensor | None]:
    """Check the input, and return the condition of the batch, that of the further rows, and the
    features of these.
    """
    _check_features(features, "features")
    table = _condition_of(features, condition, "features", "condition")
    if rows is None:
        return table, table.rows(slice(0, 0)), None
    if not isinstance(rows, (tuple, list)) or len(rows) != 2:
        raise DataError("rows must be a pair: features (q, d) and their condition")
    further, theirs = rows
    _check_features(further, "rows[0]")
    if further.shape[1] != features.shape[1] or further.device != features.device:
        raise DataError(
            f"rows[0] has width {further.shape[1]} on {further.device}, but features has width"
            f" {features.shape[1]} on {features.device}: both must be features of one encoder"
        )
    more = _condition_of(further, theirs, "rows[0]", "rows[1]")
    return table, more.in_columns_of(table), further


def _gathered(features: Tensor, condition: Condition) -> tuple[Tensor, Condition]:
    """The features and the condition of all processes."""
    counts = distributed.sizes(len(features), features.device)
    values = distributed.gather(condition.values, counts)
    return (
        distributed.gather(features, counts),
        Condition(values, condition.columns, condition.dtype),
    )


def _condition_of(features: Tensor, condition: object, name: str, of: str) -> Condition:
    table = as_condition(condition, name=of, device=features.device)
    if len(table) != len(features):
        raise DataError(
            f"{of} has {len(table)} rows but {name} has {len(features)}: every sample needs one row"
        )
    return table


def _check_features(features: Tensor, name: str) -> None:
    if not isinstance(features, Tensor):
        raise DataError(
            f"{name} is a {type(features).__name__}: features must be a torch tensor of shape"
            " (b, d)"
        )
    if features.ndim != 2 or features.shape[1] == 0 or not features.is_floating_point():
        raise DataError(
            f"{name} has shape {tuple(features.shape)} and dtype {features.dtype}: features must"
            " be floating point, of shape (b, d)"
        )
    if features.device.type == "mps":
        raise DataError(f"{name} is on mps, which has no float64: pass {name}.cpu()")
    bad = ~features.detach().isfinite()
    if bad.any():
        raise DataError(
            f"{name} has {int(bad.sum())} values that are NaN or infinite, the first in row"
            f" {int(bad.any(dim=1).nonzero()[0])}: lower the learning rate if the network has"
            " diverged, or check its input"
        )
