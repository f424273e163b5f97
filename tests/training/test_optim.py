"""LARS against a plain loop, the optimizers by name, the learning rate."""

from __future__ import annotations

import copy
import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from cclk.errors import SettingsError
from cclk.registry import OPTIMIZERS
from cclk.training.optim import LARS, build_optimizer, learning_rate


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 4 * 4, 5)
    )


def loss(module: nn.Module, step: int) -> Tensor:
    images = torch.rand(8, 2, 6, 6, generator=torch.Generator().manual_seed(step))
    out: Tensor = module(images)
    return (out - images.mean((1, 2, 3)).unsqueeze(1)).square().mean()


def test_lars_equals_the_loop() -> None:
    module, oracle = network(), network()
    optimizer = build_optimizer("lars", module, lr=1.5, weight_decay=1e-2)
    buffers = [torch.zeros_like(p, dtype=torch.float64) for p in oracle.parameters()]
    for step, lr in enumerate([0.5, 1.5, 1.5, 0.1, 0.02]):
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.zero_grad()
        loss(module, step).backward()
        optimizer.step()
        oracle.zero_grad()
        loss(oracle, step).backward()
        for parameter, buffer in zip(oracle.parameters(), buffers, strict=True):
            assert parameter.grad is not None
            weight, gradient = parameter.data.double(), parameter.grad.double()
            trust, decay = 1.0, 0.0
            if parameter.dim() > 1:
                decay = 1e-2
                trust = (
                    1e-3
                    * math.sqrt(float((weight**2).sum()))
                    / (
                        math.sqrt(float((gradient**2).sum()))
                        + decay * math.sqrt(float((weight**2).sum()))
                    )
                )
            buffer.mul_(0.9).add_(lr * trust * (gradient + decay * weight))
            parameter.data.copy_(weight - buffer)
        for found, wanted in zip(module.parameters(), oracle.parameters(), strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


def test_lars_leaves_zero_the_way_sgd_does() -> None:
    weight = nn.Parameter(torch.zeros(2, 2))
    weight.grad = torch.ones(2, 2)
    LARS([weight], lr=0.5).step()
    assert torch.equal(weight.detach(), torch.full((2, 2), -0.5))
    still = nn.Parameter(torch.ones(2, 2))
    still.grad = torch.zeros(2, 2)
    LARS([still], lr=0.5).step()
    assert torch.equal(still.detach(), torch.ones(2, 2))


def test_lars_moves_each_layer_by_the_same_share() -> None:
    weights = [nn.Parameter(scale * torch.randn(20, 20)) for scale in (0.01, 1.0, 100.0)]
    before = [w.detach().clone() for w in weights]
    for index, weight in enumerate(weights):
        weight.grad = 10.0**index * torch.randn(20, 20)
    LARS(weights, lr=2.0).step()
    for old, new in zip(before, weights, strict=True):
        assert ((new - old).norm() / old.norm()).item() == pytest.approx(2e-3, rel=1e-3)


def test_lars_skips_what_has_no_gradient_and_takes_a_closure() -> None:
    used, idle = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2, 2))
    optimizer = LARS([used, idle], lr=1.0)

    def closure() -> float:
        optimizer.zero_grad()
        value = used.square().sum()
        value.backward()
        return value.item()

    assert optimizer.step(closure) == 4.0
    assert not torch.equal(used.detach(), torch.ones(2, 2))
    assert torch.equal(idle.detach(), torch.ones(2, 2))


