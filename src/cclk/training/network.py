"""The network that is trained, encoder and head, and what it makes of samples."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cclk.data.dataset import Dataset, Split
from cclk.models import build_encoder, build_head
from cclk.training.settings import Settings

_BATCH = 1000


class Inputs(nn.Module):
    """Samples as the encoder takes them: images in 0..1, the columns of vectors less their mean
    and divided by their spread.

    Mean and spread are those of the training split and are kept with the weights, so that new
    samples meet the same scale.
    """

    def __init__(self, vectors: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(vectors))
        self.register_buffer("spread", torch.ones(vectors))

    def fit(self, x: Tensor) -> None:
        """Take over mean and spread of vectors; a column that does not vary stays as it is."""
        wide = x.double()
        mean, spread = wide.mean(dim=0), wide.std(dim=0, correction=0)
        # Rounding makes a constant column seem to vary a little; dividing by that would blow up
        # whatever comes later.
        varies = (wide.amax(dim=0) > wide.amin(dim=0)) & (spread > 1e-6 * mean.abs())
        self.mean, self.spread = mean.float(), spread.where(varies, 1.0).float()

    def forward(self, x: Tensor) -> Tensor:
        return (x.float() - self.mean) / self.spread if len(self.mean) else x.float() / 255


class Network(nn.Module):
    """Encoder and projection head, for samples of one shape: (c, h, w) images or (k,) vectors."""

    def __init__(self, settings: Settings, shape: Sequence[int]) -> None:
        super().__init__()
        model, images = settings.model, len(shape) == 3
        # Initial weights are a function of the seed; nobody's random state is touched.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            size = shape[-1] if images else 0
            self.encoder = build_encoder(
                model.encoder, channels=shape[0], size=size, **model.encoder_options
            )
            self.head = build_head(model.head, self.encoder.width, model.projection)
        self.inputs = Inputs(0 if images else shape[0])

    def forward(self, batch: Tensor) -> Tensor:
        """Projections of samples that have been through `inputs`, and perhaps through an
        augmentation.
        """
        projection: Tensor = self.head(self.encoder(batch))
        return projection


def network_for(settings: Settings, dataset: Dataset) -> Network:
    """An untrained network for the samples of this dataset."""
    x = dataset.train.x
    network = Network(settings, x.shape[1:])
    if isinstance(x, Tensor) and x.dtype != torch.uint8:
        network.inputs.fit(x)
    return network


@torch.no_grad()
def embed(network: Network, split: Split) -> tuple[Tensor, Tensor]:
    """Features of the encoder (n, width) and their projections (n, d) of the samples as they
    are, on the CPU.

    The network is to be in evaluation mode.
    """
    device = next(network.parameters()).device
    if len(split) == 0:
        nothing = torch.zeros(1, network.encoder.width, device=device)
        return nothing[:0].cpu(), network.head(nothing)[:0].cpu()
    features, projections = [], []
    for start in range(0, len(split), _BATCH):
        rows = torch.arange(start, min(start + _BATCH, len(split)))
        encoded = network.encoder(network.inputs(split.x[rows].to(device)))
        features.append(encoded.cpu())
        projections.append(network.head(encoded).cpu())
    return torch.cat(features), torch.cat(projections)
