"""Fair-InfoNCE on ColorMNIST as the colors are cut into more and more clusters."""

from __future__ import annotations

from dataclasses import replace

from cclk.experiments.plan import Experiment, Plan, Size
from cclk.experiments.registry import fair


def plan(size: Size) -> Plan:
    """The cells of `fair`, whose runs are taken over."""
    whole = fair.plan(size)
    return replace(
        whole,
        cells=tuple(cell for cell in whole.cells if cell.settings["method"] == "fair-infonce"),
    )


EXPERIMENT = Experiment(
    "fair-clusters", "Fair-InfoNCE: how many clusters", "appendix, Fair-InfoNCE on ColorMNIST", plan
)
