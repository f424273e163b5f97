"""The memory bank: what it keeps, whom it returns, and that losses take it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import cclk
from cclk import kernels
from cclk.losses.memory_bank import MemoryBank


def bank(condition: Tensor, neighbors: int = 4, kernel: kernels.Kernel | None = None) -> MemoryBank:
    return MemoryBank(
        condition, kernel or kernels.RBF(length_scale=0.01), width=3, neighbors=neighbors
    )


def fill(memory: MemoryBank) -> None:
    memory.update(torch.arange(len(memory)), torch.randn(len(memory), 3))


@pytest.mark.parametrize(("size", "width"), [(2000, 1), (2000, 3), (20000, 1), (20000, 5)])
def test_the_nearest_samples_are_returned(size: int, width: int) -> None:
    """As by comparing all samples; neighbors on the other side of a block may differ."""
    z = torch.rand(size, width, generator=torch.Generator().manual_seed(0)).double()
    memory = bank(z, neighbors=5, kernel=kernels.RBF(length_scale=20 / size))
    fill(memory)
    rows = torch.arange(0, size, size // 50)
    distance = torch.cdist(z[rows], z)
    distance[:, rows] = torch.inf
    expected = distance.topk(5, largest=False).indices.unique()
    found = memory.nearest(rows)
    assert len(set(found.tolist()) & set(expected.tolist())) > 0.9 * len(expected)
    assert not set(found.tolist()) & set(rows.tolist())


@pytest.mark.parametrize("size", [2, 33, 16 * 32, 16 * 32 + 1, 9 * 16 * 32 + 40])
def test_a_last_group_that_is_not_full(size: int) -> None:
    """The bank of any size finds the samples next to its first and its last one."""
    memory = bank(torch.linspace(0, 1, size).double(), neighbors=2)
    fill(memory)
    count = min(2, size - 1)
    assert torch.equal(memory.nearest(torch.tensor([0])), torch.arange(1, 1 + count))
    last = torch.tensor([size - 1])
    assert torch.equal(memory.nearest(last), torch.arange(size - 1 - count, size - 1))


def test_only_samples_that_were_embedded() -> None:
    memory = bank(torch.linspace(0, 1, 100).double())
    rows = torch.tensor([50])
    assert memory.support(rows) is None
    memory.update(torch.tensor([10, 50, 51]), torch.eye(3))
    support = memory.support(rows)
    assert support is not None
    assert torch.equal(memory.nearest(rows), torch.tensor([10, 51]))
    assert torch.equal(support[0], torch.eye(3)[[0, 2]])
    assert torch.equal(support[1].values[:, 0], torch.linspace(0, 1, 100).double()[[10, 51]])
    memory.update(torch.tensor([51]), torch.full((1, 3), 7.0))
    support = memory.support(rows)
    assert support is not None
    assert torch.equal(support[0][1], torch.full((3,), 7.0)), "the latest embedding"


def test_neighbors_have_the_same_category() -> None:
    z = {"site": torch.arange(300) % 3, "age": torch.rand(300)}
    kernel = kernels.Delta("site") * kernels.RBF("age", length_scale=0.1)
    memory = MemoryBank(z, kernel, width=3, neighbors=6)
    fill(memory)
    found = memory.nearest(torch.tensor([7]))
    assert len(found) == 6
    assert (found % 3 == 7 % 3).all()


def test_an_outlier_gets_its_nearest_samples_however_far_they_are() -> None:
    z = torch.linspace(0, 1, 1000).double()
    z[0] = 1e5
    memory = bank(z, neighbors=4)
    fill(memory)
    assert torch.equal(memory.nearest(torch.tensor([0])), torch.arange(996, 1000))


@pytest.mark.parametrize("far", [1e20, 1e30, 1e140])
def test_a_distant_outlier(far: float) -> None:
    z = torch.linspace(0, 1, 200).double()
    z[5] = far
    memory = bank(z, neighbors=4)
    fill(memory)
    assert len(memory.nearest(torch.tensor([5]))) == 4


def test_of_equal_conditions_others_in_each_batch() -> None:
    memory = bank(torch.zeros(500).double(), neighbors=4)
    fill(memory)
    first, second = memory.nearest(torch.tensor([1])), memory.nearest(torch.tensor([2]))
    assert len(first) == len(second) == 4
    assert not torch.equal(first, second)
    assert torch.equal(first, memory.nearest(torch.tensor([1]))), "the same for the same batch"


def test_equal_anchors_share_few_neighbors() -> None:
    memory = bank(torch.zeros(4000).double(), neighbors=16)
    fill(memory)
    assert len(memory.nearest(torch.arange(64))) > 600


def test_a_loss_takes_it_and_its_state_is_saved() -> None:
    z = torch.rand(400)
    memory = bank(z, kernel=kernels.RBF().fit(z, batch_size=400))
    fill(memory)
    rows = torch.arange(32)
    x, y = torch.randn(2, 32, 3, requires_grad=True)
    for loss in (cclk.FairCCLK(memory.kernel), cclk.WeaklySupCCLK(memory.kernel)):
        value = loss(x, y, z[rows], support=memory.support(rows))
        assert torch.autograd.grad(value, x)[0].isfinite().all()
    other = bank(z, kernel=memory.kernel)
    other.load_state_dict(memory.state_dict())
    assert torch.equal(other.keys, memory.keys)
    assert torch.equal(other.nearest(rows), memory.nearest(rows))
    assert "400 samples, width 3, neighbors=4" in repr(memory)


def test_mistakes() -> None:
    z = torch.rand(50)
    memory = bank(z)
    for rows in (torch.tensor([1.0]), torch.tensor([[1]]), torch.tensor([True])):
        with pytest.raises(ValueError, match="pass the numbers of the samples"):
            memory.support(rows)
    with pytest.raises(ValueError, match="rows has numbers from 3 to 50: the bank has samples 0"):
        memory.support(torch.tensor([3, 50]))
    with pytest.raises(ValueError, match=r"embeddings have shape \(1, 2\): expected 1 rows of"):
        memory.update(torch.tensor([3]), torch.randn(1, 2))
    with pytest.raises(ValueError, match=r"Cosine\(\) has no nearest samples"):
        bank(z, kernel=kernels.Cosine())
    with pytest.raises(ValueError, match="neighbors is 0"):
        bank(z, neighbors=0)
    with pytest.raises(ValueError, match="condition has 1 rows"):
        bank(z[:1])
