"""The network that is trained, encoder and head, and what it makes of samples."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cclk.data.dataset import Dataset, Split
from cclk.models import build_encoder, build_head
from cclk.training.settings import Settings

_BATCH = 1000


class Network(nn.Module):
    """Encoder and projection head."""

    def __init__(self, settings: Settings, channels: int, size: int) -> None:
        super().__init__()
        model = settings.model
        # Initial weights are a function of the seed; nobody's random state is touched.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            self.encoder = build_encoder(model.encoder, channels=channels, size=size, **model.encoder_options)
            self.head = build_head(model.head, self.encoder.width, model.projection)

    def forward(self, batch: Tensor) -> Tensor:
        projection: Tensor = self.head(self.encoder(batch))
        return projection


def network_for(settings: Settings, dataset: Dataset) -> Network:
    """An untrained network for samples of this shape."""
    shape = dataset.train.x.shape[1:]
    return Network(settings, channels=shape[0], size=shape[-1] if len(shape) == 3 else 0)


@torch.no_grad()
def embed(network: Network, split: Split) -> tuple[Tensor, Tensor]:
    """Features of the encoder (n, width) and their projections (n, d) of the samples as they are, on the CPU.

    The network is to be in evaluation mode.
    """
    device = next(network.parameters()).device
    if len(split) == 0:
        nothing = torch.zeros(1, network.encoder.width, device=device)
        return nothing[:0].cpu(), network.head(nothing)[:0].cpu()
    features, projections = [], []
    for start in range(0, len(split), _BATCH):
        rows = torch.arange(start, min(start + _BATCH, len(split)))
        encoded = network.encoder(_as_input(split.x[rows].to(device)))
        features.append(encoded.cpu())
        projections.append(network.head(encoded).cpu())
    return torch.cat(features), torch.cat(projections)


def _as_input(x: Tensor) -> Tensor:
    """Samples as the encoder takes them: pictures in 0..1, vectors as they are."""
    return x.float().div_(255) if x.dtype == torch.uint8 else x.float()
