"""Losses that score only the columns that matter equal those that score all of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import cclk
from benchmarks.fuzz_losses import LOCAL, SMALL_TILES
from cclk import kernels
from cclk.condition import Condition
from cclk.losses import sparse
from cclk.weights import neighborhoods

LOSS = {torch.float32: 1e-6, torch.float64: 1e-12}
GRADIENT = {torch.float32: 1e-5, torch.float64: 1e-9}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"views": "all", "symmetric": True},
    {"reduction": "none"},
    {"temperature": 0.02},
    {"temperature": 0.5, "views": "all"},
]
KERNELS = {
    "rbf": lambda: kernels.RBF(slice(1, None), neighbors=2.0),
    "laplacian": lambda: kernels.Laplacian(slice(1, None), length_scale=1e-3),
    "delta": lambda: kernels.Delta([0]),
    "product": lambda: kernels.Delta([0]) * kernels.RBF([1], length_scale=0.2),
    "sum": lambda: kernels.Delta([0]) + 0.1 * kernels.RBF([1], length_scale=1e-4),
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small tiles, so that a small batch has many of them."""
    for name, value in SMALL_TILES.items():
        monkeypatch.setattr(neighborhoods, name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cclk.CclkWarning)
        yield


def condition(size: int, width: int, seed: int) -> Tensor:
    """A category, and clusters of different density with an outlier and equal rows."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randn(size, width, generator=generator)
    numbers[: size // 3] = 0.01 * numbers[: size // 3] + 3
    numbers[0], numbers[-5:] = 1e3, numbers[-1].clone()
    category = torch.randint(0, size // 6, (size, 1), generator=generator)
    return torch.cat([category.float(), numbers], dim=1).double()


def computed(
    loss: nn.Module, x: Tensor, y: Tensor, z: Tensor, sparse: bool, **options: object
) -> tuple[list[Tensor], str]:
    """The loss and its gradients, and which pairs were scored."""
    smallest = neighborhoods.SMALLEST
    neighborhoods.SMALLEST = smallest if sparse else 10**9
    try:
        x, y = x.clone().requires_grad_(), y.clone().requires_grad_()
        value = loss(x, y, z, **options)
        parameters = list(loss.parameters())
        weights = torch.linspace(0.5, 1.5, value.numel(), dtype=value.dtype).view(value.shape)
        gradients = torch.autograd.grad((value * weights).sum(), [x, y, *parameters])
    finally:
        neighborhoods.SMALLEST = smallest
    report = loss.report
    assert isinstance(report, cclk.losses.base.Report)
    return [value.detach(), *gradients, report.clamped], report.pairs


def check(dtype: torch.dtype, dense: list[Tensor], found: list[Tensor]) -> None:
    assert torch.equal(found[-1], dense[-1]), "as many estimates were raised"
    torch.testing.assert_close(found[0], dense[0], rtol=LOSS[dtype], atol=LOSS[dtype])
    for gradient, expected in zip(found[1:-1], dense[1:-1], strict=True):
        error = (gradient - expected).abs().max() / expected.abs().max().clamp_min(1e-12)
        assert error < GRADIENT[dtype]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    size=st.integers(64, 200), width=st.integers(1, 8), seed=st.integers(0, 999),
    kernel=st.sampled_from(list(KERNELS)), options=st.sampled_from(OPTIONS),
    dtype=st.sampled_from(list(LOSS)), mode=st.sampled_from(["nw", "loo", "authors"]),
    method=st.sampled_from([cclk.FairCCLK, cclk.HardNegCCLK]),
)  # fmt: skip
def test_it_equals_all_pairs(
    size: int,
    width: int,
    seed: int,
    kernel: str,
    options: dict[str, Any],
    dtype: torch.dtype,
    mode: str,
    method: type[cclk.FairCCLK],
) -> None:
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randn(2, size, 6, generator=generator).to(dtype)
    z = condition(size, width, seed)
    loss = method(KERNELS[kernel](), weights=mode, **options)
    dense, all_pairs = computed(loss, x, y, z, sparse=False)
    found, _ = computed(loss, x, y, z, sparse=True)
    assert "all pairs are computed" in all_pairs
    check(dtype, dense, found)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    size=st.integers(64, 160), exponents=st.lists(st.integers(-9, 9), min_size=2, max_size=8),
    seed=st.integers(0, 999), kernel=st.sampled_from(LOCAL), dtype=st.sampled_from(list(LOSS)),
    temperature=st.sampled_from([0.005, 0.01, 0.03, 0.1]), views=st.sampled_from(["cross", "all"]),
    mode=st.sampled_from(["nw", "loo", "authors"]), rounded=st.booleans(),
)  # fmt: skip
def test_it_equals_all_pairs_in_double_precision(
    size: int,
    exponents: list[int],
    seed: int,
    kernel: Callable[[int], Any],
    views: str,
    temperature: float,
    dtype: torch.dtype,
    mode: str,
    rounded: bool,
) -> None:
    """Columns of any scale, whose anchors may have no neighbors at all, and low temperatures."""
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randn(2, size, 6, generator=generator).to(dtype)
    z = torch.rand(size, len(exponents), generator=generator).double()
    z *= torch.tensor([10.0**exponent for exponent in exponents])
    z = z.round() if rounded else z
    loss = cclk.FairCCLK(kernel(z.shape[1]), weights=mode, temperature=temperature, views=views)
    found, _ = computed(loss, x, y, z, sparse=True)
    dense, _ = computed(loss, x.double(), y.double(), z, sparse=False)
    tolerance = 1e-6 / temperature if dtype == torch.float32 else 1e-10
    for one, other in zip(found, dense, strict=True):
        error = (one.double() - other).abs().max() / (1 + other.abs().max())
        assert error <= tolerance


@pytest.mark.parametrize("temperature", [0.005, 0.03, 0.1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tiles_without_any_neighbor(temperature: float, dtype: torch.dtype) -> None:
    """Every estimate is the floor, and only the positives have a gradient."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(2, 128, 6, generator=generator).to(dtype)
    z = torch.rand(128, 2, generator=generator) * torch.tensor([1e9, 1e5])
    loss = cclk.FairCCLK(kernels.RBF(length_scale=1.0), temperature=temperature)
    found, pairs = computed(loss, x, y, z, sparse=True)
    dense, _ = computed(loss, x, y, z, sparse=False)
    assert "do not matter" in pairs
    assert float(found[-1]) == 1
    check(dtype, dense, found)


