"""How W = (K + ridge I)^-1 K is obtained: exactly, through an explicit feature map, or through
landmarks.

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
from cclk.kernels import Kernel
from cclk.operator.operators import Dense, Factored, Grouped, Operator

SOLVERS = ("auto", "exact", "features", "nystrom")
EXACT_UP_TO = 2048
"""Batches up to this size are solved exactly by `auto` where there is no small feature map."""
FALL_BACK_UP_TO = 8192
"""Larger ones too, up to this size, if landmarks would lose too much of the kernel."""
KEPT_ENOUGH = 0.9
"""The share of trace(K) that landmarks must keep for `auto` to trust them."""
LANDMARKS = 256


@dataclass(frozen=True)
class Nystrom:
    """The landmark solver with its own number of landmarks: `solver=Nystrom(1024)`."""

    landmarks: int = LANDMARKS

    def __post_init__(self) -> None:
        if self.landmarks < 1:
            raise ValueError(f"landmarks is {self.landmarks}: it must be at least 1")


Solver = str | Nystrom


@dataclass(frozen=True)
class Solution:
    """An operator, and why it was obtained this way."""

    operator: Operator
    solver: str
    reason: str


def check_solver(solver: Solver) -> Solver:
    """Complain early about a solver that does not exist."""
    if not isinstance(solver, Nystrom) and solver not in SOLVERS:
        raise ValueError(
            f"solver is {solver!r}: it must be one of {', '.join(map(repr, SOLVERS))} or"
            " cclk.Nystrom(landmarks)"
        )
    return solver


def check_ridge(ridge: float) -> float:
    """Complain early about a ridge that cannot regularize."""
    if not 0 < ridge < float("inf"):
        raise ValueError(f"ridge is {ridge}: it must be a positive number, such as 0.01")
    return float(ridge)


def solve(
    kernel: Kernel,
    condition: Condition,
    ridge: float,
    solver: Solver = "auto",
    *,
    unit_diagonal: bool = False,
) -> Solution:
    """The operator of a fitted kernel on a condition.

    Args:
        unit_diagonal: set K_ii to 1 first, as the authors' release does. It matters for kernels
            whose diagonal is not 1, and then only the exact solver can do it.
    """
    with torch.no_grad():
        if unit_diagonal and not torch.allclose(
            diagonal := kernel.diagonal(condition), torch.ones_like(diagonal)
        ):
            if solver not in ("auto", "exact"):
                raise ValueError(
                    f"weights='release' sets the diagonal of {kernel!r} to 1, which needs"
                    f" solver='exact', not {solver!r}"
                )
            matrix = _gram(kernel, condition).clone()
            matrix.diagonal().fill_(1.0)
            operator = (
                _invert_indefinite(matrix, ridge)
                if kernel.positive_definite
                else _clip(matrix, ridge, kernel)
            )
            return Solution(operator, "exact", "the release's unit diagonal has no feature map")
        if isinstance(solver, Nystrom) or solver == "nystrom":
            landmarks = solver.landmarks if isinstance(solver, Nystrom) else LANDMARKS
            operator, kept = _landmarks(kernel, condition, ridge, landmarks)
            return Solution(operator, "nystrom", f"asked for: {_kept(landmarks, kept)}")
        if solver == "features":
            return Solution(_features(kernel, condition, ridge), "features", "asked for")
        if solver == "exact":
            return Solution(_exact(kernel, condition, ridge), "exact", "asked for")
        return _auto(kernel, condition, ridge)


def _auto(kernel: Kernel, condition: Condition, ridge: float) -> Solution:
    size = len(condition)
    groups = kernel.groups(condition)
    if groups is not None:
        return Solution(
            Grouped(groups, ridge), "features", "groups of equal outcomes have a closed form"
        )
    count = kernel.feature_count(condition)
    if count is not None and count <= max(size // 4, 32) and count <= 2048:
        return Solution(
            _features(kernel, condition, ridge),
            "features",
            f"{count} explicit features for {size} samples",
        )
    lacking = "no explicit feature map" if count is None else f"{count} explicit features, too many"
    if size <= EXACT_UP_TO:
        return Solution(
            _exact(kernel, condition, ridge),
            "exact",
            f"{lacking}, and {size} samples are few enough",
        )
    operator, kept = _landmarks(kernel, condition, ridge, LANDMARKS)
    told = _kept(LANDMARKS, kept)
    if kept >= KEPT_ENOUGH:
        return Solution(operator, "nystrom", f"{lacking}, {size} samples, and {told}")
    if size <= FALL_BACK_UP_TO:
        return Solution(
            _exact(kernel, condition, ridge), "exact", f"{lacking}, and {told}, too little"
        )
    kernel.warn_once(
        "too few landmarks",
        f"{kernel!r} at {size} samples: {told}, so many anchors see nobody, and an exact solve is"
        " out of reach. Use weights='nw', which needs no solve, a larger length_scale, or"
        " solver=cclk.Nystrom(more landmarks).",
    )
    return Solution(
        operator,
        "nystrom",
        f"{lacking}, {size} samples are too many to solve exactly, though {told}",
    )


def _kept(landmarks: int, kept: float) -> str:
    return f"{landmarks} landmarks keep {kept:.0%} of the kernel's trace"


def _gram(kernel: Kernel, condition: Condition) -> Tensor:
    return kernel.evaluate(condition, condition)


def _exact(kernel: Kernel, condition: Condition, ridge: float) -> Operator:
    matrix = _gram(kernel, condition)
    return (
        _invert(matrix, ridge, kernel) if kernel.positive_definite else _clip(matrix, ridge, kernel)
    )


def _invert(matrix: Tensor, ridge: float, kernel: Kernel) -> Operator:
    factor, ridge = _cholesky(matrix, ridge, kernel)
    return _from_residual(torch.cholesky_inverse(factor).mul_(ridge))


def _invert_indefinite(matrix: Tensor, ridge: float) -> Operator:
    """As `_invert`, for a matrix that need not be positive definite any more."""
    shifted = matrix.clone()
    shifted.diagonal().add_(ridge)
    inverse, failure = torch.linalg.inv_ex(shifted)
    if int(failure):
        raise ValueError(
            f"K + {ridge:g} I is singular once its diagonal is set to 1: choose another ridge, or"
            " weights='loo'"
        )
    return _from_residual(inverse.mul_(ridge))


def _from_residual(residual: Tensor) -> Operator:
    """W from I - W = ridge (K + ridge I)^-1, which is overwritten."""
    complement = residual.diagonal().clone()
    weights = residual.neg_()
    weights.diagonal().add_(1.0)
    return Dense(weights, complement)


def _clip(matrix: Tensor, ridge: float, kernel: Kernel) -> Operator:
    values, vectors = torch.linalg.eigh(matrix)
    _say_clipped(kernel, values)
    values = values.clamp_min(0)
    return Factored(vectors * (values / (values + ridge)).sqrt())


def _say_clipped(kernel: Kernel, values: Tensor) -> None:
    """Say that negative eigenvalues are clipped, if they are more than rounding."""
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
    return _from_features(kernel.features(condition), ridge, kernel)


def _from_features(features: Tensor, ridge: float, kernel: Kernel) -> Operator:
    factor, _ = _cholesky(features.T @ features, ridge, kernel)
    return Factored(torch.linalg.solve_triangular(factor, features.T, upper=False).T)


def _landmarks(
    kernel: Kernel, condition: Condition, ridge: float, landmarks: int
) -> tuple[Operator, float]:
    """K ~ C M^+ C^T with C the columns of the landmarks, M their own block; also the share of
    trace(K) that is kept.
    """
    size = len(condition)
    count = min(landmarks, size)
    # Evenly spread places: batches come shuffled, every process must choose the same, and nobody's
    # random state is touched.
    chosen = condition.rows(torch.arange(count, device=condition.values.device) * size // count)
    values, vectors = torch.linalg.eigh(kernel.evaluate(chosen, chosen))
    _say_clipped(kernel, values)
    usable = values > values[-1].clamp_min(0) * count * torch.finfo(torch.float64).eps
    features = kernel.evaluate(condition, chosen) @ (vectors[:, usable] / values[usable].sqrt())
    total = float(kernel.diagonal(condition).sum())
    kept = float(features.square().sum()) / total if total > 0 else 1.0
    return _from_features(features, ridge, kernel), min(kept, 1.0)


def _cholesky(matrix: Tensor, ridge: float, kernel: Kernel) -> tuple[Tensor, float]:
    """The factor of matrix + ridge I, with more than ridge only where float64 cannot tell the
    matrix from a singular one.
    """
    raised = ridge
    size = float(matrix.diagonal().mean())
    for jitter in (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6):
        raised = max(ridge, jitter * size)
        shifted = matrix.clone()
        shifted.diagonal().add_(raised)
        factor, failure = torch.linalg.cholesky_ex(shifted)
        if int(failure) == 0 and math.isfinite(
            float(factor[-1:, -1:].sum())
        ):  # what is not finite spreads to the last entry, if any
            if raised > ridge:
                kernel.warn_once(
                    "ill-conditioned",
                    f"{kernel!r} is too ill-conditioned for ridge {ridge:g}: {raised:.3g} was used."
                    " Raise ridge, or rescale the condition.",
                )
            return factor, raised
    raise ValueError(
        f"{kernel!r} + ridge I cannot be factorized even with ridge {raised:.3g}: the condition's"
        " values are too far apart. Standardize its columns, remove outliers, or choose a bounded"
        " kernel such as RBF."
    )
