"""Cost of a training step relative to the network: `python -m benchmarks.step [--json FILE]`.

A full step (load, augment, forward, loss, backward, update) as a ratio to the forward and backward
pass of the same network on tensors in memory, and the step of Fair-CCLK as a ratio to that of
InfoNCE. They alternate in every round; each ratio is between the best of several rounds. The parts
of the step of Fair-CCLK are medians over steps.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from benchmarks.common import best_seconds, write_result
from cclk.training.run_folder import load_dataset
from cclk.training.settings import load
from cclk.training.trainer import Trainer

BATCH = 256
PARTS = {
    "load": "loader.load", "views": "_view", "forward": "_forward", "loss": "method.loss.forward",
    "backward": "fabric.backward", "update": "optimizer.step",
}  # fmt: skip
"""Part of a step -> the function of a trainer that computes it."""


def measure(encoder: str, options: str, rounds: int, burst: int) -> dict[str, object]:
    """Return the best seconds per step and their ratios, for one network."""
    common = {
        "encoder": encoder,
        "encoder_options": options,
        "batch_size": str(BATCH),
        "dataset": "colormnist",
        "holdout": "0",
        "leakage_penalty": "0",  # the step of the loss alone
    }
    settings = [
        load(preset=preset, overrides=common)
        for preset in ("colormnist-infonce", "colormnist-fair")
    ]
    infonce, fair = (Trainer(one, load_dataset(one)) for one in settings)
    network = infonce.network
    images = torch.rand(2 * BATCH, 3, 32, 32)

    def bare(step: int) -> None:
        network.zero_grad()
        network(images).square().mean().backward()

    steps = {"bare": bare, "infonce": infonce.step, "fair": fair.step}
    best = best_seconds(steps, rounds, burst)
    return {
        "encoder": encoder,
        "encoder_options": options,
        "batch_size": BATCH,
        "bare_milliseconds": round(best["bare"] * 1e3, 2),
        "infonce_step_to_bare": round(best["infonce"] / best["bare"], 3),
        "fair_step_to_bare": round(best["fair"] / best["bare"], 3),
        "fair_step_to_infonce_step": round(best["fair"] / best["infonce"], 3),
        "fair_parts_milliseconds": parts(fair, 4 * burst),
    }


def parts(trainer: Trainer, steps: int) -> dict[str, float]:
    """Return the median milliseconds of each part of a step, and of the rest of it."""
    seconds: dict[str, list[float]] = {name: [0.0] * steps for name in (*PARTS, "step")}
    current = 0

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **options: Any) -> Any:
            start = time.perf_counter()
            result = function(*args, **options)
            seconds[name][current] += time.perf_counter() - start
            return result

        return run

    with ExitStack() as patched:
        for name, path in PARTS.items():
            *owners, attribute = path.split(".")
            owner: Any = trainer
            for each in owners:
                owner = getattr(owner, each)
            function = timed(name, getattr(owner, attribute))
            patched.enter_context(patch.object(owner, attribute, function))
        step = timed("step", trainer.step)
        for current in range(steps):
            step(current)
    total = seconds.pop("step")
    seconds["rest"] = [
        all_parts - sum(each) for all_parts, *each in zip(total, *seconds.values(), strict=True)
    ]
    return {name: round(1e3 * statistics.median(each), 2) for name, each in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=8, help="timed rounds (default: %(default)s)")
    parser.add_argument("--only", choices=["lenet5", "resnet18"], help="measure one network only")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()
    networks = {"lenet5": ("{}", arguments.rounds, 20), "resnet18": ("{ stem = 'cifar' }", 2, 1)}
    rows = []
    for encoder, (options, rounds, burst) in networks.items():
        if arguments.only in (None, encoder):
            rows.append(measure(encoder, options, rounds, burst))
            print(json.dumps(rows[-1]), flush=True)
    write_result(arguments.json, "step", {"steps": rows})


if __name__ == "__main__":
    main()
