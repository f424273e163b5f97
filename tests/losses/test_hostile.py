"""Large and hostile batches: the loss and its gradients are finite, always."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor

import cclk
from cclk import kernels

SIZE = 4096
GENERATOR = torch.Generator().manual_seed(0)
PLAIN = torch.randn(SIZE, 16, generator=GENERATOR)


def outlier() -> Tensor:
    values = PLAIN.clone()
    values[17] = 1e6
    return values


CONDITIONS = {
    "plain": PLAIN,
    "duplicated rows": PLAIN[:64].repeat(SIZE // 64, 1),
    "constant": torch.full((SIZE, 16), 3.0),
    "outlier": outlier(),
    "heavy tails": PLAIN / torch.rand(SIZE, 1, generator=GENERATOR).clamp_min(1e-3),
}
SETTINGS = [
    # kernel, weights, solver
    (kernels.Cosine, "loo", "features"),
    (kernels.Linear, "loo", "features"),
    (kernels.Linear, "paper", "auto"),
    (lambda: kernels.RBF(length_scale="median"), "loo", "nystrom"),
    (lambda: kernels.RBF(length_scale="auto"), "nw", "auto"),
]


def run(loss: torch.nn.Module, x: Tensor, y: Tensor, z: Tensor) -> None:
    x, y = x.clone().requires_grad_(), y.clone().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cclk.CclkWarning)
        value = loss(x, y, z)
    value.backward()
    assert value.isfinite()
    assert x.grad is not None
    assert y.grad is not None
    assert x.grad.isfinite().all()
    assert y.grad.isfinite().all()


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize(("ridge", "temperature"), [(1e-2, 0.1), (1e-6, 0.01), (1e-6, 1.0)])
def test_four_thousand(condition: str, ridge: float, temperature: float) -> None:
    x, y = torch.randn(2, SIZE, 32, generator=torch.Generator().manual_seed(1))
    y = x + 0.3 * y
    for place, (kernel, weights, solver) in enumerate(SETTINGS):
        make = (cclk.FairCCLK, cclk.WeaklySupCCLK, cclk.HardNegCCLK)[
            (place + int(temperature * 10)) % 3
        ]
        run(
            make(kernel(), ridge=ridge, temperature=temperature, weights=weights, solver=solver),
            x,
            y,
            CONDITIONS[condition],
        )


@pytest.mark.parametrize(
    "kernel",
    [kernels.Polynomial, kernels.Cosine, lambda: kernels.RBF(length_scale="auto"), kernels.Linear],
)
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("weights", ["loo", "paper", "authors"])
def test_exact_solver(condition: str, kernel: object, weights: str) -> None:
    x, y = torch.randn(2, 256, 32, generator=torch.Generator().manual_seed(2))
    for ridge in (1e-2, 1e-6):
        for loss in (cclk.FairCCLK, cclk.WeaklySupCCLK):
            run(
                loss(kernel(), ridge=ridge, temperature=0.01, weights=weights, solver="exact"),
                x,
                y,
                CONDITIONS[condition][:256],
            )  # type: ignore[operator]


def test_bfloat16_autocast() -> None:
    x, y = torch.randn(2, SIZE, 32, generator=torch.Generator().manual_seed(3))
    layer = torch.nn.Linear(32, 32)
    for temperature in (0.01, 1.0):
        loss = cclk.FairCCLK(kernels.Cosine(), ridge=1e-6, temperature=temperature)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            value = loss(layer(x), layer(y), PLAIN)
        value.backward()
        assert value.isfinite()
        assert layer.weight.grad is not None
        assert layer.weight.grad.isfinite().all()


def test_hard_negatives_of_collapsed_embeddings() -> None:
    """Everybody at one point: the worst condition an embedding can be."""
    x = torch.ones(SIZE, 32) + 1e-4 * torch.randn(SIZE, 32)
    run(cclk.HardNegCCLK(ridge=1e-6, temperature=0.01), x, x.clone(), None)  # type: ignore[arg-type]
