"""Kernels of the inner product, which have explicit feature maps: linear, cosine, polynomial."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import combinations_with_replacement

import torch
from torch import Tensor
from torch.nn.functional import normalize

from cclk.condition import Columns, Condition
from cclk.errors import CclkError
from cclk.kernels.base import Leaf


class Linear(Leaf):
    """k(a, b) = <a, b>.

    Args:
        columns: Names or numbers of the columns of the condition; all by default.

    Example:
        >>> import torch
        >>> Linear()(torch.tensor([[1.0, 2.0], [3.0, 0.0]]))
        tensor([[5., 3.],
                [3., 9.]])
    """

    def evaluate(self, a: Condition, b: Condition) -> Tensor:
        left = self.features(a)
        return left @ (left if a is b else self.features(b)).T

    def feature_count(self, a: Condition) -> int:
        return a.select(self.columns).shape[1]

    def features(self, a: Condition) -> Tensor:
        return a.select(self.columns)


class Cosine(Linear):
    """k(a, b) = <a, b> / (|a| |b|), and 0 if a or b is zero.

    Args:
        columns: Names or numbers of the columns of the condition; all by default.

    Example:
        >>> import torch
        >>> Cosine()(torch.tensor([[1.0, 0.0], [3.0, 3.0]]))
        tensor([[1.0000, 0.7071],
                [0.7071, 1.0000]])
    """

    def features(self, a: Condition) -> Tensor:
        # Squares of small values underflow.
        values = a.select(self.columns)
        largest = values.abs().amax(dim=1, keepdim=True)
        return normalize(values / largest.where(largest > 0, 1.0))


class Polynomial(Leaf):
    """k(a, b) = (<a, b> + offset)^degree.

    The authors' code has degree 3 and no offset.

    Args:
        columns: Names or numbers of the columns of the condition; all by default.
        degree: A positive integer.
        offset: A non-negative number; with 0, only terms of the full degree count.

    Example:
        >>> import torch
        >>> Polynomial(degree=2, offset=1.0)(torch.tensor([1.0, 2.0]))
        tensor([[ 4.,  9.],
                [ 9., 25.]])
    """

    def __init__(
        self, columns: Columns | None = None, *, degree: int = 3, offset: float = 1.0
    ) -> None:
        super().__init__(columns)
        if degree < 1 or degree != int(degree):
            raise CclkError(f"degree is {degree}: it must be an integer of at least 1")
        if not 0 <= offset < math.inf:
            raise CclkError(f"offset is {offset}: it must be a non-negative number")
        self.degree, self.offset = int(degree), float(offset)

    def evaluate(self, a: Condition, b: Condition) -> Tensor:
        return (a.select(self.columns) @ b.select(self.columns).T + self.offset) ** self.degree

    def diagonal(self, a: Condition) -> Tensor:
        return (a.select(self.columns).square().sum(dim=1) + self.offset) ** self.degree

    def feature_count(self, a: Condition) -> int:
        width = a.select(self.columns).shape[1] + (self.offset > 0)
        return math.comb(width + self.degree - 1, self.degree)

    def features(self, a: Condition) -> Tensor:
        # The multinomial theorem: one feature for every monomial of the columns and sqrt(offset).
        values = a.select(self.columns)
        if self.offset > 0:
            values = torch.cat([values, values.new_full((len(a), 1), self.offset**0.5)], dim=1)
        monomials, roots = _monomials(values.shape[1], self.degree)
        product = values[:, monomials[0].to(values.device)]
        for factor in monomials[1:]:
            product = product * values[:, factor.to(values.device)]
        return product * roots.to(values.device)

    def settings(self) -> dict[str, object]:
        return {"degree": self.degree, "offset": f"{self.offset:g}"}


@lru_cache(maxsize=16)
def _monomials(width: int, degree: int) -> tuple[Tensor, Tensor]:
    """Return the columns of each monomial, (degree, m), and sqrt(multinomial coefficient), (m,)."""
    monomials = list(combinations_with_replacement(range(width), degree))
    counts = [
        math.factorial(degree) / math.prod(math.factorial(m.count(i)) for i in set(m))
        for m in monomials
    ]
    return torch.tensor(monomials).T, torch.tensor(counts, dtype=torch.float64).sqrt()