@pytest.mark.parametrize("kernel", ["rbf", "delta", "product", "laplacian"])
def test_it_is_used(kernel: str) -> None:
    x, y = torch.randn(2, 200, 6)
    loss = cclk.FairCCLK(KERNELS[kernel](), weights="nw")
    assert "do not matter" in computed(loss, x, y, condition(200, 1, 0), sparse=True)[1]


@pytest.mark.parametrize("views", ["cross", "all"])
def test_with_support(views: str) -> None:
    x, y = torch.randn(2, 100, 6).double()
    extra = torch.randn(60, 6).double()
    z = condition(160, 1, 0)
    loss = cclk.FairCCLK(KERNELS["rbf"](), weights="nw", views=views)
    support = (extra, z[100:])
    dense, _ = computed(loss, x, y, z[:100], sparse=False, support=support)
    found, pairs = computed(loss, x, y, z[:100], sparse=True, support=support)
    assert "do not matter" in pairs
    check(torch.float64, dense, found)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("views", ["cross", "all"])
@pytest.mark.parametrize("method", [cclk.FairCCLK, cclk.WeaklySupCCLK])
def test_a_support_with_a_gradient_changes_no_other_one(
    method: type[cclk.FairCCLK], views: str, sparse: bool
) -> None:
    x, y = torch.randn(2, 100, 6).double()
    extra, z = torch.randn(60, 6).double(), condition(160, 1, 0)
    loss = method(KERNELS["rbf"](), weights="nw", views=views)
    fixed, _ = computed(loss, x, y, z[:100], sparse=sparse, support=(extra, z[100:]))
    learned = extra.clone().requires_grad_()
    found, _ = computed(loss, x, y, z[:100], sparse=sparse, support=(learned, z[100:]))
    check(torch.float64, fixed, found)
    (gradient,) = torch.autograd.grad(loss(x, y, z[:100], support=(learned, z[100:])), learned)
    row, shift = int(gradient.norm(dim=1).argmax()), torch.zeros_like(extra)
    shift[row] = 1e-5 * gradient[row] / gradient[row].norm()
    there, back = (loss(x, y, z[:100], support=(extra + s, z[100:])) for s in (shift, -shift))
    slope = (there - back) / 2e-5
    torch.testing.assert_close(slope, gradient[row].norm(), rtol=1e-5, atol=1e-8)


