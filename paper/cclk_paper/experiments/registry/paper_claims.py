"""The claims of the paper, in its order."""

from __future__ import annotations

from cclk_paper.experiments.measure import Measure
from cclk_paper.experiments.registry.fair import OURS, RELEASE
from cclk_paper.experiments.registry.fair_kernels import KERNELS as FAIR_KERNELS
from cclk_paper.experiments.scoreboard import (
    PaperClaim,
    above,
    below,
    consistent,
    everywhere_above,
    falls,
    follows,
    peaks_at,
    rises,
    unavailable,
)

FASHION = "Fashion-MNIST, noisy attributes"
CIFAR = "CIFAR-10, MobileNetV2 features"
HARD = "CIFAR-10"
CCLK, CLUSTERS, PLAIN = "WeaklySup-CCLK", "WeaklySup-InfoNCE", "InfoNCE"
HARD_CCLK, HARD_PLAIN = "HardNeg-CCLK", "HardNeg-InfoNCE"
FAIR_CCLK = "Fair-CCLK"
FAIR_COUNTS = (3, 5, 10, 15, 20)
FAIR_CLUSTERS = tuple(f"Fair-InfoNCE, {count} clusters" for count in FAIR_COUNTS)
TEN = "Fair-InfoNCE, 10 clusters"
LEFT, RIGHT, FAIR, HARDNEG = "Table 2, left", "Table 2, right", "Table 3", "Table 4"
FAIR_ORDERS: tuple[tuple[str, str, str, Measure, str], ...] = (
    (PLAIN, PLAIN, "accuracy", "accuracy", "+2.3"),
    (PLAIN, PLAIN, "MSE of the color", "linear_mse", "+15.9"),
    (TEN, "Fair-InfoNCE", "accuracy", "accuracy", "+0.5"),
)
"""Row, its name in the text, the measure's name in the text, the measure, the paper's figure."""
NO_CUB = unavailable("needs a GPU for days, and the images of CUB")
NO_IMAGENET = unavailable("needs a GPU for days, and ImageNet")
CLOSE = 2.0
"""Accuracies are called consistent up to this difference, in points, or the paper's own."""


def _weaksup() -> list[PaperClaim]:
    claims = []
    for other, zappos, cub, imagenet in (
        (PLAIN, "+8.8", "+15.8", "+6.2"),
        (CLUSTERS, "+2.0", "+9.3", "+1.0"),
    ):
        text = f"{CCLK} above {other}"
        claims += [
            PaperClaim(
                LEFT, f"{text}, UT-Zappos", zappos, above("weaksup", FASHION, CCLK, other), FASHION
            ),
            PaperClaim(LEFT, f"{text}, CUB", cub, NO_CUB, "-"),
            PaperClaim(
                LEFT, f"{text}, ImageNet-100", imagenet, above("weaksup", CIFAR, CCLK, other), CIFAR
            ),
        ]
    claims += [
        PaperClaim(
            LEFT,
            f"{CLUSTERS} above {PLAIN}, {name}",
            figure,
            above("weaksup", bed, CLUSTERS, PLAIN),
            bed,
        )
        for name, figure, bed in (
            ("UT-Zappos", "+6.8", FASHION),
            ("ImageNet-100", "+5.2", CIFAR),
        )
    ]
    claims.insert(-1, PaperClaim(LEFT, f"{CLUSTERS} above {PLAIN}, CUB", "+6.5", NO_CUB, "-"))
    kernels = ("RBF", "Laplacian", "linear", "cosine")
    claims += [
        PaperClaim(
            RIGHT,
            "all kernels have similar accuracies, UT-Zappos",
            "span 0.3",
            consistent("weaksup-kernels", FASHION, kernels, CLOSE),
            FASHION,
        ),
        PaperClaim(RIGHT, "kernels have similar accuracies, CUB", "span 2.9", NO_CUB, "-"),
        PaperClaim(
            RIGHT,
            "the linear kernel is worse than others, ImageNet-100",
            "-2.7 or more",
            NO_IMAGENET,
            "-",
        ),
    ]
    return claims


