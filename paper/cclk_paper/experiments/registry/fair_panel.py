"""The fair experiment, with the leakage measured by the worst of a panel of probes."""

from __future__ import annotations

from dataclasses import replace

from cclk_paper.experiments.plan import Experiment, Plan, Size
from cclk_paper.experiments.registry.fair import OURS, UNTRAINED, cluster_row
from cclk_paper.experiments.registry.fair import plan as fair_plan

ROWS = (UNTRAINED, "Fair-CCLK", "InfoNCE", cluster_row(10))


def plan(size: Size) -> Plan:
    """Cells of `fair` with their selected settings, and one more measure."""
    full = fair_plan(size)
    cells = tuple(full.cell(row, OURS) for row in ROWS)
    return replace(full, cells=cells, more={OURS: ("worst_r2",)})


EXPERIMENT = Experiment(
    "fair-panel", "The same encoders, read by a panel of probes", "beyond the paper", plan
)
