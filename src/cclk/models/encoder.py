"""The outside of every encoder: what goes in, what comes out."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Encoder(nn.Module):
    """A network with its input's scaling: images (b, channels, size, size) in 0..1, or vectors
    (b, channels), to (b, width) features.

    Args:
        network: the network itself, which sees images as (x - 0.5) / 0.25 and vectors as they are.
        channels: of the images; or the length of the vectors.
        size: of the images; 0 for vectors.

    The width is found by running the network once on zeros.
    """

    width: int

    def __init__(self, network: nn.Module, *, channels: int, size: int) -> None:
        super().__init__()
        self.network = network
        self.channels, self.size = channels, size
        self.width = self._measure()

    def forward(self, batch: Tensor) -> Tensor:
        if not batch.is_floating_point():
            raise ValueError(f"the encoder takes float numbers (images in 0..1), not {batch.dtype}")
        if self.size:
            # Convolutions on the CPU and on tensor cores are faster with the channels last;
            # networks keep the layout of their input.
            batch = batch.contiguous(memory_format=torch.channels_last).sub(0.5).mul_(4)
        features: Tensor = self.network(batch)
        return features

    @torch.no_grad()
    def _measure(self) -> int:
        shape = (2, self.channels, self.size, self.size) if self.size else (2, self.channels)
        anything = next(self.network.parameters(), torch.empty(0))
        training = self.network.training
        self.network.eval()
        try:
            features = self(torch.zeros(shape, dtype=anything.dtype, device=anything.device))
        except Exception as error:
            raise ValueError(
                f"the encoder cannot take a batch of shape {shape}: {str(error).splitlines()[0]}"
            ) from error
        finally:
            self.network.train(training)
        if not isinstance(features, Tensor) or features.dim() != 2 or len(features) != 2:
            shown = (
                tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
            )
            raise ValueError(
                f"an encoder must give features (b, width): for a batch of shape {shape} this one"
                f" gives {shown}"
            )
        return features.shape[1]
