"""How far removal goes on ColorMNIST if the encoder is given five times the paper's budget. Fair-CCLK only: nothing is compared here."""

from __future__ import annotations

from cclk.experiments.plan import Cell, Experiment, Overrides, Plan, Size
from cclk.experiments.registry.fair import OURS
from cclk.experiments.registry.fair import plan as fair_plan
from cclk.experiments.registry.recipes import FAIR_RECIPE, FAIR_SMOKE

STEPS = 5875
CHOICES: tuple[Overrides, ...] = (  # what `fair` chose, and what removed more in `fair-recipe`
    {"lr": 6e-3},
    {"lr": 1e-2, "weight_decay": 0.3},
    {"optimizer": "sgd", "lr": 0.1, "weight_decay": 1e-4},
)


def plan(size: Size) -> Plan:
    """The run of `fair` and one of five times the steps, which chooses how to train anew."""
    whole = fair_plan(size)
    short = next(cell for cell in whole.cells if (cell.row, cell.column) == ("Fair-CCLK", OURS))
    steps = {"steps": FAIR_SMOKE["steps"] if size == "smoke" else STEPS}
    cells = (
        Cell("the paper's budget", "Fair-CCLK", short.settings, choices=short.choices),
        Cell("five times as many steps", "Fair-CCLK", {**FAIR_RECIPE, **steps}, choices=CHOICES[-2:] if size == "smoke" else CHOICES),
    )
    return Plan(cells, whole.seeds, whole.common, whole.measures, note=whole.note)


EXPERIMENT = Experiment("fair-long", "How far removal goes", "beyond the paper", plan)
