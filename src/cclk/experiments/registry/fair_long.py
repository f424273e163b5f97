"""How far removal goes on ColorMNIST if the encoder is given three times the paper's budget.
Fair-CCLK only: nothing is compared here.
"""

from __future__ import annotations

from cclk.experiments.plan import Cell, Experiment, Overrides, Plan, Size
from cclk.experiments.registry.fair import OURS
from cclk.experiments.registry.fair import plan as fair_plan
from cclk.experiments.registry.recipes import FAIR_CHOICES, FAIR_RECIPE, FAIR_SMOKE

STEPS = 3525
CHOICES: tuple[Overrides, ...] = FAIR_CHOICES[-2:]


def plan(size: Size) -> Plan:
    """The run of `fair` and one of three times the steps, which chooses its rate anew."""
    whole = fair_plan(size)
    short = next(cell for cell in whole.cells if (cell.row, cell.column) == ("Fair-CCLK", OURS))
    steps = {"steps": FAIR_SMOKE["steps"] if size == "smoke" else STEPS}
    cells = (
        Cell("the paper's budget", "Fair-CCLK", short.settings, choices=short.choices),
        Cell("three times as many steps", "Fair-CCLK", {**FAIR_RECIPE, **steps}, choices=CHOICES),
    )
    return Plan(
        cells,
        whole.seeds,
        whole.common,
        whole.measures,
        note="the paper's own data and network; the colors are drawn anew",
    )


EXPERIMENT = Experiment("fair-long", "How far removal goes", "beyond the paper", plan)
