"""Low temperatures: loss and gradients in float32 equal those in float64, whatever the weights."""

from __future__ import annotations

import copy
import itertools
import warnings
from collections.abc import Callable
from typing import Literal

import pytest
import torch
from torch import Tensor

import cclk
from cclk import kernels

CONDITIONS: dict[str, Callable[[int, torch.Generator], Tensor]] = {
    "uniform": lambda size, generator: torch.rand(size, generator=generator),
    "log-normal": lambda size, generator: torch.randn(size, generator=generator).exp(),
    "normal": lambda size, generator: torch.randn(size, generator=generator),
}


def gradients(
    loss: torch.nn.Module, x: Tensor, y: Tensor, condition: Tensor | None, dtype: torch.dtype
) -> tuple[Tensor, ...]:
    inputs = [tensor.to(dtype, copy=True).requires_grad_() for tensor in (x, y)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cclk.CclkWarning)
        value = copy.deepcopy(loss)(*inputs, condition)
    assert value.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    return value.detach(), *torch.autograd.grad(value, inputs)


def assert_precise(
    loss: torch.nn.Module,
    x: Tensor,
    y: Tensor,
    condition: Tensor | None,
    dtype: torch.dtype = torch.float32,
) -> None:
    low = [tensor.to(dtype) for tensor in (x, y)]
    found = gradients(loss, *low, condition, dtype)
    expected = gradients(loss, *(tensor.double() for tensor in low), condition, torch.float64)
    tolerance = (
        1e-4 if dtype == torch.float32 else 1e-2
    )  # the gradients of half types are rounded to their own digits
    for single, double in zip(found, expected, strict=True):
        assert single.isfinite().all()
        assert float((single.double() - double).norm()) <= tolerance * float(double.norm())


def batch(size: int, width: int, seed: int, condition: str) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, width, generator=generator)
    return (
        x,
        x + 0.5 * torch.randn(size, width, generator=generator),
        CONDITIONS[condition](size, generator),
    )


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("size", [256, 1024])
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("kind", [kernels.RBF, kernels.Laplacian])
def test_fair_losses_at_low_temperatures(
    kind: type[kernels.RBF], condition: str, size: int, seed: int
) -> None:
    """192 cases in all; at T = 0.01 a weight of 1e-30 can carry the largest term of a sum, or
    hide all the others.
    """
    x, y, z = batch(size, (16, 3)[seed], seed, condition)
    kernel = kind().fit(z, size)
    for weights, temperature in itertools.product(("loo", "nw"), (0.005, 0.01, 0.02, 0.05)):
        assert_precise(
            cclk.FairCCLK(kernel, ridge=1e-6, temperature=temperature, weights=weights), x, y, z
        )


@pytest.mark.parametrize("temperature", [0.002, 0.01, 0.1, 1.0])
@pytest.mark.parametrize("weights", ["loo", "nw", "paper", "authors"])
@pytest.mark.parametrize("make", [cclk.FairCCLK, cclk.WeaklySupCCLK, cclk.HardNegCCLK])
def test_every_weight_mode(make: type[cclk.FairCCLK], weights: str, temperature: float) -> None:
    x, y, z = batch(300, 8, 2, "log-normal")
    for kernel in (kernels.RBF().fit(z, 300), kernels.Laplacian().fit(z, 300), kernels.Linear()):
        for views in ("cross", "all"):
            assert_precise(
                make(kernel, ridge=1e-3, temperature=temperature, weights=weights, views=views),
                x,
                y,
                z,
            )


@pytest.mark.parametrize("temperature", [0.002, 0.01, 0.05])
def test_hard_negatives_of_their_own_embedding(temperature: float) -> None:
    x, y, _ = batch(300, 8, 3, "normal")
    assert_precise(cclk.HardNegCCLK(temperature=temperature), x, y, None)
    assert_precise(
        cclk.HardNegCCLK(kernels.RBF(length_scale=0.5), temperature=temperature, weights="nw"),
        x,
        y,
        None,
    )


@pytest.mark.parametrize("temperature", [0.002, 0.01, 0.1, 1.0])
@pytest.mark.parametrize(
    "make", [cclk.InfoNCE, cclk.HardNegInfoNCE, cclk.WeaklySupInfoNCE, cclk.FairInfoNCE]
)
def test_baselines(make: type[torch.nn.Module], temperature: float) -> None:
    x, y, _ = batch(300, 8, 4, "normal")
    assert_precise(make(temperature=temperature), x, y, torch.arange(300) % 20)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types(dtype: torch.dtype) -> None:
    x, y, z = batch(256, 8, 5, "uniform")
    assert_precise(
        cclk.FairCCLK(kernels.Laplacian().fit(z, 256), ridge=1e-6, temperature=0.01), x, y, z, dtype
    )


def test_large_batch() -> None:
    x, y, z = batch(2048, 16, 6, "log-normal")
    for temperature in (0.034, 0.1):
        assert_precise(cclk.HardNegInfoNCE(temperature=temperature), x, y, None)
    assert_precise(cclk.FairCCLK(kernels.RBF().fit(z, 2048), ridge=1e-6, temperature=0.01), x, y, z)


@pytest.mark.parametrize("views", ["cross", "all"])
def test_anchors_whose_correction_for_false_negatives_cancels(
    views: Literal["cross", "all"],
) -> None:
    """Some anchors have R_i within 1 % of tau_plus n e^S_ii; their scores need float64."""
    for noise, tau_plus, beta in ((1.0, 0.1, 1.0), (2.0, 0.5, 0.0)):
        generator = torch.Generator().manual_seed(8)
        x = torch.randn(1100, 16, generator=generator)
        y = x + noise * torch.randn(1100, 16, generator=generator)
        loss = cclk.HardNegInfoNCE(beta, tau_plus, temperature=0.05, views=views)
        assert_precise(loss, x, y, None)
