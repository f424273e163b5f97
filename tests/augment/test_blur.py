"""Blur against the definition."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from cclk.augment.geometry import gaussian_blur


def mirrored(index: int, size: int) -> int:
    return -index if index < 0 else 2 * (size - 1) - index if index >= size else index


def by_loop(image: Tensor, sigma: float, radius: int) -> Tensor:
    weights = [math.exp(-(d**2) / (2 * sigma**2)) for d in range(-radius, radius + 1)]
    total = sum(weights)
    height, width = image.shape[-2:]
    out = torch.zeros_like(image)
    for row in range(height):
        for column in range(width):
            for i, wi in enumerate(weights):
                for j, wj in enumerate(weights):
                    out[:, row, column] += (
                        image[
                            :,
                            mirrored(row + i - radius, height),
                            mirrored(column + j - radius, width),
                        ]
                        * wi
                        * wj
                        / total**2
                    )
    return out


def test_equals_the_loop_with_a_width_per_image() -> None:
    images, sigma = torch.rand(3, 2, 7, 6), torch.tensor([0.4, 1.0, 2.0])
    wanted = torch.stack(
        [by_loop(image, s, 2) for image, s in zip(images, sigma.tolist(), strict=True)]
    )
    torch.testing.assert_close(gaussian_blur(images, sigma, radius=2), wanted)


def test_no_width_is_no_blur() -> None:
    images = torch.rand(2, 3, 9, 9)
    assert torch.equal(gaussian_blur(images, torch.zeros(2), radius=3), images)
