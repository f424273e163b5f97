"""What all augmentations share: one random row per sample, whoever computes it."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor


class Augmentation(ABC):
    """A random change of every sample of a batch, drawn from a generator and from nothing else.

    The same generator state gives the same views. Numbers are drawn on the generator's device and
    used on the batch's, so a CPU generator gives the same draws wherever the batch lives. A process
    that holds a part of a batch says which: `augmentation(part, generator, first=128, of=256)`
    gives the rows 128.. of what one process would compute for all 256.
    """

    @torch.no_grad()
    def __call__(
        self, batch: Tensor, generator: torch.Generator, *, first: int = 0, of: int | None = None
    ) -> Tensor:
        total = len(batch) if of is None else of
        if not 0 <= first <= first + len(batch) <= total:
            raise ValueError(
                f"first={first}, of={total}: a part of {len(batch)} rows does not fit there"
            )
        return self.apply(batch, generator, first, total)

    @abstractmethod
    def apply(self, batch: Tensor, generator: torch.Generator, first: int, total: int) -> Tensor:
        """The views of a batch that is rows first.. of `total`; what is drawn depends on `total`
        only.
        """


def uniform(
    rows: int, generator: torch.Generator, first: int, count: int, total: int, device: torch.device
) -> Tensor:
    """Uniform numbers in 0..1, (rows, count): the columns of one part of a batch of `total`
    samples.
    """
    return torch.rand(rows, total, generator=generator, device=generator.device)[
        :, first : first + count
    ].to(device)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and value < float("inf")


def check_strength(name: str, value: float, upper: float) -> None:
    if not (_is_number(value) and 0 <= value <= upper):
        limit = f"between 0 and {upper:g}" if upper < float("inf") else "0 or more"
        raise ValueError(f"{name} is {value!r}: its strength must be {limit}")


def check_probability(name: str, value: float) -> None:
    if not (_is_number(value) and 0 <= value <= 1):
        raise ValueError(f"{name} is {value!r}: it is a probability, between 0 and 1")


def check_range(name: str, value: tuple[float, float], upper: float) -> None:
    if not (
        isinstance(value, tuple)
        and len(value) == 2
        and all(map(_is_number, value))
        and 0 < value[0] <= value[1] <= upper
    ):
        limit = f"at most {upper:g}" if upper < float("inf") else "finite"
        raise ValueError(
            f"{name} is {value!r}: it must be (low, high), positive, in order and {limit}"
        )
