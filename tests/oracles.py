"""Plain float64 loops, written from the paper's equations, that the fast code must equal."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from cclk import kernels, losses

Matrix = NDArray[np.float64]
Formula = Callable[[Matrix, Matrix], float]
OWN_SHARE = 0.3
"""`own_share` of "WeaklySupCCLK, outer"."""
UNIFORM_SHARE, TAU_PLUS = 0.3, 0.05
"""Of "HardNegCCLK, corrected"."""


def band(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A similarity that is no kernel: 1 - |a - b|^2 / 4 has negative eigenvalues."""
    return 1 - torch.cdist(a, b).square() / 4


# : name -> (kernel, its value on two outcomes). Column 3 of the conditions used in tests is a
# category.
KERNELS: dict[str, tuple[Callable[[], kernels.Kernel], Formula]] = {
    "rbf": (
        lambda: kernels.RBF(length_scale=0.9),
        lambda a, b: math.exp(-sum((a - b) ** 2) / (2 * 0.9**2)),
    ),
    "laplacian": (
        lambda: kernels.Laplacian(length_scale=1.3),
        lambda a, b: math.exp(-math.sqrt(sum((a - b) ** 2)) / 1.3),
    ),
    "linear": (lambda: kernels.Linear(), lambda a, b: float(sum(a * b))),
    "cosine": (
        lambda: kernels.Cosine(),
        lambda a, b: float(sum(a * b) / math.sqrt(sum(a * a) * sum(b * b))),
    ),
    "polynomial": (
        lambda: kernels.Polynomial(degree=3, offset=0.5),
        lambda a, b: float(sum(a * b) + 0.5) ** 3,
    ),
    "polynomial without offset": (
        lambda: kernels.Polynomial(degree=2, offset=0.0),
        lambda a, b: float(sum(a * b)) ** 2,
    ),
    "delta": (lambda: kernels.Delta([3]), lambda a, b: float(a[3] == b[3])),
    "sum": (
        lambda: kernels.Linear([0, 1]) + 0.5 * kernels.RBF([2], length_scale=0.4),
        lambda a, b: (
            float(sum(a[:2] * b[:2])) + 0.5 * math.exp(-((a[2] - b[2]) ** 2) / (2 * 0.4**2))
        ),
    ),
    "product": (
        lambda: kernels.Delta([3]) * kernels.RBF([0, 1, 2], length_scale=2.0),
        lambda a, b: float(a[3] == b[3]) * math.exp(-sum((a[:3] - b[:3]) ** 2) / 8),
    ),
    "sum of feature maps": (
        lambda: 2 * kernels.Linear([0, 1]) + kernels.Polynomial([2], degree=2, offset=0.5),
        lambda a, b: 2 * float(sum(a[:2] * b[:2])) + (float(a[2] * b[2]) + 0.5) ** 2,
    ),
    "product of feature maps": (
        lambda: kernels.Linear([0, 1]) * kernels.Polynomial([2], degree=1, offset=0.5),
        lambda a, b: float(sum(a[:2] * b[:2])) * (float(a[2] * b[2]) + 0.5),
    ),
    "similarity": (
        lambda: kernels.Similarity(band, columns=[0, 1]),
        lambda a, b: float(1 - sum((a[:2] - b[:2]) ** 2) / 4),
    ),
}


def condition(size: int, seed: int = 0) -> torch.Tensor:
    """Three continuous columns and a category, all float32-representable."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randn(size, 3, generator=generator)
    category = torch.randint(0, max(2, size // 4), (size, 1), generator=generator)
    # Scaled so that polynomials of it stay well-conditioned; equality is all that matters.
    return torch.cat([numbers, category.float() / 8], dim=1).double()


def gram(formula: Formula, outcomes: torch.Tensor) -> Matrix:
    """K, one pair at a time."""
    rows = outcomes.double().numpy()
    return np.array([[formula(a, b) for b in rows] for a in rows])


def nearest_kernel(matrix: Matrix) -> Matrix:
    """Negative eigenvalues set to 0."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, 0)) @ vectors.T


def weights(matrix: Matrix, ridge: float, mode: str, clipped: bool = False) -> Matrix:
    """w[j, i] by the definitions; leave-one-out by really leaving one out."""
    size = len(matrix)
    eye = np.eye(size)
    if mode == "authors":
        matrix = matrix - np.diag(np.diag(matrix)) + eye
    if clipped and mode != "nw":
        matrix = nearest_kernel(matrix)
    full = np.linalg.solve(matrix + ridge * eye, matrix)
    if mode == "paper":
        return full
    result = np.zeros((size, size))
    for i in range(size):
        others = [j for j in range(size) if j != i]
        if mode == "authors":
            column = [full[j, i] if full[j, i] >= 1e-6 else 0.0 for j in others]
        elif mode == "nw":
            column = [max(matrix[j, i], 0.0) for j in others]
            total = sum(column)
            column = [value / total if total > 0 else 0.0 for value in column]
        else:
            inner = matrix[np.ix_(others, others)] + ridge * np.eye(size - 1)
            column = [max(value, 0.0) for value in np.linalg.solve(inner, matrix[others, i])]
        for j, value in zip(others, column, strict=True):
            result[j, i] = value
    return result


