"""The measures of an experiment: what is read from the encoder of a run, as flat numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from cclk.data.dataset import Dataset, Split
from cclk.evaluation import Samples, evaluate
from cclk.evaluation.parts import parts_of

Measure = Literal["accuracy", "knn", "linear_r2", "nonlinear_r2", "linear_mse", "nonlinear_mse", "baseline_mse"]
PATHS: dict[Measure, str] = {
    "accuracy": "accuracy.linear",
    "knn": "accuracy.knn",
    "linear_r2": "leakage.linear.r2",
    "nonlinear_r2": "leakage.nonlinear.r2",
    "linear_mse": "leakage.linear.mse",
    "nonlinear_mse": "leakage.nonlinear.mse",
    "baseline_mse": "leakage.baseline_mse",
}
WORDS: dict[Measure, str] = {
    "accuracy": "accuracy, %",
    "knn": "kNN accuracy, %",
    "linear_r2": "condition R², linear",
    "nonlinear_r2": "condition R², non-linear",
    "linear_mse": "condition MSE, linear",
    "nonlinear_mse": "condition MSE, non-linear",
    "baseline_mse": "MSE of the mean",
}
LOWER_IS_BETTER: frozenset[Measure] = frozenset({"linear_r2", "nonlinear_r2"})
Embed = Callable[[Split], tuple[Tensor, Tensor]]


def measure(
    dataset: Dataset, embed: Embed, wanted: Sequence[Measure], split: Literal["test", "validation"], seed: int
) -> dict[Measure, float]:
    """Probe the encoder: fitted on train, reported on the split asked for.

    Looking at validation, a part of the training split chooses the probe's strength, and the test split is not touched.
    """
    check(dataset, wanted, split)
    reported = getattr(dataset, split)
    held = dataset.validation if split == "test" else reported.subset(torch.arange(0))
    samples = [Samples(embed(part)[0], part.y, part.condition) for part in (dataset.train, held, reported)]
    leaks = any(PATHS[name].startswith("leakage") for name in wanted)
    found = evaluate(samples[0], samples[1], samples[2], dataset.condition_kind, seed, bootstrap=1, leakage=leaks, parts=parts_of(dataset))
    values: dict[Measure, float] = {}
    for name in wanted:
        place = found
        for step in PATHS[name].split("."):
            if step not in place:
                raise ValueError(f"{name} cannot be measured on {dataset.name}: its condition is constant")
            place = place[step]
        values[name] = place["value"]
    return values


def check(dataset: Dataset, wanted: Sequence[Measure], split: Literal["test", "validation"]) -> None:
    """An error if what is wanted cannot be measured on this dataset, however well it is trained on."""
    if not len(getattr(dataset, split)):
        raise ValueError(f"the {split} split of {dataset.name} is empty: hold some training rows out (--holdout)")
    leak = next((name for name in wanted if PATHS[name].startswith("leakage")), None)
    if leak is None:
        return
    if not dataset.columns:
        raise ValueError(f"{leak} cannot be measured on {dataset.name}: it has no condition")
    if dataset.condition_kind == "mixed":
        raise ValueError(f"{dataset.name} has {len(dataset.columns)} condition columns, and a leak is measured of one: choose one")
    if dataset.condition_kind != "continuous":
        raise ValueError(f"{leak} cannot be measured on {dataset.name}: its condition is categorical, and it is for numbers that vary")
