"""Weakly supervised contrastive learning: auxiliary information defines similar images."""

from __future__ import annotations

from collections.abc import Mapping

from cclk_paper.experiments.plan import Cell, Claim, Experiment, Overrides, Plan, Size
from cclk_paper.experiments.registry.recipes import (
    CIFAR,
    CUB,
    DIGITS_SMOKE,
    FASHION_RESNET,
    IMAGENET_CLIP,
    SEGMENTS,
    ZAPPOS,
)

Choices = tuple[Overrides, ...]
INFONCE, CLUSTERS, CCLK = "InfoNCE", "WeaklySup-InfoNCE", "WeaklySup-CCLK"
SUPCON, Y_AWARE = "SupCon on clusters", "y-Aware"
ORACLE_ROW = "oracle: the label as condition"
COLUMN_FASHION = "Fashion-MNIST, noisy attributes"
COLUMN_FASHION_FEATURES = "Fashion-MNIST, MobileNetV2 features"
COLUMN_CIFAR = "CIFAR-10, MobileNetV2 features"
INNER: Overrides = {
    "method": "weaksup-cclk", "positives": "inner", "weights": "loo", "sampler": "uniform",
}  # fmt: skip
"""The paper's form, its smoothing and its batches."""
METHODS: dict[str, Overrides] = {
    INFONCE: {"method": "infonce"},
    CLUSTERS: {"method": "weaksup-infonce"},
    CCLK: INNER,
}
"""The rows of the paper."""
OUTER: Overrides = {
    "method": "weaksup-cclk", "kernel": "rbf", "weights": "nw", "positives": "outer",
    "own_share": 0.1,
}  # fmt: skip
ORACLE: Overrides = {
    "method": "weaksup-cclk", "kernel": "delta", "weights": "loo", "positives": "outer",
}  # fmt: skip
ATTRIBUTES: Overrides = {"attributes": 24, "noise": 0.2}
MOBILENET: Overrides = {"features": "features/cifar10-mobilenetv2.npz"}
MOBILENET_FASHION: Overrides = {"features": "features/fashion-mnist-mobilenetv2.npz"}
COSINE: Choices = ({"kernel": "cosine"},)
TEMPERATURES: Choices = tuple({"temperature": temperature} for temperature in (0.1, 0.2, 0.5))


def clusters(*counts: int) -> Choices:
    """Numbers of clusters to select from."""
    return tuple({"clusters": count} for count in counts)


def neighbors(*numbers: float) -> Choices:
    """Bandwidths to select from, as effective numbers of neighbors."""
    return tuple({"neighbors": number} for number in numbers)


# Batches of groups of neighbors are for the kernel what batches of a cluster are for the clusters.
GROUPS: Choices = tuple({"sampler": "local", "group": group} for group in (4, 16))
FASHION_CHOICES: dict[str, Choices] = {
    INFONCE: TEMPERATURES[:2],
    CLUSTERS: clusters(10, 50),
    CCLK: GROUPS,
    SUPCON: clusters(10, 50),
    Y_AWARE: neighbors(12.0, 50.0),
}
NEAR: Overrides = {"neighbors": 12.0}
CIFAR_CHOICES: dict[str, Choices] = {
    INFONCE: TEMPERATURES[:2],
    CLUSTERS: ({"clusters": 60}, {"clusters": 200, "group": 16}),
    CCLK: tuple({**NEAR, **group} for group in GROUPS),
}
WARM: Overrides = {"temperature": 0.3}
FASHION_FEATURES_CHOICES: dict[str, Choices] = {
    INFONCE: (*TEMPERATURES, WARM, {"temperature": 0.2, "lr": 1e-2}, {**WARM, "lr": 1e-2}),
    CLUSTERS: (
        *CIFAR_CHOICES[CLUSTERS],
        *({**choice, **WARM} for choice in CIFAR_CHOICES[CLUSTERS]),
        *({**choice, "group": 4} for choice in clusters(60, 200)),
    ),
    CCLK: (
        *CIFAR_CHOICES[CCLK],
        *({**NEAR, **GROUPS[0], **change} for change in (WARM, {"own_share": 0.3})),
        {**NEAR, "sampler": "local", "group": 2},
        {**NEAR, "sampler": "uniform"},
    ),
    SUPCON: (
        *clusters(10, 20, 60, 200),
        *({**choice, **WARM} for choice in clusters(20, 60)),
    ),
}


