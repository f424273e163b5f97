"""The figures of the README, the explanations and the tutorials: `python -m benchmarks.figures`."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
import torch

import cclk
from benchmarks import adult
from benchmarks.common import ROOT, read_result
from benchmarks.tables import encoder_score
from cclk import kernels
from cclk.datasets import load
from examples.rotated_fashion import rotated

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FOLDER = ROOT / "docs" / "figures"


def embedding() -> str:
    """The README's figure: test embeddings, each sample as its digit on its background color.

    Hand-written SVG, which is small and has a transparent background; its gray titles are readable
    on white and on black.
    """
    result = read_result("embedding-digits")
    colors = np.array(result["colors"])
    light = colors @ [0.299, 0.587, 0.114] > 110
    lines = [
        (
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 470" font-family="sans-serif"'
            ' text-anchor="middle">'
        ),
        (
            "<title>Test embeddings of InfoNCE and of Fair-CCLK, colored by the background"
            " color</title>"
        ),
        "<style>circle{stroke:#7d8590;stroke-width:.5}text{font-size:9px;fill:#fff}.b{fill:#000}.t{font-size:19px;fill:#7d8590}</style>",
    ]
    for panel, (preset, title) in enumerate(
        {
            "digits-infonce": "InfoNCE",
            "digits-fair": "Fair-CCLK + penalty, conditioned on the color",
        }.items()
    ):
        points = np.array(result["embeddings"][preset])
        low, high = points.min(axis=0), points.max(axis=0)
        x, y = ((points - low) / (high - low) * [430, -400] + [25 + 480 * panel, 450]).T
        lines.append(f'<text class="t" x="{240 + 480 * panel}" y="24">{title}</text>')
        for i, digit in enumerate(result["digits"]):
            fill = "#" + bytes(result["colors"][i]).hex()
            lines.append(f'<circle cx="{x[i]:.0f}" cy="{y[i]:.0f}" r="8" fill="{fill}"/>')
            ink = ' class="b"' if light[i] else ""
            lines.append(f'<text{ink} x="{x[i]:.0f}" y="{y[i] + 3:.0f}">{digit}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def weights() -> Path:
    """The paper's figure 2: K_Z beside W = (K_Z + ridge I)^-1 K_Z, and the leave-one-out weights
    a loss uses.
    """
    condition = torch.linspace(0, 1, 64) + 0.01 * torch.randn(
        64, generator=torch.Generator().manual_seed(0)
    )
    kernel = kernels.RBF(length_scale=0.05)
    images = {
        "kernel $K_Z$": kernel(condition),
        r"$W = (K_Z + \lambda I)^{-1} K_Z$": cclk.conditional_weights(
            kernel, condition, ridge=0.1, weights="paper"
        ),
        "leave-one-out weights": cclk.conditional_weights(
            kernel, condition, ridge=0.1, weights="loo"
        ),
    }
    figure, axes = plt.subplots(1, len(images), figsize=(9, 3.3), layout="constrained")
    for axis, (title, matrix) in zip(axes, images.items(), strict=True):
        low, high = matrix.min(), matrix.max()
        image = axis.imshow((matrix - low) / (high - low), cmap="magma", vmin=0, vmax=1)
        axis.set_title(title, fontsize=11)
        axis.set_xticks([])
        axis.set_yticks([])
    figure.colorbar(image, ax=axes, shrink=0.8, label="min-max normalized")
    figure.supxlabel("64 samples, sorted by a continuous condition", fontsize=10)
    path = FOLDER / "weights.png"
    FOLDER.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)
    return path


def rotated_fashion() -> Path:
    """The tutorial on images: garments at several angles, and garment accuracy against angle R²."""
    result = read_result("example-rotated-fashion")
    garments = load(str(ROOT / "examples" / "data" / "fashion-sample.npz")).train
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9, 3.6), layout="constrained", width_ratios=(1.1, 1)
    )
    angles = (-60, -35, -10, 15, 40)
    first = [int((garments.y == kind).nonzero()[0]) for kind in (0, 5, 9)]
    rows = [
        np.hstack([np.asarray(rotated(garments.x[row][0].numpy(), angle)) for angle in angles])
        for row in first
    ]
    left.imshow(np.vstack(rows), cmap="gray")
    left.set_xticks(
        [40 * (number + 0.5) for number in range(len(angles))], [f"{angle}°" for angle in angles]
    )
    left.set_yticks([])
    left.set_xlabel("angles are uniform in -60° to 60°")
    names = {"infonce": "InfoNCE", "fair-cclk": "Fair-CCLK"}
    for color, (method, name) in zip(("C0", "C1"), names.items(), strict=True):
        evaluations = result["methods"][method]["evaluations"]
        accuracy = [100 * encoder_score(each, "accuracy") for each in evaluations]
        for probe, marker, fill in (("linear", "o", "none"), ("worst", "s", color)):
            leakage = [encoder_score(each, probe) for each in evaluations]
            style = {"marker": marker, "color": color, "facecolors": fill}
            right.scatter(leakage, accuracy, label=f"{name}, {probe} probe", **style)
    right.set(xlabel="angle R² (lower is better)", ylabel="garment accuracy, %", xlim=(0, 1))
    right.legend(fontsize=8)
    path = FOLDER / "example-rotated-fashion.png"
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)
    return path


if __name__ == "__main__":
    (FOLDER / "embedding.svg").write_text(embedding(), encoding="utf-8")
    print(weights())
    print(adult.figure())
    print(rotated_fashion())
