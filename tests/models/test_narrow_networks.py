"""Gradients of narrow networks are right, for which oneDNN needs the contiguous layout."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cclk.models import Encoder, build_encoder

GRADIENTS = """
import sys
from models.test_narrow_networks import gradient_errors

print(gradient_errors(int(sys.argv[1])))
"""


class Strided(nn.Module):
    """A network that convolves by a function: it has no module of a convolution."""

    def __init__(self, inputs: int, kernel: int = 1) -> None:
        super().__init__()
        self.embed = nn.Parameter(torch.randn(inputs, 3, 3, 3))
        self.weight = nn.Parameter(torch.randn(16, inputs, kernel, kernel))

    def forward(self, images: Tensor) -> Tensor:
        images = F.conv2d(images, self.embed, padding=1)
        return F.conv2d(images, self.weight, stride=2).mean((2, 3))


class Transposed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(3, 4, 1, stride=2, output_padding=1)

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.up(images)
        return features.flatten(1)


def gradient_errors(threads: int) -> list[float]:
    """The largest relative error of a gradient, per network, with this number of threads."""
    torch.manual_seed(0)
    encoders = [
        build_encoder("resnet18", channels=3, size=32, width=width, blocks=(1, 1, 1, 1))
        for width in range(2, 17)
    ]
    encoders.append(build_encoder("lenet5", channels=1, size=32))
    for network in (Strided(4), Transposed()):
        encoders.append(Encoder(network, channels=3, size=32))
    return [_gradient_error(encoder, threads) for encoder in encoders]


def _gradient_error(encoder: Encoder, threads: int) -> float:
    for module in encoder.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.ones_(module.weight)
    encoder.eval()  # a batch's small deviation would magnify rounding
    images = torch.rand(4, len(encoder.inputs.mean), 32, 32)
    errors = []
    exact = copy.deepcopy(encoder).double()
    for network, number in ((encoder, threads), (exact, 1)):
        torch.set_num_threads(number)
        network(images.to(network.inputs.mean.dtype)).square().mean().backward()
    for ours, theirs in zip(encoder.parameters(), exact.parameters(), strict=True):
        assert ours.grad is not None
        assert theirs.grad is not None
        errors.append(float((ours.grad - theirs.grad).norm() / theirs.grad.norm()))
    return max(errors)


@pytest.mark.parametrize("threads", [1, 2])
def test_gradients_match_float64(threads: int) -> None:
    """In a process of its own, because a wrong one crashes or hangs."""
    environment = os.environ | {
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OMP_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "passive",  # threads that spin are slow on a busy machine
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path]),
    }
    done = subprocess.run(
        [sys.executable, "-c", GRADIENTS, str(threads)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    errors = [float(number) for number in done.stdout.strip("[]\n").split(", ")]
    assert len(errors) == 18
    assert max(errors) < 0.01, errors  # those that oneDNN gets wrong are near 1


def _channels_last(encoder: Encoder, channels: int) -> bool:
    seen = []
    encoder.network.register_forward_pre_hook(
        lambda _, inputs: seen.append(inputs[0].is_contiguous(memory_format=torch.channels_last))
    )
    encoder(torch.zeros(2, channels, 32, 32).contiguous(memory_format=torch.channels_last))
    return bool(seen[0])


AVX512 = torch.backends.cpu.get_cpu_capability() == "AVX512"


@pytest.mark.parametrize(
    ("width", "expected"), [(4, False), (7, False), (8, not AVX512), (16, True)]
)
def test_only_narrow_residual_networks_are_contiguous(width: int, expected: bool) -> None:
    encoder = build_encoder("resnet18", channels=3, size=32, width=width, blocks=(1, 1, 1, 1))
    assert _channels_last(encoder, 3) == expected
    assert _channels_last(copy.deepcopy(encoder), 3) == expected


@pytest.mark.parametrize("network", ["lenet5", "mobilenetv2"])
def test_other_networks_have_the_channels_last(network: str) -> None:
    assert _channels_last(build_encoder(network, channels=3, size=32), 3)


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        (Strided(4), False),
        (Strided(16), True),
        (Strided(4, kernel=3), True),
        (Transposed(), False),
    ],
)
def test_the_layout_depends_on_what_a_network_computes(network: nn.Module, expected: bool) -> None:
    assert _channels_last(Encoder(network, channels=3, size=32), 3) == expected


@pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")
def test_networks_as_scripts_are_recorded() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Conv2d(4, 8, 1, stride=2), nn.Flatten())
    images = torch.zeros(2, 3, 32, 32)
    for script in (torch.jit.script(network), torch.jit.trace(network, images)):  # type: ignore[no-untyped-call]
        encoder = Encoder(nn.Sequential(script), channels=3, size=32)
        assert not _channels_last(encoder, 3)


def test_gray_images_of_a_narrow_network_are_contiguous() -> None:
    """Images of one channel are contiguous in both layouts, and convolutions follow the strides."""
    encoder = build_encoder("resnet18", channels=1, size=32, width=4, blocks=(1, 1, 1, 1))
    strides = []
    encoder.network.register_forward_pre_hook(lambda _, inputs: strides.append(inputs[0].stride()))
    encoder(torch.zeros(2, 32, 32, 1).permute(0, 3, 1, 2))
    assert strides == [(1024, 1024, 32, 1)]
