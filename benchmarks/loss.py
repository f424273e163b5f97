"""Time and memory of the conditional losses: `python -m benchmarks.loss [--json FILE]`.

Forward and backward of every loss and solver, as ratios to the plain cross-entropy InfoNCE timed in
the same round, so that a busy machine slows both. Each ratio is between the best of several rounds.
Also reported: the textbook implementation (inverse and two b^3 products), the additional peak
memory, and the exponent with which time grows in b.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import math
import os
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import cclk
from cclk import kernels

DIMENSION, TEMPERATURE, RIDGE = 128, 0.1, 0.01
SIZES, WIDTHS = (256, 1024, 4096, 8192), (1, 3, 16, 312)
NARROW = 3
"""Conditions up to this width have neighborhoods: only pairs that matter are scored."""
CUBIC_UP_TO = 4096
"""Implementations that cost b^3 are not run beyond this size."""

CALLS = 5
"""Consecutive calls of each implementation in a round, for small sizes."""
LARGEST = (
    "FairCCLK, RBF auto",
    "FairCCLK features, cosine",
    "WeaklySupCCLK features, cosine",
    "FairCCLK nystrom 256, RBF",
)
"""The implementations that are run at the largest size."""

Run = Callable[[Tensor, Tensor, Tensor], Tensor]


def plain(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """InfoNCE by `cross_entropy`, the usual implementation."""
    scores = F.normalize(x) @ F.normalize(y).T / TEMPERATURE
    return F.cross_entropy(scores, torch.arange(len(x)))


def textbook(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """Fair-CCLK with the cosine kernel as the equation reads: an inverse and two products of b x
    b matrices.
    """
    kernel_xy = (F.normalize(x) @ F.normalize(y).T / TEMPERATURE).exp()
    unit = F.normalize(z)
    kernel_z = unit @ unit.T
    inverse = torch.linalg.inv(kernel_z + RIDGE * torch.eye(len(z)))
    conditional = (kernel_xy @ inverse @ kernel_z).diagonal().clamp_min(1e-7)
    positive = kernel_xy.diagonal()
    loss: Tensor = -(positive / (positive + (len(x) - 1) * conditional)).log().mean()
    return loss


def ways(size: int, width: int) -> dict[str, Run]:
    """The implementations to measure at this size."""
    scale = math.sqrt(width)
    options: dict[str, Any] = {"temperature": TEMPERATURE}
    conditional: dict[str, Any] = {"ridge": RIDGE, **options}
    solved = {**conditional, "weights": "loo"}
    runs: dict[str, Run] = {"plain InfoNCE": plain, "InfoNCE": cclk.InfoNCE(**options)}
    runs["HardNegInfoNCE"] = cclk.HardNegInfoNCE(**options)
    for name, loss in (("FairCCLK", cclk.FairCCLK), ("WeaklySupCCLK", cclk.WeaklySupCCLK)):
        runs[f"{name} features, cosine"] = loss(kernels.Cosine(), solver="features", **solved)
    runs["HardNegCCLK features, cosine"] = _own(
        cclk.HardNegCCLK(kernels.Cosine(), solver="features", **conditional)
    )
    runs["FairCCLK features, delta"] = _categories(cclk.FairCCLK(kernels.Delta(), **solved))
    runs["FairCCLK nw, RBF"] = cclk.FairCCLK(
        kernels.RBF(length_scale=scale), weights="nw", **conditional
    )
    if width <= NARROW:
        runs["FairCCLK, RBF auto"] = cclk.FairCCLK(**conditional)
        runs["FairCCLK, Delta, b/16 groups"] = _groups(
            cclk.FairCCLK(kernels.Delta(), **conditional)
        )
    runs["FairCCLK nystrom 256, RBF"] = cclk.FairCCLK(
        kernels.RBF(length_scale=scale), solver="nystrom", **solved
    )
    if size <= CUBIC_UP_TO:
        runs["FairCCLK exact, RBF"] = cclk.FairCCLK(
            kernels.RBF(length_scale=scale), solver="exact", **solved
        )
        runs["textbook, cosine"] = textbook
    return runs


def _own(loss: cclk.HardNegCCLK) -> Run:
    return lambda x, y, z: loss(x, y)


def _categories(loss: cclk.FairCCLK) -> Run:
    return lambda x, y, z: loss(x, y, (z[:, 0] * 4).round())


def _groups(loss: cclk.FairCCLK) -> Run:
    return lambda x, y, z: loss(x, y, z[:, 0].argsort().argsort() * (len(z) // 16) // len(z))


def measure(size: int, width: int, rounds: int) -> list[dict[str, object]]:
    """Best times of several rounds; each round times every implementation."""
    torch.manual_seed(0)
    x, y = (
        torch.randn(size, DIMENSION, requires_grad=True),
        torch.randn(size, DIMENSION, requires_grad=True),
    )
    z = torch.randn(size, width)
    runs = ways(size, width)
    best = dict.fromkeys(runs, math.inf)
    peak = {}
    for name, run in runs.items():
        call(run, x, y, z)  # warms up, and fits the kernel
        peak[name] = call(run, x, y, z, memory=True)[1]
    for turn in range(rounds):
        for name, run in runs.items():
            if name == "textbook, cosine" and size > 1024 and turn > 1:
                continue  # far slower than the rest
            for _ in range(CALLS if size <= 1024 else 1):
                best[name] = min(best[name], call(run, x, y, z)[0])
    return [
        {
            "way": name,
            "size": size,
            "width": width,
            "milliseconds": round(best[name] * 1e3, 3),
            "ratio_to_plain": round(best[name] / best["plain InfoNCE"], 3),
            "textbook_ratio": (
                round(best["textbook, cosine"] / best[name], 2)
                if "textbook, cosine" in best
                else None
            ),
            "peak_mib": round(peak[name] / 2**20, 1),
        }
        for name in runs
    ]


def call(run: Run, x: Tensor, y: Tensor, z: Tensor, memory: bool = False) -> tuple[float, int]:
    """Seconds of a forward and backward pass, and, if `memory`, its peak memory in bytes;
    measuring memory disturbs the time.
    """
    x.grad = y.grad = None
    if memory:
        gc.collect()
        before = reset_peak()
    start = time.perf_counter()
    run(x, y, z).backward()  # type: ignore[no-untyped-call]
    seconds = time.perf_counter() - start
    return seconds, read_peak() - before if memory else 0


def largest(size: int, width: int) -> list[dict[str, object]]:
    """Time and peak memory of one forward and backward pass of each sub-cubic implementation, at a
    size where b^2 numbers would not fit.
    """
    torch.manual_seed(0)
    rows = []
    for name, run in ways(size, width).items():
        if name not in LARGEST or (width <= NARROW) != name.endswith("auto"):
            continue
        x, y = (
            torch.randn(size, DIMENSION, requires_grad=True),
            torch.randn(size, DIMENSION, requires_grad=True),
        )
        z = torch.randn(size, width)
        if name.endswith("auto"):
            call(run, x, y, z)  # fits the kernel
        seconds, peak = call(run, x, y, z, memory=True)
        rows.append(
            {
                "way": name,
                "size": size,
                "width": width,
                "milliseconds": round(seconds * 1e3),
                "peak_mib": round(peak / 2**20, 1),
            }
        )
        show(rows[-1])
    return rows


def exponents(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """The slope of log time over log b of each implementation: by least squares from b = 1,024, and
    between the two largest sizes alone.
    """
    growth = []
    for way, width in sorted({(str(row["way"]), int(str(row["width"]))) for row in rows}):
        times = sorted(
            (int(str(r["size"])), float(str(r["milliseconds"])))
            for r in rows
            if (r["way"], r["width"]) == (way, width)
        )
        times = [(size, milliseconds) for size, milliseconds in times if size >= 1024]
        if len(times) > 1:
            slope = statistics.linear_regression(
                [math.log(b) for b, _ in times], [math.log(t) for _, t in times]
            ).slope
            (b0, t0), (b1, t1) = times[-2:]
            last = math.log(t1 / t0) / math.log(b1 / b0)
            row = {
                "way": way,
                "width": width,
                "from": times[0][0],
                "to": b1,
                "exponent": round(slope, 2),
            }
            growth.append(row | {"last_from": b0, "last_exponent": round(last, 2)})
    return growth


def reset_peak() -> int:
    """Reset the peak memory of the process, if possible, and return its memory in bytes."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)  # freed memory must not hide new allocations
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return read_peak()
    return _status("VmRSS")


