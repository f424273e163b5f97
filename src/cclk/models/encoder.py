"""The interface of every encoder: raw samples to features."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from cclk.errors import SettingsError
from cclk.models.inputs import InputTransform


class Encoder(nn.Module):
    """An `InputTransform` and a network: raw samples to (b, width) features.

    A network with a method `input_transform()` defines its own transform. Any other network gets
    images as (x - 0.5) / 0.25, with x in 0..1, and vectors standardized after `inputs.fit`.

    Args:
        network: maps transformed samples to (b, width); `width` is inferred by running it once.
        channels: number of channels of the images, or of columns of the vectors.
        size: height and width of the images; 0 for vectors.
    """

    width: int
    inputs: InputTransform

    def __init__(self, network: nn.Module, *, channels: int, size: int) -> None:
        super().__init__()
        parameter = next(network.parameters(), torch.empty(0))
        own: Any = getattr(network, "input_transform", None)
        if own is not None:
            inputs: InputTransform = own()
        elif size:
            inputs = InputTransform(channels)
        else:
            inputs = InputTransform(channels, mean=0.0, std=1.0, images=False)
        self.inputs, self.network = inputs.to(parameter), network
        shape = (2, channels, size, size) if size else (2, channels)
        self.width = self._infer_width(torch.zeros(shape).to(parameter))

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of raw samples: uint8 images, images in 0..1, or vectors."""
        return self.encode(self.inputs.scale(x))

    def encode(self, views: Tensor) -> Tensor:
        """Return the features of samples scaled by `inputs.scale`, and possibly augmented."""
        views = self.inputs.normalize(views)
        if self.inputs.images:
            # Convolutions on the CPU and on tensor cores are faster with the channels last;
            # networks keep the layout of their input.
            views = views.contiguous(memory_format=torch.channels_last)
        features: Tensor = self.network(views)
        return features

    @torch.no_grad()
    def _infer_width(self, zeros: Tensor) -> int:
        training, shape = self.network.training, tuple(zeros.shape)
        self.network.eval()
        try:
            features = self.encode(zeros)
        except Exception as error:
            raise SettingsError(
                f"the encoder cannot take a batch of shape {shape}: {str(error).splitlines()[0]}"
            ) from error
        finally:
            self.network.train(training)
        if not isinstance(features, Tensor) or features.dim() != 2 or len(features) != 2:
            result = getattr(features, "shape", type(features).__name__)
            raise SettingsError(
                f"an encoder must return features (b, width), but for a batch of shape {shape} this"
                f" one returns {result}"
            )
        return features.shape[1]
