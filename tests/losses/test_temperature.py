"""A learned temperature: its logarithm is a parameter of the loss."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable

import oracles
import pytest
import torch
from torch import Tensor, nn

import cclk
from cclk import kernels
from cclk.losses.base import ContrastiveLoss

LOSSES: dict[str, Callable[..., ContrastiveLoss]] = {
    "InfoNCE": cclk.InfoNCE,
    "HardNegInfoNCE": cclk.HardNegInfoNCE,
    "WeaklySupInfoNCE": cclk.WeaklySupInfoNCE,
    "FairInfoNCE": cclk.FairInfoNCE,
    "WeaklySupCCLK": lambda **options: cclk.WeaklySupCCLK(kernels.Delta(), **options),
    "FairCCLK": lambda **options: cclk.FairCCLK(kernels.Delta(), **options),
    "HardNegCCLK": lambda **options: cclk.HardNegCCLK(kernels.Delta(), **options),
}
every_loss = pytest.mark.parametrize("name", LOSSES)
# : Two samples have a value of their own, so that their anchors are on the floor -1 / temperature,
# which has a gradient too.
CONDITION = torch.tensor([0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 4])


def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(12, 5, generator=generator, dtype=torch.float64)
    return x, x + 0.7 * torch.randn(12, 5, generator=generator, dtype=torch.float64)


def learned(name: str, value: float = 0.3, **options: object) -> ContrastiveLoss:
    return LOSSES[name](temperature=value, learn_temperature=True, **options).double()


def scale_of(loss: ContrastiveLoss) -> float:
    return float(torch.as_tensor(loss.temperature).detach())


def log_of(loss: ContrastiveLoss) -> nn.Parameter:
    assert loss.log_temperature is not None
    return loss.log_temperature


@every_loss
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_gradient_is_that_of_the_oracle(name: str, reduction: str) -> None:
    """Central differences of the plain loop, and autograd's own check."""
    x, y = batch()
    loss = learned(name, views="all", symmetric=True, reduction=reduction)
    value = loss(x, y, CONDITION)
    (
        value * torch.linspace(1, 2, value.numel(), dtype=torch.float64).reshape(value.shape)
    ).sum().backward()
    gradient = log_of(loss).grad
    assert gradient is not None

    def oracle(temperature: float) -> float:
        matrix = (CONDITION[:, None] == CONDITION).double().numpy()
        each = oracles.loss(
            name,
            x,
            y,
            temperature=temperature,
            matrices=(matrix, matrix),
            groups=CONDITION.tolist(),
            mode="nw" if name == "FairCCLK" else "loo",
            views="all",
            symmetric=True,
        )
        if reduction == "none":
            return float(
                (
                    torch.tensor(each, dtype=torch.float64)
                    * torch.linspace(1, 2, len(each), dtype=torch.float64)
                ).sum()
            )
        return sum(each) / (len(each) if reduction == "mean" else 1)

    step = 1e-5
    center = scale_of(loss)
    there, back = oracle(center * math.exp(step)), oracle(center * math.exp(-step))
    assert float(gradient) == pytest.approx((there - back) / (2 * step), rel=1e-6)


@every_loss
@pytest.mark.parametrize("weights", ["loo", "nw", "paper", "authors"])
def test_gradcheck(name: str, weights: str) -> None:
    x, y = batch()
    loss = learned(name, 0.4, **({"weights": weights} if name.endswith("CCLK") else {}))

    def call(x: Tensor, y: Tensor, logarithm: Tensor) -> Tensor:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cclk.CclkWarning)
            parameters = {"log_temperature": logarithm}
            return torch.func.functional_call(loss, parameters, (x, y, CONDITION))

    logarithm = log_of(loss).detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(call, [x.requires_grad_(), y.requires_grad_(), logarithm])


@every_loss
def test_it_is_a_parameter_and_moves(name: str) -> None:
    x, y = (view.float() for view in batch())
    loss = learned(name, 0.5).float()
    assert [key for key, _ in loss.named_parameters()] == ["log_temperature"]
    assert "temperature=0.5 (learned)" in repr(loss)
    optimizer = torch.optim.SGD(loss.parameters(), lr=0.01)
    before = loss(x, y, CONDITION)
    for _ in range(5):
        optimizer.zero_grad()
        loss(x, y, CONDITION).backward()
        optimizer.step()
    assert scale_of(loss) != 0.5
    assert loss(x, y, CONDITION) < before
    twin, other = copy.deepcopy(loss), learned(name, 0.9).float()
    assert twin.log_temperature is not loss.log_temperature
    other.load_state_dict(loss.state_dict())
    assert torch.equal(other(x, y, CONDITION), twin(x, y, CONDITION))


@every_loss
def test_embeddings_need_no_gradient(name: str) -> None:
    """Only the temperature is trained."""
    loss = learned(name)
    loss(*batch(), CONDITION).backward()
    assert log_of(loss).grad is not None


@every_loss
def test_steps_of_any_size_leave_it_positive(name: str) -> None:
    """Identical views ask for ever lower temperatures, and large steps for negative ones."""
    x, _ = batch()
    loss = learned(name, 0.1)
    optimizer = torch.optim.SGD(loss.parameters(), lr=100.0)
    for _ in range(4):
        optimizer.zero_grad()
        value = loss(x, x, CONDITION)
        value.backward()
        assert value.isfinite()
        optimizer.step()
        assert scale_of(loss) >= 0.00999
    with torch.no_grad():
        log_of(loss).fill_(-50.0)
    assert scale_of(loss) == pytest.approx(0.01)
    loss(*batch(), CONDITION).backward()
    assert log_of(loss).grad, "it is not stuck at the bound"


@every_loss
@pytest.mark.parametrize("tensor", [torch.tensor(0.2), nn.Parameter(torch.tensor(0.2))])
def test_tensors_are_refused(name: str, tensor: Tensor) -> None:
    with pytest.raises(ValueError, match=r"temperature is a tensor.*pass learn_temperature=True"):
        LOSSES[name](temperature=tensor)


def test_mistakes() -> None:
    x, y = batch()
    logarithm = torch.tensor(-1.0, requires_grad=True)
    with pytest.raises(ValueError, match="one with a graph can be used for one step only"):
        cclk.InfoNCE(logarithm.exp())(x, y)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"temperature is 0.001: a learned one is at least 0.01"):
        cclk.InfoNCE(0.001, learn_temperature=True)


@every_loss
def test_an_unknown_option_is_named(name: str) -> None:
    with pytest.raises(TypeError, match=r"(?!Options).*unexpected keyword argument 'tau'"):
        LOSSES[name](tau=0.1)
