"""The trained network, encoder and projection head, its file, and the embedding of a split."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import Tensor, nn

import cclk
from cclk._files import read_tensors, write_tensors
from cclk._reading import check_json, parse_json, reason
from cclk.data.dataset import Dataset, Split
from cclk.errors import CclkError, SettingsError
from cclk.models import build_encoder, build_head
from cclk.training.settings import Settings

_BATCH = 1000


class ContrastiveNetwork(nn.Module):
    """Encoder and projection head."""

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


def network_for(settings: Settings, dataset: Dataset) -> ContrastiveNetwork:
    """Return an untrained network whose input scale is fitted to the training split."""
    x = dataset.train.x
    network = ContrastiveNetwork(settings, x.shape[1:])
    if isinstance(x, Tensor) and x.dtype != torch.uint8:
        network.encoder.inputs.fit(x)
    return network


@dataclass(frozen=True)
class EncoderFile:
    """An encoder in a .safetensors file: that of a run, an export, or a `ConditionalEncoder`.

    Attributes:
        settings: The settings of the training, without absolute paths.
        shape: The shape of a sample: (c, h, w) or (k,).
        inputs: The names of the input columns, in their order; empty if they have none.
        kernel: The fitted length scales of the kernel, by position.
        parameters: Those of a `ConditionalEncoder`.
    """

    settings: dict[str, Any]
    shape: tuple[int, ...]
    inputs: list[str] = field(default_factory=list)
    kernel: dict[str, float | tuple[float, ...]] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.shape) not in (1, 3) or min(self.shape) < 1:
            raise ValueError(f"the shape is {self.shape}: it must be (c, h, w) or (k,)")
        if self.inputs and len(self.inputs) != self.shape[0]:
            raise ValueError(f"there are {len(self.inputs)} names of {self.shape[0]} inputs")

    def write(self, path: Path, weights: Mapping[str, Tensor]) -> None:
        """Write the file with these weights."""
        metadata = {name: json.dumps(value) for name, value in vars(self).items() if value}
        write_tensors(path, weights, metadata | {"version": cclk.__version__})

    @classmethod
    def read(cls, path: Path) -> tuple[EncoderFile, dict[str, Tensor]]:
        """Read and validate a file, and its weights.

        Raises:
            OSError: If it is missing or damaged.
            CclkError: If it is not of this form.
        """
        weights, metadata = read_tensors(path)
        names = [each.name for each in fields(cls) if each.name in metadata]
        file = check_json(_FILE, {name: parse_json(metadata[name]) for name in names})
        return file, weights

    def network(self, settings: Settings, weights: Mapping[str, Tensor]) -> ContrastiveNetwork:
        """The network in evaluation mode.

        Raises:
            SettingsError: If the weights are not those of this network.
        """
        try:
            count = _count(settings, self.shape)
            stored = sum(weight.numel() for weight in weights.values())
            if count > stored:  # before memory is taken for it
                raise SettingsError(f"the network has {count:,} weights, and the file {stored:,}")
            network = ContrastiveNetwork(settings, self.shape)
            network.load_state_dict(weights)
        except CclkError:
            raise
        except Exception as error:  # options of a network can be of any type and size
            raise SettingsError(reason(error)) from error
        return network.eval()


_FILE = TypeAdapter(EncoderFile)


def _count(settings: Settings, shape: Sequence[int]) -> int:
    """Return the number of weights of a network, without memory for them; 0 if it needs memory."""
    with suppress(Exception), warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")  # pretrained weights are not loaded
        state = ContrastiveNetwork(settings, shape).state_dict()
        return sum(each.numel() for each in state.values())
    return 0


@torch.no_grad()
def embed(network: ContrastiveNetwork, split: Split) -> tuple[Tensor, Tensor]:
    """Features (n, width) and projections (n, d) of a split, by a network in evaluation mode."""
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
