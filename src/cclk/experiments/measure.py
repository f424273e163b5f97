"""The measures of an experiment: what is read from the encoder of a run, as flat numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from cclk.data.dataset import Dataset, Split
from cclk.evaluation import Accuracy, Estimate, Leakage, Samples, evaluate
from cclk.evaluation.parts import parts_of

Measure = Literal[
    "accuracy", "knn", "linear_r2", "nonlinear_r2", "linear_mse", "nonlinear_mse", "baseline_mse"
]
READ: dict[Measure, Callable[[Accuracy, Leakage], Estimate | None]] = {
    "accuracy": lambda accuracy, _: accuracy.linear,
    "knn": lambda accuracy, _: accuracy.knn,
    "linear_r2": lambda _, leakage: leakage.linear,
    "nonlinear_r2": lambda _, leakage: leakage.nonlinear,
    "linear_mse": lambda _, leakage: leakage.linear_mse,
    "nonlinear_mse": lambda _, leakage: leakage.nonlinear_mse,
    "baseline_mse": lambda _, leakage: leakage.baseline,
}
LEAKS: frozenset[Measure] = frozenset(READ) - {"accuracy", "knn"}
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
    dataset: Dataset,
    embed: Embed,
    wanted: Sequence[Measure],
    split: Literal["test", "validation"],
    seed: int,
) -> dict[Measure, float]:
    """Probe the encoder: fitted on train, reported on the split asked for.

    Looking at validation, a part of the training split chooses the probe's strength, and the test
    split is not touched.
    """
    check(dataset, wanted, split)
    reported = getattr(dataset, split)
    held = dataset.validation if split == "test" else reported.subset(torch.arange(0))
    samples = [
        Samples(embed(part)[0], part.y, part.condition) for part in (dataset.train, held, reported)
    ]
    leaks = not LEAKS.isdisjoint(wanted)
    found = evaluate(
        samples[0],
        samples[1],
        samples[2],
        dataset.condition_kind,
        seed,
        bootstrap=1,
        leakage=leaks,
        parts=parts_of(dataset),
    )
    leakage = next(iter(found.leakage.values()), Leakage())
    values = {name: READ[name](found.accuracy, leakage) for name in wanted}
    constant = next((name for name, value in values.items() if value is None), None)
    if constant:
        raise ValueError(
            f"{constant} cannot be measured on {dataset.name}: its condition is constant"
        )
    return {name: value.value for name, value in values.items() if value}


def check(
    dataset: Dataset, wanted: Sequence[Measure], split: Literal["test", "validation"]
) -> None:
    """An error if what is wanted cannot be measured on this dataset, however well it is trained on."""
    if not len(getattr(dataset, split)):
        raise ValueError(
            f"the {split} split of {dataset.name} is empty: hold some training rows out (--holdout)"
        )
    leak = next((name for name in wanted if name in LEAKS), None)
    if leak is None:
        return
    if not dataset.columns:
        raise ValueError(f"{leak} cannot be measured on {dataset.name}: it has no condition")
    if dataset.condition_kind == "mixed":
        raise ValueError(
            f"{dataset.name} has {len(dataset.columns)} condition columns, and a leak is measured"
            " of one: choose one"
        )
    if dataset.condition_kind != "continuous":
        raise ValueError(
            f"{leak} cannot be measured on {dataset.name}: its condition is categorical, and it is"
            " for numbers that vary"
        )
