"""Numbers of any size: losses, penalties and kernels are finite and right, or refuse them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import cclk
from cclk import kernels

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
KERNELS: dict[str, Callable[[], kernels.Kernel]] = {
    "RBF": kernels.RBF,
    "narrow RBF": lambda: kernels.RBF(length_scale=1.0),
    "Laplacian": kernels.Laplacian,
    "Linear": kernels.Linear,
    "Cosine": kernels.Cosine,
    "Polynomial": kernels.Polynomial,
    "Delta": kernels.Delta,
}


@pytest.mark.parametrize("scale", [1e151, 1e307])
@pytest.mark.parametrize(
    "use",
    [
        lambda z: cclk.FairCCLK(kernels.Laplacian(length_scale=1e-9))(z, z, z),
        lambda z: cclk.diagnose(kernels.RBF(), z),
        lambda z: cclk.LeakagePenalty()(torch.eye(4), z),
        lambda z: kernels.RBF().fit(z),
    ],
)
def test_a_condition_whose_squares_overflow_is_refused(
    use: Callable[..., Any], scale: float
) -> None:
    z = scale * torch.eye(4, 2, dtype=torch.float64)
    with pytest.raises(cclk.CclkError, match=r"beyond 1e\+150, the first at row 0.*: rescale them"):
        use(z)


def test_distances_that_overflow_are_refused() -> None:
    kernel = kernels.RBF(length_scale=1e-149)
    z = torch.tensor([1.0, 2.0, 5.0])
    assert torch.equal(kernel(z), torch.eye(3))
    with pytest.raises(cclk.CclkError, match=r"beyond 1e\+150 length scales.* raise length_scale"):
        kernel(100 * z)


@pytest.mark.parametrize("name", ["RBF", "Laplacian", "Cosine", "Delta"])
@pytest.mark.parametrize("scale", [1e-280, 1e-200, 1e-30, 1e30, 1e140])
def test_units_of_the_condition_do_not_matter(name: str, scale: float) -> None:
    z = torch.randn(12, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    fitted, other = (KERNELS[name]().fit(each, batch_size=12) for each in (z, scale * z))
    torch.testing.assert_close(fitted(z), other(scale * z), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("scale", [1e-320, 1e-100, 1e-30, 1e30, 1e75, 1e149])
@pytest.mark.parametrize("weights", ["nw", "loo", "paper", "authors"])
def test_losses_of_any_condition_are_finite_or_refused(
    kernel: str, scale: float, weights: str
) -> None:
    generator = torch.Generator().manual_seed(0)
    z = scale * torch.randn(8, 2, generator=generator, dtype=torch.float64)
    for kind in (cclk.FairCCLK, cclk.WeaklySupCCLK):
        x, y = torch.randn(2, 8, 4, generator=generator)
        x.requires_grad_()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cclk.CclkWarning)
            try:
                value = kind(KERNELS[kernel](), weights=weights)(x, y, z)
            except cclk.CclkError:
                assert kernel in ("Linear", "Polynomial", "narrow RBF")
                continue
        value.backward()
        assert value.isfinite()
        assert x.grad is not None
        assert x.grad.isfinite().all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [2, 3, 8])
@pytest.mark.parametrize("form", ["full", "rank 1", "duplicates", "constant", "offset"])
def test_leaks_are_shares(form: str, rows: int, dtype: torch.dtype) -> None:
    """From 0 to 1 for each column of the condition, with a finite gradient."""
    generator = torch.Generator().manual_seed(rows)
    small = torch.finfo(dtype).smallest_normal
    for scale in (small, 1e-4, 1.0, torch.finfo(dtype).max / 8):
        features = torch.randn(rows, 9, generator=generator, dtype=torch.float64).clamp(-2, 2)
        if form == "rank 1":
            features = features[:, :1] * features[:1].clamp(-1, 1)
        elif form == "duplicates":
            features[1:] = features[1:2].clone()
        elif form == "constant":
            features[:] = 1.0
        elif form == "offset":
            features = 3 + features / 100
        features = (features * scale).to(dtype).requires_grad_()
        penalty = cclk.LeakagePenalty()
        value = penalty(features, torch.randn(rows, 9, generator=generator))
        value.backward()
        assert len(penalty.leaks) == 9
        assert all(-1e-9 <= leak <= 1 + 1e-9 for leak in penalty.leaks.values())
        assert float(value.detach()) == pytest.approx(sum(penalty.leaks.values()))
        assert features.grad is not None
        assert features.grad.isfinite().all()


def test_gradients_of_half_precision_are_clipped_not_infinite() -> None:
    """A rank-1 batch of small features: its gradient exceeds the largest number of float16."""
    z = torch.linspace(0, 1, 8)
    direction = torch.tensor([[1.0, -2.0]])
    features = (3e-4 * z[:, None] * direction).half().requires_grad_()
    (20 * cclk.LeakagePenalty()(features, z.sin())).backward()
    assert features.grad is not None
    assert features.grad.isfinite().all()
    exact = features.detach().double().requires_grad_()
    (20 * cclk.LeakagePenalty()(exact, z.sin())).backward()
    assert exact.grad is not None
    largest = torch.finfo(torch.float16).max
    torch.testing.assert_close(
        features.grad.double(), exact.grad.clamp(-largest, largest), rtol=2e-3, atol=1.0
    )


def test_the_gradient_of_one_tensor_as_both_views_is_finite() -> None:
    torch.manual_seed(0)
    x = torch.randn(8, 4).half().requires_grad_()
    loss = cclk.WeaklySupInfoNCE(temperature=1e-6, reduction="sum")
    loss(x, x, torch.zeros(8, dtype=torch.int64)).backward()
    small = torch.full((8, 4), 1e-38).requires_grad_()
    more = torch.randn(8, 4, dtype=torch.float64)
    loss(small.double(), more, torch.zeros(8, dtype=torch.int64)).backward()
    for grad in (x.grad, small.grad):
        assert grad is not None
        assert grad.isfinite().all()
