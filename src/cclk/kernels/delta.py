"""The kernel of categories: equal or not."""

from __future__ import annotations

import torch
from torch import Tensor

from cclk.condition import Condition
from cclk.kernels.base import Box, Leaf, group_numbers


class Delta(Leaf):
    """k(a, b) = 1 if a = b in every column, else 0.

    With this kernel, CCL-K is exactly conditional sampling within the batch.

    Args:
        columns: Names or numbers of the columns to compare; all by default.

    Example:
        >>> import torch
        >>> Delta()(torch.tensor([0.0, 1.0, 0.0]))
        tensor([[1., 0., 1.],
                [0., 1., 0.],
                [1., 0., 1.]])
    """

    takes_text = True
    local = True
    apart = 1e6
    """The distance of two categories beside the numbers of other kernels, in length scales."""

    def evaluate(self, a: Condition, b: Condition) -> Tensor:
        left, right = a.select(self.columns), b.select(self.columns)
        same = left[:, :1] == right[:, 0]
        for column in range(1, left.shape[1]):
            same &= left[:, column, None] == right[:, column]
        return same.double()

    def diagonal(self, a: Condition) -> Tensor:
        return torch.ones(len(a), dtype=torch.float64, device=a.values.device)

    def pairs(self, a: Condition, b: Condition) -> Tensor:
        return (a.select(self.columns) == b.select(self.columns)).all(dim=1).double()

    def coordinates(self, a: Condition) -> Tensor:
        return self.apart * self.groups(a)[:, None].double()

    def upper_bound(self, a: Box, b: Box) -> Tensor:
        low_a, high_a, low_b, high_b = (
            table.select(self.columns) for box in (a, b) for table in box
        )
        overlap = (low_a[:, None] <= high_b) & (low_b <= high_a[:, None])
        return overlap.all(dim=2).double()

    def feature_count(self, a: Condition) -> int:
        return int(self.groups(a).max()) + 1

    def features(self, a: Condition) -> Tensor:
        return torch.nn.functional.one_hot(self.groups(a)).double()

    def groups(self, a: Condition) -> Tensor:
        return group_numbers(a.select(self.columns))