def _fair() -> list[PaperClaim]:
    claims = []
    for recipe in (RELEASE, OURS):
        bed = f"ColorMNIST, {recipe}"
        claims += [
            PaperClaim(
                FAIR,
                f"{FAIR_CCLK} above {name} in {what}",
                figure,
                above("fair", recipe, FAIR_CCLK, other, measure),
                bed,
            )
            for other, name, what, measure, figure in FAIR_ORDERS
        ]
        claims += [
            PaperClaim(
                FAIR,
                f"{FAIR_CCLK} slightly below Fair-InfoNCE in MSE of the color",
                "-0.2",
                below("fair", recipe, FAIR_CCLK, TEN, "linear_mse"),
                bed,
            ),
            PaperClaim(
                "Table 8",
                "accuracy peaks at 10 clusters",
                "+0.7 to the next",
                peaks_at("fair", recipe, FAIR_CLUSTERS, TEN),
                bed,
            ),
            PaperClaim(
                "Table 8",
                "the MSE of the color rises with the number of clusters",
                "+8.8",
                rises("fair", recipe, FAIR_CLUSTERS, "linear_mse"),
                bed,
            ),
            PaperClaim(
                "Table 5, left",
                "all kernels have similar accuracies, Fair-CCLK",
                "span 1.7",
                consistent("fair-kernels", recipe, tuple(FAIR_KERNELS), CLOSE),
                bed,
            ),
        ]
    return claims


def _hard() -> list[PaperClaim]:
    claims = [
        PaperClaim(
            HARDNEG,
            f"{HARD_CCLK} above {other}, CIFAR-10",
            figure,
            above("hardneg", HARD, HARD_CCLK, other),
            HARD,
        )
        for other, figure in ((PLAIN, "+1.8"), (HARD_PLAIN, "+0.3"))
    ]
    claims += [
        PaperClaim(
            HARDNEG,
            f"{HARD_PLAIN} above {PLAIN}, CIFAR-10",
            "+1.5",
            above("hardneg", HARD, HARD_PLAIN, PLAIN),
            HARD,
        )
    ]
    claims += [
        PaperClaim(HARDNEG, f"{HARD_CCLK} above {other}, ImageNet-100", figure, NO_IMAGENET, "-")
        for other, figure in ((PLAIN, "+3.4"), (HARD_PLAIN, "+2.0"))
    ]
    text = f"{HARD_PLAIN} above {PLAIN}, ImageNet-100"
    claims.append(PaperClaim(HARDNEG, text, "+1.4", NO_IMAGENET, "-"))
    return [
        *claims,
        PaperClaim(
            "Table 6",
            "the gain of hard negatives shrinks in longer training with larger batches",
            "+1.8, then +0.5",
            unavailable("needs 1,000 epochs of ResNet-50"),
            "-",
        ),
        PaperClaim(
            "Table 5, right",
            "all kernels have similar accuracies, HardNeg-CCLK",
            "span 1.4",
            consistent("hardneg-kernels", HARD, ("linear", "RBF", "polynomial"), CLOSE),
            HARD,
        ),
    ]


def _others() -> list[PaperClaim]:
    fixed = "RBF, sigma² fixed"
    few, many = 1.2, 937.5
    return [
        PaperClaim(
            "Figure 2",
            "the weights (K + λ I)⁻¹ K are a smoothed version of K",
            "a figure",
            follows("weights", "W, paper", "K"),
            "ColorMNIST; rank correlation of W and K between samples",
        ),
        PaperClaim(
            "Table 7",
            "a bandwidth that is much too narrow loses accuracy, CUB",
            "-29.2",
            falls("weaksup-bandwidth", FASHION, fixed, 1.0, 1e3),
            f"{FASHION}, condition times 1,000",
        ),
        PaperClaim(
            "Table 7",
            "a bandwidth that is much too wide loses accuracy, CUB",
            "-7.8",
            falls("weaksup-bandwidth", FASHION, fixed, 1.0, 1e-3),
            f"{FASHION}, condition times 0.001",
        ),
        PaperClaim(
            "Figure 3",
            f"{CCLK} above {CLUSTERS} for any number of samples per value",
            "a curve",
            everywhere_above("insufficient", FASHION, CCLK, CLUSTERS),
            FASHION,
        ),
        PaperClaim(
            "Figure 3",
            f"{CLUSTERS} loses accuracy with few samples per value",
            "a curve",
            falls("insufficient", FASHION, CLUSTERS, many, few),
            FASHION,
        ),
        PaperClaim(
            "Figure 3",
            f"with few samples per value, {CCLK} is clearly above {CLUSTERS}",
            "a curve",
            above("insufficient", FASHION, CCLK, CLUSTERS, x=few),
            FASHION,
        ),
    ]


CLAIMS: tuple[PaperClaim, ...] = (*_weaksup(), *_fair(), *_hard(), *_others())
"""Orders, ablations and figures that results can confirm or refute."""
