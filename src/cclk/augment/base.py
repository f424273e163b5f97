"""The interface of augmentations, and checks of their settings."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from cclk.errors import DataError, SettingsError


class Augmentation(ABC):
    """A random change of every sample of a batch, drawn from a generator.

    Samples are scaled by `cclk.models.InputTransform.scale`: images (b, c, h, w) in 0..1, or
    standardized vectors (b, k). The same generator state gives the same views. Random numbers are
    drawn on the generator's device and used on the batch's, so the draws of a CPU generator do not
    depend on the device of the batch.
    """

    @torch.no_grad()
    def __call__(
        self, batch: Tensor, generator: torch.Generator, *, first: int = 0, of: int | None = None
    ) -> Tensor:
        """Return a view of each sample.

        Args:
            batch: the samples; they are not changed.
            generator: source of all randomness.
            first: position of the batch in a larger batch, for a process that holds a part of it.
            of: size of the larger batch. `augmentation(part, generator, first=128, of=256)` equals
                the rows from 128 of the views of all 256 samples.
        """
        total = len(batch) if of is None else of
        if not 0 <= first <= first + len(batch) <= total:
            raise DataError(
                f"first={first}, of={total}: a part of {len(batch)} rows does not fit there"
            )
        if not batch.is_floating_point():
            raise DataError(
                f"samples are {batch.dtype}: scale them first, with cclk.models.InputTransform"
            )
        return self.apply(batch, generator, first, total)

    @abstractmethod
    def apply(self, batch: Tensor, generator: torch.Generator, first: int, total: int) -> Tensor:
        """Return the views of rows first.. of a batch of `total`, drawing numbers for all rows."""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and value < float("inf")


def check_number(name: str, value: float, upper: float) -> None:
    """Raise an error unless the setting is a number between 0 and `upper`."""
    if not (_is_number(value) and 0 <= value <= upper):
        limit = f"between 0 and {upper:g}" if upper < float("inf") else "0 or more"
        raise SettingsError(f"{name} is {value!r}: it must be a number, {limit}")


def check_range(name: str, value: tuple[float, float], upper: float) -> None:
    """Raise an error unless the setting is (low, high) with 0 < low <= high <= `upper`."""
    if not (
        isinstance(value, tuple)
        and len(value) == 2
        and all(map(_is_number, value))
        and 0 < value[0] <= value[1] <= upper
    ):
        limit = f"at most {upper:g}" if upper < float("inf") else "finite"
        raise SettingsError(
            f"{name} is {value!r}: it must be (low, high), positive, in order and {limit}"
        )
