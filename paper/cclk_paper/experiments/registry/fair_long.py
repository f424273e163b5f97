"""Fair-CCLK on ColorMNIST with three times the paper's budget, without a comparison."""

from __future__ import annotations

from dataclasses import replace

from cclk_paper.experiments.plan import Cell, Experiment, Overrides, Plan, Size
from cclk_paper.experiments.registry.fair import OURS
from cclk_paper.experiments.registry.fair import plan as fair_plan
from cclk_paper.experiments.registry.recipes import FAIR_CHOICES, FAIR_RECIPE, FAIR_SMOKE

STEPS = 3525
CHOICES: tuple[Overrides, ...] = FAIR_CHOICES[-2:]


def plan(size: Size) -> Plan:
    """The run of `fair` and one with three times the steps, which selects its rate separately."""
    full = fair_plan(size)
    short = full.cell("Fair-CCLK", OURS)
    steps = {"steps": FAIR_SMOKE["steps"] if size == "smoke" else STEPS}
    cells = (
        Cell("the paper's budget", "Fair-CCLK", short.settings, choices=short.choices),
        Cell("three times as many steps", "Fair-CCLK", {**FAIR_RECIPE, **steps}, choices=CHOICES),
    )
    note = "the paper's own data and network; the colors are redrawn"
    return replace(full, cells=cells, note=note)


EXPERIMENT = Experiment("fair-long", "How far removal goes", "beyond the paper", plan)