def paper_cells(
    column: str,
    settings: Overrides,
    choices: tuple[Choices, Choices, Choices],
    paper: tuple[tuple[float, float], ...] = (),
) -> tuple[Cell, ...]:
    """The three methods on one dataset, each with its choices and its published accuracy."""
    return tuple(
        Cell(
            row,
            column,
            {**settings, **method},
            choices=choices[number],
            paper={"accuracy": paper[number]} if paper else {},
        )
        for number, (row, method) in enumerate(METHODS.items())
    )


def cells(
    column: str, bed: Overrides, condition: Overrides, choices: Mapping[str, Choices]
) -> list[Cell]:
    """The paper's rows, what a user would choose instead, and the label itself as condition.

    Args:
        column: The bed.
        bed: Its settings.
        condition: Further options of its dataset, which replace the label as condition.
        choices: Row -> what to select from; other rows are left out, except the oracle.
    """
    options = bed.get("dataset_options", {})
    assert isinstance(options, Mapping)
    conditioned = {**bed, "dataset_options": {**options, **condition}}
    rows: dict[str, Overrides] = {
        INFONCE: {**bed, "method": "infonce"},
        CLUSTERS: {**conditioned, "method": "weaksup-infonce"},
        CCLK: {**conditioned, **OUTER},
        SUPCON: {**conditioned, "method": "weaksup-infonce", "sampler": "uniform"},
        Y_AWARE: {
            **conditioned,
            "method": "y-aware",
            "kernel": "rbf",
            "sampler": "uniform",
        },
        ORACLE_ROW: {**bed, **ORACLE},
    }
    return [
        Cell(row, column, settings, choices=choices.get(row, ()))
        for row, settings in rows.items()
        if row in choices or row == ORACLE_ROW
    ]


def plan(size: Size) -> Plan:
    """Fashion-MNIST substitutes for UT-Zappos, CIFAR-10 with pretrained features for ImageNet."""
    if size == "paper":  # the number of clusters is selected, as in the paper; its kernel is cosine
        zappos = ((77.8, 1.5), (84.6, 0.4), (86.6, 0.7))
        cub = ((14.1, 0.7), (20.6, 0.5), (29.9, 0.3))
        imagenet = ((76.2, 0.3), (81.4, 0.4), (82.4, 0.5))
        counts = clusters(100, 200, 500, 2500)
        return Plan(
            (
                *paper_cells("UT-Zappos", ZAPPOS, ((), clusters(100, 500, 1000), COSINE), zappos),
                *paper_cells("CUB", CUB, ((), clusters(20, 100, 200), COSINE), cub),
                *paper_cells("ImageNet-100", IMAGENET_CLIP, ((), counts, COSINE), imagenet),
            ),
            seeds=3,
        )
    if size == "smoke":
        options = {"dataset_options": SEGMENTS}
        digits = paper_cells("digits, seven segments", options, ((), clusters(4, 8), COSINE))
        return Plan(digits, seeds=1, common=DIGITS_SMOKE)
    return Plan(
        (
            *cells(COLUMN_FASHION, FASHION_RESNET, ATTRIBUTES, FASHION_CHOICES),
            *cells(
                COLUMN_FASHION_FEATURES,
                FASHION_RESNET,
                MOBILENET_FASHION,
                FASHION_FEATURES_CHOICES,
            ),
            *cells(COLUMN_CIFAR, CIFAR, MOBILENET, CIFAR_CHOICES),
        ),
        seeds=3,
        column_seeds={COLUMN_FASHION_FEATURES: 9},  # a difference of half a point
        train_on_holdout=False,
        note=(
            "Fashion-MNIST with 24 noisy binary attributes stands in for UT-Zappos, CIFAR-10 and"
            " Fashion-MNIST with features of a MobileNetV2 trained on ImageNet for ImageNet-100"
            " with CLIP; a ResNet-9"
            f" for {FASHION_RESNET['steps']:,} and {CIFAR['steps']:,} steps instead of ResNet-50"
            " for weeks"
        ),
    )


EXPERIMENT = Experiment(
    "weaksup",
    "Weak supervision by auxiliary information",
    "Table 2, left",
    plan,
    claims=(
        Claim("accuracy", CCLK, (CLUSTERS,)),
        Claim("accuracy", CLUSTERS, (INFONCE,)),
        Claim("knn", CCLK, (CLUSTERS,)),
        Claim("knn", CLUSTERS, (INFONCE,)),
    ),
)
