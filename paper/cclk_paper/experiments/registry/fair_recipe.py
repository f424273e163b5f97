"""Ablations on ColorMNIST: the recipe with one setting changed at a time.

Measured on held-out training digits only.
"""

from __future__ import annotations

from cclk_paper.experiments.measure import Measure
from cclk_paper.experiments.plan import Cell, Experiment, Overrides, Plan, Size
from cclk_paper.experiments.registry.recipes import FAIR_BUDGET, FAIR_RECIPE, FAIR_SMOKE, LEAKAGE

SGD: Overrides = {"optimizer": "sgd"}
SGD_DECAYS = {
    0.025: (1e-3,),
    0.05: (1e-4, 1e-3, 3e-3),
    0.1: (1e-4, 1e-3, 3e-3, 1e-2),
    0.2: (3e-3,),
}
STUDIES: dict[str, dict[str, Overrides]] = {
    "budget, steps": {f"{steps:,}": {"steps": steps} for steps in (1175, 5875)},
    "weights": {name: {"weights": name} for name in ("nw", "loo", "authors", "paper")},
    "bandwidth, effective neighbors": {
        f"{neighbors:g}": {"neighbors": neighbors} for neighbors in (1.5, 3.0, 12.0, 48.0)
    },
    "batches": (
        {"uniform": {"sampler": "uniform"}}
        | {f"groups of {group}": {"group": group} for group in (8, 16, 32, 64)}
    ),
    "batch size": {f"{size}": {"batch_size": size} for size in (128, 256, 512)},
    "queue of a momentum encoder": {
        f"{rows:,}": {"queue": rows, "ema": 0.5} for rows in (1024, 4096)
    },
    "learning rate": {f"{lr:g}": {"lr": lr} for lr in (1e-3, 3e-3, 6e-3, 1e-2)},
    "warm-up, epochs": {f"{epochs}": {"warmup": epochs} for epochs in (0, 2)},
    "optimizer": {
        "AdamW": {},
        "AdamW without decay": {"weight_decay": 0.0},
        "AdamW, decay 0.3": {"weight_decay": 0.3},
        "AdamW, decay 0.3, rate 0.01": {"weight_decay": 0.3, "lr": 1e-2},
        "AdamW, decay 0.6, rate 0.01": {"weight_decay": 0.6, "lr": 1e-2},
        **{
            f"SGD, rate {lr:g}, decay {decay:g}": {**SGD, "lr": lr, "weight_decay": decay}
            for lr, decays in SGD_DECAYS.items()
            for decay in decays
        },
        "LARS": {"optimizer": "lars", "lr": 1.5, "weight_decay": 1e-4},
    },
    "temperature": {f"{t:g}": {"temperature": t} for t in (0.05, 0.2, 0.5)},
    "head between encoder and loss": {
        head: {"head": head} for head in ("linear-bn", "mlp", "linear", "none")
    },
    "crops": {
        f"{low:.0%} to 100 %": {"augmentation_options": {"crop": [low, 1.0]}}
        for low in (0.08, 0.25, 0.6)
    },
}


def plan(size: Size) -> Plan:
    """Every study; one seed, which is enough for large effects."""
    smoke = size == "smoke"
    budget = FAIR_SMOKE if smoke else FAIR_BUDGET
    cells = []
    for study, variants in STUDIES.items():
        for name, change in list(variants.items())[: 1 if smoke else None]:
            cells.append(Cell(name, study, {**FAIR_RECIPE, **change, **(budget if smoke else {})}))
    measures: tuple[Measure, ...] = ("accuracy", "knn") if smoke else LEAKAGE
    return Plan(
        tuple(cells),
        seeds=1,
        common=budget,
        measures=measures,
        split="validation",
        note="a recipe with AdamW, one thing changed at a time",
    )


EXPERIMENT = Experiment("fair-recipe", "What makes removal work", "beyond the paper", plan)
