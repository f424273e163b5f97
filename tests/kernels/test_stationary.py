"""The exponential and the distances of stationary kernels."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cclk.kernels.stationary import RBF, exponential


@given(st.lists(st.floats(-1e300, 0.0), min_size=1, max_size=40))
def test_it_is_exp_or_zero_where_exp_is_negligible(exponents: list[float]) -> None:
    values = exponential(torch.tensor(exponents, dtype=torch.float64))
    for exponent, value in zip(exponents, values.tolist(), strict=True):
        if exponent > -699:
            assert math.isclose(value, math.exp(exponent), rel_tol=1e-14)
        elif exponent < -700:
            assert value == 0.0, "not a tiny number, which weights would be divided by"


def test_infinity_and_nan() -> None:
    values = exponential(torch.tensor([-math.inf, math.nan], dtype=torch.float64))
    assert float(values[0]) == 0.0
    assert math.isnan(values[1])


@pytest.mark.parametrize("offset", [0.0, 1e9])
@pytest.mark.parametrize("extent", [1.0, 80.0, 1e4])
def test_squares_of_distances_do_not_cancel(offset: float, extent: float) -> None:
    """By products where these are precise, and by differences where values are far apart."""
    generator = torch.Generator().manual_seed(0)
    values = offset + extent * torch.rand(300, 3, generator=generator).double()
    values[150:] = values[:150] + 0.5  # pairs of neighbors at any extent
    expected = ((values[:, None] - values) ** 2).sum(dim=2).mul(-0.5).exp()
    torch.testing.assert_close(RBF(length_scale=1.0)(values), expected, rtol=2e-11, atol=1e-300)
