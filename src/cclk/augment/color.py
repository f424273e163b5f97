"""In-place color changes of a batch of images (b, 3, h, w) in 0..1, with one factor per image.

Definitions follow torchvision's `ColorJitter`: blends with black, with the mean gray, with the gray
image, and a rotation of the hue in HSV; results are clipped to 0..1.
"""

from __future__ import annotations

import torch
from torch import Tensor

LUMA = (0.2989, 0.587, 0.114)


def _column(factor: Tensor) -> Tensor:
    return factor.view(-1, 1, 1, 1)


def gray(images: Tensor) -> Tensor:
    """Return the luma of each image, (b, 1, h, w); the mean of channels if there are not three."""
    if images.shape[1] != 3:
        return images.mean(1, keepdim=True)
    red, green, blue = images[:, :1], images[:, 1:2], images[:, 2:]
    return (red * LUMA[0]).add_(green, alpha=LUMA[1]).add_(blue, alpha=LUMA[2])


def brightness_(images: Tensor, factor: Tensor) -> Tensor:
    """Compute factor * x."""
    return images.mul_(_column(factor)).clamp_(max=1)


def contrast_(images: Tensor, factor: Tensor) -> Tensor:
    """Compute factor * x + (1 - factor) * mean gray of the image."""
    # Luma is linear, so the luma of the mean color is the mean luma.
    mean = gray(images.mean((2, 3), keepdim=True))
    return images.mul_(_column(factor)).add_(mean.mul_(_column(1 - factor))).clamp_(0, 1)


def saturation_(images: Tensor, factor: Tensor) -> Tensor:
    """Compute factor * x + (1 - factor) * gray image."""
    luma = gray(images).mul_(_column(1 - factor))
    return images.mul_(_column(factor)).add_(luma).clamp_(0, 1)


def hue_(images: Tensor, turn: Tensor) -> Tensor:
    """Rotate the hue by `turn` of a full circle, keeping the value and saturation of HSV."""
    red, green, blue = images.unbind(1)
    high = torch.maximum(torch.maximum(red, green), blue)
    low = torch.minimum(torch.minimum(red, green), blue)
    chroma = high.sub_(low)
    # With channels scaled to R, G, B between 0 and 1, the hue is 1 + G + B - R sixths away from
    # red, on the side of the greater of G and B. Masks for the cases are several times slower.
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


def gray_(images: Tensor, selected: Tensor) -> Tensor:
    """Make images gray where `selected` is 1, and keep them where it is 0."""
    # Blending by 0 and 1 is exact, and several times faster than `where`.
    luma = gray(images).mul_(_column(selected))
    return images.mul_(_column(1 - selected)).add_(luma)
