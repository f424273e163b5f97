"""Kernels of the distance between two values: RBF and Laplacian."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Self

import numpy as np
import torch
from torch import Tensor

from cclk.condition import LARGEST, WIDE, Columns, Condition
from cclk.errors import CclkError
from cclk.kernels.bandwidth import HasLengthScale, Scale, distances, divisor
from cclk.kernels.base import Box, Leaf

_LARGEST_PRODUCT = 1e5
"""Squares of distances are expanded into products up to this half of a squared length: about 1e-11
of a kernel value is lost.
"""

_CENTERED_ON = 16
"""Rows, at least, whose median is the center: enough to ignore an outlier."""


class Stationary(Leaf, HasLengthScale):
    """A kernel of |a - b| / length_scale."""

    local = True

    @abstractmethod
    def of_squares(self, squares: Tensor) -> Tensor:
        """Return the kernel of squared distances in length scales, which are overwritten."""

    def __init__(
        self,
        columns: Columns | None = None,
        *,
        length_scale: float | Sequence[float] | str = "auto",
        neighbors: float = 3.0,
    ) -> None:
        super().__init__(columns)
        setting: Scale | str
        if isinstance(length_scale, str):
            setting, valid = length_scale, length_scale in ("auto", "median")
        else:
            scales = tuple(map(float, np.atleast_1d(length_scale)))
            setting = scales if np.ndim(length_scale) else scales[0]
            valid = bool(scales) and all(0 < each < float("inf") for each in scales)
        if not valid:
            raise CclkError(
                f"length_scale is {length_scale!r}: it must be a positive number (or one for each"
                " column), 'auto' or 'median'"
            )
        if not neighbors >= 1:
            raise CclkError(f"neighbors is {neighbors}: it must be at least 1")
        self.length_scale, self.neighbors = setting, neighbors
        self.length_scale_ = None if isinstance(setting, str) else setting

    def scaled(self, a: Condition, b: Condition) -> tuple[Tensor, Tensor]:
        """Return the selected values of both tables, centered and in units of the length scale."""
        if self.length_scale_ is None:
            raise CclkError(f"{self!r} is not fitted: call kernel.fit(training_condition) first")
        left, right = self._selected(a), self._selected(b)
        scale = self._divisor(a)
        # Otherwise rounding after the division loses the differences of large values (time stamps).
        center = right[:: max(1, len(right) // _CENTERED_ON)].median(dim=0).values
        return (left - center) / scale, (right - center) / scale

    def check(self, condition: Condition) -> None:
        values = self._selected(condition)
        if self.length_scale_ is None or not values.numel():
            return
        if float((values.abs() / self._divisor(condition)).amax()) > LARGEST:
            raise CclkError(
                f"{self!r} has distances beyond {LARGEST:g} length scales, which overflow: rescale"
                " the condition, or raise length_scale"
            )

    def diagonal(self, a: Condition) -> Tensor:
        return torch.ones(a.values.shape[0], dtype=torch.float64, device=a.values.device)

    def _selected(self, a: Condition) -> Tensor:
        return a.values if self.columns is None else a.select(self.columns)

    def _divisor(self, a: Condition) -> Tensor | float:
        assert self.length_scale_ is not None
        scale = self.length_scale_
        return divisor(scale, a, self.columns) if isinstance(scale, tuple) else scale

    def pairs(self, a: Condition, b: Condition) -> Tensor:
        left, right = self.scaled(a, b)
        return self.of_squares((left - right).square_().sum(dim=1))

    def coordinates(self, a: Condition) -> Tensor:
        return self.scaled(a, a)[0]

    def upper_bound(self, a: Box, b: Box) -> Tensor:
        """The kernel of the smallest distance between box i of a and box j of b."""
        scale = self._divisor(a.low)
        low_a, high_a, low_b, high_b = (
            table.select(self.columns) / scale for box in (a, b) for table in box
        )
        squares = torch.zeros(len(low_a), len(low_b), dtype=torch.float64, device=low_a.device)
        for column in range(low_a.shape[1]):
            above = low_b[:, column] - high_a[:, column, None]
            below = low_a[:, column, None] - high_b[:, column]
            gap = torch.maximum(above, below).clamp_min_(0)
            squares.addcmul_(gap, gap)
        return self.of_squares(squares)

    def settings(self) -> dict[str, object]:
        if not isinstance(self.length_scale, str):
            return {"length_scale": format_scale(self.length_scale, 6)}
        fitted = self.length_scale_
        arrow = "" if fitted is None else f" -> {format_scale(fitted, 4)}"
        shown: dict[str, object] = {"length_scale": f"{self.length_scale!r}{arrow}"}
        if self.length_scale == "auto" and self.neighbors != 3:
            shown["neighbors"] = f"{self.neighbors:g}"
        return shown

    def on(self, columns: Columns) -> Self:
        restricted = super().on(columns)
        if isinstance(self.length_scale, str):
            restricted.length_scale_ = None  # it was fitted on other columns
        return restricted


def exponential(exponents: Tensor) -> Tensor:
    """exp of float64 numbers, in place; 1 above 0, and 0 below exp(-700).

    Most exponents of a narrow kernel are far below that, where exp itself is four times slower.
    """
    return torch.threshold_(exponents.clamp_(-700.0, 0.0).exp_(), 1e-304, 0.0)


def _half_squares(values: Tensor) -> Tensor:
    """|a|^2 / 2 of every row, (n, 1)."""
    return values.square().sum(dim=1, keepdim=True).div_(2)


def _short(*half_squares: Tensor) -> bool:
    """Whether all lengths allow a product; False on a GPU, which would have to wait."""
    return half_squares[0].device.type == "cpu" and all(
        float(each.max()) <= _LARGEST_PRODUCT for each in half_squares if len(each)
    )


def format_scale(scale: Scale, digits: int) -> str:
    """Format a length scale as a number, or as (a, b, ...)."""
    if isinstance(scale, tuple):
        return f"({', '.join(f'{each:.{digits}g}' for each in scale)})"
    return f"{scale:.{digits}g}"


class RBF(Stationary):
    """k(a, b) = exp(-|a - b|^2 / (2 length_scale^2)).

    The authors' `temp_z`, and the paper's sigma^2, are 2 * length_scale^2.

    Args:
        columns: Names or numbers of the columns of the condition; all by default.
        length_scale: A positive number, or one for each column; "auto", fitted so that the median
            anchor of a batch has `neighbors` effective neighbors; or "median", the median distance.
            Fitted scales are per column, so columns may have different units. A vector, such as an
            embedding, has one scale: pass it as a named column, {"embedding": values}, or with more
            than 32 columns.
        neighbors: The effective number of neighbors that "auto" aims for. Removing a condition
            (`FairCCLK`) works best with few and close neighbors.

    Example:
        >>> import torch
        >>> RBF(length_scale=1.0)(torch.tensor([0.0, 1.0]))
        tensor([[1.0000, 0.6065],
                [0.6065, 1.0000]])
        >>> RBF("age") * RBF("dose", length_scale=0.5)
        RBF('age', length_scale='auto') * RBF('dose', length_scale=0.5)
    """

    def evaluate(self, a: Condition, b: Condition) -> Tensor:
        left, right = self.scaled(a, b)
        if left.shape[1] == 1:
            return self.of_squares((left - right.T).square_())
        left_halves, right_halves = _half_squares(left), _half_squares(right)
        # The values are centered, so few digits cancel unless they are far from each other.
        if left.shape[1] <= WIDE and not _short(left_halves, right_halves):
            return self.of_squares(distances(left, right).square_())
        # -|a - b|^2 / 2 = a b - |a|^2 / 2 - |b|^2 / 2, as one product.
        left = torch.cat([left, -left_halves, torch.ones_like(left_halves)], dim=1)
        right = torch.cat([right, torch.ones_like(right_halves), -right_halves], dim=1)
        return exponential(left @ right.T)

    def of_squares(self, squares: Tensor) -> Tensor:
        return exponential(squares.mul_(-0.5))


class Laplacian(Stationary):
    """k(a, b) = exp(-|a - b| / length_scale), with the Euclidean norm.

    scikit-learn's Laplacian kernel uses the L1 norm. The authors' `temp_z` is length_scale.

    Args:
        columns: Names or numbers of the columns of the condition; all by default.
        length_scale: A positive number, or one for each column; "auto", fitted so that the median
            anchor of a batch has `neighbors` effective neighbors; or "median", the median distance.
            See `RBF` for columns and vectors.
        neighbors: The effective number of neighbors that "auto" aims for.

    Example:
        >>> import torch
        >>> Laplacian(length_scale=2.0)(torch.tensor([0.0, 2.0]))
        tensor([[1.0000, 0.3679],
                [0.3679, 1.0000]])
    """

    def evaluate(self, a: Condition, b: Condition) -> Tensor:
        return exponential(distances(*self.scaled(a, b)).neg_())

    def of_squares(self, squares: Tensor) -> Tensor:
        return exponential(squares.sqrt_().neg_())
