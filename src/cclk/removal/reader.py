"""The leave-one-out residuals of kernel ridge regression, differentiable in the inputs.

For Sigma = L + ridge I and an intercept without ridge, the residual of sample i in the regression
on all other samples is (G Psi)_i / G_ii, where G = Sigma^-1 - Sigma^-1 1 1^T Sigma^-1 /
(1^T Sigma^-1 1) is the pseudo-inverse of the centered matrix H Sigma H. The gradient reuses the
factorization: dG = -G dL G.

Beyond `EXACT_UP_TO` rows, L is replaced by C M^-1 C^T, where C are the columns of landmarks and M
their block.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

EXACT_UP_TO = 1024
"""The number of rows up to which the regression is solved exactly."""
JITTER, SMALLEST_JITTER = 1e-12, 1e-8
"""Added to the diagonal of M, which is singular if rows are equal: a multiple of the largest
eigenvalue that C^T C / ridge can have, and a lower bound.
"""
MEDIAN_ROWS = 512


class Bandwidths:
    """L(x, y) = mean over s of exp(-|x - y|^2 / (s * scale))."""

    def __init__(self, multiples: tuple[float, ...], scale: float) -> None:
        self.multiples, self.scale = multiples, scale

    def __call__(self, distances: Tensor) -> tuple[Tensor, Tensor]:
        """The kernel of squared distances, and its derivative."""
        kernel, slope = torch.zeros_like(distances), torch.zeros_like(distances)
        for multiple in self.multiples:
            width = multiple * self.scale
            term = (distances / -width).exp_()
            kernel.add_(term, alpha=1 / len(self.multiples))
            slope.add_(term, alpha=-1 / (len(self.multiples) * width))
        return kernel, slope


class Exact:
    """G of the full kernel matrix."""

    def __init__(self, kernel: Tensor, ridge: float) -> None:
        sigma = kernel.clone()
        sigma.diagonal().add_(ridge)
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(sigma))
        ones = inverse.sum(dim=1)
        self.inverse = inverse.addr_(ones, ones, alpha=-1 / float(ones.sum()))
        self.diagonal = self.inverse.diagonal()

    def apply(self, vectors: Tensor) -> Tensor:
        """G times vectors (n, m)."""
        return self.inverse @ vectors

    def gradient(self, left: Tensor, right: Tensor, pull: Tensor) -> Tensor:
        """The gradient by L of <left, G right> - pull * diag(G)."""
        rows = pull.nonzero()[:, 0]
        some = self.inverse[:, rows]
        product = (some * pull[rows]) @ some.T
        return product.addmm_(self.apply(left), self.apply(right).T, alpha=-1)


class Landmarks:
    """G with C M^-1 C^T as the kernel matrix.

    With R R^T = M + C^T C / ridge, Sigma^-1 = I / ridge - U U^T, where U = C R^-T / ridge, and
    Sigma^-1 C M^-1 = U R^-1.
    """

    def __init__(self, columns: Tensor, rows: Tensor, ridge: float) -> None:
        self.rows, self.ridge = rows, ridge
        block = columns[rows]
        gram = torch.addmm((block + block.T) / 2, columns.T, columns, alpha=1 / ridge)
        gram.diagonal().add_(max(SMALLEST_JITTER, JITTER * columns.numel() / ridge))
        factor = torch.linalg.cholesky(gram)
        inverse = torch.linalg.solve_triangular(
            factor, torch.eye(len(gram), dtype=gram.dtype, device=gram.device), upper=False
        )
        # G = I / ridge - basis basis^T and G C M^-1 = basis steps, with the intercept last.
        basis = columns.new_empty(len(columns), len(gram) + 1)
        torch.mm(columns, inverse.T / ridge, out=basis[:, :-1])
        sums = basis[:, :-1].sum(dim=0)
        ones = 1 / ridge - basis[:, :-1] @ sums
        total = ones.sum()
        basis[:, -1] = ones / total.sqrt()
        self.basis = basis
        self.steps = torch.cat([inverse, (sums @ inverse / -total.sqrt())[None]])
        self.diagonal = 1 / ridge - basis.square().sum(dim=1)

    def apply(self, vectors: Tensor) -> Tensor:
        """G times vectors (n, m)."""
        return vectors / self.ridge - self.basis @ (self.basis.T @ vectors)

    def gradient(self, left: Tensor, right: Tensor, pull: Tensor) -> Tensor:
        """The gradient by C of <left, G right> - pull * diag(G)."""
        rows = pull.nonzero()[:, 0]
        some = self.basis[rows]
        pulled = some * pull[rows, None]
        inner = some.T @ pulled @ self.steps
        of_columns = self.basis @ (-2 * inner)
        of_columns[rows] += pulled @ (self.steps * (2 / self.ridge))
        (by_left, left), (by_right, right) = (
            ((vectors.T @ self.basis) @ self.steps, self.apply(vectors))
            for vectors in (left, right)
        )
        of_columns.addmm_(left, by_right, alpha=-1).addmm_(right, by_left, alpha=-1)
        of_block = self.steps.T @ inner
        of_block.addmm_(by_left.T, by_right, alpha=-0.5).addmm_(by_right.T, by_left, alpha=-0.5)
        of_columns[self.rows] -= of_block
        return of_columns


class Residuals(torch.autograd.Function):
    """Leave-one-out residuals of Psi (n, m) regressed on x (n, d), both float64."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        psi: Tensor,
        bandwidths: Bandwidths,
        ridge: float,
        landmarks: Tensor | None,
    ) -> Tensor:
        others = x if landmarks is None else x[landmarks]
        kernel, slope = bandwidths(squared_distances(x, others, landmarks))
        solver = Exact(kernel, ridge) if landmarks is None else Landmarks(kernel, landmarks, ridge)
        diagonal = solver.diagonal.clamp_min(1e-300)
        residuals = solver.apply(psi) / diagonal[:, None]
        ctx.solver, ctx.landmarks = solver, landmarks
        ctx.save_for_backward(x, psi, slope, residuals, diagonal)
        return residuals

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, incoming: Tensor) -> tuple[Tensor | None, ...]:
        x, psi, slope, residuals, diagonal = ctx.saved_tensors
        scaled = incoming / diagonal[:, None]
        pull = (scaled * residuals).sum(dim=1)
        of_distances = ctx.solver.gradient(scaled, psi, pull).mul_(slope)
        others = x if ctx.landmarks is None else x[ctx.landmarks]
        of_x = of_distances.sum(dim=1, keepdim=True) * x - of_distances @ others
        of_others = of_distances.sum(dim=0)[:, None] * others - of_distances.T @ x
        if ctx.landmarks is None:
            of_x += of_others
        else:
            of_x.index_add_(0, ctx.landmarks, of_others)
        return of_x.mul_(2), None, None, None, None


def squared_distances(x: Tensor, others: Tensor, rows: Tensor | None) -> Tensor:
    """Squared distances (n, m) of x and `others`, which are its rows `rows`, or all of them."""
    squares, theirs = x.square().sum(dim=1), others.square().sum(dim=1)
    distances = torch.addmm(squares[:, None] + theirs, x, others.T, alpha=-2).clamp_min_(0)
    columns = torch.arange(len(others), device=x.device)
    distances[columns if rows is None else rows, columns] = 0
    return distances


@torch.no_grad()
def median_distance(x: Tensor) -> float:
    """The median squared distance of two samples, of at most `MEDIAN_ROWS` of them; if it is 0, the
    mean, and 1 if all samples are equal.
    """
    some = x[:MEDIAN_ROWS]
    distances = squared_distances(some, some, None)
    size = len(some)
    # The n zeros of the diagonal are the smallest: skip them by rank instead of copying pairs.
    rank = size + (size * (size - 1) + 1) // 2
    median = float(distances.view(-1).kthvalue(rank).values)
    scale = median if median > 1e-10 else float(distances.mean())
    return scale if scale > 1e-10 else 1.0
