"""Removing a condition from features: what each method keeps of the label at the same leakage.

Every method of a dataset has the encoder, the data and the budget of its recipe, and at most three
values of its strength.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from cclk_paper.experiments.erasure import Erasure
from cclk_paper.experiments.measure import Measure
from cclk_paper.experiments.plan import Cell, Experiment, Frontier, Overrides, Plan, Size
from cclk_paper.experiments.registry.recipes import SMOKE_ROWS


@dataclass(frozen=True)
class Recipe:
    """What all methods of a dataset share."""

    settings: Overrides
    """Encoder, augmentation and budget."""
    utility: Measure = "accuracy"
    seeds: int = 5
    noise: float = 0.0
    """`feature_noise` of the rows that have it; 0 for datasets of images, which have none."""
    flat: bool = False
    """Whether the inputs are the columns of a table, which can be erased without an encoder."""
    rows: int = 0
    """`penalty_rows` of the rows with our penalty: cheap for tables."""
    strengths: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Row -> strengths, where those of `STRENGTHS` cannot be used, or of rows it does not have."""


INFONCE = "InfoNCE"
CLUSTERS = "Fair-InfoNCE"
FAIR = "Fair-CCLK"
PENALTY = "Fair-CCLK + penalty"
NOISE = "Fair-CCLK + penalty + noise"
NOISE_ONLY = "InfoNCE + noise"
LOO = "Fair-CCLK + penalty, weights loo"
KEEP = "Fair-CCLK + penalty, label known"
REVERSAL = "InfoNCE + gradient reversal"
REVERSAL_NOISE = "InfoNCE + gradient reversal + noise"
HSIC = "InfoNCE + HSIC"
ICL = "InfoNCE + inverse contrast"
LEACE = "InfoNCE, then LEACE"
CORRELATION = "CorrelationRemover"

IMAGES: Overrides = {
    "encoder": "lenet5", "batch_size": 256, "steps": 400, "lr": 3e-3,
    "temperature": 0.2, "weights": "nw", "log_every": 100,
}  # fmt: skip
TABLES: Overrides = {
    "encoder": "mlp", "feature_width": 8,
    "augmentation": "vectors", "augmentation_options": {"mask": 0.6},
    "batch_size": 256, "steps": 400, "lr": 3e-3,
    "temperature": 0.2, "weights": "nw", "log_every": 100,
}  # fmt: skip
RECIPES: dict[str, Recipe] = {
    # The preset colormnist-fair: the paper's budget, and the optimizer that `fair` selected.
    "colormnist": Recipe(
        {
            **IMAGES,
            "steps": 1175,
            "optimizer": "sgd",
            "lr": 0.1,
            "weight_decay": 3e-3,
            "warmup": 2,
            "augmentation": "digits",
            "augmentation_options": {"crop": [0.25, 1.0]},
        },
        # Unlike Adam, SGD takes larger steps against a stronger penalty: the rivals' diverged.
        strengths={REVERSAL: (0.1, 0.3, 1), HSIC: (3, 10, 30), ICL: (1, 10, 100)},
    ),
    "rotated-fashion": Recipe({**IMAGES, "feature_width": 8, "augmentation": "simclr"}),
    "adult": Recipe(
        {**TABLES, "feature_width": 4},
        utility="auc",
        noise=0.35,
        rows=512,
        flat=True,
        # The one rival that was also measured with the noise of our row.
        strengths={REVERSAL_NOISE: (1, 5, 20)},
    ),
    "crime": Recipe(TABLES, utility="auc", noise=0.35, flat=True),
    "health": Recipe(
        {**TABLES, "feature_width": 4},
        utility="auc",
        seeds=3,
        noise=0.35,
        flat=True,
        rows=512,
        strengths={CLUSTERS: (3, 5, 9)},  # there are only 9 ages
    ),
    "cells": Recipe({**TABLES, "batch_size": 128}, noise=0.35, flat=True),
}
"""Dataset -> recipe. Change them here: rows get them as they are."""

