"""Gaussian blur of a batch of images, with one width per image."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def gaussian_blur(images: Tensor, sigma: Tensor, radius: int) -> Tensor:
    """Blur each image.

    Args:
        images: (b, c, h, w), mirrored beyond their borders.
        sigma: standard deviation of each image's kernel, (b,), in pixels; 0 for no blur.
        radius: pixels that the kernel extends to each side.
    """
    count, channels, height, width = images.shape
    offsets = torch.arange(-radius, radius + 1, dtype=images.dtype, device=images.device)
    kernel = torch.exp(-0.5 * (offsets / sigma.clamp(min=1e-3).unsqueeze(1)).square())
    kernel = (kernel / kernel.sum(1, keepdim=True)).repeat_interleave(channels, 0)
    planes = F.pad(images, (radius,) * 4, mode="reflect").view(
        1, count * channels, height + 2 * radius, width + 2 * radius
    )
    planes = F.conv2d(planes, kernel.view(-1, 1, 1, 2 * radius + 1), groups=count * channels)
    planes = F.conv2d(planes, kernel.view(-1, 1, 2 * radius + 1, 1), groups=count * channels)
    return planes.view_as(images)
