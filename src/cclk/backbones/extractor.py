"""A named image encoder: raw images to features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from cclk.errors import FeatureError


@dataclass(frozen=True)
class Extractor:
    """An image encoder and its description.

    Args:
        name: name of the encoder, written to the feature file.
        encode: maps uint8 images (b, c, h, w) to features (b, width).
        metadata: further settings that determine the features, written to the feature file.
    """

    name: str
    encode: Callable[[Tensor], Tensor]
    metadata: dict[str, object] = field(default_factory=dict)

    @torch.inference_mode()
    def __call__(self, images: Tensor) -> Tensor:
        """Return the features (b, width) of uint8 images (b, c, h, w), float32 on the CPU."""
        features = self.encode(images)
        if features.ndim != 2 or len(features) != len(images):
            raise FeatureError(
                f"the encoder {self.name} returns the shape {tuple(features.shape)} for"
                f" {len(images)} images: it must return features (b, width)"
            )
        return features.float().cpu()


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, for a message of one line."""
    return str(error).strip().partition("\n")[0] or type(error).__name__
