"""The trained network, encoder and projection head, and the embedding of a split."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from cclk._reading import reason
from cclk.data.dataset import Dataset, Split
from cclk.errors import CclkError, SettingsError
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
                model.encoder,
                channels=shape[0],
                size=size,
                feature_width=model.feature_width,
                feature_noise=settings.removal.feature_noise,
                **model.encoder_options,
            )
            self.head = build_head(
                model.head, self.encoder.width, model.projection, self.encoder.network_width
            )

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


def stored_network(
    settings: Settings, shape: Sequence[int], weights: Mapping[str, Tensor]
) -> ContrastiveNetwork:
    """Return the network that a file describes, with its weights, in evaluation mode.

    Args:
        settings: encoder, head and seed.
        shape: shape of a sample.
        weights: all of its weights, by name.

    Raises:
        SettingsError: if the weights are not those of this network.
    """
    try:
        count, stored = _count(settings, shape), sum(each.numel() for each in weights.values())
        if count > 2 * stored + 1024:  # files of earlier versions lack a few values
            raise SettingsError(f"the network has {count:,} weights, and the file {stored:,}")
        network = ContrastiveNetwork(settings, shape)
        network.load_state_dict(weights)
    except CclkError:
        raise
    except Exception as error:  # options of a network can be of any type and size
        raise SettingsError(reason(error)) from error
    return network.eval()


def _count(settings: Settings, shape: Sequence[int]) -> int:
    """Return the number of weights of a network, without memory for them; 0 if it needs memory."""
    with suppress(Exception), warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")  # pretrained weights are not loaded
        state = ContrastiveNetwork(settings, shape).state_dict()
        return sum(each.numel() for each in state.values())
    return 0


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
    with network.encoder.one_table():
        for start in range(0, len(split), _BATCH):
            rows = torch.arange(start, min(start + _BATCH, len(split)))
            encoded = network.encoder(split.x[rows].to(device))
            features.append(encoded.cpu())
            projections.append(network.head(encoded).cpu())
    return torch.cat(features), torch.cat(projections)
