"""Color changes of a batch of images (b, 3, h, w) in 0..1, one factor per image, written in place.

Brightness, contrast, saturation and hue are defined as torchvision's `ColorJitter` defines them:
blends with black, with the mean gray, with the gray image, and a turn of the hue in HSV; each
result is cut to 0..1.
"""

from __future__ import annotations

import torch
from torch import Tensor

LUMA = (0.2989, 0.587, 0.114)


def _column(factor: Tensor) -> Tensor:
    return factor.view(-1, 1, 1, 1)


def gray(images: Tensor) -> Tensor:
    """The luma of each image, (b, 1, h, w); with other than three channels their mean."""
    if images.shape[1] != 3:
        return images.mean(1, keepdim=True)
    red, green, blue = images[:, :1], images[:, 1:2], images[:, 2:]
    return (red * LUMA[0]).add_(green, alpha=LUMA[1]).add_(blue, alpha=LUMA[2])


def brightness_(images: Tensor, factor: Tensor) -> Tensor:
    """factor * x."""
    return images.mul_(_column(factor)).clamp_(max=1)


def contrast_(images: Tensor, factor: Tensor) -> Tensor:
    """factor * x + (1 - factor) * the mean gray of the image."""
    # Luma is linear: that of the mean color is the mean luma.
    mean = gray(images.mean((2, 3), keepdim=True))
    return images.mul_(_column(factor)).add_(mean.mul_(_column(1 - factor))).clamp_(0, 1)


def saturation_(images: Tensor, factor: Tensor) -> Tensor:
    """factor * x + (1 - factor) * the gray image."""
    plain = gray(images).mul_(_column(1 - factor))
    return images.mul_(_column(factor)).add_(plain).clamp_(0, 1)


def hue_(images: Tensor, turn: Tensor) -> Tensor:
    """Turn the hue by `turn` of a full circle, keeping the value and the saturation of HSV."""
    red, green, blue = images.unbind(1)
    high = torch.maximum(torch.maximum(red, green), blue)
    low = torch.minimum(torch.minimum(red, green), blue)
    chroma = high.sub_(low)
    # With channels scaled to R, G, B between 0 and 1, the hue is 1 + G + B - R sixths away from
    # red, on the side of the greater of G and B.
    # Masks would say the same by cases and be several times slower.
    sixths = (green + blue).sub_(red).sub_(low).div_(chroma.clamp(min=1e-12)).add_(1)
    sixths = sixths.copysign_(green - blue).add_((6 * turn).view(-1, 1, 1))
    sixths.sub_((sixths / 6).floor_(), alpha=6)
    # Each channel is a trapezium of the hue between `low` and `low + chroma`.
    base = low.sub_(chroma)
    torch.addcmul(base, (sixths - 3).abs_().clamp_(1, 2), chroma, out=red)
    base.add_(chroma, alpha=3)
    torch.addcmul(base, (sixths - 2).abs_().clamp_(1, 2), chroma, value=-1, out=green)
    torch.addcmul(base, sixths.sub_(4).abs_().clamp_(1, 2), chroma, value=-1, out=blue)
    return images.clamp_(0, 1)


def gray_(images: Tensor, chosen: Tensor) -> Tensor:
    """Gray where `chosen` is 1, untouched where it is 0."""
    # Blending by 0 and 1 is exact, and several times faster than `where`.
    plain = gray(images).mul_(_column(chosen))
    return images.mul_(_column(1 - chosen)).add_(plain)
