"""Cost of a bank of the full dataset: `python -m benchmarks.bank [--json FILE]`.

A step of a custom training loop (forward, Fair-CCLK, backward) with a full `MemoryBank`, relative
to the same step without it: with LeNet-5, and the loss alone. Both alternate in every round; each
ratio is between the best of several rounds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

import cclk
from benchmarks.common import best_seconds, write_result
from cclk import kernels
from cclk.models.lenet import LeNet5

SAMPLES, BATCH, DIMENSION, WIDTHS = 60_000, 256, 128, (1, 3)


def measure(width: int, rounds: int) -> dict[str, object]:
    """Best milliseconds of a step with and without a bank, for a condition of this width."""
    torch.manual_seed(0)
    z = torch.randn(SAMPLES, width)
    images = torch.rand(2, BATCH, 3, 32, 32)
    network = nn.Sequential(LeNet5(3), nn.LazyLinear(DIMENSION))
    embeddings = torch.randn(2, BATCH, DIMENSION).requires_grad_()
    without = cclk.FairCCLK(kernels.RBF().fit(z, batch_size=BATCH))
    kernel = kernels.RBF().fit(z, batch_size=SAMPLES)
    bank, loss = cclk.MemoryBank(z, kernel, DIMENSION), cclk.FairCCLK(kernel)
    bank.update(torch.arange(SAMPLES), torch.randn(SAMPLES, DIMENSION))
    samples = 0

    def step(embed: bool, banked: bool) -> Callable[[int], None]:
        def run(number: int) -> None:
            nonlocal samples
            generator = torch.Generator().manual_seed(number)
            rows = torch.randperm(SAMPLES, generator=generator)[:BATCH]
            embeddings.grad = None
            network.zero_grad()
            x, y = network(images.flatten(0, 1)).chunk(2) if embed else embeddings
            if banked:
                support = bank.support(rows)
                samples = 0 if support is None else len(support[0])
                loss(x, y, z[rows], support=support).backward()
                bank.update(rows, y)
            else:
                without(x, y, z[rows]).backward()

        return run

    steps = {
        f"{part}, {kind}": step(part == "step", kind == "bank")
        for part in ("step", "loss")
        for kind in ("batch", "bank")
    }
    best = best_seconds(steps, rounds, burst=10)
    return {
        "width": width,
        "samples_from_bank": samples,
        **{f"{name} milliseconds": round(1e3 * value, 2) for name, value in best.items()},
        "step_ratio": round(best["step, bank"] / best["step, batch"], 2),
        "loss_ratio": round(best["loss, bank"] / best["loss, batch"], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=40, help="rounds (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()
    rows = []
    for width in WIDTHS:
        rows.append(measure(width, arguments.rounds))
        print(json.dumps(rows[-1]), flush=True)
    write_result(arguments.json, "bank", {"samples": SAMPLES, "batch_size": BATCH, "steps": rows})


if __name__ == "__main__":
    main()
