"""Small datasets and networks for the tests of cclk.backbones."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cclk.columns import Column
from cclk.data import Dataset, Split


def split(rows: int, first: int, channels: int = 3, size: int = 8) -> Split:
    """Images that hold their own number everywhere."""
    numbers = torch.arange(first, first + rows)
    x = numbers.to(torch.uint8)[:, None, None, None].expand(-1, channels, size, size).contiguous()
    return Split(x, numbers % 2, torch.zeros(rows, 1))


def dataset(train: int = 7, validation: int = 0, test: int = 4, channels: int = 3) -> Dataset:
    parts = [
        split(train, 0, channels),
        split(validation, train, channels),
        split(test, train + validation, channels),
    ]
    return Dataset("tiny", *parts, ("even", "odd"), (Column("nothing"),), "tiny")


class Mean(nn.Module):
    """Channel means, and what they are multiplied by."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(scale))

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=(2, 3)) * self.scale


class Side(nn.Module):
    """How large the images are that it sees."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.full((len(x), 1), float(x.shape[-1]))
