"""ColorMNIST: images, colors and splits, in miniature."""

from __future__ import annotations

from pathlib import Path

import torch

from cclk import datasets
from cclk.datasets.colored_background import draw_colors


def test_color_mnist_padding_colors_and_condition(data_dir: Path) -> None:
    dataset = datasets.load("colormnist", data_dir=data_dir, holdout=0, seed=3)
    colors = draw_colors(60, "palette", 3, "colormnist", "train")
    assert torch.equal(dataset.train.condition, colors)
    assert dataset.train.x.shape == (60, 3, 32, 32)
    assert torch.equal(dataset.train.x[:, :, 0, 0], colors.round().to(torch.uint8))
    # Sample 49 has ink 50 at row 9, column 27 of its 28 x 28.
    expected = (colors[49] * (255 - 50) / 255).round().to(torch.uint8)
    assert torch.equal(dataset.train.x[49, :, 9 + 2, 27 + 2], expected)
    different = (dataset.train.x[49] != dataset.train.x[49, :, :1, :1]).any(0)
    assert different.nonzero().tolist() == [[11, 29]]
    assert not torch.equal(dataset.test.condition[:20], colors[:20])


def test_color_mnist_rows_keep_their_color_when_held_out(data_dir: Path) -> None:
    whole = datasets.load("colormnist", data_dir=data_dir, holdout=0)
    cut = datasets.load("colormnist", data_dir=data_dir, holdout=15)
    colors = {tuple(row) for row in whole.train.condition.tolist()}
    kept = [
        tuple(row) for row in torch.cat([cut.train.condition, cut.validation.condition]).tolist()
    ]
    assert set(kept) == colors
    assert len(kept) == 60


def test_color_mnist_uniform(data_dir: Path) -> None:
    dataset = datasets.load("colormnist", data_dir=data_dir, holdout=0, colors="uniform")
    assert torch.equal(
        dataset.train.condition, draw_colors(60, "uniform", 0, "colormnist", "train")
    )
    assert "uniform" in dataset.description
