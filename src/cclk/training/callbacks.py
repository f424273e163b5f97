"""Evaluation callbacks that leave RNG state and train/eval mode untouched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cclk.data.dataset import Split
from cclk.training.network import ContrastiveNetwork, embed

Embed = Callable[[Split], tuple[Tensor, Tensor]]
"""From a split to its features (n, width) and projections (n, d)."""


@dataclass(frozen=True)
class Callback:
    """A measurement that is repeated during training.

    Args:
        every: Steps between measurements; the last step is always measured.
        measure: Receives a function that embeds a split with the current weights, and returns
            metrics by name, which are logged with those of the step.
    """

    every: int
    measure: Callable[[Embed], Mapping[str, float]]

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ValueError(f"every is {self.every}: it must be at least 1")

    def due(self, step: int, last: int) -> bool:
        """Whether to measure after this number of steps."""
        return step % self.every == 0 or step == last

    def __call__(self, network: ContrastiveNetwork) -> dict[str, float]:
        """Measure a network; its mode and the RNG state are restored."""
        with _undisturbed(network):
            metrics = self.measure(lambda split: embed(network, split))
            return {name: float(value) for name, value in metrics.items()}


@contextmanager
def _undisturbed(network: ContrastiveNetwork) -> Iterator[None]:
    """Evaluation mode, then training mode and the RNG state from before."""
    numbers = np.random.get_state()
    device = next(network.parameters()).device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        network.eval()
        try:
            yield
        finally:
            network.train()
            np.random.set_state(numbers)
