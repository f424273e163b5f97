"""Rare values of a condition: `python -m benchmarks.tail [--json FILE]`.

MNIST digits on gray backgrounds, whose brightness is long-tailed: most values lie in a tenth of the
range, and the others thin out toward its end. Fair-CCLK has to find samples of equal brightness.
Batches hold few of the rare ones; a bank of all samples (`queue = "all"`) has them. Leakage is the
worst probe of the panel, fitted and measured on the samples of the tail alone.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.common import write_result
from cclk.columns import Column
from cclk.data.dataset import Dataset
from cclk.data.randomness import generator
from cclk.datasets.colored_background import paint
from cclk.datasets.download import ensure
from cclk.datasets.formats import read_labeled_idx
from cclk.datasets.labeled import Floats, Labeled, labeled_dataset
from cclk.evaluation import Samples, evaluate
from cclk.experiments.registry.recipes import FAIR_OURS
from cclk.training.settings import load
from cclk.training.train import train

HOLDOUT = 5000
COMMON: dict[str, object] = {
    "dataset": "colormnist", "encoder": "lenet5", "batch_size": 256, "steps": 1175,
    "augmentation": "digits", "holdout": HOLDOUT, "leakage_penalty": 0.0, "standardize": False,
    "log_every": 1175, **FAIR_OURS, "lr": 6e-3, "temperature": 0.2,
}  # fmt: skip
"""With the recipe of `fair`, which removes a color."""
FAIR: dict[str, object] = {"method": "fair-cclk", "sampler": "uniform"}
ROWS: dict[str, dict[str, object]] = {
    "InfoNCE": {"method": "infonce"},
    "Fair-CCLK, uniform batches": FAIR,
    "Fair-CCLK, batches of neighbors": {**FAIR, "sampler": "local"},
    "Fair-CCLK, queue of 256": {**FAIR, "queue": 256, "ema": 0.9},
    "Fair-CCLK, bank": {**FAIR, "queue": "all", "ema": 0.9},
}
COMMON_VALUES, TAIL_SHARE, DARKEST = 0.1, 0.1, 40.0


def brightness(count: int, seed: int, stream: str) -> torch.Tensor:
    """Return values in 0 to 1: a share of `TAIL_SHARE` above `COMMON_VALUES`, cut at 1."""
    random = generator(seed, "tail", stream)
    near = COMMON_VALUES * random.random(count)
    far = np.minimum(COMMON_VALUES + random.exponential(0.25, count), 1.0)
    tail = random.random(count) < TAIL_SHARE
    return torch.from_numpy(tail * far + ~tail * near).float()


def graymnist(seed: int) -> Dataset:
    """MNIST, padded to 32 x 32, in black on grays."""
    folder = ensure("mnist", None)

    def part(file: str) -> tuple[Labeled, Floats]:
        digits, labels = read_labeled_idx(folder, file)
        z = brightness(len(digits), seed, file)[:, None]
        levels = DARKEST + (255 - DARKEST) * z.expand(-1, 3)
        images = paint(np.pad(digits, ((0, 0), (2, 2), (2, 2))), levels)
        return (images[:, :1].numpy(), labels), z.numpy()

    (train_images, z), (test_images, test_z) = part("train"), part("t10k")
    return labeled_dataset(
        "graymnist",
        train_images,
        test_images,
        classes=tuple("0123456789"),
        holdout=HOLDOUT,
        seed=seed,
        condition=(z, test_z, Column("brightness")),
        description="MNIST digits in black on grays, 32 x 32",
    )


def measured(row: str, seed: int) -> dict[str, float]:
    """Train one run, and return its accuracy and leakage among all samples and in the tail."""
    dataset = graymnist(seed)
    settings = load(overrides={**COMMON, **ROWS[row], "seed": seed})
    with tempfile.TemporaryDirectory() as folder:
        run = train(settings, Path(folder, "run"), quiet=True, dataset=dataset)
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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3, help="runs per row (default: %(default)s)")
    parser.add_argument("--only", choices=ROWS, help="one row only")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()
    names = ROWS if arguments.only is None else (arguments.only,)
    rows: list[dict[str, Any]] = [{"row": row, "settings": ROWS[row], "runs": []} for row in names]
    for seed in range(arguments.seeds):
        for row in rows:
            row["runs"].append(measured(row["row"], seed))
            print(f"seed {seed}, {row['row']}: {json.dumps(row['runs'][-1])}", flush=True)
        write_result(
            arguments.json, "tail", {"common": COMMON | {"dataset": "graymnist"}, "rows": rows}
        )


if __name__ == "__main__":
    main()
