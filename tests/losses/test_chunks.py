"""Gradients of a batch that is embedded in chunks are those of the whole batch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import cclk
from cclk import kernels


def network(*layers: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), *layers, nn.ReLU(), nn.Linear(16, 4)).double()


def views(size: int = 50) -> tuple[Tensor, Tensor]:
    x, y = torch.randn(2, size, 6, generator=torch.Generator().manual_seed(1)).double()
    return x, y


Z = torch.linspace(0, 3, 50).double()


def gradients(module: nn.Module) -> list[Tensor]:
    return [each.grad for each in module.parameters() if each.grad is not None]


@pytest.mark.parametrize("chunk", [1, 7, 25, 50, 99])
@pytest.mark.parametrize("layer", [nn.LayerNorm(16), nn.GroupNorm(4, 16), nn.Identity()])
def test_chunks_do_not_matter(layer: nn.Module, chunk: int) -> None:
    fair = cclk.FairCCLK(kernels.RBF(length_scale=0.1), views="all", symmetric=True)
    plain, chunked = network(layer), network(layer)
    expected = fair(*(plain(view) for view in views()), Z)
    expected.backward()
    value = cclk.backward_in_chunks(
        chunked, torch.stack(views()), lambda x, y: fair(x, y, Z), chunk=chunk
    )
    torch.testing.assert_close(value, expected.detach())
    assert not value.requires_grad
    for found, wanted in zip(gradients(chunked), gradients(plain), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)


def test_gradients_are_added_also_those_of_the_loss() -> None:
    loss, net = cclk.InfoNCE(0.2, learn_temperature=True).double(), network()
    temperature = loss.log_temperature
    assert temperature is not None
    for _ in range(2):
        cclk.backward_in_chunks(net, views(), loss, chunk=16)
    once = gradients(net)[0] / 2
    plain = network()
    value = loss(*(plain(view) for view in views()))
    wanted = torch.autograd.grad(value, [plain[0].weight, temperature])
    torch.testing.assert_close(once, wanted[0])
    assert temperature.grad is not None
    torch.testing.assert_close(temperature.grad / 2, wanted[1])


def test_random_layers_draw_the_same_in_both_passes() -> None:
    net, loss = network(nn.Dropout(0.5)), cclk.InfoNCE()
    torch.manual_seed(5)
    value = cclk.backward_in_chunks(net, views(), loss, chunk=20)
    after = torch.rand(3)
    plain = network(nn.Dropout(0.5))
    torch.manual_seed(5)
    outputs = [torch.cat([plain(part) for part in view.split(20)]) for view in views()]
    assert torch.equal(torch.rand(3), after), "random numbers are drawn once"
    expected = loss(*outputs)
    expected.backward()
    torch.testing.assert_close(value, expected.detach())
    for found, wanted in zip(gradients(net), gradients(plain), strict=True):
        torch.testing.assert_close(found, wanted)


def test_running_statistics_are_updated_once() -> None:
    net, plain = network(nn.BatchNorm1d(16)), network(nn.BatchNorm1d(16))
    cclk.backward_in_chunks(net, views(), cclk.InfoNCE(), chunk=25)
    for view in views():
        for part in view.split(25):
            plain(part)
    for found, wanted in zip(net.buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(found, wanted)


def test_only_one_chunk_has_activations() -> None:
    kept: set[tuple[int, ...]] = set()

    def pack(tensor: Tensor) -> Tensor:
        kept.add(tuple(tensor.shape))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        cclk.backward_in_chunks(network(), views(128), cclk.InfoNCE(), chunk=8)
    assert (8, 16) in kept
    assert (128, 16) not in kept


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="chunk is 0: it must be at least 1"):
        cclk.backward_in_chunks(network(), views(), cclk.InfoNCE(), chunk=0)
    x, y = views()
    with pytest.raises(ValueError, match="views have 50, 49 rows"):
        cclk.backward_in_chunks(network(), (x, y[1:]), cclk.InfoNCE(), chunk=8)
    with pytest.raises(ValueError, match="views have no rows"):
        cclk.backward_in_chunks(network(), (), cclk.InfoNCE(), chunk=8)
