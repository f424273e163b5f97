"""The trained network, encoder and projection head, and the embedding of a split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from cclk.data.dataset import Dataset, Split
from cclk.models import build_encoder, build_head
from cclk.training.settings import Settings

_BATCH = 1000


class ContrastiveNetwork(nn.Module):
    """Encoder and projection head.

    Args:
        settings: encoder, head and seed.
        shape: shape of a sample: (c, h, w) for images, (k,) for vectors.
    """

    def __init__(self, settings: Settings, shape: Sequence[int]) -> None:
        super().__init__()
        model = settings.model
        # Initial weights depend on the seed only, and the global random state stays unchanged.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            size = shape[-1] if len(shape) == 3 else 0
            self.encoder = build_encoder(
                model.encoder, channels=shape[0], size=size, **model.encoder_options
            )
            self.head = build_head(model.head, self.encoder.width, model.projection)

    def forward(self, views: Tensor) -> Tensor:
        """Return the projections of samples scaled by `encoder.inputs.scale`, then augmented."""
        projection: Tensor = self.head(self.encoder.encode(views))
        return projection

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Load weights; also those of files that name the input scale `inputs.spread`."""
        state = dict(state_dict)
        for old, name in (("inputs.mean", "mean"), ("inputs.spread", "std")):
            if old in state:
                value = state.pop(old)
                # Such files have empty buffers for images, whose scale was a constant.
                state[f"encoder.inputs.{name}"] = (
                    value if len(value) else getattr(self.encoder.inputs, name)
                )
        return super().load_state_dict(state, strict, assign)


def network_for(settings: Settings, dataset: Dataset) -> ContrastiveNetwork:
    """Return an untrained network whose input scale is fitted to the training split."""
    x = dataset.train.x
    network = ContrastiveNetwork(settings, x.shape[1:])
    if isinstance(x, Tensor) and x.dtype != torch.uint8:
        network.encoder.inputs.fit(x)
    return network


@torch.no_grad()
def embed(network: ContrastiveNetwork, split: Split) -> tuple[Tensor, Tensor]:
    """Return the features (n, width) and projections (n, d) of a split, on the CPU.

    Args:
        network: in evaluation mode.
        split: n samples, which are not augmented.
    """
    device = next(network.parameters()).device
    if len(split) == 0:
        nothing = torch.zeros(1, network.encoder.width, device=device)
        return nothing[:0].cpu(), network.head(nothing)[:0].cpu()
    features, projections = [], []
    for start in range(0, len(split), _BATCH):
        rows = torch.arange(start, min(start + _BATCH, len(split)))
        encoded = network.encoder(split.x[rows].to(device))
        features.append(encoded.cpu())
        projections.append(network.head(encoded).cpu())
    return torch.cat(features), torch.cat(projections)
