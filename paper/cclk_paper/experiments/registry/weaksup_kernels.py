"""WeaklySup-CCLK with other kernels on the auxiliary information."""

from __future__ import annotations

from cclk_paper.experiments.plan import Cell, Experiment, Overrides, Plan, Size
from cclk_paper.experiments.registry.recipes import (
    CUB,
    DIGITS_SMOKE,
    FASHION,
    IMAGENET_CLIP,
    SEGMENTS,
    ZAPPOS,
)
from cclk_paper.experiments.registry.weaksup import ATTRIBUTES, INNER

PAPER: dict[str, tuple[tuple[float, float], ...]] = {  # UT-Zappos, CUB, ImageNet-100
    "RBF": ((86.5, 0.5), (32.3, 0.5), (81.8, 0.4)),
    "Laplacian": ((86.8, 0.3), (32.1, 0.5), (80.2, 0.3)),
    "linear": ((86.5, 0.4), (29.4, 0.8), (77.5, 0.3)),
    "cosine": ((86.6, 0.7), (29.9, 0.3), (82.4, 0.5)),
}


def plan(size: Size) -> Plan:
    """The four kernels of the paper."""
    columns: dict[str, Overrides]
    match size:
        case "paper":
            columns = {"UT-Zappos": ZAPPOS, "CUB": CUB, "ImageNet-100": IMAGENET_CLIP}
        case "cpu":
            fashion = {**FASHION, "dataset_options": ATTRIBUTES}
            columns = {"Fashion-MNIST, noisy attributes": fashion}
        case "smoke":
            digits = {**DIGITS_SMOKE, "dataset_options": SEGMENTS}
            columns = {"digits, seven segments": digits}
    cells = tuple(
        Cell(
            kernel, column, {**settings, **INNER, "kernel": kernel.lower()},
            paper={"accuracy": accuracies[number]} if size == "paper" else {},
        )
        for number, (column, settings) in enumerate(columns.items())
        for kernel, accuracies in PAPER.items()
    )  # fmt: skip
    return Plan(
        cells,
        seeds=1 if size == "smoke" else 3,
        note="" if size == "paper" else "Fashion-MNIST stands in for the paper's sets",
    )


EXPERIMENT = Experiment("weaksup-kernels", "WeaklySup-CCLK: which kernel", "Table 2, right", plan)
