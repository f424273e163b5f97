"""User-defined similarities: a precomputed matrix, or any function of two tables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from cclk.condition import Columns, Condition
from cclk.errors import CclkError
from cclk.kernels.base import Leaf


class Precomputed(Leaf):
    """k(a, b) = matrix[a, b].

    Without a matrix, the condition is the (b, b) matrix of the batch itself. The matrix need not be
    positive definite: negative eigenvalues are clipped to zero, with a `CclkWarning`.

    Args:
        matrix: Symmetric similarities of all samples of a dataset; the condition is then the row
            number of each sample in it.
        columns: Names or numbers of the columns that hold the row numbers or the matrix; all by
            default.

    Shape:
        matrix: (n, n).

    Example:
        >>> import torch
        >>> matrix = torch.tensor([[1.0, 0.2, 0.0], [0.2, 1.0, 0.5], [0.0, 0.5, 1.0]])
        >>> Precomputed(matrix)(torch.tensor([2, 1])).tolist()
        [[1.0, 0.5], [0.5, 1.0]]
    """

    positive_definite = False

    def __init__(
        self, matrix: Tensor | np.ndarray | None = None, *, columns: Columns | None = None
    ) -> None:
        super().__init__(columns)
        self.matrix = None if matrix is None else _symmetric(torch.as_tensor(matrix), "matrix")

    def evaluate(self, a: Condition, b: Condition) -> Tensor:
        if self.matrix is not None:
            rows, columns = self._rows(self.matrix, a), self._rows(self.matrix, b)
            return self.matrix.to(rows.device)[rows][:, columns]
        matrix = a.select(self.columns)
        return matrix if b.index is None else matrix[:, b.index]

    def check(self, condition: Condition) -> None:
        if self.matrix is not None:
            self._rows(self.matrix, condition)
        elif condition.index is None:
            _symmetric(condition.select(self.columns), "condition")

    def _rows(self, matrix: Tensor, a: Condition) -> Tensor:
        values = a.select(self.columns)
        if values.shape[1] != 1:
            raise CclkError(
                f"condition has {values.shape[1]} columns: Precomputed(matrix) takes one, the row"
                " numbers"
            )
        rows = values[:, 0].long()
        if not torch.equal(rows.double(), values[:, 0]) or (
            len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < len(matrix)
        ):
            raise CclkError(
                f"condition must be row numbers from 0 to {len(matrix) - 1} of the precomputed"
                " matrix"
            )
        return rows

    def settings(self) -> dict[str, object]:
        size = None if self.matrix is None else len(self.matrix)
        return {} if size is None else {"matrix": f"<{size} x {size}>"}


class Similarity(Leaf):
    """k(a, b) = (fn(a, b) + fn(b, a)^T) / 2.

    The function need not be positive definite: negative eigenvalues of its matrix are clipped to
    zero, which yields the nearest kernel matrix, with a `CclkWarning`.

    Args:
        fn: A function from an (n, k) and an (m, k) tensor to an (n, m) tensor.
        columns: Names or numbers of the columns that fn receives; all by default.

    Example:
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
            raise CclkError(f"Similarity takes a function of two tensors, not {type(fn).__name__}")
        self.fn = fn

    def evaluate(self, a: Condition, b: Condition) -> Tensor:
        left, right = a.select(self.columns), b.select(self.columns)
        return (self._call(left, right) + self._call(right, left).T) / 2

    def _call(self, left: Tensor, right: Tensor) -> Tensor:
        values = torch.as_tensor(self.fn(left, right)).detach().double()
        if values.shape != (len(left), len(right)):
            raise CclkError(
                f"{self!r} returned shape {tuple(values.shape)} for {len(left)} and {len(right)}"
                " rows"
            )
        if not values.isfinite().all():
            raise CclkError(f"{self!r} returned values that are NaN or infinite")
        return values

    def settings(self) -> dict[str, object]:
        return {"fn": getattr(self.fn, "__name__", type(self.fn).__name__)}


def _symmetric(matrix: Tensor, name: str) -> Tensor:
    matrix = matrix.detach().double()
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise CclkError(
            f"{name} has shape {tuple(matrix.shape)}: a precomputed kernel needs a square matrix"
        )
    if not matrix.isfinite().all():
        raise CclkError(f"{name} has values that are NaN or infinite")
    tolerance = 1e-5 * float(matrix.abs().max()) if matrix.numel() else 0.0
    if not torch.allclose(matrix, matrix.T, rtol=1e-5, atol=tolerance):
        raise CclkError(
            f"{name} is not symmetric: a similarity must not depend on the order; pass (matrix +"
            " matrix.T) / 2"
        )
    return matrix
