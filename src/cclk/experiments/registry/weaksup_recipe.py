"""What matters in weak supervision: WeaklySup-CCLK with one setting changed at a time.

Measured on validation only: for selecting the defaults of training and what `weaksup` compares.
"""

from __future__ import annotations

from cclk.experiments.plan import Cell, Experiment, Overrides, Plan, Size
from cclk.experiments.registry.recipes import DIGITS_SMOKE, FASHION, SEGMENTS
from cclk.experiments.registry.weaksup import ATTRIBUTES, COLUMN_FASHION, OUTER

CCLK: Overrides = {**OUTER, "neighbors": 12.0}
VARIANTS: dict[str, Overrides] = {
    "start": CCLK,
    "inner, as in the paper": {**CCLK, "positives": "inner"},
    "5 neighbors": {**CCLK, "neighbors": 5.0},
    "30 neighbors": {**CCLK, "neighbors": 30.0},
    "100 neighbors": {**CCLK, "neighbors": 100.0},
    "own share 0.3": {**CCLK, "own_share": 0.3},
    "weights loo": {**CCLK, "weights": "loo"},
    "temperature 0.1": {**CCLK, "temperature": 0.1},
    "temperature 0.5": {**CCLK, "temperature": 0.5},
    "groups of 16 neighbors": {**CCLK, "sampler": "local"},
    "groups of 4 neighbors": {**CCLK, "sampler": "local", "group": 4},
}


def plan(size: Size) -> Plan:
    """Every variant; one seed, which is enough for large effects."""
    if size == "smoke":
        settings = {**DIGITS_SMOKE, "dataset_options": SEGMENTS, **CCLK}
        return Plan((Cell("start", "digits, seven segments", settings),), seeds=1)
    bed = {**FASHION, "dataset_options": ATTRIBUTES}
    return Plan(
        tuple(Cell(row, COLUMN_FASHION, {**bed, **change}) for row, change in VARIANTS.items()),
        seeds=1,
        split="validation",
        note=(
            "one setting changed at a time; the start has positives outer with an own share of 0.1,"
            " 12 neighbors, the weights nw and uniform batches"
        ),
    )


EXPERIMENT = Experiment(
    "weaksup-recipe", "What matters in weak supervision", "beyond the paper", plan
)
