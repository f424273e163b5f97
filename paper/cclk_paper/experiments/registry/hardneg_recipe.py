"""What matters with hard negatives: HardNeg-CCLK and its rivals with one setting changed at a time.

Measured on validation only, on the short bed: for selecting the settings of `hardneg`. The oracle
row is that of `weaksup`.
"""

from __future__ import annotations

from cclk_paper.experiments.plan import Cell, Experiment, Overrides, Plan, Size
from cclk_paper.experiments.registry.hardneg import (
    COLUMN,
    FITTED,
    HUNDRED,
    MIXED,
    RELEASE_KERNEL,
    SOFT,
)
from cclk_paper.experiments.registry.recipes import CIFAR_SHORT, DIGITS_SMOKE
from cclk_paper.experiments.registry.weaksup import ORACLE, ORACLE_ROW

BETA_1: Overrides = {"method": "hardneg-infonce", "beta": 1.0}
"""Its tau_plus is 0.1 by default; that of HardNeg-CCLK is 0."""
VARIANTS: dict[str, Overrides] = {
    "InfoNCE": {"method": "infonce"},
    ORACLE_ROW: ORACLE,
    "HardNeg-InfoNCE, beta 1": BETA_1,
    "HardNeg-InfoNCE, beta 0.5": {**BETA_1, "beta": 0.5},
    "HardNeg-InfoNCE, beta 2": {**BETA_1, "beta": 2.0},
    "HardNeg-InfoNCE, beta 4": {**BETA_1, "beta": 4.0},
    "HardNeg-InfoNCE, beta 1, tau_plus 0": {**BETA_1, "tau_plus": 0.0},
    "HardNeg-InfoNCE, beta 0.5, tau_plus 0": SOFT,
    "release's kernel": RELEASE_KERNEL,
    "fitted, 12 neighbors": {**FITTED, "neighbors": 12.0},
    "fitted, 100 neighbors": HUNDRED,
    "100 neighbors, half uniform": MIXED,
    "100 neighbors, tau_plus 0.1": {**HUNDRED, "tau_plus": 0.1},
    "100 neighbors, half uniform, tau_plus 0.1": {**MIXED, "tau_plus": 0.1},
}  # fmt: skip


def plan(size: Size) -> Plan:
    """Every variant; one seed, which is enough for large effects."""
    if size == "smoke":
        return Plan((Cell("fitted, 12 neighbors", "digits", {**DIGITS_SMOKE, **FITTED}),), seeds=1)
    return Plan(
        tuple(Cell(row, COLUMN, {**CIFAR_SHORT, **change}) for row, change in VARIANTS.items()),
        seeds=1,
        split="validation",
        note="400 steps; kernels fitted to each batch",
    )


EXPERIMENT = Experiment(
    "hardneg-recipe", "What matters with hard negatives", "beyond the paper", plan
)
