"""HardNeg-CCLK on CIFAR-10 with other kernels on the embedding, one of them fitted per batch."""

from __future__ import annotations

from dataclasses import replace

from cclk.training.settings import load
from cclk_paper.experiments.plan import Cell, Experiment, Overrides, Plan, Size
from cclk_paper.experiments.registry.hardneg import FITTED, RELEASE_KERNEL
from cclk_paper.experiments.registry.hardneg import plan as hardneg_plan
from cclk_paper.experiments.registry.recipes import CIFAR, CIFAR_SHORT

PAPER = {"linear": (91.5, 0.2), "RBF": (91.7, 0.1), "polynomial": (90.3, 0.4)}
OTHERS = ("Laplacian", "cosine")
FITTED_ROW = 'RBF, length_scale="auto", nw'


def plan(size: Size) -> Plan:
    """The first column of `hardneg` with the paper's kernels, and RBF with batch / 4 neighbors."""
    full = hardneg_plan(size)
    base = full.cell("HardNeg-CCLK", full.cells[0].column)
    bed: Overrides = {
        name: value for name, value in base.settings.items() if name not in RELEASE_KERNEL
    }
    if size == "cpu":
        bed = CIFAR_SHORT
        steps = f"{CIFAR_SHORT['steps']} steps instead of {CIFAR['steps']:,}"
        full = replace(full, seeds=2, note=f"the bed of `hardneg` for {steps}")
    cells = [
        Cell(
            kernel,
            base.column,
            {**bed, **RELEASE_KERNEL, "kernel": kernel.lower()},
            paper={"accuracy": PAPER[kernel]} if size == "paper" and kernel in PAPER else {},
        )
        for kernel in (*PAPER, *OTHERS)
    ]
    batch_size = load(overrides={**full.common, **bed}).train.batch_size
    fitted = {**bed, **FITTED, "neighbors": batch_size / 4}
    return replace(full, cells=(*cells, Cell(FITTED_ROW, base.column, fitted)))


EXPERIMENT = Experiment("hardneg-kernels", "HardNeg-CCLK: which kernel", "Table 5, right", plan)
