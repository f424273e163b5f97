"""The bandwidth of the RBF kernel: fixed, as in the paper, or fitted to the batch.

A kernel with a fixed sigma^2 on a condition times s equals one with sigma^2 / s^2 on the condition.
The fitted kernel is run on conditions multiplied by s.
"""

from __future__ import annotations

import math

from cclk_paper.experiments.plan import Cell, Experiment, Overrides, Plan, Size
from cclk_paper.experiments.registry.recipes import CUB, DIGITS_SMOKE, FASHION, SEGMENTS
from cclk_paper.experiments.registry.weaksup import ATTRIBUTES, INNER

PAPER = {1.0: (3.0, 1.5), 10.0: (30.9, 0.3), 100.0: (32.2, 0.4), 500.0: (32.0, 0.2)}
PAPER |= {1000.0: (24.4, 0.9)}
SCALES = (1e-3, 1e-1, 1.0, 10.0, 1e3)
FIXED, AUTO = "RBF, sigma² fixed", 'RBF, length_scale="auto"'


def sigma(squared: float) -> Overrides:
    """The paper's sigma^2 is 2 length_scale^2."""
    return {"length_scale": round(math.sqrt(squared / 2), 6)}


def plan(size: Size) -> Plan:
    """The paper's grid on CUB; at other sizes the condition in units from 1e-3 to 1e3."""
    shared: Overrides = {**INNER, "kernel": "rbf", "standardize": False}
    if size == "paper":
        cells = [
            Cell(FIXED, "CUB", {**CUB, **shared, **sigma(x)}, x=x, paper={"accuracy": accuracy})
            for x, accuracy in PAPER.items()
        ]
        cells += [
            Cell(AUTO, "CUB", {**CUB, **shared, "condition_scale": round(x**-0.5, 6)}, x=x)
            for x in (1.0, 1000.0)
        ]
        return Plan(tuple(cells), seeds=3)
    column, base, options, scales = (
        ("digits, seven segments", DIGITS_SMOKE, SEGMENTS, (1e-3, 1e3))
        if size == "smoke"
        else ("Fashion-MNIST, noisy attributes", FASHION, ATTRIBUTES, SCALES)
    )
    rescaled = []
    for scale in scales:
        settings = {**base, **shared, "dataset_options": options, "condition_scale": scale}
        rescaled += [
            Cell(FIXED, column, {**settings, **sigma(8.0)}, x=scale),
            Cell(AUTO, column, settings, x=scale),
        ]
    return Plan(
        tuple(rescaled),
        seeds=1 if size == "smoke" else 3,
        note="sigma² = 8 is fixed while the condition is multiplied by 0.001 to 1,000",
    )


EXPERIMENT = Experiment(
    "weaksup-bandwidth",
    "WeaklySup-CCLK: the bandwidth",
    "Table 7",
    plan,
    axis="the condition is multiplied by (paper: sigma²)",
)
