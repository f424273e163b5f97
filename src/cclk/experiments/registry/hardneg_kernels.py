"""HardNeg-CCLK on CIFAR-10 with other kernels on the embedding."""

from __future__ import annotations

from cclk.experiments.plan import Cell, Experiment, Plan, Size
from cclk.experiments.registry.hardneg import KERNEL
from cclk.experiments.registry.hardneg import plan as hardneg_plan

PAPER = {"linear": (91.5, 0.2), "RBF": (91.7, 0.1), "polynomial": (90.3, 0.4)}


def plan(size: Size) -> Plan:
    """The first column of `hardneg` with three kernels."""
    whole = hardneg_plan(size)
    base = next(cell for cell in whole.cells if cell.row == "HardNeg-CCLK")
    shown = size == "paper"
    cells = tuple(
        Cell(kernel, base.column, {**base.settings, **KERNEL, "kernel": kernel.lower()}, paper={"accuracy": figure} if shown else {})
        for kernel, figure in PAPER.items()
    )
    return Plan(cells, whole.seeds, whole.common, whole.measures, watch=whole.watch, note=whole.note)


EXPERIMENT = Experiment("hardneg-kernels", "HardNeg-CCLK: which kernel", "appendix, kernel choices", plan)
