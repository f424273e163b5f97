"""What a loss makes of the embeddings it is given: rows of unit length, and the gradient through
that.
"""

from __future__ import annotations

import pytest
import torch

import cclk
from cclk.losses.batch import unit

ROWS = torch.randn(5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_rows_have_unit_length_and_the_gradient_of_a_quotient() -> None:
    x, direct = ROWS.clone().requires_grad_(), ROWS.clone().requires_grad_()
    found, expected = unit(x, "x", torch.float64), direct / direct.norm(dim=1, keepdim=True)
    torch.testing.assert_close(found, expected)
    incoming = torch.randn(5, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found.backward(incoming)
    expected.backward(incoming)
    torch.testing.assert_close(x.grad, direct.grad)


def test_rows_of_zeros_stay_and_get_no_gradient() -> None:
    x = (
        torch.stack([torch.zeros(4), torch.full((4,), 1e-31), torch.full((4,), 1e-20)])
        .double()
        .requires_grad_()
    )
    found = unit(x, "x", torch.float64)
    found.sum().backward()
    torch.testing.assert_close(
        found.detach(), torch.tensor([[0.0] * 4, [0.0] * 4, [0.5] * 4], dtype=torch.float64)
    )
    assert x.grad is not None
    assert not x.grad[:2].any()


@pytest.mark.parametrize("sign", [1, -1])
def test_squares_that_overflow_do_not_matter(sign: int) -> None:
    """Only the rows that overflow are far from 1: each is scaled by itself, and the others keep
    their values and gradients.
    """
    scale = torch.tensor([1e30, 1.0, 1e38, 1e-3, 1e-20])[:, None]
    rows = sign * ROWS.float().abs() / ROWS.float().abs().amax()
    rows[:, 3] = 0
    x, plain = (scale * rows).requires_grad_(), rows.clone().requires_grad_()
    found, expected = unit(x, "x", torch.float32), unit(plain, "x", torch.float32)
    torch.testing.assert_close(found, expected)
    found[:, 0].sum().backward()
    expected[:, 0].sum().backward()
    assert x.grad is not None
    assert plain.grad is not None
    torch.testing.assert_close(x.grad[1:4:2] * scale[1:4:2], plain.grad[1:4:2])
    assert x.grad.isfinite().all()


def test_both_directions_count_alike() -> None:
    x, y = ROWS, ROWS.flip(1)
    there, back = cclk.InfoNCE()(x, y), cclk.InfoNCE()(y, x)
    torch.testing.assert_close(cclk.InfoNCE(symmetric=True)(x, y), (there + back) / 2)


def test_one_column_is_enough() -> None:
    assert cclk.InfoNCE()(ROWS[:, :1], ROWS[:, :1]).isfinite()
