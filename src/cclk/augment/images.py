"""Views of images: crop and flip, color jitter, gray and blur, drawn for each image."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cclk.augment import color, geometry
from cclk.augment.base import Augmentation, check_number, check_range
from cclk.errors import DataError, SettingsError

# Rows of the random draws. All rows are always drawn, so one setting does not change the draws of
# another.
_FLIP, _JITTER, _FACTORS, _GRAY, _BLUR, _SIGMA, _DRAWS = (
    geometry.BOX_DRAWS + offset for offset in (0, 1, 2, 6, 7, 8, 9)
)

# Numbers per part of a batch on the CPU: small enough that all operations on a part stay in cache.
_PART = 2**19


@dataclass(frozen=True)
class Images(Augmentation):
    """Random crop and flip, color jitter, gray and blur, in this order.

    Saturation, hue and gray need three channels.

    Args:
        size: height and width of the views.
        crop: (low, high) of the share of the area that a crop keeps; None keeps the full image.
        ratio: (low, high) of width / height of a crop.
        flip: probability of a horizontal flip.
        jitter: probability of color jitter; the order of its changes is drawn once per batch.
        brightness: factors are uniform between 1 - brightness and 1 + brightness.
        contrast: as brightness.
        saturation: as brightness.
        hue: rotation between -hue and hue of the color circle, at most 0.5.
        gray: probability of a conversion to gray.
        blur: probability of a Gaussian blur; its kernel covers a tenth of the image.
        sigma: (low, high) of the standard deviation of the blur, in pixels.
    """

    size: int
    crop: tuple[float, float] | None = None
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = 0.0
    jitter: float = 0.0
    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    hue: float = 0.0
    gray: float = 0.0
    blur: float = 0.0
    sigma: tuple[float, float] = (0.1, 2.0)

    def __post_init__(self) -> None:
        if not isinstance(self.size, int) or self.size < 1:
            raise SettingsError(f"size is {self.size!r}: it must be a number of pixels, 1 or more")
        if self.crop is not None:
            check_range("crop", self.crop, 1)
        check_range("ratio", self.ratio, float("inf"))
        check_range("sigma", self.sigma, float("inf"))
        for name in ("flip", "jitter", "gray", "blur", "brightness", "contrast", "saturation"):
            check_number(name, getattr(self, name), 1)
        check_number("hue", self.hue, 0.5)

    def apply(self, batch: Tensor, generator: torch.Generator, first: int, total: int) -> Tensor:
        if batch.dim() != 4:
            raise DataError(
                f"images must be (b, channels, height, width), not {tuple(batch.shape)}; vectors"
                " take 'vectors' or 'none'"
            )
        count, channels, height, width = batch.shape
        if channels != 3 and (
            self.gray > 0 or (self.jitter > 0 and self.saturation + self.hue > 0)
        ):
            raise DataError(
                f"the images have {channels} channels, but saturation, hue and gray need 3: set"
                " these to 0"
            )
        draws = torch.rand(_DRAWS, total, generator=generator, device=generator.device)
        draws = draws[:, first : first + count].to(batch.device)
        order = torch.randperm(4, generator=generator, device=generator.device).tolist()
        box = self._boxes(draws, height, width)
        views = torch.empty(count, channels, self.size, self.size, device=batch.device)
        largest = channels * max(height * width, self.size**2)
        parts = math.ceil(count * largest / _PART) if batch.device.type == "cpu" else 1
        for index in range(parts):
            rows = slice(count * index // parts, count * (index + 1) // parts)
            part = None if box is None else box[:, rows]
            views[rows] = self._view(batch[rows], part, draws[:, rows], order)
        return views

    def _boxes(self, draws: Tensor, height: int, width: int) -> Tensor | None:
        """Return the box of each view; None if views show the full image at its own size."""
        if self.crop is not None:
            box = geometry.boxes(draws[: geometry.BOX_DRAWS], height, width, self.crop, self.ratio)
        elif height == width == self.size:
            return None
        else:
            full = torch.tensor([0.0, 0.0, height, width], device=draws.device)
            box = full.unsqueeze(1).expand(4, draws.shape[1])
        return geometry.flipped(box, draws[_FLIP] < self.flip) if self.flip > 0 else box

    def _view(self, images: Tensor, box: Tensor | None, draws: Tensor, order: list[int]) -> Tensor:
        if box is not None:
            view = geometry.resample(images, box, self.size)
        elif self.flip > 0:
            flip = (draws[_FLIP] < self.flip).view(-1, 1, 1, 1)
            view = torch.where(flip, images.flip(-1), images)
        else:
            view = images.clone()
        if self.jitter > 0:
            self._jitter(view, draws, order)
        if self.gray > 0:
            color.gray_(view, (draws[_GRAY] < self.gray).to(view.dtype))
        if self.blur > 0:
            low, high = self.sigma
            sigma = torch.where(draws[_BLUR] < self.blur, low + (high - low) * draws[_SIGMA], 0.0)
            view = geometry.gaussian_blur(view, sigma, radius=max(1, self.size // 20))
        return view

    def _jitter(self, view: Tensor, draws: Tensor, order: list[int]) -> None:
        jittered = draws[_JITTER] < self.jitter
        changes = (
            (color.brightness_, self.brightness, 1.0),
            (color.contrast_, self.contrast, 1.0),
            (color.saturation_, self.saturation, 1.0),
            (color.hue_, self.hue, 0.0),
        )
        for index in order:
            change, strength, neutral = changes[index]
            if strength > 0:
                factor = neutral + strength * (2 * draws[_FACTORS + index] - 1)
                change(view, torch.where(jittered, factor, neutral))
