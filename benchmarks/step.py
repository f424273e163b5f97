"""What a training step costs beside the network itself: `python -m benchmarks.step [--json FILE]`.

A whole step (load, augment, forward, loss, backward, update) as a ratio to the bare forward and
backward pass of the same network on ready tensors, and Fair-CCLK's whole step as a ratio to
InfoNCE's. The ways take turns in every round; each ratio is between the best of several rounds.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from cclk.training.engine import Training

import cclk
from cclk.files import replace_text
from cclk.training.settings import load

BATCH = 256


def measure(encoder: str, options: str, rounds: int, burst: int) -> dict[str, object]:
    """Best seconds per step of each way, for one network."""
    common = {
        "encoder": encoder,
        "encoder_options": options,
        "batch_size": str(BATCH),
        "dataset": "colormnist",
        "holdout": "0",
    }
    with tempfile.TemporaryDirectory() as folder:
        runs = {
            method: Training(
                load(preset=f"colormnist-{method}", overrides=common), Path(folder), quiet=True
            )
            for method in ("infonce", "fair")
        }
        network = runs["infonce"].network
        ready = torch.rand(2 * BATCH, 3, 32, 32)

        def bare(step: int) -> None:
            network.zero_grad()
            network(ready).square().mean().backward()

        ways: dict[str, Callable[[int], object]] = {
            "bare": bare,
            "infonce": runs["infonce"].step,
            "fair": runs["fair"].step,
        }
        best = dict.fromkeys(ways, math.inf)
        for place in range(rounds + 1):
            for name, way in ways.items():
                start = time.perf_counter()
                for step in range(burst):
                    way(place * burst + step)
                if place:  # the first round warms up
                    best[name] = min(best[name], (time.perf_counter() - start) / burst)
    return {
        "encoder": encoder,
        "encoder_options": options,
        "batch_size": BATCH,
        "bare_milliseconds": round(best["bare"] * 1e3, 2),
        "infonce_step_to_bare": round(best["infonce"] / best["bare"], 3),
        "fair_step_to_bare": round(best["fair"] / best["bare"], 3),
        "fair_step_to_infonce_step": round(best["fair"] / best["infonce"], 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=8, help="timed rounds (default: %(default)s)")
    parser.add_argument("--only", choices=["lenet5", "resnet18"], help="measure one network only")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    options = parser.parse_args()
    networks = {"lenet5": ("{}", options.rounds, 20), "resnet18": ("{ stem = 'cifar' }", 2, 1)}
    rows = []
    for encoder, (chosen, rounds, burst) in networks.items():
        if options.only in (None, encoder):
            rows.append(measure(encoder, chosen, rounds, burst))
            print(json.dumps(rows[-1]), flush=True)
    if options.json:
        result = {
            "command": " ".join(["python -m benchmarks.step", *sys.argv[1:]]),
            "version": cclk.__version__,
            "torch": torch.__version__,
            "cores": os.cpu_count(),
            "steps": rows,
        }
        replace_text(options.json, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
