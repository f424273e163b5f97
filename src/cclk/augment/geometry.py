"""Random resized crop and flip of a batch of images, each with its own box, in one resampling."""

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
    """Top, left, height and width of one box per sample, in pixels: (4, b), from uniform draws
    (BOX_DRAWS, b).

    As torchvision's `RandomResizedCrop`: the area is a share of the image, uniform in `scale`;
    width / height is log-uniform in `ratio`; a box that does not fit is drawn again, ten times at
    most, and after that is the largest central one with an admissible ratio. Unlike there, boxes
    are not rounded to whole pixels.
    """
    area = (draws[:TRIES] * (scale[1] - scale[0])).add_(scale[0]).mul_(height * width)
    shape = (draws[TRIES : 2 * TRIES] * math.log(ratio[1] / ratio[0])).exp_().mul_(ratio[0])
    tall, wide = (area / shape).sqrt_(), (area * shape).sqrt_()
    fits = (tall <= height) & (wide <= width)
    found, first = fits.to(torch.uint8).max(0, keepdim=True)
    spare = min(max(width / height, ratio[0]), ratio[1])
    accepted = found[0] > 0
    tall = torch.where(accepted, tall.gather(0, first)[0], min(height, width / spare))
    wide = torch.where(accepted, wide.gather(0, first)[0], min(width, height * spare))
    down, right = torch.where(accepted, draws[2 * TRIES :], 0.5)
    return torch.stack([down * (height - tall), right * (width - wide), tall, wide])


def flipped(box: Tensor, chosen: Tensor) -> Tensor:
    """The same boxes, read from right to left where `chosen`: a crop and a flip are one resampling."""
    top, left, tall, wide = box
    return torch.stack(
        [top, torch.where(chosen, left + wide, left), tall, torch.where(chosen, -wide, wide)]
    )


def resample(images: Tensor, box: Tensor, size: int) -> Tensor:
    """Each image's box as (size, size) pixels, bilinear; beyond the image its border continues."""
    height, width = images.shape[-2:]
    steps = (torch.arange(size, dtype=box.dtype, device=box.device) + 0.5) / size
    top, left, tall, wide = box.unsqueeze(-1)
    # One plane for each coordinate: written several times faster than pairs.
    grid = images.new_empty(len(images), 2, size, size)
    grid[:, 0] = ((steps * wide + left) * (2 / width) - 1).unsqueeze(1)
    grid[:, 1] = ((steps * tall + top) * (2 / height) - 1).unsqueeze(2)
    return F.grid_sample(
        images,
        grid.permute(0, 2, 3, 1),
        mode="bilinear",
        padding_mode="border",
        align_corners=False,
    )
