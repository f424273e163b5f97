"""Two processes with unequal batches against one with the whole: the same loss, and the same
gradients, for every loss.

DistributedDataParallel averages gradients over processes, so the gradients that must be right are
the averaged ones of the parameters. Those of the embeddings are then the joined batch's times the
number of processes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import oracles
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import cclk
from cclk import kernels

WORLD, SIZES = 2, (9, 4)
PARTS = (slice(0, 9), slice(9, 13))


def losses(gather: bool) -> Iterator[tuple[str, nn.Module]]:
    for views, symmetric, reduction in itertools.product(
        ("cross", "all"), (False, True), ("mean", "sum")
    ):
        options = {
            "views": views,
            "symmetric": symmetric,
            "reduction": reduction,
            "temperature": 0.3,
            "gather_distributed": gather,
        }
        told = f"{views}, symmetric={symmetric}, {reduction}"
        yield f"InfoNCE {told}", cclk.InfoNCE(**options)
        yield f"HardNegInfoNCE {told}", cclk.HardNegInfoNCE(**options)
        yield f"WeaklySupInfoNCE {told}", cclk.WeaklySupInfoNCE(**options)
        yield f"FairInfoNCE {told}", cclk.FairInfoNCE(**options)
        for weights in ("loo", "paper", "authors", "nw"):
            yield (
                f"WeaklySupCCLK {told} {weights}",
                cclk.WeaklySupCCLK(kernels.Delta(), weights=weights, **options),
            )
            yield (
                f"FairCCLK {told} {weights}",
                cclk.FairCCLK(kernels.RBF(length_scale=1.0), weights=weights, **options),
            )
            yield f"HardNegCCLK {told} {weights}", cclk.HardNegCCLK(weights=weights, **options)
        yield (
            f"FairByAutograd {told}",
            oracles.FairByAutograd(kernels.RBF(length_scale=1.0), **options),
        )


def data() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    inputs, noise = torch.randn(2, 13, 5, generator=generator, dtype=torch.float64)
    return (
        inputs,
        inputs + 0.3 * noise,
        torch.arange(13) % 3,
        torch.randn(6, 4, generator=generator, dtype=torch.float64),
    )


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 4)).double()


def step(name: str, loss: nn.Module, model: nn.Module, rows: slice) -> dict[str, Tensor]:
    first, second, labels, extra = data()
    model.zero_grad()
    x, y = model(first[rows]), model(second[rows])
    x.retain_grad(), y.retain_grad()
    # HardNegCCLK conditions on its own embeddings; half of the losses borrow neighbors.
    arguments = (x, y) if name.startswith("HardNeg") else (x, y, labels[rows])
    support = None
    if "sum" in name:
        support = (extra, None if name.startswith("HardNeg") else torch.arange(6) % 3)
    value = loss(*arguments, support=support)
    value.backward()
    gradients = {key: parameter.grad.clone() for key, parameter in model.named_parameters()}
    return {"loss": value.detach(), "x": x.grad, "y": y.grad} | {
        k.removeprefix("module."): g for k, g in gradients.items()
    }


def check_large_sums(rank: int) -> None:
    """Processes with few and with many samples agree that float32 does not suffice."""
    first, second, _, _ = data()
    first, second = first.float(), second.float()
    options = {"temperature": 5e-4, "tau_plus": 0.1}
    loss = cclk.HardNegInfoNCE(**options, gather_distributed=True)
    torch.testing.assert_close(
        loss(first[PARTS[rank]], second[PARTS[rank]]), cclk.HardNegInfoNCE(**options)(first, second)
    )


def check_no_rows(rank: int) -> None:
    """A process without samples waits for the others and adds nothing."""
    first, second, labels, _ = data()
    rows = slice(0, 13) if rank == 0 else slice(13, 13)
    x, y = first[rows].requires_grad_(), second[rows].requires_grad_()
    for loss, alone in (
        (cclk.FairCCLK(kernels.Delta(), gather_distributed=True), cclk.FairCCLK(kernels.Delta())),
        (cclk.InfoNCE(gather_distributed=True), cclk.InfoNCE()),
    ):
        value = loss(x, y, labels[rows])
        value.backward()
        torch.testing.assert_close(value.detach(), alone(first, second, labels))


def check_penalty(rank: int) -> None:
    """The leak of the joined batch, and its gradient after averaging, with further rows or not."""
    first, _, labels, extra = data()
    for rows, condition in itertools.product(
        (None, (extra, torch.arange(6) % 3)), (labels, labels.double().sin())
    ):
        part = PARTS[rank]
        # The first process has all further rows, the second none.
        own = None if rows is None else tuple(each[: (6, 0)[rank]] for each in rows)
        model, alone = nn.parallel.DistributedDataParallel(network()), network()
        penalty, expected = cclk.LeakagePenalty(gather_distributed=True), cclk.LeakagePenalty()
        value = penalty(model(first[part]), condition[part], own)
        value.backward()
        joined = expected(alone(first), condition, rows)
        joined.backward()
        torch.testing.assert_close(value, joined, rtol=1e-9, atol=1e-12)
        assert penalty.leaks == pytest.approx(expected.leaks)
        for found, right in zip(model.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(found.grad, right.grad, rtol=1e-6, atol=1e-12)


def work(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        timeout=timedelta(seconds=60),  # a process that waits for a message that is not sent fails
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=WORLD,
    )
    check_large_sums(rank)
    check_no_rows(rank)
    check_penalty(rank)
    model = nn.parallel.DistributedDataParallel(network())
    results = {}
    for name, loss in losses(gather=True):
        results[name] = step(name, loss, model, PARTS[rank])
    torch.save(results, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_two_processes_equal_one(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(work, (str(tmp_path),), nprocs=WORLD)
    found = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(WORLD)]
    model = network()
    checked = 0
    for name, loss in losses(gather=False):
        expected = step(name, loss, model, slice(0, 13))
        for (rank, part), key in itertools.product(enumerate(PARTS), expected):
            value = expected[key]
            if key in ("x", "y"):
                value = WORLD * value[part]
            torch.testing.assert_close(
                found[rank][name][key],
                value,
                rtol=1e-6,
                atol=1e-9,
                msg=lambda m, n=name, k=key: f"{n}, {k}: {m}",
            )
            checked += 1
    assert checked == 17 * 8 * 2 * 7


def test_one_process_alone_gathers_nothing() -> None:
    first, second, condition, _ = data()
    kernel = kernels.Delta()
    assert torch.equal(
        cclk.FairCCLK(kernel, gather_distributed=True)(first, second, condition),
        cclk.FairCCLK(kernel)(first, second, condition),
    )
