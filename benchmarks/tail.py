"""Rare values of a condition: `python -m benchmarks.tail [--json FILE]`.

MNIST digits on backgrounds between blue and orange. The position between the two is the condition,
and it is long-tailed: nine of ten samples lie in the first tenth of the range. Fair-CCLK has to
find samples of equal position. A bank of all samples (`queue = "all"`) adds the nearest ones of the
training split to those of the batch. Leakage is the worst probe of the panel, fitted and measured
on the samples of the tail alone. The last row shows what can be reached: it trains on the same
digits with uniform positions, where no value is rare, and is measured on the long-tailed ones.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cclk_paper.datasets.download import ensure
from cclk_paper.datasets.formats import read_labeled_idx
from cclk_paper.datasets.labeled import Floats, Labeled, labeled_dataset
from cclk_paper.experiments.registry.recipes import FAIR_OURS

from benchmarks.common import write_result
from cclk.columns import Column
from cclk.data.dataset import Dataset
from cclk.data.randomness import generator
from cclk.datasets.colored_background import paint
from cclk.evaluation import Samples, evaluate
from cclk.training.loop import train
from cclk.training.settings import load

HOLDOUT = 5000
COMMON: dict[str, object] = {
    "dataset": "colormnist", "encoder": "lenet5", "batch_size": 256, "steps": 1175,
    "augmentation": "digits", "holdout": HOLDOUT, "leakage_penalty": 0.0, "standardize": False,
    "log_every": 1175, **FAIR_OURS, "lr": 0.1, "temperature": 0.2, "optimizer": "sgd",
    "weight_decay": 3e-3,
}  # fmt: skip
"""What `fair` selected for Fair-CCLK on ColorMNIST."""
UNIFORM: dict[str, object] = {"method": "fair-cclk", "sampler": "uniform"}
WIDE: dict[str, object] = {"queue": "all", "neighbors": 1000}
"""A length scale by which samples of the tail have neighbors, too: about 12."""
LOCAL: dict[str, object] = {"method": "fair-cclk", "sampler": "local"}
ROWS: dict[str, dict[str, object]] = {
    "InfoNCE": {"method": "infonce"},
    "uniform batches": UNIFORM,
    "uniform batches, 64 effective neighbors": {**UNIFORM, "neighbors": 64},
    "uniform batches, bank, ema 0.99": {**UNIFORM, "queue": "all", "ema": 0.99},
    "uniform batches, bank, wide kernel, ema 0.97": {**UNIFORM, **WIDE, "ema": 0.97},
    "groups of 16 neighbors": LOCAL,
    "groups of 16 neighbors, queue of 256, ema 0.97": {**LOCAL, "queue": 256, "ema": 0.97},
    "groups of 16 neighbors, bank, ema 0.97": {**LOCAL, "queue": "all", "ema": 0.97},
    "groups of 16 neighbors, bank, ema 0.99": {**LOCAL, "queue": "all", "ema": 0.99},
    "groups of 16 neighbors, bank, wide kernel, ema 0.97": {**LOCAL, **WIDE, "ema": 0.97},
    "groups of 64 neighbors": {**LOCAL, "group": 64},
    "groups of 64 neighbors, bank, ema 0.97": {
        **LOCAL, "group": 64, "queue": "all", "ema": 0.97
    },
    "groups of 64 neighbors, bank, wide kernel, ema 0.97": {
        **LOCAL, **WIDE, "group": 64, "ema": 0.97
    },
}  # fmt: skip
ORACLE = "no value is rare, groups of 16 neighbors"
COMMON_VALUES, TAIL_SHARE = 0.1, 0.1
BLUE, ORANGE = (60.0, 95.0, 220.0), (240.0, 140.0, 50.0)


def positions(count: int, seed: int, stream: str, share: float) -> torch.Tensor:
    """Return values in 0 to 1, of which a share is above `COMMON_VALUES`."""
    random = generator(seed, "tail", stream)
    common = COMMON_VALUES * random.random(count)
    rare = COMMON_VALUES + (1 - COMMON_VALUES) * random.random(count)
    return torch.from_numpy(np.where(random.random(count) < share, rare, common)).float()


def digits(seed: int, share: float) -> Dataset:
    """MNIST, padded to 32 x 32, in black on colors whose positions are in the tail by a share."""
    folder = ensure("mnist", None)
    blue, orange = torch.tensor(BLUE), torch.tensor(ORANGE)

    def part(file: str) -> tuple[Labeled, Floats]:
        strokes, labels = read_labeled_idx(folder, file)
        z = positions(len(strokes), seed, file, share)[:, None]
        images = paint(np.pad(strokes, ((0, 0), (2, 2), (2, 2))), blue + z * (orange - blue))
        return (images.numpy(), labels), z.numpy()

    (train_images, z), (test_images, test_z) = part("train"), part("t10k")
    return labeled_dataset(
        "tailmnist",
        train_images,
        test_images,
        classes=tuple("0123456789"),
        holdout=HOLDOUT,
        seed=seed,
        condition=(z, test_z, Column("position")),
        description="MNIST digits in black on colors between blue and orange, 32 x 32",
    )


def measured(row: str, seed: int) -> dict[str, float]:
    """Train one run, and return its accuracy and leakage among all samples and in the tail."""
    torch.set_num_threads(1)
    settings = load(overrides={**COMMON, **ROWS.get(row, LOCAL), "seed": seed})
    dataset = digits(seed, TAIL_SHARE)
    seen = digits(seed, 1 - COMMON_VALUES) if row == ORACLE else dataset
    with tempfile.TemporaryDirectory() as folder:
        run = train(settings, Path(folder, "run"), quiet=True, dataset=seen)
        splits = [
            Samples(run.embed_split(split)[0], split.y, split.condition)
            for split in (dataset.train, dataset.validation, dataset.test)
        ]
    result = {}
    for name, lowest in (("all", 0.0), ("tail", COMMON_VALUES)):
        kept = [
            each.subset(np.flatnonzero(np.asarray(each.condition)[:, 0] >= lowest))
            for each in splits
        ]
        scores = evaluate(kept[0], kept[1], kept[2], dataset.columns, seed, bootstrap=1)
        worst, accuracy = scores.leakage.worst, scores.accuracy.linear
        result[f"accuracy_{name}"] = accuracy.value if accuracy else math.nan
        result[f"leakage_{name}"] = worst.value if worst else math.nan
    return {name: round(value, 4) for name, value in result.items()}


def _rows(runs: dict[tuple[str, int], dict[str, float]]) -> list[Any]:
    rows = [
        {
            "row": name,
            "settings": ROWS.get(name, LOCAL),
            "runs": {str(seed): run for (row, seed), run in sorted(runs.items()) if row == name},
        }
        for name in (*ROWS, ORACLE)
    ]
    return [row for row in rows if row["runs"]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3, help="runs per row (default: %(default)s)")
    parser.add_argument("--only", choices=(*ROWS, ORACLE), nargs="+", help="these rows only")
    parser.add_argument("--workers", type=int, default=2, help="runs at a time, of one thread each")
    parser.add_argument("--json", type=Path, help="also write to this file what it does not have")
    arguments = parser.parse_args()
    names = arguments.only or (*ROWS, ORACLE)
    common = COMMON | {"dataset": "tailmnist"}
    runs: dict[tuple[str, int], dict[str, float]] = {}
    if arguments.json and arguments.json.exists():
        before = json.loads(arguments.json.read_text(encoding="utf-8"))
        known = before["rows"] if before["common"] == common else []
        for row in known:
            if row["settings"] == ROWS.get(row["row"], LOCAL):
                runs |= {(row["row"], int(seed)): run for seed, run in row["runs"].items()}
    with ProcessPoolExecutor(arguments.workers, get_context("spawn")) as pool:
        jobs = {
            pool.submit(measured, name, seed): (name, seed)
            for seed in range(arguments.seeds)
            for name in names
            if (name, seed) not in runs
        }
        for job in as_completed(jobs):
            name, seed = jobs[job]
            runs[name, seed] = job.result()
            print(f"{name}, seed {seed}: {json.dumps(runs[name, seed])}", flush=True)
            # Whatever rows and seeds were asked for: each run is the same as in all of them.
            command = "python -m benchmarks.tail"
            write_result(
                arguments.json, "tail", {"command": command, "common": common, "rows": _rows(runs)}
            )


if __name__ == "__main__":
    main()
