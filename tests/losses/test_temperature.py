"""A learned temperature: an `nn.Parameter` of the loss, or a tensor passed to the function."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable

import oracles
import pytest
import torch
from torch import Tensor, nn

import cclk
from cclk import functional, kernels
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


def parameter(value: float = 0.3) -> nn.Parameter:
    return nn.Parameter(torch.tensor(value, dtype=torch.float64))


@every_loss
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_gradient_is_that_of_the_oracle(name: str, reduction: str) -> None:
    """Central differences of the plain loop, and autograd's own check."""
    x, y = batch()
    loss = LOSSES[name](temperature=parameter(), views="all", symmetric=True, reduction=reduction)
    value = loss(x, y, CONDITION)
    (
        value * torch.linspace(1, 2, value.numel(), dtype=torch.float64).reshape(value.shape)
    ).sum().backward()
    assert isinstance(loss.temperature, nn.Parameter)
    assert loss.temperature.grad is not None

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
    expected = (oracle(0.3 + step) - oracle(0.3 - step)) / (2 * step)
    assert float(loss.temperature.grad) == pytest.approx(expected, rel=1e-6)


@every_loss
@pytest.mark.parametrize("weights", ["loo", "nw", "paper", "release"])
def test_gradcheck(name: str, weights: str) -> None:
    x, y = batch()
    mode = {"weights": weights} if name.endswith("CCLK") else {}

    def call(x: Tensor, y: Tensor, temperature: Tensor) -> Tensor:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cclk.CclkWarning)
            return LOSSES[name](temperature=temperature, **mode)(x, y, CONDITION)

    assert torch.autograd.gradcheck(
        call, [x.requires_grad_(), y.requires_grad_(), parameter(0.4).detach().requires_grad_()]
    )


@every_loss
def test_it_is_a_parameter_and_moves(name: str) -> None:
    x, y = (view.float() for view in batch())
    loss = LOSSES[name](temperature=nn.Parameter(torch.tensor(0.5)))
    assert [key for key, _ in loss.named_parameters()] == ["temperature"]
    assert "temperature=0.5 (learned)" in repr(loss)
    optimizer = torch.optim.SGD(loss.parameters(), lr=0.01)
    before = loss(x, y, CONDITION)
    for _ in range(5):
        optimizer.zero_grad()
        loss(x, y, CONDITION).backward()
        optimizer.step()
    assert float(loss.temperature.detach()) != 0.5  # type: ignore[union-attr]
    assert loss(x, y, CONDITION) < before
    twin = copy.deepcopy(loss)
    assert twin.temperature is not loss.temperature
    other = LOSSES[name](temperature=nn.Parameter(torch.tensor(0.9)))
    other.load_state_dict(loss.state_dict())
    assert torch.equal(other(x, y, CONDITION), twin(x, y, CONDITION))


@every_loss
def test_embeddings_need_no_gradient(name: str) -> None:
    """Only the temperature is trained."""
    x, y = batch()
    loss = LOSSES[name](temperature=parameter())
    loss(x, y, CONDITION).backward()
    assert isinstance(loss.temperature, nn.Parameter)
    assert loss.temperature.grad is not None


def test_its_logarithm_can_be_learned() -> None:
    """The habit of CLIP: exp keeps it positive."""
    x, y = batch()
    log_scale = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    functional.fair_cclk(
        x, y, CONDITION, kernel=kernels.Delta(), temperature=(-log_scale).exp()
    ).backward()
    loss = cclk.FairCCLK(kernels.Delta(), temperature=parameter(float((-log_scale.detach()).exp())))
    loss(x, y, CONDITION).backward()
    assert log_scale.grad is not None
    assert float(log_scale.grad) == pytest.approx(
        -float(loss.temperature.grad * loss.temperature.detach())
    )  # type: ignore[union-attr]


def test_mistakes() -> None:
    with pytest.raises(ValueError, match=r"temperature has shape \(3,\): it must be one number"):
        cclk.InfoNCE(nn.Parameter(torch.ones(3)))
    loss = cclk.InfoNCE(nn.Parameter(torch.tensor(0.1)))
    with torch.no_grad():
        loss.temperature.sub_(0.2)  # type: ignore[union-attr]
    with pytest.raises(
        ValueError, match=r"temperature is -0.1: .* clamp it after each step or learn its logarithm"
    ):
        loss(*batch())


@every_loss
def test_an_unknown_option_is_named(name: str) -> None:
    with pytest.raises(TypeError, match=r"(?!Options).*unexpected keyword argument 'tau'"):
        LOSSES[name](tau=0.1)
