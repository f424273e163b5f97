"""`torch.compile` of a training step: every loss runs, and gives what it gives eagerly."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

import oracles
import pytest
import torch
from torch import Tensor, nn

import cclk
from cclk import kernels

AGE = torch.rand(64, 1, generator=torch.Generator().manual_seed(1))
LOSSES: dict[str, Callable[[], nn.Module]] = {
    "InfoNCE": cclk.InfoNCE,
    "HardNegInfoNCE": cclk.HardNegInfoNCE,
    "WeaklySupInfoNCE": cclk.WeaklySupInfoNCE,
    "FairInfoNCE": cclk.FairInfoNCE,
    "WeaklySupCCLK": lambda: cclk.WeaklySupCCLK(kernels.RBF().fit(AGE, 64)),
    "FairCCLK": lambda: cclk.FairCCLK(
        kernels.RBF().fit(AGE, 64), temperature=0.5, learn_temperature=True
    ),
    "HardNegCCLK": lambda: cclk.HardNegCCLK(kernels.RBF(length_scale=0.2)),
    "FairByAutograd": lambda: oracles.FairByAutograd(
        kernels.RBF().fit(AGE, 64), temperature=0.5, learn_temperature=True
    ),
}


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def train(name: str, backend: str | None, steps: int) -> list[Tensor]:
    """A few steps of an encoder with a loss; the parameters and the last loss."""
    torch.manual_seed(0)
    encoder, loss = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 8)), LOSSES[name]()
    parameters = [*encoder.parameters(), *loss.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.005)
    data = torch.randn(64, 6)
    condition = {
        "WeaklySupInfoNCE": torch.arange(64) % 4,
        "FairInfoNCE": torch.arange(64) % 4,
        "HardNegCCLK": None,
    }.get(name, AGE)

    def value(x: Tensor, y: Tensor) -> Tensor:
        return loss(encoder(x), encoder(y), condition)  # type: ignore[no-any-return]

    run = value if backend is None else torch.compile(value, backend=backend)
    generator = torch.Generator().manual_seed(2)
    for _ in range(steps):
        first, second = (data + 0.1 * torch.randn(64, 6, generator=generator) for _ in range(2))
        optimizer.zero_grad()
        last = run(first, second)
        last.backward()
        optimizer.step()
    return [last.detach(), *(parameter.detach() for parameter in parameters)]


@pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf", "ignore::DeprecationWarning"
)
@pytest.mark.parametrize(
    ("backend", "name"), [*(("aot_eager", name) for name in LOSSES), ("inductor", "FairCCLK")]
)
def test_a_compiled_step_equals_the_eager_one(name: str, backend: str) -> None:
    for compiled, expected in zip(train(name, backend, 20), train(name, None, 20), strict=True):
        torch.testing.assert_close(compiled, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("kind", [kernels.RBF, kernels.Laplacian])
def test_a_compiled_fit_is_the_fit(kind: type[kernels.RBF]) -> None:
    values = torch.rand(500, generator=torch.Generator().manual_seed(3))

    def fit(kernel: kernels.Kernel, values: Tensor) -> kernels.Kernel:
        return kernel.fit(values, batch_size=256)

    expected = kind().fit(values, batch_size=256)
    kernel = kind()
    torch.compile(fit, backend="inductor")(kernel, values)
    assert kernel.length_scale_ == expected.length_scale_
    compiled = torch.compile(lambda values: copy.copy(expected)(values), backend="aot_eager")
    torch.testing.assert_close(compiled(values[:20]), expected(values[:20]))
