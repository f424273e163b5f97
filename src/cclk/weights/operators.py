"""The conditional operator W = (K + ridge I)^-1 K of one batch, computed by row tiles.

W is symmetric, so row i holds the weights w(z_j, z_i) of anchor i. Losses use it by row tiles: only
`Dense` ever stores b^2 numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from cclk.condition import Condition
from cclk.kernels import Delta
from cclk.weights.neighborhoods import Neighborhoods, find


class Operator(ABC):
    """Rows of W, and 1 - W_ii, stored separately because it is tiny where W_ii is near 1."""

    def __init__(self, complement: Tensor) -> None:
        self.complement = complement
        """1 - W_ii, float64 (n,)."""

    def __len__(self) -> int:
        return len(self.complement)

    @abstractmethod
    def with_rows_scaled(self, factor: Tensor | None, dtype: torch.dtype) -> Rows:
        """Return row tiles of diag(factor) W in this dtype."""


class Near(NamedTuple):
    """The entries of some rows that matter."""

    samples: Tensor
    """Numbers of the columns, (m,)."""
    weights: Tensor
    """(n, m)"""
    dropped: Tensor
    """Upper bound of the sum of all other entries of each row, float64 (n,)."""


Rows = Callable[[int, int], Tensor]
"""A matrix by row tiles: rows start to stop, a new tensor that the caller may overwrite."""


class LocalRows(ABC):
    """`Rows` of which most entries may be negligible."""

    @abstractmethod
    def __call__(self, start: int, stop: int) -> Tensor:
        """Return rows start to stop."""

    @abstractmethod
    def neighborhoods(self, rows: range, share: float) -> tuple[Neighborhoods | None, str]:
        """Return tiles of rows and the columns that may matter to them, or None and the reason.

        Args:
            rows: The rows that are needed.
            share: The sum of entries of a row that may be dropped.
        """

    @abstractmethod
    def near(self, neighborhoods: Neighborhoods, tile: int, share: float) -> Near:
        """Return the entries of a tile of rows that matter.

        Args:
            neighborhoods: Those that `neighborhoods` returned.
            tile: The number of one of its tiles.
            share: The sum of entries of a row that may be dropped.
        """


class Dense(Operator):
    """W as a matrix."""

    def __init__(self, matrix: Tensor, complement: Tensor) -> None:
        super().__init__(complement)
        self.matrix = matrix

    def with_rows_scaled(self, factor: Tensor | None, dtype: torch.dtype) -> Rows:
        matrix = self.matrix if factor is None else self.matrix * factor[:, None]
        matrix = matrix.to(dtype)
        return lambda start, stop: matrix[start:stop].clone()


class Factored(Operator):
    """W = U U^T with a thin U: a row tile is one small product."""

    def __init__(self, factor: Tensor) -> None:
        super().__init__(1 - factor.square().sum(dim=1))
        self.factor = factor

    def with_rows_scaled(self, factor: Tensor | None, dtype: torch.dtype) -> Rows:
        left = self.factor if factor is None else self.factor * factor[:, None]
        left, right = left.to(dtype), self.factor.to(dtype).T
        return lambda start, stop: left[start:stop] @ right


class Grouped(Operator):
    """W_ji = [same group] / (n_i + ridge), if k is 1 within groups and 0 between them."""

    def __init__(self, groups: Tensor, ridge: float) -> None:
        self.share = 1 / (groups.bincount().double() + ridge)[groups]
        super().__init__(1 - self.share)
        self.groups = groups

    def with_rows_scaled(self, factor: Tensor | None, dtype: torch.dtype) -> Rows:
        share = self.share if factor is None else self.share * factor
        return GroupRows(self.groups, share.to(dtype))


class GroupRows(LocalRows):
    """value_i if j is in the group of i, else 0."""

    def __init__(self, groups: Tensor, value: Tensor) -> None:
        self.groups, self.value = groups, value

    def __call__(self, start: int, stop: int) -> Tensor:
        same = self.groups[start:stop, None] == self.groups
        return same * self.value[start:stop, None]

    def neighborhoods(self, rows: range, share: float) -> tuple[Neighborhoods | None, str]:
        return find(Delta(), Condition(self.groups[:, None].double()), rows, 0.0)

    def near(self, neighborhoods: Neighborhoods, tile: int, share: float) -> Near:
        # Other groups have no weight at all, so nothing that is dropped has one.
        candidates, rows = neighborhoods.candidates(0.0), neighborhoods.tiles[tile]
        samples = neighborhoods.samples(candidates.blocks[tile])
        same = self.groups[rows, None] == self.groups[samples]
        return Near(samples, same * self.value[rows, None], candidates.dropped[tile])
