"""Looking at a network in the middle of its training, without a trace in the training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cclk.data.dataset import Split
from cclk.training.network import Network, embed

Embed = Callable[[Split], tuple[Tensor, Tensor]]
"""From a split to its features (n, width) and projections (n, d), as `Run.embed`."""


@dataclass(frozen=True)
class Watch:
    """Something to measure while a network is trained."""

    every: int
    """Steps from one measurement to the next; the last step is measured in any case."""
    measure: Callable[[Embed], Mapping[str, float]]
    """Gets a function that embeds samples with the weights of the moment; what it returns joins
    the metrics of the step.
    """

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ValueError(
                f"every is {self.every}: a watch looks every so many steps, at least 1"
            )

    def due(self, step: int, last: int) -> bool:
        """Whether to look after this many steps."""
        return step % self.every == 0 or step == last

    def look(self, network: Network) -> dict[str, float]:
        """Measure, and leave everything as it was."""
        with _undisturbed(network):
            return {
                name: float(value)
                for name, value in self.measure(lambda split: embed(network, split)).items()
            }


@contextmanager
def _undisturbed(network: Network) -> Iterator[None]:
    """The network in evaluation mode; afterwards it is trained on, and everybody's random
    numbers go on as if nothing had been.
    """
    numbers = np.random.get_state()
    device = next(network.parameters()).device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        network.eval()
        try:
            yield
        finally:
            network.train()
            np.random.set_state(numbers)
