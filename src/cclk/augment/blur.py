"""Gaussian blur of a batch of images, each with its own width."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def gaussian_blur(images: Tensor, sigma: Tensor, radius: int) -> Tensor:
    """Blur each image with standard deviation `sigma` (b,) in pixels; 0 leaves it as it is.

    The kernel reaches `radius` pixels; beyond its border a image is mirrored.
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
