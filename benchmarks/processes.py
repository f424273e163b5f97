"""Training on several processes: `python -m benchmarks.processes [--json FILE]`.

    curves    losses of 100 steps with 2 and 4 processes, against those with one; and, as a control,
              of one process with two threads, which rounds differently too. In float64: rounding
              errors of float32, of any origin, grow to 0.1 within 100 steps, as the last curves
              show
    traffic   bytes that a process receives in a step of the loss, against the cost model

The cost model of the loss, for a joined batch of b samples on P processes, embeddings of width d
and a condition of k numbers, per process and step:

    received  (P - 1) / P (8 b d + 8 b k) bytes: embeddings of the other view, the gradients of its
              own embeddings, and the condition
    computed  6 b^2 d / P operations, less where only some pairs matter
    stored    8 b d bytes for the neighbors and their gradient, and a tile of scores, 4 bytes each
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import Tensor
from torch.multiprocessing.spawn import spawn

import cclk
from benchmarks.common import write_result
from cclk import kernels
from cclk.losses.core import TILE_ROWS
from cclk.training.run_folder import RunFolder

METHODS = (
    "fair-cclk", "weaksup-cclk", "hardneg-cclk", "fair-infonce", "weaksup-infonce",
)  # fmt: skip
MORE: dict[str, list[str]] = {
    "fair-cclk, queue of 512": ["--method", "fair-cclk", "--queue", "512", "--ema", "0.9"],
    "fair-cclk, leakage penalty": ["--method", "fair-cclk", "--leakage-penalty", "1"],
}
STEPS, SMALL_BATCH = 100, 64
"""Of the curves: float64 is slow."""
FLOAT32 = "fair-cclk, float32"
CONTROL = "one process, two threads"
NETWORK = ["--dataset", "colordigits", "--augmentation", "digits"]
SIZE, DIMENSION, COLUMNS = 4096, 128, 3


@dataclass(frozen=True)
class Cost:
    """What a step of the loss costs a process, by the cost model."""

    received: float
    """Bytes."""
    computed: float
    """Floating-point operations, if all pairs matter."""
    stored: float
    """Bytes."""


def cost(size: int, dimension: int, columns: int, processes: int) -> Cost:
    """Return the cost of a step.

    Args:
        size: Samples of the joined batch.
        dimension: Width of the embeddings.
        columns: Numbers in the condition of a sample.
        processes: Number of processes.
    """
    others = (processes - 1) / processes
    tile = 4 * min(TILE_ROWS, size // processes) * size
    return Cost(
        others * (8 * size * dimension + 8 * size * columns),
        6 * size**2 * dimension / processes,
        8 * size * dimension + tile,
    )


def train(
    folder: Path, processes: int, threads: int, *options: str, program: str = "cclk"
) -> list[dict[str, float]]:
    """Train on this number of processes, and return the metrics."""
    command = [sys.executable, "-m", program, "train", *NETWORK, *options]
    command += ["--devices", str(processes), "--threads", str(threads)]
    command += ["--quiet", "--out", str(folder)]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    subprocess.run(command, env=environment, check=True)
    return RunFolder(folder).metrics()


VARIANTS = {method: ["--method", method] for method in METHODS} | MORE
VARIANTS[FLOAT32] = VARIANTS["fair-cclk"]


def curves(counts: tuple[int, ...], names: Sequence[str], seeds: int) -> list[dict[str, object]]:
    """The largest relative difference of the losses of a run from those with one process."""
    rows: list[dict[str, object]] = []
    for name in names:
        differences: dict[str, list[float]] = {key: [] for key in (CONTROL, *map(str, counts))}
        for seed in range(seeds):
            options = ["--steps", str(STEPS), "--log-every", "1", *VARIANTS[name]]
            options += ["--seed", str(seed), "--batch-size", str(SMALL_BATCH)]
            program = "cclk" if name == FLOAT32 else "benchmarks.double"
            with tempfile.TemporaryDirectory() as folder:
                runs = {
                    str(count): train(Path(folder, str(count)), count, 1, *options, program=program)
                    for count in (1, *counts)
                } | {CONTROL: train(Path(folder, "control"), 1, 2, *options, program=program)}
            losses = {key: [line["loss"] for line in lines] for key, lines in runs.items()}
            for key, values in differences.items():
                pairs = zip(losses[key], losses["1"], strict=True)
                values.append(max(abs(one - other) / abs(other) for one, other in pairs))
        for key, values in differences.items():
            rows.append({"method": name, "processes": key, "largest_differences": values})
            print(f"{name}, {key}: {', '.join(f'{each:.1e}' for each in values)}", flush=True)
    return rows


def traffic(world: int) -> dict[str, object]:
    """The bytes that the loss receives in a process, and what the cost model says."""
    with tempfile.TemporaryDirectory() as folder:
        spawn(_count, (world, folder), nprocs=world)  # type: ignore[no-untyped-call]
        counted = json.loads(Path(folder, "0.json").read_text())
    model = cost(SIZE, DIMENSION, COLUMNS, world).received
    print(f"{world} processes: {counted:,.0f} bytes, cost model {model:,.0f}", flush=True)
    return {"processes": world, "bytes": counted, "cost_model": model}


def _count(rank: int, world: int, folder: str) -> None:
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=world)
    received = 0.0
    gather, reduce, exchange = dist.all_gather, dist.all_reduce, dist.all_to_all_single

    def counted_gather(parts: list[Tensor], own: Tensor, *args: Any, **options: Any) -> Any:
        nonlocal received
        received += sum(part.nbytes for part in parts) - own.nbytes
        return gather(parts, own, *args, **options)

    def counted_reduce(tensor: Tensor, *args: Any, **options: Any) -> Any:
        nonlocal received
        received += 2 * (world - 1) / world * tensor.nbytes  # in a ring
        return reduce(tensor, *args, **options)

    def counted_exchange(parts: Tensor, own: Tensor, *args: Any, **options: Any) -> Any:
        nonlocal received
        received += (world - 1) / world * parts.nbytes
        return exchange(parts, own, *args, **options)

    torch.manual_seed(rank)
    local = SIZE // world
    x, y = torch.randn(2, local, DIMENSION).requires_grad_()
    z = torch.randn(local, COLUMNS)
    loss = cclk.FairCCLK(kernels.RBF(length_scale=0.1), gather_distributed=True)
    with (
        patch.object(dist, "all_gather", counted_gather),
        patch.object(dist, "all_reduce", counted_reduce),
        patch.object(dist, "all_to_all_single", counted_exchange),
    ):
        loss(x, y, z).backward()
    Path(folder, f"{rank}.json").write_text(json.dumps(received))
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the result here")
    parser.add_argument("--seeds", type=int, default=3, help="seeds of the curves")
    parser.add_argument("--only", choices=("curves", "traffic"), help="keep the others")
    parser.add_argument("--curves", choices=VARIANTS, nargs="+", help="keep other curves")
    arguments = parser.parse_args()
    names = arguments.curves or list(VARIANTS)
    parts: dict[str, Callable[[], object]] = {
        "traffic": lambda: [traffic(world) for world in (2, 4)],
        "curves": lambda: curves((2, 4), names, arguments.seeds),
    }
    result: dict[str, object] = {}
    before: dict[str, Any] = {}
    if arguments.only and arguments.json and arguments.json.exists():
        before = json.loads(arguments.json.read_text(encoding="utf-8"))
        result = {name: before[name] for name in parts if name in before}
    known = result.get("curves", [])
    assert isinstance(known, list)
    result |= {name: run() for name, run in parts.items() if arguments.only in (None, name)}
    if arguments.curves:
        kept = [row for row in known if row["method"] not in names]
        result["curves"] = [*kept, *result["curves"]]  # type: ignore[misc]
    if before:
        own = shlex.join(["python", "-m", "benchmarks.processes", *sys.argv[1:]])
        earlier = before["command"].split("; ")
        if not arguments.curves:  # nothing is left of what these wrote
            earlier = [each for each in earlier if f"--only {arguments.only}" not in each]
        result["command"] = "; ".join([*earlier, own])
    write_result(arguments.json, "processes", result)


if __name__ == "__main__":
    main()
