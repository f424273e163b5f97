"""The scale of raw samples, for training, evaluation, embedding, export and feature extraction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cclk.errors import DataError, SettingsError


class InputTransform(nn.Module):
    """Scale raw samples to the input of a network.

                     images                             vectors
        scale        x / 255 for uint8                  (x - mean) / std
        normalize    resize, then (x - mean) / std      unchanged

    The forward pass applies both. In training, augmentation comes between them: it takes images in
    0..1 and standardized vectors. Mean and standard deviation are buffers, saved with the weights.

    Args:
        channels: number of channels of the images, or of columns of the vectors.
        mean: one number, or one per channel (of pixels in 0..1) or column.
        std: standard deviation, in the same form.
        images: True for images (b, channels, h, w), uint8 or float in 0..1; False for vectors
            (b, channels). Gray images are repeated to fill `channels`.
        size: pixels per side to resize images to, with antialiasing; None keeps their size.
        interpolation: "bilinear" or "bicubic".

    >>> InputTransform(1)(torch.tensor([[[[0, 51, 255]]]], dtype=torch.uint8))
    tensor([[[[-2.0000, -1.2000,  2.0000]]]])
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        channels: int,
        mean: float | Sequence[float] = 0.5,
        std: float | Sequence[float] = 0.25,
        *,
        images: bool = True,
        size: int | None = None,
        interpolation: Literal["bilinear", "bicubic"] = "bilinear",
    ) -> None:
        super().__init__()
        if size is not None and (type(size) is not int or size < 1):
            raise SettingsError(
                f"images cannot be resized to {size!r} pixels per side: use a positive integer"
            )
        self.images, self.size, self.interpolation = images, size, interpolation
        for name, value in (("mean", mean), ("std", std)):
            numbers = torch.tensor(value, dtype=torch.float32).reshape(-1)
            if len(numbers) not in (1, channels):
                raise SettingsError(
                    f"{name} has {len(numbers)} values: use one, or {channels}, one per channel"
                )
            self.register_buffer(name, numbers.expand(channels).clone())
        if not (self.std > 0).all():
            raise SettingsError(f"std is {std}: it must be positive")

    def fit(self, vectors: Tensor) -> None:
        """Set mean and std to those of the columns of `vectors` (n, channels).

        Constant columns are centered but not divided.
        """
        wide = vectors.double()
        mean, std = wide.mean(dim=0), wide.std(dim=0, correction=0)
        # Rounding gives a constant column a tiny std, which would magnify later deviations.
        varies = (wide.amax(dim=0) > wide.amin(dim=0)) & (std > 1e-6 * mean.abs())
        self.mean.copy_(mean)
        self.std.copy_(std.where(varies, 1.0))

    def scale(self, x: Tensor) -> Tensor:
        """Return raw samples as augmentations take them: images in 0..1, standardized vectors."""
        if not self.images:
            return (x.to(self.mean.dtype) - self.mean) / self.std
        if x.dtype == torch.uint8:
            return x.to(self.mean.dtype).div_(255)
        if not x.is_floating_point():
            raise DataError(f"images are {x.dtype}: they must be uint8, or float in 0..1")
        return x.to(self.mean.dtype)

    def normalize(self, x: Tensor) -> Tensor:
        """Return scaled samples as the network takes them."""
        if not self.images:
            return x
        if x.shape[1] not in (1, len(self.mean)):
            raise DataError(f"images have {x.shape[1]} channels: they must have {len(self.mean)}")
        if self.size is not None and x.shape[-2:] != (self.size, self.size):
            x = F.interpolate(x, (self.size, self.size), mode=self.interpolation, antialias=True)
        return (x - self.mean[:, None, None]).div_(self.std[:, None, None])

    def forward(self, x: Tensor) -> Tensor:
        return self.normalize(self.scale(x))
