"""Similarities that come from elsewhere: a ready matrix, or any function of two tables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from cclk.condition import Columns, Condition
from cclk.kernels.base import Leaf


class Precomputed(Leaf):
    """k(a, b) looked up in a matrix.

    `Precomputed()`: the condition itself is the ready (b, b) matrix of the batch.
    `Precomputed(matrix)`: a matrix over a whole dataset, and the condition is each sample's row
    number in it.

    A matrix need not be positive definite: negative eigenvalues are clipped to zero, and the loss
    says so.

    >>> import torch
    >>> table = torch.tensor([[1.0, 0.2, 0.0], [0.2, 1.0, 0.5], [0.0, 0.5, 1.0]])
    >>> Precomputed(table)(torch.tensor([2, 1])).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """

    positive_definite = False

    def __init__(
        self, matrix: Tensor | np.ndarray | None = None, *, columns: Columns | None = None
    ) -> None:
        super().__init__(columns)
        self.matrix = None if matrix is None else _square(torch.as_tensor(matrix), "matrix")

    def evaluate(self, a: Condition, b: Condition) -> Tensor:
        if self.matrix is not None:
            rows, columns = self._numbers(a), self._numbers(b)
            return self.matrix.to(rows.device)[rows][:, columns]
        matrix = a.select(self.columns)
        return matrix if b.index is None else matrix[:, b.index]

    def check(self, condition: Condition) -> None:
        if self.matrix is not None:
            self._numbers(condition)
        elif condition.index is None:
            _square(condition.select(self.columns), "condition")

    def _numbers(self, a: Condition) -> Tensor:
        assert self.matrix is not None
        values = a.select(self.columns)
        if values.shape[1] != 1:
            raise ValueError(
                f"condition has {values.shape[1]} columns: Precomputed(matrix) takes one, the row"
                " numbers"
            )
        rows = values[:, 0].long()
        if not torch.equal(rows.double(), values[:, 0]) or (
            len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < len(self.matrix)
        ):
            raise ValueError(
                f"condition must be row numbers from 0 to {len(self.matrix) - 1} of the precomputed"
                " matrix"
            )
        return rows

    def settings(self) -> dict[str, object]:
        return (
            {} if self.matrix is None else {"matrix": f"<{len(self.matrix)} x {len(self.matrix)}>"}
        )


class Similarity(Leaf):
    """k(a, b) = (fn(a, b) + fn(b, a)^T) / 2 for any function from an (n, k) and an (m, k) tensor
    to an (n, m) one.

    The function need not be a kernel. Where its matrix has negative eigenvalues they are clipped to
    zero, the nearest matrix that is one, and the loss says so.

    >>> import torch
    >>> Similarity(lambda a, b: (a - b.T).abs() < 1.5)(torch.tensor([0.0, 1.0, 2.0])).tolist()
    [[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]]
    """

    positive_definite = False
    takes_text = True

    def __init__(
        self, fn: Callable[[Tensor, Tensor], Tensor], *, columns: Columns | None = None
    ) -> None:
        super().__init__(columns)
        if not callable(fn):
            raise ValueError(f"Similarity takes a function of two tensors, not {type(fn).__name__}")
        self.fn = fn

    def evaluate(self, a: Condition, b: Condition) -> Tensor:
        left, right = a.select(self.columns), b.select(self.columns)
        return (self._call(left, right) + self._call(right, left).T) / 2

    def _call(self, left: Tensor, right: Tensor) -> Tensor:
        values = torch.as_tensor(self.fn(left, right)).detach().double()
        if values.shape != (len(left), len(right)):
            raise ValueError(
                f"{self!r} returned shape {tuple(values.shape)} for {len(left)} and {len(right)}"
                " rows"
            )
        if not values.isfinite().all():
            raise ValueError(f"{self!r} returned values that are NaN or infinite")
        return values

    def settings(self) -> dict[str, object]:
        return {"fn": getattr(self.fn, "__name__", type(self.fn).__name__)}


def _square(matrix: Tensor, name: str) -> Tensor:
    matrix = matrix.detach().double()
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(
            f"{name} has shape {tuple(matrix.shape)}: a precomputed kernel needs a square matrix"
        )
    if not matrix.isfinite().all():
        raise ValueError(f"{name} has values that are NaN or infinite")
    if not torch.allclose(
        matrix,
        matrix.T,
        rtol=1e-5,
        atol=1e-5 * float(matrix.abs().max()) if matrix.numel() else 0.0,
    ):
        raise ValueError(
            f"{name} is not symmetric: a similarity must not depend on the order; pass (matrix +"
            " matrix.T) / 2"
        )
    return matrix
