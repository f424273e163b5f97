"""What matters when a condition is removed with the penalty: one setting changed at a time.

Measured on validation only, on all datasets of the benchmark of removal: for selecting the levels
of `remove` and the defaults of own tables.
"""

from __future__ import annotations

from cclk_paper.experiments.measure import Measure
from cclk_paper.experiments.plan import Cell, Experiment, Overrides, Plan, Size
from cclk_paper.experiments.registry.recipes import FAIR_SMOKE, SMOKE_ROWS
from cclk_paper.experiments.registry.removal import RECIPES

BASE: Overrides = {
    "method": "fair-cclk", "optimizer": "adam", "lr": 3e-3, "weight_decay": 0.0,
    "temperature": 0.2, "weights": "nw", "leakage_penalty": 5.0, "steps": 400, "log_every": 100,
}  # fmt: skip
IMAGES: Overrides = {**BASE, "feature_width": 16}
TABLES: Overrides = {
    **BASE, "encoder": "mlp", "augmentation": "vectors", "augmentation_options": {"mask": 0.6},
    "feature_width": 8,
}  # fmt: skip
KEPT = ("encoder", "augmentation", "augmentation_options", "batch_size")
"""Settings of images that are those of the benchmark; of tables only the batch size is."""
BASE_ROW = "start"
VARIANTS: dict[str, Overrides] = {
    BASE_ROW: {},
    "half the width": {},
    "twice the width": {},
    "learning rate 0.001": {"lr": 1e-3},
    "learning rate 0.01": {"lr": 1e-2},
    "AdamW, decay 0.1": {"optimizer": "adamw", "weight_decay": 0.1},
    "SGD, rate 0.1, decay 0.003": {"optimizer": "sgd", "lr": 0.1, "weight_decay": 3e-3},
    "temperature 0.1": {"temperature": 0.1},
    "temperature 0.5": {"temperature": 0.5},
    "1,175 steps": {"steps": 1175},
}
"""The benchmark of removal has others: the strength of the penalty, the weights, and noise."""
HALF_NOISE = "half the width, noise 0.2"
WIDTHS = {"half the width": 0.5, "twice the width": 2.0, HALF_NOISE: 0.5}
TABLE_VARIANTS: dict[str, Overrides] = {
    "mask 0.2": {"augmentation_options": {"mask": 0.2}},
    "noise 0.2": {"feature_noise": 0.2},
    HALF_NOISE: {"feature_noise": 0.2},
}
"""Of datasets of vectors only."""
ELSEWHERE = ("learning rate", "AdamW", "temperature", "1,175 steps")
"""What `fair-recipe` and the benchmark have for ColorMNIST already: runs of two to five minutes."""


def cells(dataset: str) -> list[Cell]:
    """All variants on a dataset, which is the column."""
    recipe = RECIPES[dataset]
    kept = ("batch_size",) if recipe.flat else KEPT
    own = {name: recipe.settings[name] for name in kept if name in recipe.settings}
    base = {**(TABLES if recipe.flat else IMAGES), **own, "dataset": dataset}
    width = float(str(base["feature_width"]))
    changes = VARIANTS | (TABLE_VARIANTS if recipe.flat else {})
    for row, factor in WIDTHS.items():
        if row in changes:
            changes[row] = {**changes[row], "feature_width": int(width * factor)}
    return [
        Cell(row, dataset, {**base, **change})
        for row, change in changes.items()
        if dataset != "colormnist" or not row.startswith(ELSEWHERE)
    ]


def plan(size: Size) -> Plan:
    """Every variant on every dataset; one seed, which is enough for large effects."""
    measures: tuple[Measure, ...] = ("accuracy", "worst_r2")
    if size == "smoke":
        change = {"leakage_penalty": 1.0, "feature_width": 8}
        return Plan(
            (Cell(BASE_ROW, "colordigits", {**FAIR_SMOKE, "method": "fair-cclk", **change}),),
            seeds=1,
            measures=measures,
            split="validation",
            note="a few steps: shows that everything runs",
            rows=SMOKE_ROWS,
        )
    return Plan(
        tuple(cell for dataset in RECIPES for cell in cells(dataset)),
        seeds=1,
        measures=measures,
        split="validation",
        note=(
            "one setting changed at a time; the first row has Adam with a rate of 0.003, a"
            " temperature of 0.2, a penalty of 5 and 400 steps; images have 16 features, tables 8"
            " and a mask of 0.6"
        ),
        more={name: ("auc",) for name, recipe in RECIPES.items() if recipe.utility == "auc"},
    )


EXPERIMENT = Experiment(
    "removal-recipe", "What matters with the leakage penalty", "beyond the paper", plan
)
