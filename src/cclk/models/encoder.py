"""The interface of every encoder: raw samples to features."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from cclk.errors import SettingsError
from cclk.models.feature_noise import FeatureNoise
from cclk.models.inputs import InputTransform


class Encoder(nn.Module):
    """An `InputTransform` and a network: raw samples to (b, width) features.

    A network with a method `input_transform()` defines its own transform. Any other network gets
    images as (x - 0.5) / 0.25, with x in 0..1, and vectors standardized after `inputs.fit`.

    Args:
        network: maps transformed samples to (b, width); `width` is inferred by running it once.
        channels: number of channels of the images, or of columns of the vectors.
        size: height and width of the images; 0 for vectors.
        width: number of features, by a linear layer after the network; None keeps the network's.
        feature_noise: standard deviation of the noise on the features, which are then standardized;
            see `FeatureNoise`. 0 adds none.
    """

    width: int
    """Number of features."""
    network_width: int
    """Number of features of the network, before the linear layer that narrows them."""
    inputs: InputTransform

    def __init__(
        self,
        network: nn.Module,
        *,
        channels: int,
        size: int,
        width: int | None = None,
        feature_noise: float = 0.0,
    ) -> None:
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
        self.last: nn.Linear | None = None
        self.noise: FeatureNoise | None = None
        self._channels_last = not _has_narrow_convolution(network)
        self.width = self._infer_width(torch.zeros(shape).to(parameter))
        self.network_width = self.width
        if width is not None:
            self.last = nn.Linear(self.width, width).to(parameter)
            self.width = width
        if feature_noise:
            values = math.prod(shape[1:])
            self.noise = FeatureNoise(self.width, feature_noise, values).to(parameter)

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of raw samples: uint8 images, images in 0..1, or vectors."""
        return self.encode(self.inputs.scale(x))

    def encode(self, views: Tensor) -> Tensor:
        """Return the features of samples scaled by `inputs.scale`, and possibly augmented."""
        views = self.inputs.normalize(views)
        if self.inputs.images:
            # Convolutions on the CPU and on tensor cores are faster with the channels last;
            # networks keep the layout of their input. Images of one channel are contiguous in both
            # layouts and would keep theirs, so they are copied.
            layout = torch.channels_last if self._channels_last else torch.contiguous_format
            copy = views.clone if views.shape[1] == 1 else views.contiguous
            views = copy(memory_format=layout)
        features: Tensor = self.network(views)
        if self.last is not None:
            features = self.last(features)
        return features if self.noise is None else self.noise(features, views)

    @contextmanager
    def one_table(self) -> Iterator[None]:
        """Encode batches of one table: equal samples get different noise, if there is any.

        Without this, they are counted in each batch.
        """
        if self.noise is None:
            yield
        else:
            with self.noise.one_table():
                yield

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


def _has_narrow_convolution(network: nn.Module) -> bool:
    """Whether oneDNN may compute a gradient of this network wrongly with the channels last.

    The gradient of the weights of a strided 1 x 1 convolution is computed in a workspace that is
    too small if the convolution has fewer inputs than a vector register has floats
    (uxlfoundation/oneDNN issue 6035). It is silently wrong, or the process crashes or hangs. All
    versions of torch up to 2.13 (oneDNN 3.12) are affected. Strides are not attributes of weights,
    so other 1 x 1 convolutions count too. Remove this when tests/models/test_narrow_networks.py
    passes without it.
    """
    floats = 16 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 8
    return any(
        weight.dim() == 4 and weight.shape[2:] == (1, 1) and weight.shape[1] < floats
        for weight in network.parameters()
    )
