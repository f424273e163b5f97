"""Fair-InfoNCE on ColorMNIST with increasing numbers of color clusters."""

from __future__ import annotations

from dataclasses import replace

from cclk_paper.experiments.plan import Experiment, Plan, Size
from cclk_paper.experiments.registry import fair


def plan(size: Size) -> Plan:
    """The cells of `fair`, whose runs are reused."""
    full = fair.plan(size)
    cells = (cell for cell in full.cells if cell.settings["method"] == "fair-infonce")
    return replace(full, cells=tuple(cells))


EXPERIMENT = Experiment("fair-clusters", "Fair-InfoNCE: how many clusters", "Table 8", plan)
