"""Batch norm of two processes with unequal batches equals that of one with the joined batch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from cclk import _distributed as distributed
from cclk.training.batch_norm import SynchronizedBatchNorm, synchronize

WORLD, PARTS = 2, (slice(0, 9), slice(9, 13))


def networks() -> dict[str, nn.Module]:
    torch.manual_seed(0)
    vectors = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 2))
    images = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3, momentum=None), nn.Flatten())
    plain = nn.Sequential(nn.BatchNorm1d(4, affine=False, track_running_stats=False))
    found = {"vectors": vectors, "images": images, "plain": plain}
    return {name: network.double() for name, network in found.items()}


def data(name: str) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    shape = (13, 2, 5, 5) if name == "images" else (13, 4)
    return 3 + torch.randn(shape, generator=generator, dtype=torch.float64)


def step(name: str, network: nn.Module, rows: slice) -> dict[str, Tensor]:
    """Two batches through a network; the loss is a sum over all processes."""
    results = {}
    for number in (0, 1):
        x = (data(name) + number)[rows].requires_grad_()
        y = network(x)
        loss = y.sin().sum() + y.pow(3).sum()
        if distributed.active():
            loss = distributed.total(loss)
        network.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        assert x.grad is not None
        results |= {f"x {number}": x.grad, f"y {number}": y.detach()}
        results |= {
            f"{key} {number}": value.grad
            for key, value in network.named_parameters()
            if value.grad is not None
        }
    return results | {key: value.clone() for key, value in network.named_buffers()}


def check_float32(rank: int) -> dict[str, Tensor]:
    """Images as the encoders have them, with a channel far from 0; and a bfloat16 norm."""
    generator = torch.Generator().manual_seed(2)
    images = torch.randn(64, 3, 16, 16, generator=generator).relu_()
    images[:, 2] += 30
    half = slice(0, 40) if rank == 0 else slice(40, 64)
    own = images.to(memory_format=torch.channels_last)[half]
    narrow = SynchronizedBatchNorm(3).bfloat16()(images[half].bfloat16())
    return {"float32": SynchronizedBatchNorm(3)(own).detach(), "bfloat16": narrow.detach()} | {
        "images": images
    }


def work(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD
    )
    results = {"float32": check_float32(rank)}
    for name, network in networks().items():
        synchronize(network)
        results[name] = step(name, network, PARTS[rank])
    torch.save(results, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_two_processes_equal_one(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(work, (str(tmp_path),), nprocs=WORLD)
    found = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(WORLD)]
    for name, network in networks().items():
        expected = step(name, network, slice(0, 13))
        for key, value in expected.items():
            parts = [each[name][key] for each in found]
            if key.startswith("y"):
                torch.testing.assert_close(torch.cat(parts), value)
            elif key.startswith("x"):  # to be averaged over processes
                torch.testing.assert_close(torch.cat(parts) / WORLD, value)
            elif key in dict(network.named_buffers()):
                for part in parts:
                    torch.testing.assert_close(part, value)
            else:
                torch.testing.assert_close(sum(parts) / WORLD, value)

    of_float32 = [each["float32"] for each in found]
    images = of_float32[0]["images"].double()
    expected_images = nn.BatchNorm2d(3).double()(images).detach()
    for name, error in (("float32", 1e-4), ("bfloat16", 0.05)):
        joined = torch.cat([each[name] for each in of_float32]).double()
        difference = (joined - expected_images).abs().amax(dim=(0, 2, 3))
        assert (difference[:2] < error).all(), name
        assert name == "bfloat16" or difference[2] < error


@pytest.mark.parametrize("name", ["vectors", "images", "plain"])
def test_one_process_is_unchanged(name: str) -> None:
    """The same values, and the same names in the state dict."""
    usual, network = networks()[name], networks()[name]
    synchronize(network)
    assert any(isinstance(each, SynchronizedBatchNorm) for each in network.modules())
    assert list(network.state_dict()) == list(usual.state_dict())
    for training in (True, False):
        usual.train(training), network.train(training)
        torch.testing.assert_close(network(data(name)), usual(data(name)), rtol=0, atol=0)
