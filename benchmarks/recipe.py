"""Select the recipe of the digits demo: `python -m benchmarks.recipe [--json FILE]`.

Every method has the same network, data and budget, and the same settings to select from. Digit
accuracy and linear color R^2 are measured on the validation split; the test split is not used.
The file is written after each choice, and choices that it contains are not run again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cclk_paper.probes import two_probes

import cclk
from benchmarks.common import write_result
from cclk.evaluation import Samples, evaluate

SGD: dict[str, Any] = {"optimizer": "sgd", "weight_decay": 3e-3, "warmup": 20}
"""The best optimizer on ColorMNIST, with the warmup of a small dataset."""
CHOICES: list[dict[str, Any]] = [
    *({"temperature": t, "lr": lr} for lr in (1e-5, 1e-4, 1e-3, 3e-3) for t in (0.05, 0.1, 0.2)),
    *({"temperature": 0.1, "lr": lr, **SGD} for lr in (0.01, 0.1)),
    *({"temperature": 0.2, "lr": lr, **SGD} for lr in (0.05, 0.1, 0.2)),
]
"""Settings to select from, the same for every method."""
METHODS = ("infonce", "fair-cclk")


def cells(seeds: int) -> Iterator[tuple[str, dict[str, Any], list[int]]]:
    """Every method with every choice."""
    for choice in CHOICES:
        for method in METHODS:
            yield method, choice, list(range(seeds))


def measure(run: cclk.Run) -> tuple[float, float]:
    """Return digit accuracy and linear color R^2 of the encoder on the validation split."""
    train, validation = run.dataset.train, run.dataset.validation
    empty = validation.subset(validation.y[:0])  # probes are tuned on a part of train
    splits = [
        Samples(run.embed_split(split)[0], split.y, split.condition)
        for split in (train, empty, validation)
    ]
    accuracy = evaluate(splits[0], splits[1], splits[2], bootstrap=1).accuracy.linear
    assert accuracy is not None
    return accuracy.value, two_probes(splits[0], splits[1], splits[2])["linear_r2"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--seeds", type=int, default=2, help="seeds per choice (default: %(default)s)"
    )
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    options = parser.parse_args()
    rows = (
        json.loads(options.json.read_text())["choices"]
        if options.json and options.json.exists()
        else []
    )
    with tempfile.TemporaryDirectory() as folder:
        for number, (method, choice, seeds) in enumerate(cells(options.seeds)):
            if any((row["method"], row["choice"]) == (method, choice) for row in rows):
                continue
            results = []
            for seed in seeds:
                run = cclk.train(
                    preset="digits-infonce",
                    method=method,
                    seed=seed,
                    overrides=choice,
                    out=Path(folder, f"{number}-{seed}"),
                    quiet=True,
                )
                results.append(measure(run))
            accuracy, leak = zip(*results, strict=True)
            rows.append(
                {
                    "method": method,
                    "choice": choice,
                    "seeds": seeds,
                    "accuracy": accuracy,
                    "color_r2": leak,
                }
            )
            print(
                f"{method:<10} {choice}  accuracy {statistics.mean(accuracy):.3f}  color R^2"
                f" {statistics.mean(leak):.3f}",
                flush=True,
            )
            write_result(options.json, "recipe", {"split": "validation", "choices": rows})


if __name__ == "__main__":
    main()
