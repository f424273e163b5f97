"""HardNeg-CCLK on CIFAR-10 with other kernels on the embedding, and with ours: fitted to each
batch.
"""

from __future__ import annotations

from cclk.experiments.plan import Cell, Experiment, Plan, Size
from cclk.experiments.registry.hardneg import KERNEL
from cclk.experiments.registry.hardneg import plan as hardneg_plan
from cclk.training.settings import load

PAPER = {"linear": (91.5, 0.2), "RBF": (91.7, 0.1), "polynomial": (90.3, 0.4)}
FITTED = 'RBF, length_scale="auto", nw'


def plan(size: Size) -> Plan:
    """The first column of `hardneg` with the paper's three kernels and one whose anchors have a
    quarter of the batch as neighbors.
    """
    whole = hardneg_plan(size)
    base = next(cell for cell in whole.cells if cell.row == "HardNeg-CCLK")
    shown = size == "paper"
    cells = [
        Cell(
            kernel,
            base.column,
            {**base.settings, **KERNEL, "kernel": kernel.lower()},
            paper={"accuracy": figure} if shown else {},
        )
        for kernel, figure in PAPER.items()
    ]
    batch_size = load(overrides={**whole.common, **base.settings}).train.batch_size
    fitted = {name: value for name, value in base.settings.items() if name not in KERNEL}
    fitted |= {
        "method": "hardneg-cclk",
        "kernel": "rbf",
        "weights": "nw",
        "neighbors": batch_size / 4,
    }
    return Plan(
        (*cells, Cell(FITTED, base.column, fitted)),
        whole.seeds,
        whole.common,
        whole.measures,
        watch=whole.watch,
        note=whole.note,
    )


EXPERIMENT = Experiment(
    "hardneg-kernels", "HardNeg-CCLK: which kernel", "appendix, kernel choices", plan
)
