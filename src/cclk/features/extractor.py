"""What an extractor is: images as a dataset holds them in, features out; and how images are made
ready for a network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from cclk.errors import FeatureError


@dataclass(frozen=True)
class Preparation:
    """uint8 images (b, c, h, w) to float (b, channels, size, size): gray taken three times,
    scaled smoothly, then (x / 255 - mean) / std.

    Args:
        channels: that the network takes; None: those of the images.
        size: pixels per side; None: those of the images.
        mean, std: one number, or one per channel.
    """

    channels: int | None = None
    size: int | None = None
    mean: Sequence[float] = (0.0,)
    std: Sequence[float] = (1.0,)
    interpolation: Literal["bilinear", "bicubic"] = "bilinear"

    def __post_init__(self) -> None:
        if self.size is not None and (
            isinstance(self.size, bool) or not isinstance(self.size, int) or self.size < 1
        ):
            raise FeatureError(f"size is {self.size!r}: it must be a whole number of pixels")
        if min(self.std, default=0.0) <= 0:
            raise FeatureError(f"std is {_shown(self.std)}: it must be positive numbers")

    def __call__(self, images: Tensor) -> Tensor:
        x = images.float().div_(255)
        if self.channels == 3 and x.shape[1] == 1:
            x = x.expand(-1, 3, -1, -1)
        if self.channels not in (None, x.shape[1]):
            raise FeatureError(
                f"the encoder takes images of {self.channels} channels, but these have"
                f" {images.shape[1]}"
            )
        if self.size is not None and x.shape[-2:] != (self.size, self.size):
            x = F.interpolate(
                x, size=(self.size, self.size), mode=self.interpolation, antialias=True
            )
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(values) not in (1, x.shape[1]):
                raise FeatureError(
                    f"{name} is {_shown(values)}: it must be one number, or {x.shape[1]}, one per"
                    " channel"
                )
        mean, std = (
            torch.tensor(values, device=x.device)[:, None, None] for values in (self.mean, self.std)
        )
        return (x - mean) / std


@dataclass(frozen=True)
class Extractor:
    """A network with what its images need, under a name.

    Args:
        name: of the encoder, for the file of features.
        network: prepared images (b, c, size, size) to features (b, width).
        prepare: makes images ready.
        about: what else decides the features, for the file.
    """

    name: str
    network: Callable[[Tensor], Tensor]
    prepare: Preparation = Preparation()
    about: dict[str, Any] = field(default_factory=dict)

    @torch.inference_mode()
    def __call__(self, images: Tensor) -> Tensor:
        """Features (b, width), float32 on the CPU, of uint8 images (b, c, h, w)."""
        features = self.network(self.prepare(images))
        if features.ndim != 2 or len(features) != len(images):
            shape = tuple(features.shape)
            raise FeatureError(
                f"the encoder {self.name} gives {shape} for {len(images)} images: it must give"
                " features (b, width)"
            )
        return features.float().cpu()


def _shown(values: Sequence[float]) -> str:
    return " ".join(f"{value:g}" for value in values) or "empty"


def first_line(error: BaseException) -> str:
    """What went wrong elsewhere, for a message of one line."""
    return str(error).strip().partition("\n")[0] or type(error).__name__
