"""What a loss makes of the embeddings it is given: rows of unit length, and the gradient through
that.
"""

from __future__ import annotations

from contextlib import nullcontext

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
    x = torch.stack([torch.zeros(4), torch.full((4,), 1e-20)]).double().requires_grad_()
    found = unit(x, "x", torch.float64)
    found.sum().backward()
    expected = torch.tensor([[0.0] * 4, [0.5] * 4], dtype=torch.float64)
    torch.testing.assert_close(found.detach(), expected)
    assert x.grad is not None
    assert not x.grad[0].any()


RANGES = [
    (torch.float16, 1e-6, 6e4),
    (torch.bfloat16, 1e-37, 1e38),
    (torch.float32, 1e-37, 1e38),
    (torch.float64, 1e-300, 1e307),
]


@pytest.mark.parametrize(("dtype", "least", "most"), RANGES)
def test_rows_of_any_norm(dtype: torch.dtype, least: float, most: float) -> None:
    """Of the smallest and the largest numbers of a dtype; gradients are bounded by the latter."""
    signs = torch.tensor([[1.0, -1, 1, 1], [1, 1, 1, -1], [-1, 1, 1, 1]], dtype=torch.float64)
    smallest = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps  # a subnormal number
    for scale in (smallest, least, 1e-3, 1.0, most):
        x = (signs * scale).to(dtype).requires_grad_()
        found = unit(x, "x", torch.float64 if dtype == torch.float64 else torch.float32)
        torch.testing.assert_close(found.detach().double(), signs / 2)
        (found * torch.arange(12).view(3, 4)).sum().backward()
        assert x.grad is not None
        assert x.grad.isfinite().all()
        assert x.grad.any() or scale == most


@pytest.mark.parametrize("name", ["InfoNCE", "FairCCLK", "WeaklySupCCLK", "HardNegInfoNCE"])
def test_a_loss_does_not_depend_on_norms(name: str) -> None:
    x, y = ROWS.float(), ROWS.flip(1).float()
    loss = getattr(cclk, name)()
    condition = torch.arange(5.0)
    with pytest.warns(cclk.CclkWarning) if name.endswith("CCLK") else nullcontext():
        expected = loss(x, y, condition)
    for scale in (1e-30, 1e-36, 1e30):
        torch.testing.assert_close(loss(x * scale, y, condition), expected)


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
