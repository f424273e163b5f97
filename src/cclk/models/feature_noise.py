"""Noise on features, a fixed function of the table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

_PRIME = 2**31 - 1
_GRID = 1024.0
"""Steps per unit of a scaled sample; samples that agree to this have the same noise."""
_ROUNDS = 3


class FeatureNoise(nn.Module):
    r"""Standardize features and add Gaussian noise that depends on the table only.

    .. math:: h'_i = \frac{h_i - \mu}{\sigma} + \mathrm{scale} \cdot
              \varepsilon(\mathrm{hash}(x_i), \#\{j < i : x_j = x_i\})

    A deterministic encoder is nearly injective, so whatever it does not remove at every scale stays
    readable by a fine enough probe; noise limits the resolution. The same table always gets the
    same noise, so repetition cannot average it out. Integer arithmetic makes the hash equal on
    every device and in every export. It is not secret: who has the encoder and the sample can
    compute the noise.

    Equal samples of a table, which are different people with the same answers, have different
    noise: with the same noise, all of them would be published as one point, and the mean of the
    condition at that point could be learned. (On the Adult data, where half of the rows are not
    unique, probes read R^2 0.10 of the age from such noise alone.) They are counted in the batch,
    or in all batches within `one_table`.

    Args:
        width: Number of features.
        scale: Standard deviation of the noise; features have 1.
        inputs: Values per sample.
    """

    multipliers: Tensor
    offsets: Tensor
    _counts: dict[int, int] | None = None

    def __init__(self, width: int, scale: float, inputs: int) -> None:
        super().__init__()
        self.scale = scale
        self.norm = nn.BatchNorm1d(width, affine=False)
        generator = torch.Generator().manual_seed(inputs)  # fixed constants, not the run's seed

        def draw(*shape: int) -> Tensor:
            return torch.randint(1, _PRIME, shape, generator=generator)

        self.register_buffer("multipliers", draw(inputs), persistent=False)
        self.register_buffer("offsets", draw(2, width), persistent=False)

    def forward(self, features: Tensor, samples: Tensor) -> Tensor:
        """Return the features with noise.

        Args:
            features: (b, width).
            samples: The scaled samples, b rows.
        """
        normalized: Tensor = self.norm(features)
        return normalized + self.scale * self.noise(samples).to(normalized.dtype)

    def noise(self, samples: Tensor) -> Tensor:
        """Return standard Gaussian noise for each sample, (b, width).

        Args:
            samples: The scaled samples, b rows.
        """
        values = (samples.detach().flatten(1).float() * _GRID).round().clamp(-(2.0**30), 2.0**30)
        terms = torch.remainder(values.long() * self.multipliers, _PRIME)
        key = torch.remainder(terms.sum(dim=1), _PRIME)
        key = torch.remainder(_mix(key) + self._earlier(key), _PRIME)
        first, second = (
            _uniform(torch.remainder(_mix(key)[:, None] + offset, _PRIME))
            for offset in self.offsets
        )
        radius = (-2 * first.log()).sqrt()
        return radius * (2 * math.pi * second).cos()

    @contextmanager
    def one_table(self) -> Iterator[None]:
        """Count equal samples over all batches within this context."""
        self._counts = {}
        try:
            yield
        finally:
            self._counts = None

    def _earlier(self, keys: Tensor) -> Tensor:
        """The number of equal samples before each one, (b,)."""
        earlier = (keys[:, None] == keys).long().tril(-1).sum(dim=1)
        if self._counts is None:
            return earlier
        counts, numbers = self._counts, keys.tolist()
        before = torch.tensor([counts.get(number, 0) for number in numbers], device=keys.device)
        for number in numbers:
            counts[number] = counts.get(number, 0) + 1
        return earlier + before


def _mix(state: Tensor) -> Tensor:
    """Scramble integers modulo the prime by fifth powers, which are one-to-one: 5 does not divide
    the prime minus 1.
    """
    for number in range(_ROUNDS):
        state = torch.remainder(state + 0x1E3779B9 + number, _PRIME)
        fourth = torch.remainder(torch.remainder(state * state, _PRIME).square(), _PRIME)
        state = torch.remainder(fourth * state, _PRIME)
    return state


def _uniform(state: Tensor) -> Tensor:
    """Scramble integers and scale them to numbers in (0, 1), in float64."""
    return (_mix(state).double() + 0.5) / _PRIME
