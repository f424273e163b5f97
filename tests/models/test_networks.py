"""The networks: sizes known from the literature, beginnings and layouts."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from cclk.models.lenet import LeNet5
from cclk.models.mlp import MLP
from cclk.models.resnet import ResNet18, ResNet34, ResNet50

RESNETS = {18: ResNet18, 34: ResNet34, 50: ResNet50}


def parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(
    ("depth", "features", "known"),
    [(18, 512, 11_689_512), (34, 512, 21_797_672), (50, 2048, 25_557_032)],
)
def test_resnets_have_the_known_number_of_parameters(depth: int, features: int, known: int) -> None:
    with torch.device("meta"):
        network = nn.Sequential(RESNETS[depth](3, stem="imagenet"), nn.Linear(features, 1000))
        assert parameters(network) == known
        assert network(torch.zeros(2, 3, 64, 64)).shape == (2, 1000)
        # The stem is all that differs: 3 x 3 instead of 7 x 7.
        assert parameters(network[0]) - parameters(RESNETS[depth](3, stem="cifar")) == 64 * 3 * (
            49 - 9
        )


@pytest.mark.parametrize(("stem", "smallest"), [("cifar", 4), ("imagenet", 1)])
def test_the_stem_sets_the_resolution(stem: str, smallest: int) -> None:
    network = ResNet18(1, stem=stem, width=2, blocks=(1, 1, 1, 1))  # type: ignore[arg-type]
    seen: list[torch.Size] = []
    pool = next(module for module in network.modules() if isinstance(module, nn.AdaptiveAvgPool2d))
    pool.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape))
    network(torch.rand(3, 1, 32, 32))
    assert seen == [(3, 16, smallest, smallest)]


def test_blocks_can_begin_as_their_shortcuts() -> None:
    network = ResNet50(3, width=4, blocks=(2, 1, 1, 1), zero_init_residual=True)
    second = network.layers[4]
    x = torch.rand(2, 16, 8, 8)
    assert torch.equal(second(x), x)
    scales = [m.weight for m in network.modules() if isinstance(m, nn.BatchNorm2d)]
    assert sum(bool((scale == 0).all()) for scale in scales) == 5, (
        "one norm layer in each of the five blocks"
    )
    plain = ResNet50(3, width=4, blocks=(2, 1, 1, 1))
    assert all(
        bool((m.weight == 1).all()) for m in plain.modules() if isinstance(m, nn.BatchNorm2d)
    )


@pytest.mark.parametrize("network", [LeNet5(3), ResNet18(3, width=4, blocks=(1, 1, 1, 1))])
def test_the_memory_layout_does_not_matter(network: nn.Module) -> None:
    images = torch.rand(4, 3, 32, 32)
    torch.testing.assert_close(
        network(images.contiguous(memory_format=torch.channels_last)),
        network(images),
        rtol=1e-4,
        atol=1e-5,
    )


def test_lenet_is_lecuns() -> None:
    assert parameters(LeNet5(1)) == 156 + 2_416 + 48_120 + 10_164
    assert LeNet5(2)(torch.rand(3, 2, 32, 32)).shape == (3, 84)
    kinds = [type(module) for module in LeNet5(1).modules()]
    assert kinds.count(nn.Tanh) == 4
    assert kinds.count(nn.AvgPool2d) == 2


def test_mlp_has_the_given_widths() -> None:
    network = MLP(7, hidden=(11, 5))
    assert network(torch.randn(6, 7)).shape == (6, 5)
    assert parameters(network) == 7 * 11 + 2 * 11 + 11 * 5 + 2 * 5