def loss(
    name: str,
    x: torch.Tensor,
    y: torch.Tensor,
    *,
    temperature: float,
    matrices: tuple[Matrix, Matrix] | None = None,
    groups: list[int] | None = None,
    clipped: bool = False,
    ridge: float = 0.01,
    mode: str = "loo",
    views: str = "cross",
    symmetric: bool = False,
    extra: torch.Tensor | None = None,
    beta: float = 1.0,
    tau_plus: float = 0.1,
) -> list[float]:
    """The loss of every anchor.

    Args:
        matrices: the kernel matrix over batch and support, for x as anchors and for y as anchors.
        clipped: whether their negative eigenvalues are cut.
        groups: cluster numbers over batch and support.
    """
    unit_x, unit_y = (
        [row / math.sqrt(float(row @ row)) for row in view.double().numpy()] for view in (x, y)
    )
    unit_extra = (
        []
        if extra is None
        else [row / math.sqrt(float(row @ row)) for row in extra.double().numpy()]
    )
    result = [0.0] * len(unit_x)
    directions = [(unit_x, unit_y, 0), (unit_y, unit_x, 1)] if symmetric else [(unit_x, unit_y, 0)]
    for anchors, others, which in directions:
        w = None if matrices is None else weights(matrices[which], ridge, mode, clipped)
        for i, anchor in enumerate(anchors):
            # Everyone the anchor is compared with: (sample number, exp of the score).
            neighbors = [
                (j, math.exp(float(anchor @ v) / temperature))
                for j, v in enumerate(others + unit_extra)
            ]
            if views == "all":
                neighbors += [
                    (j, math.exp(float(anchor @ v) / temperature))
                    for j, v in enumerate(anchors)
                    if j != i
                ]
            positive = neighbors[i][1]
            value = _anchor(
                name, i, neighbors, positive, w, groups, mode, temperature, beta, tau_plus
            )
            result[i] += value / len(directions)
    return result


def _anchor(
    name: str,
    i: int,
    neighbors: list[tuple[int, float]],
    positive: float,
    w: Matrix | None,
    groups: list[int] | None,
    mode: str,
    temperature: float,
    beta: float,
    tau_plus: float,
) -> float:
    negatives = [value for place, (_, value) in enumerate(neighbors) if place != i]
    if name == "InfoNCE":
        return -math.log(positive / (positive + sum(negatives)))
    if name == "HardNegInfoNCE":
        n = len(negatives)
        importance = [value**beta for value in negatives]
        reweighted = sum(a * v for a, v in zip(importance, negatives, strict=True)) / (
            sum(importance) / n
        )
        hard = max(
            (reweighted - tau_plus * n * positive) / (1 - tau_plus), n * math.exp(-1 / temperature)
        )
        return -math.log(positive / (positive + hard))
    if name == "WeaklySupInfoNCE":
        assert groups is not None
        total = sum(value for _, value in neighbors)
        mates = [value for j, value in neighbors if groups[j] == groups[i]]
        return -sum(math.log(value / total) for value in mates) / len(mates)
    if name == "FairInfoNCE":
        assert groups is not None
        return -math.log(
            positive
            / (positive + sum(v for j, v in neighbors if groups[j] == groups[i] and j != i))
        )
    assert w is not None
    if name == "HardNegCCLK, corrected":
        n = len(negatives)
        cond = 0.0
        for j in {j for j, _ in neighbors}:
            values = [value for k, value in neighbors if k == j]
            cond += (
                (1 - UNIFORM_SHARE)
                * w[j, i]
                * (sum(values) if mode == "authors" else sum(values) / len(values))
            )
        cond += UNIFORM_SHARE * sum(negatives) / n
        cond = max(cond, math.exp(-1 / temperature))
        cond = max((cond - TAU_PLUS * positive) / (1 - TAU_PLUS), math.exp(-1 / temperature))
        return -math.log(positive / (positive + n * cond))
    if name == "WeaklySupCCLK, outer":
        total = sum(value for _, value in neighbors)
        near = {j: max(w[j, i], 0.0) for j, _ in neighbors if j != i}
        shares = {j: (1 - OWN_SHARE) * v / max(1.0, sum(near.values())) for j, v in near.items()}
        result = -(1 - sum(shares.values())) * math.log(positive / total)
        for j, share in shares.items():
            logs = [math.log(value / total) for k, value in neighbors if k == j]
            result -= share * sum(logs) / len(logs)
        return result
    # The conditional mean of exp f: every sample once, as the mean over its views; the
    # authors' code sums over views instead.
    cond = 0.0
    for j in {j for j, _ in neighbors}:
        views = [value for k, value in neighbors if k == j]
        cond += w[j, i] * (sum(views) if mode == "authors" else sum(views) / len(views))
    cond = max(cond, 1e-7 if mode == "authors" else math.exp(-1 / temperature))
    if name == "WeaklySupCCLK":
        return -math.log(cond / (cond + sum(negatives) + (positive if mode == "authors" else 0.0)))
    count = (
        len({j for j, _ in neighbors}) - 1
        if mode == "authors"
        else len([j for j, _ in neighbors if j != i])
    )
    return -math.log(positive / (positive + count * cond))


class FairByAutograd(losses.ConditionalLoss):
    """Fair-CCLK again, without a slope."""

    def objective(
        self, scores: torch.Tensor, weights: torch.Tensor, layout: losses.TileLayout
    ) -> torch.Tensor:
        estimate = (weights * scores.exp()).sum(dim=1)
        smallest = torch.as_tensor(-1 / self.temperature, dtype=scores.dtype).exp()
        negatives = layout.negatives * estimate.clamp_min(smallest)
        return torch.log1p(negatives / scores[layout.positive].exp())
