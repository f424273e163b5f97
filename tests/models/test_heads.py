"""Projection heads as the paper and the release have them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from cclk.models import build_head
from cclk.registry import HEADS


@pytest.mark.parametrize(
    ("name", "layers", "count"),
    [
        (
            "linear-bn",
            ["Linear", "BatchNorm1d", "ReLU", "Linear", "BatchNorm1d"],
            84 * 84 + 2 * 84 + 84 * 128,
        ),
        (
            "mlp",
            ["Linear", "BatchNorm1d", "ReLU", "Linear", "BatchNorm1d", "ReLU", "Linear"],
            84 * 2048 + 2 * 2048 + 2048**2 + 2 * 2048 + 2049 * 128,
        ),
        ("linear", ["Linear", "Linear"], 85 * 84 + 85 * 128),
        ("none", [], 0),
    ],
)
def test_layers(name: str, layers: list[str], count: int) -> None:
    head = build_head(name, 84)
    assert [type(layer).__name__ for layer in head.children()] == layers
    assert sum(p.numel() for p in head.parameters()) == count
    assert head(torch.randn(4, 84)).shape == (4, 84 if name == "none" else 128)


def test_linear_bn_ends_standardized() -> None:
    out = build_head("linear-bn", 10, out=6)(torch.randn(64, 10))
    torch.testing.assert_close(out.mean(0), torch.zeros(6), rtol=0, atol=1e-5)
    torch.testing.assert_close(out.std(0, correction=0), torch.ones(6), rtol=0, atol=1e-3)


def test_mistakes_are_named() -> None:
    assert all(isinstance(build_head(name, 8, 4), nn.Module) for name in HEADS)
    with pytest.raises(
        ValueError,
        match=r"unknown head 'lin' \(did you mean 'linear' .*\): choose linear-bn, mlp, linear,"
        r" none, or",
    ):
        build_head("lin", 84)
    with pytest.raises(ValueError, match="out is 0: a projection has at least 1 dimension"):
        build_head("linear", 84, 0)
