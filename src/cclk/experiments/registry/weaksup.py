"""Weakly supervised contrastive learning: auxiliary information says which images are alike."""

from __future__ import annotations

from cclk.experiments.plan import Cell, Claim, Experiment, Overrides, Plan, Published, Size
from cclk.experiments.registry.recipes import (
    CIFAR,
    CUB,
    DIGITS_SMOKE,
    FASHION,
    IMAGENET_CLIP,
    ZAPPOS,
)

Figures = tuple[tuple[float, float], tuple[float, float], tuple[float, float]]
Choices = tuple[Overrides, ...]
ATTRIBUTES: Overrides = {"attributes": 24, "noise": 0.2}
MOBILENET: Overrides = {"features": "features/cifar10-mobilenetv2.npz"}
COSINE: Choices = ({"kernel": "cosine"},)


def clusters(*counts: int) -> Choices:
    """Numbers of clusters to choose among."""
    return tuple({"clusters": count} for count in counts)


def neighbors(*numbers: float) -> Choices:
    """Bandwidths to choose among, by the neighbors they leave an anchor."""
    return tuple({"kernel": "rbf", "neighbors": number} for number in numbers)


def cells(
    column: str,
    settings: Overrides,
    infonce: Choices,
    cluster: Choices,
    kernel: Choices,
    paper: Figures | None = None,
) -> tuple[Cell, ...]:
    """The three methods on one dataset, each with what it may choose among on validation."""
    published: list[Published] = (
        [{"accuracy": figure} for figure in paper] if paper else [{}, {}, {}]
    )
    return (
        Cell(
            "InfoNCE",
            column,
            {**settings, "method": "infonce"},
            choices=infonce,
            paper=published[0],
        ),
        Cell(
            "WeaklySup-InfoNCE",
            column,
            {**settings, "method": "weaksup-infonce"},
            choices=cluster,
            paper=published[1],
        ),
        Cell(
            "WeaklySup-CCLK",
            column,
            {**settings, "method": "weaksup-cclk"},
            choices=kernel,
            paper=published[2],
        ),
    )


def plan(size: Size) -> Plan:
    """Fashion-MNIST with noisy attributes stands in for UT-Zappos, CIFAR-10 with features of a
    pretrained network for ImageNet-100.
    """
    if (
        size == "paper"
    ):  # the number of clusters is chosen, as in the paper; the kernel is its cosine
        return Plan(
            (
                *cells(
                    "UT-Zappos",
                    ZAPPOS,
                    (),
                    clusters(100, 500, 1000),
                    COSINE,
                    ((77.8, 1.5), (84.6, 0.4), (86.6, 0.7)),
                ),
                *cells(
                    "CUB",
                    CUB,
                    (),
                    clusters(20, 100, 200),
                    COSINE,
                    ((14.1, 0.7), (20.6, 0.5), (29.9, 0.3)),
                ),
                *cells(
                    "ImageNet-100",
                    IMAGENET_CLIP,
                    (),
                    clusters(100, 200, 500, 2500),
                    COSINE,
                    ((76.2, 0.3), (81.4, 0.4), (82.4, 0.5)),
                ),
            ),
            seeds=3,
        )
    if size == "smoke":
        digits = cells(
            "digits, seven segments",
            {"dataset_options": {"segments": True}},
            (),
            clusters(4, 8),
            COSINE,
        )
        return Plan(digits, seeds=1, common=DIGITS_SMOKE)
    fashion, cifar = (
        {**FASHION, "dataset_options": ATTRIBUTES},
        {**CIFAR, "dataset_options": MOBILENET, "steps": 400, "standardize": False},
    )
    warmer: Choices = tuple({"temperature": temperature} for temperature in (0.1, 0.2, 0.5))
    return Plan(
        (
            *cells(
                "Fashion-MNIST, noisy attributes",
                fashion,
                warmer,
                clusters(10, 50, 250),
                neighbors(12.0, 50.0, 200.0),
            ),
            *cells(
                "CIFAR-10, MobileNetV2 features",
                cifar,
                warmer[1:],
                clusters(10, 100),
                (*COSINE, *neighbors(12.0)),
            ),
        ),
        seeds=3,
        note=(
            "Fashion-MNIST with 24 noisy binary attributes stands in for UT-Zappos, CIFAR-10 with"
            " features of a MobileNetV2 trained on ImageNet for ImageNet-100 with CLIP; LeNet-5 for"
            " 300 steps and a small ResNet for 400 instead of ResNet-50 for weeks"
        ),
    )


EXPERIMENT = Experiment(
    "weaksup",
    "Weak supervision by auxiliary information",
    "Table 1, left",
    plan,
    claims=(
        Claim("accuracy", "WeaklySup-CCLK", ("WeaklySup-InfoNCE",)),
        Claim("accuracy", "WeaklySup-InfoNCE", ("InfoNCE",)),
    ),
)
