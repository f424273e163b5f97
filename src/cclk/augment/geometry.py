"""Crop, flip and blur of a batch of images, with one box and one width per image."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

TRIES = 10
BOX_DRAWS = 2 * TRIES + 2


def boxes(
    draws: Tensor, height: int, width: int, scale: tuple[float, float], ratio: tuple[float, float]
) -> Tensor:
    """Return top, left, height and width of one box per sample, in pixels: (4, b).

    The distribution is that of torchvision's `RandomResizedCrop`, except that boxes are not rounded
    to pixels. A box that does not fit is drawn again, at most ten times; then it is the largest
    central box with an admissible ratio.
    """
    area = (draws[:TRIES] * (scale[1] - scale[0])).add_(scale[0]).mul_(height * width)
    shape = (draws[TRIES : 2 * TRIES] * math.log(ratio[1] / ratio[0])).exp_().mul_(ratio[0])
    tall, wide = (area / shape).sqrt_(), (area * shape).sqrt_()
    fits = (tall <= height) & (wide <= width)
    any_fits, first = fits.to(torch.uint8).max(0, keepdim=True)
    spare = min(max(width / height, ratio[0]), ratio[1])
    accepted = any_fits[0] > 0
    tall = torch.where(accepted, tall.gather(0, first)[0], min(height, width / spare))
    wide = torch.where(accepted, wide.gather(0, first)[0], min(width, height * spare))
    down, right = torch.where(accepted, draws[2 * TRIES :], 0.5)
    return torch.stack([down * (height - tall), right * (width - wide), tall, wide])


def flipped(box: Tensor, mirrored: Tensor) -> Tensor:
    """Return the boxes read from right to left where `mirrored`, to crop and flip in one step."""
    top, left, tall, wide = box
    return torch.stack(
        [top, torch.where(mirrored, left + wide, left), tall, torch.where(mirrored, -wide, wide)]
    )


def resample(images: Tensor, box: Tensor, size: int) -> Tensor:
    """Resample the box of each image to (size, size) pixels, bilinear, repeating borders."""
    height, width = images.shape[-2:]
    steps = (torch.arange(size, dtype=box.dtype, device=box.device) + 0.5) / size
    top, left, tall, wide = box.unsqueeze(-1)
    # Writing one plane per coordinate is several times faster than writing pairs.
    grid = images.new_empty(len(images), 2, size, size)
    grid[:, 0] = ((steps * wide + left) * (2 / width) - 1).unsqueeze(1)
    grid[:, 1] = ((steps * tall + top) * (2 / height) - 1).unsqueeze(2)
    return F.grid_sample(
        images, grid.permute(0, 2, 3, 1), padding_mode="border", align_corners=False
    )


def gaussian_blur(images: Tensor, sigma: Tensor, radius: int) -> Tensor:
    """Blur each image."""
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
