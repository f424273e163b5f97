"""What matters in weak supervision: WeaklySup-CCLK with one setting changed at a time.

Measured on validation only: for selecting the defaults of training and what `weaksup` compares.
"""

from __future__ import annotations

from cclk_paper.experiments.plan import Cell, Experiment, Overrides, Plan, Size
from cclk_paper.experiments.registry.recipes import CIFAR_SHORT, DIGITS_SMOKE, SEGMENTS
from cclk_paper.experiments.registry.weaksup import COLUMN_CIFAR, GROUPS, MOBILENET, OUTER

CCLK: Overrides = {**OUTER, "neighbors": 12.0, **GROUPS[0]}
VARIANTS: dict[str, Overrides] = {
    "start": CCLK,
    "temperature 0.3": {**CCLK, "temperature": 0.3},
    "temperature 0.1": {**CCLK, "temperature": 0.1},
    "groups of 16 neighbors": {**CCLK, **GROUPS[1]},
    "bandwidth of 3 neighbors": {**CCLK, "neighbors": 3.0},
    "own share 0.3": {**CCLK, "own_share": 0.3},
    "inner, as in the paper": {**CCLK, "positives": "inner"},
    "uniform batches": {**CCLK, "sampler": "uniform"},
    "cosine, weights loo": {**CCLK, "kernel": "cosine", "weights": "loo"},
}


def plan(size: Size) -> Plan:
    """Every variant; one seed, which is enough for large effects."""
    if size == "smoke":
        settings = {**DIGITS_SMOKE, "dataset_options": SEGMENTS, **CCLK}
        return Plan((Cell("start", "digits, seven segments", settings),), seeds=1)
    bed = {**CIFAR_SHORT, "dataset_options": MOBILENET}
    return Plan(
        tuple(Cell(row, COLUMN_CIFAR, {**bed, **change}) for row, change in VARIANTS.items()),
        seeds=1,
        split="validation",
        note=(
            "one setting changed at a time; the start has positives outer with an own share of 0.1,"
            " the weights nw, a bandwidth of 12 neighbors and groups of 4 neighbors"
        ),
    )


EXPERIMENT = Experiment(
    "weaksup-recipe", "What matters in weak supervision", "beyond the paper", plan
)
