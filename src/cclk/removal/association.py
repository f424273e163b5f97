"""The association of features with a condition, without any probe."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cclk.condition import as_condition
from cclk.errors import DataError
from cclk.kernels import Kernel, for_condition
from cclk.operator import conditional_weights


@dataclass(frozen=True)
class Association:
    """The result of `association`; prints as `0.12 (p = 0.005)`."""

    value: float
    """Near 0 without dependence; 1 if the features are a function of the condition."""
    p_value: float | None = None
    """The share of permutations with at least this value; None without permutations."""

    def __str__(self) -> str:
        return f"{self.value:.3f}" + ("" if self.p_value is None else f" (p = {self.p_value:.3g})")


@torch.no_grad()
def association(
    features: Tensor,
    condition: object,
    kernel: Kernel | None = None,
    permutations: int = 0,
    seed: int = 0,
) -> Association:
    """Compute the kernel measure of association of features with a condition.

        eta = (mean_i sum_{j != i} w_ij l_ij - m) / (1 - m),    m = mean_{i != j} l_ij

    with the weights w of `cclk.conditional_weights(..., weights="nw")` over the condition, and a
    Gaussian kernel l of the standardized features whose squared length scale is half the median of
    their squared distances. In the limit of many samples it is 0 if and only if features and
    condition are independent, and 1 if and only if the features are a function of the condition.
    It needs O(n^2) time and memory, and a few milliseconds for n = 256 with a fitted kernel, so it
    can be shown during training. The value depends on n and on both kernels: compare it only at
    equal n.

    Args:
        features: The features of n samples.
        condition: The condition of the same samples.
        kernel: A kernel on the condition; by default `cclk.kernels.for_condition`. If it has not
            been fitted, it is fitted on this condition.
        permutations: Number of random permutations for the p-value; 0 for none.
        seed: Seed of the permutations.

    Shape:
        features: (n, d). condition: (n,) or (n, k), or a mapping of columns.

    Example:
        >>> import torch
        >>> z = torch.linspace(0, 1, 128)
        >>> noise = torch.randn(128, 1, generator=torch.Generator().manual_seed(0))
        >>> association(z[:, None], z).value > 0.9 > 0.2 > association(noise, z).value
        True
    """
    table = as_condition(condition)
    if features.ndim != 2 or len(features) != len(table) or len(table) < 3:
        raise DataError(
            f"features have the shape {tuple(features.shape)} and the condition {len(table)} rows:"
            " pass features (n, d) and the condition of the same n samples, at least 3"
        )
    kernel = for_condition(condition) if kernel is None else kernel
    if not kernel.is_fitted:
        kernel.fit(table, batch_size=len(table))
    weights = conditional_weights(kernel, table, weights="nw").T.to(features.device, torch.float32)
    similar = _similarity(features.detach().float())
    count = len(similar)
    mean = (similar.sum() - count) / (count * (count - 1))
    # An anchor without neighbors has no estimate.
    alive = weights.sum(dim=1) > 0

    def eta(matrix: Tensor) -> float:
        within = (weights * matrix).sum(dim=1)[alive].mean()
        return float((within - mean) / (1 - mean).clamp_min(1e-12))

    if not alive.any():
        raise DataError("no sample has neighbors under this kernel: use a wider kernel")
    value = eta(similar)
    if not permutations:
        return Association(value)
    random = torch.Generator().manual_seed(seed)
    larger = 0
    for _ in range(permutations):
        order = torch.randperm(count, generator=random).to(similar.device)
        larger += eta(similar[order][:, order]) >= value
    return Association(value, (1 + larger) / (1 + permutations))


def _similarity(features: Tensor) -> Tensor:
    std = features.std(dim=0)
    x = (features - features.mean(dim=0)) / torch.where(std > 0, std, 1.0)
    squares = torch.cdist(x, x).square()
    rows, columns = torch.triu_indices(len(x), len(x), offset=1, device=x.device)
    median = squares[rows, columns].median().clamp_min(1e-12)
    return (-squares / median).exp()
