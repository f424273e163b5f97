"""The kernel measure of association."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from cclk import conditional_weights
from cclk.errors import DataError
from cclk.evaluation import association
from cclk.kernels import RBF


def by_loops(features: Tensor, weights: Tensor) -> float:
    """The formula, entry by entry; weights[j, i] is the weight of j for anchor i."""
    x = (features - features.mean(dim=0)) / features.std(dim=0)
    count = len(x)
    pairs = [(i, j) for i in range(count) for j in range(count) if i != j]
    squares = {(i, j): float((x[i] - x[j]).square().sum()) for i, j in pairs}
    median = float(torch.tensor([squares[i, j] for i, j in pairs if i < j]).median())
    kernel = {pair: torch.tensor(-square / median).exp().item() for pair, square in squares.items()}
    mean = sum(kernel.values()) / len(pairs)
    within = sum(float(weights[j, i]) * kernel[i, j] for i, j in pairs) / count
    return (within - mean) / (1 - mean)


@pytest.fixture
def condition() -> Tensor:
    return torch.rand(24, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def noise() -> Tensor:
    return torch.randn(24, 3, generator=torch.Generator().manual_seed(2))


def test_equals_the_formula(noise: Tensor, condition: Tensor) -> None:
    kernel = RBF(length_scale=0.2)
    weights = conditional_weights(kernel, condition, weights="nw")
    measured = association(noise, condition, kernel)
    assert measured.value == pytest.approx(by_loops(noise, weights), abs=1e-5)
    assert measured.p_value is None


def test_function_of_the_condition_against_noise(noise: Tensor, condition: Tensor) -> None:
    dependent = association(condition[:, None].sin(), condition, permutations=99)
    independent = association(noise, condition, permutations=99)
    assert dependent.value > 0.8
    assert dependent.p_value == 0.01
    assert independent.p_value is not None
    assert independent.p_value > 0.05
    assert str(dependent).endswith("(p = 0.01)")


def test_categories(noise: Tensor) -> None:
    site = ["Oslo", "Bonn"] * 12
    shifted = noise + 5.0 * (torch.arange(24) % 2)[:, None]
    assert association(shifted, {"site": site}).value > 0.5
    assert abs(association(noise, {"site": site}).value) < 0.2


def test_rows_must_match(noise: Tensor, condition: Tensor) -> None:
    with pytest.raises(DataError, match="same n samples"):
        association(noise[:5], condition)