def test_with_a_learned_temperature() -> None:
    x, y = torch.randn(2, 120, 6).double()
    z = condition(120, 1, 0)
    z[:20, 1] = 100.0 * torch.arange(20)  # anchors without neighbors, whose estimate is raised
    kernel = kernels.RBF([1], length_scale=0.01)
    loss = cclk.FairCCLK(kernel, weights="nw", temperature=0.2, learn_temperature=True).double()
    dense, _ = computed(loss, x, y, z, sparse=False)
    found, pairs = computed(loss, x, y, z, sparse=True)
    assert "do not matter" in pairs
    assert float(dense[-1]) > 0
    check(torch.float64, dense, found)


def test_estimates_far_below_one_are_computed_again() -> None:
    """Neighbors in the opposite direction: less may be dropped than is usual."""
    generator = torch.Generator().manual_seed(0)
    z = torch.linspace(0, 1, 160).double()
    direction = torch.randn(6, generator=generator).double()
    x = direction.expand(160, 6) + 0.01 * torch.randn(160, 6, generator=generator)
    y = -direction.expand(160, 6) + 0.01 * torch.randn(160, 6, generator=generator)
    y[::40] = direction
    loss = cclk.FairCCLK(kernels.RBF(length_scale=0.01), weights="nw", temperature=0.05)
    dense, _ = computed(loss, x, y, z, sparse=False)
    found, pairs = computed(loss, x, y, z, sparse=True)
    assert "do not matter" in pairs
    check(torch.float64, dense, found)


def test_small_batches_compute_all_pairs() -> None:
    x, y = torch.randn(2, 60, 6)
    loss = cclk.FairCCLK(KERNELS["rbf"]())
    assert "fewer than 64 samples" in computed(loss, x, y, condition(60, 1, 0), sparse=True)[1]


def test_losses_that_need_all_pairs_say_so() -> None:
    x, y = torch.randn(2, 100, 6)
    loss = cclk.WeaklySupCCLK(KERNELS["delta"]())
    assert "contains all of them" in computed(loss, x, y, condition(100, 1, 0), sparse=True)[1]


@pytest.mark.parametrize("sparse", [False, True])
def test_sums_of_kernel_values_next_to_zero(sparse: bool) -> None:
    """Products of kernels underflow in more steps than a kernel does."""
    generator = torch.Generator().manual_seed(0)
    z = torch.rand(80, 2, generator=generator).double()
    z[0] = z[1:].amax(dim=0) + 26.75
    x, y = torch.randn(2, 80, 6, generator=generator)
    loss = cclk.FairCCLK(kernels.RBF([0], length_scale=1.0) * kernels.RBF([1], length_scale=1.0))
    values, _ = computed(loss, x, y, z, sparse)
    assert all(value.isfinite().all() for value in values)


class Wavelet(kernels.RBF):
    """(1 - d^2) exp(-d^2 / 2), which is negative between some values, and never above RBF."""

    def evaluate(self, a: Condition, b: Condition) -> Tensor:
        values = super().evaluate(a, b)
        return values * (1 + 2 * values.clamp_min(1e-300).log())

    def pairs(self, a: Condition, b: Condition) -> Tensor:
        values = super().pairs(a, b)
        return values * (1 + 2 * values.clamp_min(1e-300).log())


def test_kernels_with_negative_values() -> None:
    x, y = torch.randn(2, 200, 6).double()
    z = torch.rand(200, 1, generator=torch.Generator().manual_seed(0)).double()
    loss = cclk.FairCCLK(Wavelet(length_scale=0.02), weights="nw")
    dense, _ = computed(loss, x, y, z, sparse=False)
    found, pairs = computed(loss, x, y, z, sparse=True)
    assert "do not matter" in pairs
    check(torch.float64, dense, found)


@pytest.mark.parametrize("temperature", [0.05, 0.1, 0.5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_negligible_weights_do_not_matter_to_any_estimate(
    temperature: float, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even where near samples are opposite to the anchor, and far ones equal to it."""
    z = torch.linspace(0, 1, 60).double()
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, generator=generator) + 0.01 * torch.randn(60, 6, generator=generator)
    y = -x + 0.01 * torch.randn(60, 6, generator=generator)
    y[::7] *= -1
    x, y = x.to(dtype), y.to(dtype)
    loss = cclk.FairCCLK(kernels.RBF(length_scale=0.02), weights="nw", temperature=temperature)
    found, _ = computed(loss, x, y, z, sparse=False)
    monkeypatch.setattr(sparse, "negligible", lambda *arguments: 0.0)
    exact, _ = computed(loss, x, y, z, sparse=False)
    check(dtype, exact, found)
