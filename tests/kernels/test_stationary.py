"""The exponential of stationary kernels."""

from __future__ import annotations

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from cclk.kernels.stationary import exponential


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