STRENGTHS: dict[str, tuple[float, ...]] = {
    CLUSTERS: (5, 10, 20),
    FAIR: (3, 12, 48),
    PENALTY: (1, 3, 10),
    NOISE: (2, 5, 10),
    LOO: (1, 3, 10),
    KEEP: (1, 2, 5),
    NOISE_ONLY: (0.25, 0.5, 1.0),
    REVERSAL: (1, 5, 20),
    HSIC: (10, 30, 100),
    ICL: (10, 100, 1000),
    CORRELATION: (0.25, 0.5, 1.0),
}
"""Row -> clusters, neighbors, strength of the penalty, scale of the noise, or alpha: the same
number for each.
"""

SMOKE: Overrides = {"batch_size": 64, "steps": 4, "warmup": 0}


def _settings(row: str, strength: float, recipe: Recipe) -> Overrides:
    """The settings of a row that are not of the recipe."""
    penalized: Overrides = {"method": "fair-cclk", "leakage_penalty": strength}
    if recipe.rows:
        penalized = {**penalized, "penalty_rows": recipe.rows}
    rival = {"method": "infonce", "leakage_penalty": strength}
    # Features that need to predict the label only can have more noise.
    noise = {"feature_noise": recipe.noise} if recipe.noise else {}
    more_noise = {"feature_noise": round(1.5 * recipe.noise, 3)} if recipe.noise else {}
    return {
        CLUSTERS: {"method": "fair-infonce", "clusters": round(strength)},
        FAIR: {"method": "fair-cclk", "neighbors": strength},
        PENALTY: penalized,
        NOISE: {**penalized, **noise},
        LOO: {**penalized, "weights": "loo"},
        KEEP: {**penalized, **more_noise, "keep": "label"},
        NOISE_ONLY: {"method": "infonce", "feature_noise": strength},
        REVERSAL: {**rival, "penalty": "adversary"},
        REVERSAL_NOISE: {**rival, **noise, "penalty": "adversary"},
        HSIC: {**rival, "penalty": "hsic"},
        ICL: {**rival, "penalty": "icl"},
    }.get(row, {"method": "infonce"})


def cells(dataset: str, recipe: Recipe) -> Iterator[Cell]:
    """All methods on a dataset.

    Args:
        dataset: Name of the dataset, which is the column.
        recipe: Settings of all its cells.
    """
    shared = {"dataset": dataset, **recipe.settings}
    infonce = {**shared, "method": "infonce"}
    yield Cell(INFONCE, dataset, infonce)
    for row, strengths in (STRENGTHS | dict(recipe.strengths)).items():
        if row in (NOISE, NOISE_ONLY) and not recipe.noise:
            continue
        for strength in strengths:
            settings, erase = {**shared, **_settings(row, strength, recipe)}, None
            if row == CORRELATION:
                erase = Erasure("correlation-remover", strength, inputs=recipe.flat)
                settings = {"dataset": dataset, "method": "infonce"} if recipe.flat else infonce
            yield Cell(row, dataset, settings, x=strength, erase=erase)
    yield Cell(LEACE, dataset, infonce, erase=Erasure("leace"))


def plan(size: Size) -> Plan:
    """All datasets; at size smoke with a few steps and rows, and one strength of each method."""
    recipes = RECIPES
    planned = [cell for name, recipe in recipes.items() for cell in cells(name, recipe)]
    frontier = Frontier(
        utility={name: recipe.utility for name, recipe in recipes.items()},
        reference=INFONCE,
        ours=(FAIR, PENALTY, NOISE, LOO, KEEP),
        labeled=(KEEP,),
    )
    measures: tuple[Measure, ...] = ("accuracy", "worst_r2")
    if size == "smoke":
        first = {(cell.row, cell.column): cell for cell in reversed(planned)}
        small = {
            position: replace(cell, settings={**cell.settings, **SMOKE})
            for position, cell in first.items()
        }
        return Plan(
            tuple(reversed(small.values())),
            seeds=1,
            measures=measures,
            train_on_holdout=False,
            note="a few steps and rows: shows that everything runs",
            frontier=frontier,
            rows=SMOKE_ROWS,
        )
    return Plan(
        tuple(planned),
        seeds=5,
        measures=measures,
        train_on_holdout=False,
        frontier=frontier,
        column_seeds={name: recipe.seeds for name, recipe in recipes.items()},
    )


EXPERIMENT = Experiment(
    "removal",
    "Removing a condition: utility at the same leakage",
    "beyond the paper",
    plan,
    axis="strength",
)
