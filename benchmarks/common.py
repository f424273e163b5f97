"""What several benchmarks share: timing in alternation, and writing results."""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

import cclk

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"


def read_result(name: str) -> Any:
    """Return the content of a committed results file."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def write_result(path: Path | None, benchmark: str, result: Mapping[str, object]) -> None:
    """Write a result with command, versions and number of cores; without a path, do nothing."""
    if path:
        command = shlex.join(["python", "-m", f"benchmarks.{benchmark}", *sys.argv[1:]])
        source = {"command": command, "version": cclk.__version__, "torch": torch.__version__}
        text = json.dumps({**source, "cores": os.cpu_count(), **result}, indent=1)
        path.write_text(text + "\n", encoding="utf-8")


def best_seconds(
    steps: Mapping[str, Callable[[int], object]], rounds: int, burst: int
) -> dict[str, float]:
    """Time functions of a step number in alternation, and return the best seconds per step.

    Args:
        steps: name -> function.
        rounds: timed rounds, after one to warm up.
        burst: steps of each function in a round.
    """
    best = dict.fromkeys(steps, math.inf)
    for number in range(rounds + 1):
        for name, step in steps.items():
            start = time.perf_counter()
            for offset in range(burst):
                step(number * burst + offset)
            if number:
                best[name] = min(best[name], (time.perf_counter() - start) / burst)
    return best
