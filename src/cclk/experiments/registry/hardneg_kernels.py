"""HardNeg-CCLK on CIFAR-10 with other kernels on the embedding, one of them fitted per batch."""

from __future__ import annotations

from dataclasses import replace

from cclk.experiments.plan import Cell, Experiment, Plan, Size
from cclk.experiments.registry.hardneg import RELEASE_KERNEL
from cclk.experiments.registry.hardneg import plan as hardneg_plan
from cclk.training.settings import load

PAPER = {"linear": (91.5, 0.2), "RBF": (91.7, 0.1), "polynomial": (90.3, 0.4)}
FITTED = 'RBF, length_scale="auto", nw'


def plan(size: Size) -> Plan:
    """The first column of `hardneg` with the paper's kernels, and RBF with batch / 4 neighbors."""
    full = hardneg_plan(size)
    base = full.cell("HardNeg-CCLK", full.cells[0].column)
    cells = [
        Cell(
            kernel,
            base.column,
            {**base.settings, **RELEASE_KERNEL, "kernel": kernel.lower()},
            paper={"accuracy": accuracy} if size == "paper" else {},
        )
        for kernel, accuracy in PAPER.items()
    ]
    batch_size = load(overrides={**full.common, **base.settings}).train.batch_size
    fitted = {name: value for name, value in base.settings.items() if name not in RELEASE_KERNEL}
    fitted |= {"method": "hardneg-cclk", "kernel": "rbf", "weights": "nw"}
    fitted |= {"neighbors": batch_size / 4}
    return replace(full, cells=(*cells, Cell(FITTED, base.column, fitted)))


EXPERIMENT = Experiment(
    "hardneg-kernels", "HardNeg-CCLK: which kernel", "appendix, kernel choices", plan
)
