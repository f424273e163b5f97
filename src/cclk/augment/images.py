"""Views of images: crop and flip, color, gray, blur, each drawn for every image by itself."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cclk.augment import color, geometry
from cclk.augment.base import Augmentation, check_probability, check_range, check_strength, uniform
from cclk.augment.blur import gaussian_blur
from cclk.augment.plain import to_float

# Which row of the draws serves what. All are drawn, used or not, so that one setting does not
# change the draws of another.
_FLIP, _JITTER, _FACTORS, _GRAY, _BLUR, _SIGMA, _DRAWS = (
    geometry.BOX_DRAWS + offset for offset in (0, 1, 2, 6, 7, 8, 9)
)

# A batch on the CPU is worked on in parts of about this many numbers, which stay in its caches from
# the first operation to the last.
_PART = 2**19


@dataclass(frozen=True)
class Images(Augmentation):
    """Random crop and flip, color jitter, gray and blur, in this order; each with its own
    probability and strength.

    Saturation, hue and gray are defined for three channels only.

    Args:
        size: height and width of the views.
        crop: share of the area that a crop keeps, (low, high); None takes the whole image.
        ratio: width / height of a crop, (low, high).
        flip: probability of a horizontal flip.
        jitter: probability of color jitter, whose order is drawn anew for each batch.
        brightness, contrast, saturation: factors between 1 - value and 1 + value.
        hue: turn between -value and value of the color circle, at most 0.5.
        gray: probability of losing all color.
        blur: probability of a Gaussian blur; its kernel spans a tenth of the image.
        sigma: width of the blur in pixels, (low, high).
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
        if self.size < 1:
            raise ValueError(f"size is {self.size}: a image has at least 1 pixel")
        if self.crop is not None:
            check_range("crop", self.crop, 1)
        check_range("ratio", self.ratio, float("inf"))
        check_range("sigma", self.sigma, float("inf"))
        for name in ("flip", "jitter", "gray", "blur"):
            check_probability(name, getattr(self, name))
        for name, most in (("brightness", 1), ("contrast", 1), ("saturation", 1), ("hue", 0.5)):
            check_strength(name, getattr(self, name), most)

    def apply(self, batch: Tensor, generator: torch.Generator, first: int, total: int) -> Tensor:
        if batch.dim() != 4:
            raise ValueError(
                f"images must be (b, channels, height, width), not {tuple(batch.shape)}; vectors"
                " take 'vectors' or 'none'"
            )
        count, channels, height, width = batch.shape
        if channels != 3 and (
            self.gray > 0 or (self.jitter > 0 and self.saturation + self.hue > 0)
        ):
            raise ValueError(
                f"the images have {channels} channels: saturation, hue and gray need 3, set them"
                " to 0"
            )
        draws = uniform(_DRAWS, generator, first, count, total, batch.device)
        order = torch.randperm(4, generator=generator, device=generator.device).tolist()
        box = self._boxes(draws, height, width)
        views = torch.empty(count, channels, self.size, self.size, device=batch.device)
        largest = channels * max(height * width, self.size**2)
        parts = math.ceil(count * largest / _PART) if batch.device.type == "cpu" else 1
        for index in range(parts):
            rows = slice(count * index // parts, count * (index + 1) // parts)
            views[rows] = self._view(
                batch[rows], None if box is None else box[:, rows], draws[:, rows], order
            )
        return views

    def _boxes(self, draws: Tensor, height: int, width: int) -> Tensor | None:
        """Where each view is taken from; None if every view shows its whole image at its own size."""
        if self.crop is not None:
            box = geometry.boxes(draws[: geometry.BOX_DRAWS], height, width, self.crop, self.ratio)
        elif height == width == self.size:
            return None
        else:
            box = (
                torch.tensor([0.0, 0.0, height, width], device=draws.device)
                .unsqueeze(1)
                .expand(4, draws.shape[1])
            )
        return geometry.flipped(box, draws[_FLIP] < self.flip) if self.flip > 0 else box

    def _view(self, images: Tensor, box: Tensor | None, draws: Tensor, order: list[int]) -> Tensor:
        view = to_float(images)
        if box is not None:
            view = geometry.resample(view, box, self.size)
        elif self.flip > 0:
            view = torch.where((draws[_FLIP] < self.flip).view(-1, 1, 1, 1), view.flip(-1), view)
        elif view is images:
            view = view.clone()
        if self.jitter > 0:
            self._jitter(view, draws, order)
        if self.gray > 0:
            color.gray_(view, (draws[_GRAY] < self.gray).to(view.dtype))
        if self.blur > 0:
            low, high = self.sigma
            sigma = torch.where(draws[_BLUR] < self.blur, low + (high - low) * draws[_SIGMA], 0.0)
            view = gaussian_blur(view, sigma, radius=max(1, self.size // 20))
        return view

    def _jitter(self, view: Tensor, draws: Tensor, order: list[int]) -> None:
        chosen = draws[_JITTER] < self.jitter
        changes = (
            (color.brightness_, self.brightness, 1.0),
            (color.contrast_, self.contrast, 1.0),
            (color.saturation_, self.saturation, 1.0),
            (color.hue_, self.hue, 0.0),
        )
        for index in order:
            change, strength, neutral = changes[index]
            if strength > 0:
                change(
                    view,
                    torch.where(
                        chosen, neutral + strength * (2 * draws[_FACTORS + index] - 1), neutral
                    ),
                )
