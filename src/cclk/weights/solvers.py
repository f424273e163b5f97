"""Solvers for W = (K + ridge I)^-1 K: exact, through an explicit feature map, or with landmarks.

W = I - ridge (K + ridge I)^-1. With K = G G^T and L L^T = G^T G + ridge I the same matrix is U U^T,
U = G L^-T, which costs O(b m^2) for m features instead of O(b^3). All factorizations run in
float64: in float32 the loss is off in its third digit at b = 4,096.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cclk.condition import Condition
from cclk.errors import CclkError
from cclk.kernels import Kernel
from cclk.kernels.base import TOO_FAR
from cclk.weights.operators import Dense, Factored, Grouped, Operator

SOLVERS = ("auto", "exact", "features", "nystrom")
EXACT_UP_TO = 2048
"""The batch size up to which "auto" solves exactly if the kernel has no small feature map."""
FALL_BACK_UP_TO = 8192
"""The batch size up to which "auto" solves exactly if landmarks lose too much of the kernel."""
KEPT_ENOUGH = 0.9
"""The share of trace(K) that landmarks must keep to be used by "auto"."""
LANDMARKS = 256
MOST_FEATURES = 16_384
"""The largest explicit feature map, whose products take 2 GiB."""


@dataclass(frozen=True)
class Nystrom:
    """The landmark solver, K ~ C M^+ C^T with C the columns of the landmarks and M their block.

    Args:
        landmarks: The number of samples that represent the batch.

    Example:
        >>> import torch
        >>> from cclk import conditional_weights, kernels
        >>> kernel, values = kernels.RBF(length_scale=1.0), torch.randn(500)
        >>> conditional_weights(kernel, values, solver=Nystrom(64), weights="paper").shape
        torch.Size([500, 500])
    """

    landmarks: int = LANDMARKS

    def __post_init__(self) -> None:
        if self.landmarks < 1:
            raise CclkError(f"landmarks is {self.landmarks}: it must be at least 1")


Solver = str | Nystrom


@dataclass(frozen=True)
class Solution:
    """An operator, the solver that computed it, and why this solver was selected."""

    operator: Operator
    solver: str
    reason: str


def check_solver(solver: Solver) -> Solver:
    """Return the solver, or raise a `CclkError` if it does not exist."""
    if not isinstance(solver, Nystrom) and solver not in SOLVERS:
        raise CclkError(
            f"solver is {solver!r}: it must be one of {', '.join(map(repr, SOLVERS))} or"
            " cclk.Nystrom(landmarks)"
        )
    return solver


def check_ridge(ridge: float) -> float:
    """Return the ridge, or raise a `CclkError` if it is not a positive number."""
    if not 0 < ridge < float("inf"):
        raise CclkError(f"ridge is {ridge}: it must be a positive number, such as 0.01")
    return float(ridge)


@torch.no_grad()
def solve(
    kernel: Kernel,
    condition: Condition,
    ridge: float,
    solver: Solver = "auto",
    *,
    unit_diagonal: bool = False,
) -> Solution:
    """Compute the operator of a fitted kernel on a condition.

    Args:
        kernel, condition, ridge, solver: As in `conditional_weights`.
        unit_diagonal: Set K_ii to 1 first, as the authors' code does. If the kernel's diagonal
            is not 1, only the exact solver can do this.
    """
    if unit_diagonal:
        diagonal = kernel.diagonal(condition)
        if not torch.allclose(diagonal, torch.ones_like(diagonal)):
            return _with_unit_diagonal(kernel, condition, ridge, solver)
    if isinstance(solver, Nystrom) or solver == "nystrom":
        landmarks = solver.landmarks if isinstance(solver, Nystrom) else LANDMARKS
        operator, kept = _landmarks(kernel, condition, ridge, landmarks)
        return Solution(operator, "nystrom", f"as requested: {_describe(landmarks, kept)}")
    if solver == "features":
        return Solution(_features(kernel, condition, ridge), solver, "as requested")
    if solver == "exact":
        return Solution(_exact(kernel, condition, ridge), solver, "as requested")

    size, groups = len(condition), kernel.groups(condition)
    if groups is not None:
        reason = "groups of equal values have a closed form"
        return Solution(Grouped(groups, ridge), "features", reason)
    count = kernel.feature_count(condition)
    if count is not None and count <= max(size // 4, 32) and count <= 2048:
        reason = f"{count} explicit features for {size} samples"
        return Solution(_features(kernel, condition, ridge), "features", reason)
    lacking = "no explicit feature map" if count is None else f"{count} explicit features, too many"
    if size <= EXACT_UP_TO:
        reason = f"{lacking}, and {size} samples are few enough"
        return Solution(_exact(kernel, condition, ridge), "exact", reason)
    operator, kept = _landmarks(kernel, condition, ridge, LANDMARKS)
    described = _describe(LANDMARKS, kept)
    if kept >= KEPT_ENOUGH:
        return Solution(operator, "nystrom", f"{lacking}, {size} samples, and {described}")
    if size <= FALL_BACK_UP_TO:
        reason = f"{lacking}, and {described}, too little"
        return Solution(_exact(kernel, condition, ridge), "exact", reason)
    kernel.warn_once(
        "too few landmarks",
        f"{kernel!r} at {size} samples: {described}, so anchors lack neighbors, and the batch is"
        " too large for an exact solve. Use weights='nw', which needs no solve, a larger"
        " length_scale, or solver=cclk.Nystrom(more landmarks).",
    )
    reason = f"{lacking}, {size} samples are too many to solve exactly, although {described}"
    return Solution(operator, "nystrom", reason)


def _describe(landmarks: int, kept: float) -> str:
    return f"{landmarks} landmarks keep {kept:.0%} of the kernel's trace"


def _with_unit_diagonal(
    kernel: Kernel, condition: Condition, ridge: float, solver: Solver
) -> Solution:
    if solver not in ("auto", "exact"):
        raise CclkError(
            f"weights='authors' sets the diagonal of {kernel!r} to 1, which needs"
            f" solver='exact', not {solver!r}"
        )
    matrix = kernel.evaluate(condition, condition).clone()
    matrix.diagonal().fill_(1.0)
    if kernel.positive_definite:  # the matrix need not be, with another diagonal
        inverse, failure = torch.linalg.inv_ex(_shift(matrix, ridge))
        if int(failure):
            raise CclkError(
                f"K + {ridge:g} I is singular once its diagonal is set to 1: use another ridge, or"
                " weights='loo'"
            )
        operator = _from_residual(inverse.mul_(ridge))
    else:
        operator = _clip(matrix, ridge, kernel)
    return Solution(operator, "exact", "the authors' unit diagonal has no feature map")


def _exact(kernel: Kernel, condition: Condition, ridge: float) -> Operator:
    matrix = kernel.evaluate(condition, condition)
    if not kernel.positive_definite:
        return _clip(matrix, ridge, kernel)
    factor, ridge = _cholesky(matrix, ridge, kernel)
    return _from_residual(torch.cholesky_inverse(factor).mul_(ridge))


def _from_residual(residual: Tensor) -> Operator:
    """Return W from I - W = ridge (K + ridge I)^-1, which is overwritten."""
    complement = residual.diagonal().clone()
    weights = residual.neg_()
    weights.diagonal().add_(1.0)
    return Dense(weights, complement)


def _clip(matrix: Tensor, ridge: float, kernel: Kernel) -> Operator:
    values, vectors = torch.linalg.eigh(matrix)
    _warn_if_indefinite(kernel, values)
    values = values.clamp_min(0)
    return Factored(vectors * (values / (values + ridge)).sqrt())


def _warn_if_indefinite(kernel: Kernel, values: Tensor) -> None:
    """Warn that negative eigenvalues are clipped, if they exceed rounding errors."""
    clipped, total = float(values.clamp_max(0).sum().abs()), float(values.abs().sum())
    if clipped > 1e-6 * total:
        kernel.warn_once(
            "not positive definite",
            f"{kernel!r} is not positive definite here (smallest eigenvalue"
            f" {float(values[0]):.3g}): its negative eigenvalues, {clipped / total:.1%} of the"
            " total, are clipped to zero.",
        )


def _features(kernel: Kernel, condition: Condition, ridge: float) -> Operator:
    groups = kernel.groups(condition)
    if groups is not None:
        return Grouped(groups, ridge)
    count = kernel.feature_count(condition)
    if count is not None and count > MOST_FEATURES:
        raise CclkError(
            f"{kernel!r} has {count:,} explicit features here, too many for solver='features': use"
            " 'exact' or 'nystrom'"
        )
    return _from_features(kernel.features(condition), ridge, kernel)


def _from_features(features: Tensor, ridge: float, kernel: Kernel) -> Operator:
    factor, _ = _cholesky(features.T @ features, ridge, kernel)
    return Factored(torch.linalg.solve_triangular(factor, features.T, upper=False).T)


def _landmarks(
    kernel: Kernel, condition: Condition, ridge: float, landmarks: int
) -> tuple[Operator, float]:
    """Return the operator by landmarks, and the share of trace(K) that they keep."""
    size = len(condition)
    count = min(landmarks, size)
    # Evenly spaced rows: batches are shuffled, all processes must use the same landmarks, and the
    # global RNG state stays untouched.
    subset = condition.rows(torch.arange(count, device=condition.values.device) * size // count)
    values, vectors = torch.linalg.eigh(kernel.evaluate(subset, subset))
    _warn_if_indefinite(kernel, values)
    usable = values > values[-1].clamp_min(0) * count * torch.finfo(torch.float64).eps
    features = kernel.evaluate(condition, subset) @ (vectors[:, usable] / values[usable].sqrt())
    total = float(kernel.diagonal(condition).sum())
    kept = float(features.square().sum()) / total if total > 0 else 1.0
    return _from_features(features, ridge, kernel), min(kept, 1.0)


def _shift(matrix: Tensor, ridge: float) -> Tensor:
    shifted = matrix.clone()
    shifted.diagonal().add_(ridge)
    return shifted


def _cholesky(matrix: Tensor, ridge: float, kernel: Kernel) -> tuple[Tensor, float]:
    """Return the factor of matrix + ridge I, and the ridge, raised only if float64 needs it."""
    size, raised = float(matrix.diagonal().mean()), ridge
    for jitter in (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6):
        raised = max(ridge, jitter * size)
        factor, failure = torch.linalg.cholesky_ex(_shift(matrix, raised))
        # Values that are not finite propagate to the last entry, if there is one.
        if int(failure) == 0 and math.isfinite(float(factor[-1:, -1:].sum())):
            if raised > ridge:
                kernel.warn_once(
                    "ill-conditioned",
                    f"{kernel!r} is too ill-conditioned for ridge {ridge:g}: {raised:.3g} was used."
                    " Raise ridge, or rescale the condition.",
                )
            return factor, raised
    raise CclkError(
        f"{kernel!r} + ridge I cannot be factorized even with ridge {raised:.3g}: {TOO_FAR}"
    )
