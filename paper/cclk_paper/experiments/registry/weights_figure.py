"""The figure of the operator: the kernel matrix of a condition and the weights computed from it."""

from __future__ import annotations

from pathlib import Path

import torch

import cclk
from cclk import datasets, kernels
from cclk_paper.experiments.plan import Experiment, Plan, Size, WeightsFigure

SHOWN = 24


def figure(size: Size, data_dir: Path | None = None) -> WeightsFigure:
    """Compute kernel and weights of some colors, sorted by brightness, for each kind of weights."""
    dataset = datasets.load("colordigits" if size == "smoke" else "colormnist", data_dir=data_dir)
    colors = dataset.train.condition[:SHOWN]
    colors = colors[colors.sum(dim=1).argsort()]
    kernel = kernels.RBF(length_scale="auto")
    kernel.fit(colors, batch_size=SHOWN)
    panels = {"K": kernel(colors)}
    for name in ("paper", "loo", "nw"):
        weights = cclk.conditional_weights(kernel, colors, 0.01, weights=name)
        panels[f"W, {name}"] = weights.T  # row i: the weights of anchor i
    return WeightsFigure(
        dataset=dataset.name,
        kernel=repr(kernel),
        colors=colors.round().int().tolist(),
        panels={
            name: [[round(float(value), 3) for value in row] for row in panel]
            for name, panel in panels.items()
        },
        effective_neighbors={
            name: round(float((1 / _shares(panel).square().sum(dim=1)).median()), 2)
            for name, panel in panels.items()
            if name != "K"
        },
    )


def _shares(weights: torch.Tensor) -> torch.Tensor:
    positive = weights.clamp(min=0)
    return positive / positive.sum(dim=1, keepdim=True)


EXPERIMENT = Experiment(
    "weights",
    "From kernel to weights",
    "Figure 2, K_Z beside (K_Z + ridge I)^-1 K_Z",
    lambda size: Plan((), seeds=0),
    figure=figure,
)
