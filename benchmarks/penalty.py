"""Time and calibration of the leakage penalty: `python -m benchmarks.penalty [--json FILE]`.

Forward and backward beside the plain cross-entropy InfoNCE, in alternation on two threads; the leak
of independent features, and of a condition in one feature with a tenth of the scale of the others;
and the reader with landmarks beside the exact one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import torch
from torch import Tensor

import cclk
from benchmarks.common import best_seconds, write_result
from benchmarks.loss import plain
from cclk.removal import penalty as module

WIDTH, THREADS = 128, 2
SIZES = (256, 1024, 4096)


def times(size: int, rounds: int) -> dict[str, float]:
    """Milliseconds of a forward and backward pass, and their ratio."""
    torch.manual_seed(0)
    x, y = (torch.randn(size, WIDTH, requires_grad=True) for _ in range(2))
    z = torch.randn(size)
    penalty = cclk.LeakagePenalty()

    def step(loss: Callable[[], Tensor]) -> Callable[[int], object]:
        def run(number: int) -> None:
            x.grad = y.grad = None
            loss().backward()  # type: ignore[no-untyped-call]

        return run

    steps = {"plain": step(lambda: plain(x, y, z)), "penalty": step(lambda: penalty(x, z))}
    best = best_seconds(steps, rounds, burst=5 if size <= 256 else 1)
    return {
        "size": size,
        "plain_milliseconds": round(1e3 * best["plain"], 2),
        "penalty_milliseconds": round(1e3 * best["penalty"], 2),
        "ratio_to_plain": round(best["penalty"] / best["plain"], 2),
    }


def calibration(width: int, size: int = 256, batches: int = 200) -> dict[str, float]:
    """Leaks of independent features, and of a condition in one feature of a tenth of the scale,
    aligned with it or rotated over all features.
    """
    torch.manual_seed(0)
    leaks: dict[str, list[float]] = {"independent": [], "weak": [], "weak_rotated": []}
    penalty = cclk.LeakagePenalty()
    for _ in range(batches):
        h, z = torch.randn(size, width), torch.randn(size)
        leaks["independent"].append(float(penalty(h, z)))
        h[:, 0] = 0.1 * z
        leaks["weak"].append(float(penalty(h, z)))
        rotation = torch.linalg.qr(torch.randn(width, width))[0]
        leaks["weak_rotated"].append(float(penalty(h @ rotation, z)))
    means = {name: round(sum(values) / batches, 4) for name, values in leaks.items()}
    lowest = {f"lowest_{name}": round(min(values), 4) for name, values in leaks.items()}
    return {"width": width, "size": size, "batches": batches, **means, **lowest}


def landmarks(width: int, size: int = 2048) -> dict[str, float]:
    """The leak of the same features by landmarks and exactly."""
    torch.manual_seed(0)
    h, z = torch.randn(size, width), torch.randn(size)
    h[:, 0] = 0.1 * z
    penalty = cclk.LeakagePenalty()
    near = float(penalty(h, z))
    with mock.patch.object(module, "EXACT_UP_TO", size):
        exact = float(penalty(h, z))
    return {"width": width, "size": size, "landmarks": round(near, 4), "exact": round(exact, 4)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rounds", type=int, default=20, help="timed rounds (default: %(default)s)"
    )
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    result: dict[str, list[dict[str, float]]] = {"times": [], "calibration": [], "landmarks": []}
    for size in SIZES:
        result["times"].append(times(size, options.rounds))
        print(result["times"][-1], flush=True)
    for width in (16, WIDTH):
        result["calibration"].append(calibration(width))
        result["landmarks"].append(landmarks(width))
        print(result["calibration"][-1], result["landmarks"][-1], flush=True)
    write_result(options.json, "penalty", {"width": WIDTH, "threads": THREADS, **result})


if __name__ == "__main__":
    main()
