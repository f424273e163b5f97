"""What a condition tells of the class: `python -m benchmarks.purity [--json FILE]`.

The share of positives that are of the class of their anchor, before any training, for the
conditions of `weaksup`: exact nearest neighbors, the weights of WeaklySup-CCLK in random batches,
and k-means clusters. For attributes that are the class and independent noise, also the best
possible clusters, those of the most probable class.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cclk_paper.datasets.garments import CLASSES, draw_attributes
from cclk_paper.experiments.registry import weaksup
from torch import Tensor

import cclk
from benchmarks.common import write_result
from cclk import kernels
from cclk.data.kmeans import kmeans
from cclk.datasets import load

BATCH, BATCHES, QUERIES, NEAREST, NEIGHBORS, CLUSTERS = (
    256,
    20,
    2000,
    (1, 15, 63),
    12.0,
    (10, 60, 200),
)
CONDITIONS: dict[str, tuple[str, Mapping[str, Any]]] = {
    weaksup.COLUMN_FASHION: ("fashion-mnist", weaksup.ATTRIBUTES),
    weaksup.COLUMN_FASHION_FEATURES: ("fashion-mnist", weaksup.MOBILENET_FASHION),
    weaksup.COLUMN_CIFAR: ("cifar10", weaksup.MOBILENET),
}


def in_groups(groups: Tensor, labels: Tensor) -> float:
    """Return the probability that two samples of a group are of the same class."""
    counts = torch.zeros(int(groups.max()) + 1, int(labels.max()) + 1, dtype=torch.float64)
    counts.index_put_((groups.long(), labels), torch.ones(len(labels)).double(), accumulate=True)
    pairs = counts.square().sum(dim=1) / counts.sum(dim=1).clamp_min(1)
    return round(float(pairs.sum() / len(labels)), 4)


def nearest(points: Tensor, labels: Tensor, random: torch.Generator) -> dict[str, float]:
    """Return the share of exact nearest neighbors of the same class, by their number."""
    rows = torch.randperm(len(points), generator=random)[:QUERIES]
    distances = torch.cdist(points[rows], points)
    distances[torch.arange(len(rows)), rows] = torch.inf
    near = distances.topk(max(NEAREST), largest=False).indices
    same = labels[near] == labels[rows, None]
    return {str(count): round(float(same[:, :count].float().mean()), 4) for count in NEAREST}


def in_batches(points: Tensor, labels: Tensor, random: torch.Generator) -> float:
    """Return the weight on samples of the same class in random batches."""
    kernel = kernels.RBF(slice(None), neighbors=NEIGHBORS).fit(points, batch_size=BATCH)
    shares = []
    for _ in range(BATCHES):
        rows = torch.randperm(len(points), generator=random)[:BATCH]
        weights = cclk.conditional_weights(kernel, points[rows], weights="nw")
        same = labels[rows, None] == labels[rows]
        shares.append(float((weights * same).sum(dim=0).mean()))
    return round(float(np.mean(shares)), 4)


def most_probable(attributes: Tensor) -> Tensor:
    """Return the class of which the fewest attributes are wrong."""
    table = draw_attributes(
        np.arange(len(CLASSES), dtype=np.uint8), attributes.shape[1], 0.0, 0, "train"
    )
    wrong = torch.cdist(attributes.float(), torch.from_numpy(table), p=1)
    return wrong.argmin(dim=1)


def measure(name: str) -> dict[str, object]:
    """Return the shares for one condition."""
    dataset_name, options = CONDITIONS[name]
    dataset = load(dataset_name, seed=0, **options)
    labels = torch.as_tensor(np.asarray(dataset.train.y)).long()
    condition = dataset.condition(dataset.train)
    points = condition.standardized().values.float()
    random = torch.Generator().manual_seed(0)
    result: dict[str, object] = {
        "condition": name,
        "nearest": nearest(points, labels, random),
        "kernel": in_batches(points, labels, random),
        "clusters": {
            str(count): in_groups(torch.as_tensor(kmeans(points, count, seed=0)), labels)
            for count in CLUSTERS
        },
    }
    if "attributes" in options:
        result["best_clusters"] = in_groups(most_probable(condition.values), labels)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=CONDITIONS, nargs="+", default=list(CONDITIONS))
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()
    rows = []
    for name in arguments.only:
        rows.append(measure(name))
        print(json.dumps(rows[-1]), flush=True)
    settings: dict[str, Any] = {
        "batch_size": BATCH, "neighbors": NEIGHBORS, "queries": QUERIES, "seed": 0,
    }  # fmt: skip
    write_result(arguments.json, "purity", {"settings": settings, "conditions": rows})


if __name__ == "__main__":
    main()
