"""What matters in weak supervision: WeaklySup-CCLK with one setting changed at a time.

Measured on validation only, on short beds: for selecting the defaults of training and the settings
of `weaksup`. The first rows show what the beds can show: no condition, clusters, and the answer.
"""

from __future__ import annotations

from cclk.experiments.plan import Cell, Experiment, Overrides, Plan, Size
from cclk.experiments.registry.recipes import CIFAR, DIGITS_SMOKE, FASHION, SEGMENTS
from cclk.experiments.registry.weaksup import (
    ATTRIBUTES,
    COLUMN_CIFAR,
    COLUMN_FASHION,
    INFONCE,
    MOBILENET,
    ORACLE,
    ORACLE_ROW,
)

CCLK: Overrides = {
    "method": "weaksup-cclk", "kernel": "rbf", "neighbors": 12.0, "weights": "nw",
    "positives": "outer", "own_share": 0.1,
}  # fmt: skip
BASE_ROW = "start"
UNCONDITIONED = (INFONCE, ORACLE_ROW)
"""Rows on the dataset itself, whose condition is the label."""
VARIANTS: dict[str, Overrides] = {
    INFONCE: {"method": "infonce"},
    ORACLE_ROW: ORACLE,
    "WeaklySup-InfoNCE, 60 clusters": {"method": "weaksup-infonce", "clusters": 60},
    BASE_ROW: CCLK,
    "inner, as in the paper": {**CCLK, "positives": "inner"},
    "5 neighbors": {**CCLK, "neighbors": 5.0},
    "30 neighbors": {**CCLK, "neighbors": 30.0},
    "own share 0.3": {**CCLK, "own_share": 0.3},
    "weights loo": {**CCLK, "weights": "loo"},
    "temperature 0.1": {**CCLK, "temperature": 0.1},
    "temperature 0.5": {**CCLK, "temperature": 0.5},
    "groups of 16 neighbors": {**CCLK, "sampler": "local"},
    "groups of 4 neighbors": {**CCLK, "sampler": "local", "group": 4},
}


def plan(size: Size) -> Plan:
    """Every variant on both beds; one seed, which is enough for large effects."""
    if size == "smoke":
        settings = {**DIGITS_SMOKE, "dataset_options": SEGMENTS, **CCLK}
        return Plan((Cell(BASE_ROW, "digits, seven segments", settings),), seeds=1)
    beds: dict[str, tuple[Overrides, Overrides]] = {
        COLUMN_FASHION: (FASHION, {"dataset_options": ATTRIBUTES}),
        COLUMN_CIFAR: ({**CIFAR, "steps": 400}, {"dataset_options": MOBILENET}),
    }
    cells = tuple(
        Cell(row, column, {**bed, **(condition if row not in UNCONDITIONED else {}), **change})
        for column, (bed, condition) in beds.items()
        for row, change in VARIANTS.items()
    )
    return Plan(
        cells,
        seeds=1,
        split="validation",
        note=(
            "one setting changed at a time; the start has positives outer with an own share of 0.1,"
            " 12 neighbors and the weights nw; CIFAR-10 for 400 steps"
        ),
    )


EXPERIMENT = Experiment(
    "weaksup-recipe", "What matters in weak supervision", "beyond the paper", plan
)
