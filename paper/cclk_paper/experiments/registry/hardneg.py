"""Hard negatives: the embedding itself is the condition, so similar samples are pushed apart."""

from __future__ import annotations

from cclk_paper.experiments.plan import Cell, Claim, Experiment, Overrides, Plan, Published, Size
from cclk_paper.experiments.registry.recipes import CIFAR, DIGITS_SMOKE, IMAGENET, SMALL_IMAGES
from cclk_paper.experiments.registry.weaksup import ORACLE, ORACLE_ROW, TEMPERATURES

Figures = tuple[tuple[float, float], tuple[float, float], tuple[float, float]]
RELEASE_KERNEL: Overrides = {
    "method": "hardneg-cclk", "kernel": "rbf", "length_scale": 15.8,
    "ridge": 100.0, "weights": "authors",
}  # fmt: skip
"""The authors' release: temp_z 500."""
FITTED: Overrides = {"method": "hardneg-cclk", "kernel": "rbf", "weights": "nw"}
"""A kernel that is fitted to the embeddings of each batch."""
HUNDRED: Overrides = {**FITTED, "neighbors": 100.0}
MIXED: Overrides = {**HUNDRED, "uniform_share": 0.5}
"""The best of six variants of HardNeg-CCLK in `hardneg-recipe`, by one seed."""
SOFT: Overrides = {"method": "hardneg-infonce", "beta": 0.5, "tau_plus": 0.0}
"""The best of six variants of HardNeg-InfoNCE in `hardneg-recipe`, by one seed."""
COLUMN, COLUMN_512 = "CIFAR-10", "CIFAR-10, batches of 512"
LARGE_BATCHES: Overrides = {"batch_size": 512, "steps": 500}
"""As many samples as 1,000 batches of 256."""
CPU_ROWS: dict[str, tuple[Overrides, tuple[Overrides, ...]]] = {
    "InfoNCE": ({"method": "infonce"}, TEMPERATURES[:2]),
    "HardNeg-InfoNCE": (SOFT, TEMPERATURES[:2]),
    "HardNeg-CCLK": (MIXED, TEMPERATURES[:2]),
    ORACLE_ROW: (ORACLE, ()),
}  # fmt: skip
"""Row -> settings, and what to select from."""
SELECTED: dict[str, Overrides] = {
    "InfoNCE": {"method": "infonce", **TEMPERATURES[0]},
    "HardNeg-InfoNCE": {**SOFT, **TEMPERATURES[0]},
    "HardNeg-CCLK": {**MIXED, **TEMPERATURES[1]},
}
"""Row -> settings, with what was selected in batches of 256."""


def cells(column: str, settings: Overrides, paper: Figures | None) -> tuple[Cell, ...]:
    """The three methods in one setting."""
    published: list[Published] = (
        [{"accuracy": figure} for figure in paper] if paper else [{}, {}, {}]
    )
    return (
        Cell("InfoNCE", column, {**settings, "method": "infonce"}, paper=published[0]),
        Cell(
            "HardNeg-InfoNCE",
            column,
            {**settings, "method": "hardneg-infonce", "beta": 1.0, "tau_plus": 0.1},
            paper=published[1],
        ),
        Cell("HardNeg-CCLK", column, {**settings, **RELEASE_KERNEL}, paper=published[2]),
    )


def plan(size: Size) -> Plan:
    """Settings 1 and 2 of the paper on CIFAR-10, and ImageNet-100; otherwise a small ResNet."""
    if size == "smoke":
        return Plan(
            cells("digits", {"temperature": 0.5}, None), seeds=1, common=DIGITS_SMOKE, watch=3
        )
    if size == "cpu":
        return Plan(
            (
                *(
                    Cell(row, COLUMN, {**CIFAR, **method}, choices=choices)
                    for row, (method, choices) in CPU_ROWS.items()
                ),
                *(
                    Cell(row, COLUMN_512, {**CIFAR, **LARGE_BATCHES, **method})
                    for row, method in SELECTED.items()
                ),
            ),
            seeds=3,
            train_on_holdout=False,
            note=(
                "a ResNet-9 of width 16 on crops of 16 pixels, 1,000 batches of 256 or 500"
                " of 512, with what was selected for 256, instead of ResNet-50 for 400 epochs; the"
                " oracle row is that of weaksup"
            ),
        )
    cifar: Overrides = {**SMALL_IMAGES, "dataset": "cifar10"}
    one = cells(
        "CIFAR-10, setting 1",
        {**cifar, "batch_size": 256, "epochs": 400},
        ((89.9, 0.2), (91.4, 0.2), (91.7, 0.1)),
    )
    two = cells(
        "CIFAR-10, setting 2",
        {**cifar, "batch_size": 512, "epochs": 1000},
        ((93.4, 0.1), (93.6, 0.2), (93.9, 0.1)),
    )
    net = cells(
        "ImageNet-100", {**IMAGENET, "batch_size": 512}, ((77.8, 0.4), (79.2, 0.5), (81.2, 0.2))
    )
    return Plan((*one, *two, *net), seeds=3)


EXPERIMENT = Experiment(
    "hardneg",
    "Hard negatives",
    "Tables 4 and 6",
    plan,
    claims=(
        Claim("accuracy", "HardNeg-CCLK", ("HardNeg-InfoNCE",)),
        Claim("accuracy", "HardNeg-InfoNCE", ("InfoNCE",)),
    ),
)