@pytest.mark.parametrize("name", tuple(OPTIMIZERS))
def test_every_optimizer_learns_and_continues_bit_for_bit(name: str) -> None:
    module = network()
    optimizer = build_optimizer(name, module, lr=0.05, weight_decay=1e-4)
    first = loss(copy.deepcopy(module), 0).item()

    def train(module: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
        for step in steps:
            optimizer.zero_grad()
            loss(module, step).backward()
            optimizer.step()

    train(module, optimizer, range(10))
    saved = copy.deepcopy((module.state_dict(), optimizer.state_dict()))
    train(module, optimizer, range(10, 20))
    assert loss(copy.deepcopy(module), 0).item() < first
    other = network()
    other.load_state_dict(saved[0])
    resumed = build_optimizer(name, other, lr=0.7, weight_decay=0.5)
    resumed.load_state_dict(saved[1])
    train(other, resumed, range(10, 20))
    assert all(
        torch.equal(a, b)
        for a, b in zip(module.state_dict().values(), other.state_dict().values(), strict=True)
    )


@pytest.mark.parametrize("name", tuple(OPTIMIZERS))
def test_biases_and_norm_layers_are_not_decayed(name: str) -> None:
    module = network()
    before = copy.deepcopy(module)
    for parameter in module.parameters():
        parameter.grad = torch.zeros_like(parameter)
    build_optimizer(name, module.parameters(), lr=0.1, weight_decay=0.1).step()
    for old, new in zip(before.parameters(), module.parameters(), strict=True):
        if old.dim() > 1:
            assert new.norm() < old.norm()
        else:
            assert torch.equal(new, old)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("lamb", {"lr": 1.0}, "unknown optimizer 'lamb': choose adam, adamw, sgd, lars, or"),
        ("adam", {"lr": -1.0}, "lr is -1.0: it must be at least 0"),
        ("adam", {"lr": float("nan")}, "lr is nan"),
        ("adam", {"lr": 1.0, "weight_decay": -1.0}, "weight_decay is -1.0: it must be at least 0"),
        (
            "sgd",
            {"lr": 1.0, "momentum": 1.0},
            "momentum is 1.0: it must be at least 0 and less than 1",
        ),
    ],
)
def test_mistakes_are_named(name: str, options: dict[str, float], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        build_optimizer(name, network(), **options)


def test_an_import_path_is_an_optimizer() -> None:
    optimizer = build_optimizer("torch.optim:NAdam", network(), lr=0.1, weight_decay=0.5)
    assert isinstance(optimizer, torch.optim.NAdam)
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.5, 0.0]
    with pytest.raises(
        SettingsError, match=r"'torch.nn:Identity' is a Identity: it must be a torch"
    ):
        build_optimizer("torch.nn:Identity", network(), lr=0.1)


def test_there_must_be_something_to_train() -> None:
    with pytest.raises(ValueError, match="there is nothing to train"):
        build_optimizer("sgd", nn.ReLU(), lr=1.0)


def test_the_learning_rate_at_known_steps() -> None:
    rates = [
        learning_rate(step, 110, base_lr=1.5, batch_size=512, warmup_steps=10)
        for step in range(111)
    ]
    assert rates[0] == pytest.approx(0.3)
    assert rates[9] == rates[10] == pytest.approx(3.0)
    assert rates[60] == pytest.approx(1.5)
    assert rates[110] == 0
    assert learning_rate(0, 10, base_lr=1.5, batch_size=512, scale_by_batch=False) == 1.5
    with pytest.raises(ValueError, match="step -1, total 10, warmup_steps 0"):
        learning_rate(-1, 10, base_lr=1.0)


@given(
    total=st.integers(1, 300),
    warmup=st.integers(0, 400),
    batch=st.integers(1, 4096),
    base=st.floats(1e-5, 10),
)
def test_the_learning_rate_rises_then_falls(
    total: int, warmup: int, batch: int, base: float
) -> None:
    rates = [
        learning_rate(step, total, base_lr=base, batch_size=batch, warmup_steps=warmup)
        for step in range(total)
    ]
    peak = base * batch / 256
    assert all(0 < rate <= peak * (1 + 1e-12) for rate in rates)
    assert all(a <= b for a, b in pairwise(rates[:warmup]))
    assert all(a >= b for a, b in pairwise(rates[warmup:]))
    if warmup < total:
        assert rates[warmup] == pytest.approx(peak)