def read_peak() -> int:
    """The process's peak memory since the last reset, in bytes; 0 if unknown."""
    return _status("VmHWM")


def _status(key: str) -> int:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def show(row: dict[str, object]) -> None:
    """Print one measurement."""
    ratio = f"{row['ratio_to_plain']:8.2f} x plain" if "ratio_to_plain" in row else ""
    textbook_ratio = (
        f", textbook {row['textbook_ratio']:.1f} x slower" if row.get("textbook_ratio") else ""
    )
    print(
        f"b {row['size']:>6}  width {row['width']:>3}  {row['way']:<30}{row['milliseconds']:>10}"
        f" ms{ratio}{textbook_ratio}, {row['peak_mib']} MiB",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sizes",
        type=int,
        nargs="+",
        default=list(SIZES),
        help="batch sizes (default: %(default)s)",
    )
    parser.add_argument(
        "--widths",
        type=int,
        nargs="+",
        default=list(WIDTHS),
        help="widths of the condition (default: %(default)s)",
    )
    parser.add_argument(
        "--rounds", type=int, default=0, help="timed rounds; 0 (default) selects by size"
    )
    parser.add_argument(
        "--largest",
        type=int,
        default=32768,
        help="size of the memory check, 0 for none (default: %(default)s)",
    )
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    options = parser.parse_args()
    warnings.simplefilter("ignore", cclk.CclkWarning)
    rows: list[dict[str, object]] = []
    for width in options.widths:
        for size in options.sizes:
            rounds = options.rounds or max(3, min(20, 10000 // size))
            measured = measure(size, width, rounds)
            rows += measured
            for row in measured:
                show(row)
    large = [*largest(options.largest, 1), *largest(options.largest, 16)] if options.largest else []
    growth = exponents(rows)
    for row in growth:
        print(
            f"growth  width {row['width']:>3}  {row['way']:<30} b^{row['exponent']} from"
            f" {row['from']} to {row['to']}, b^{row['last_exponent']} from {row['last_from']}"
        )
    if options.json:
        result = {
            "command": " ".join(["python -m benchmarks.loss", *sys.argv[1:]]),
            "version": cclk.__version__,
            "torch": torch.__version__,
            "cores": os.cpu_count(),
            "processor": platform.machine(),
            "settings": {
                "dimension": DIMENSION,
                "temperature": TEMPERATURE,
                "ridge": RIDGE,
                "dtype": "float32",
                "seed": 0,
            },
            "times": rows,
            "growth": growth,
            "largest": large,
        }
        draft = options.json.with_suffix(".tmp")
        draft.write_text(json.dumps(result, indent=1) + "\n")
        draft.replace(options.json)


if __name__ == "__main__":
    main()
