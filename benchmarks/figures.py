"""The pictures of the README: `python -m benchmarks.figures`."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import torch

import cclk
from cclk import kernels

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FOLDER = Path(__file__).parent.parent / "docs" / "figures"


def weights() -> Path:
    """The paper's figure 2: K_Z beside W = (K_Z + ridge I)^-1 K_Z, and the leave-one-out weights a loss uses."""
    condition = torch.linspace(0, 1, 64) + 0.01 * torch.randn(64, generator=torch.Generator().manual_seed(0))
    kernel = kernels.RBF(length_scale=0.05)
    pictures = {
        "$K_Z$: how alike": kernel(condition),
        r"$W = (K_Z + \lambda I)^{-1} K_Z$": cclk.conditional_weights(kernel, condition, ridge=0.1),
        "leave-one-out weights": cclk.conditional_weights(kernel, condition, ridge=0.1, weights="loo"),
    }
    figure, axes = plt.subplots(1, len(pictures), figsize=(9, 3.3), layout="constrained")
    for axis, (title, matrix) in zip(axes, pictures.items(), strict=True):
        low, high = matrix.min(), matrix.max()
        image = axis.imshow((matrix - low) / (high - low), cmap="magma", vmin=0, vmax=1)
        axis.set_title(title, fontsize=11)
        axis.set_xticks([])
        axis.set_yticks([])
    figure.colorbar(image, ax=axes, shrink=0.8, label="min-max normalised")
    figure.supxlabel("64 samples, sorted by a continuous condition", fontsize=10)
    path = FOLDER / "weights.png"
    FOLDER.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)
    return path


if __name__ == "__main__":
    print(weights())
