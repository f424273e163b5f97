"""The constant kernel: what `kernel + 1` adds."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor

from cclk.condition import Columns, Condition
from cclk.kernels.base import Leaf


class Constant(Leaf):
    """k(a, b) = value: all pairs are similar by this much, whatever their condition.

    Args:
        value: A positive number.

    Example:
        >>> import torch
        >>> from cclk.kernels import Linear
        >>> (Linear() + 1)(torch.tensor([1.0, 2.0]))
        tensor([[2., 3.],
                [3., 5.]])
    """

    takes_text = True

    def __init__(self, value: float) -> None:
        super().__init__()
        if not 0 < value < float("inf"):
            raise ValueError(f"Constant({value}): only a positive number is a kernel")
        self.value = float(value)

    def evaluate(self, a: Condition, b: Condition) -> Tensor:
        return torch.full((len(a), len(b)), self.value, dtype=torch.float64, device=a.values.device)

    def diagonal(self, a: Condition) -> Tensor:
        return self.evaluate(a, a.rows(slice(0, 1)))[:, 0]

    def feature_count(self, a: Condition) -> int:
        return 1

    def features(self, a: Condition) -> Tensor:
        return self.diagonal(a).sqrt()[:, None]

    def on(self, columns: Columns) -> Self:
        return self  # it depends on no column

    def __repr__(self) -> str:
        return f"{self.value:g}"
