"""Kernels of the distance between two outcomes: RBF and Laplacian."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
import torch
from torch import Tensor

from cclk.condition import WIDE, Columns, Condition
from cclk.kernels.bandwidth import HasLengthScale, Scale, divisor
from cclk.kernels.base import Leaf


class Stationary(Leaf, HasLengthScale):
    """A kernel of |a - b| / length_scale.

    Args:
        columns: names or numbers of the columns it looks at; all by default.
        length_scale: A positive number, or one for each column; "auto", fitted so that the median
            anchor of a batch has `neighbors` effective neighbors; or "median", the median distance.
            Fitted scales are per column, so columns may have unlike units. A vector, such as an
            embedding, has one scale: pass it as a named column, {"embedding": values}, or with more
            than 32 columns.
        neighbors: how many effective neighbors "auto" leaves. Removal (`FairCCLK`) wants few and
            close ones.
    """

    def __init__(
        self,
        columns: Columns | None = None,
        *,
        length_scale: float | Sequence[float] | str = "auto",
        neighbors: float = 3.0,
    ) -> None:
        super().__init__(columns)
        if isinstance(length_scale, str):
            if length_scale not in ("auto", "median"):
                raise ValueError(
                    f"length_scale is {length_scale!r}: it must be a positive number, 'auto' or"
                    " 'median'"
                )
        else:
            scales = tuple(map(float, np.atleast_1d(length_scale)))
            if not scales or not all(0 < each < float("inf") for each in scales):
                raise ValueError(
                    f"length_scale is {length_scale}: it must be a positive number (or one for each"
                    " column), 'auto' or 'median'"
                )
            length_scale = scales if np.ndim(length_scale) else scales[0]
        if not neighbors >= 1:
            raise ValueError(f"neighbors is {neighbors}: an anchor has at least 1")
        self.length_scale: Scale | str = length_scale
        self.neighbors = neighbors
        self.length_scale_: Scale | None = None if isinstance(length_scale, str) else length_scale

    def scaled_by(self) -> Scale:
        """The length scale as a number, or one for each column."""
        if self.length_scale_ is None:
            raise ValueError(f"{self!r} is not fitted: call kernel.fit(training_condition) first")
        return self.length_scale_

    def scaled(self, a: Condition, b: Condition) -> tuple[Tensor, Tensor]:
        """The selected values of both tables in units of the length scale, about a common center."""
        left, right, scale = (
            a.select(self.columns),
            b.select(self.columns),
            divisor(self.scaled_by(), a, self.columns),
        )
        # Without it, rounding after the division would lose the differences of large values (a
        # year, a time stamp).
        center = right.median(dim=0).values
        return (left - center) / scale, (right - center) / scale

    def diagonal(self, a: Condition) -> Tensor:
        return torch.ones(len(a), dtype=torch.float64, device=a.values.device)

    def settings(self) -> dict[str, object]:
        if not isinstance(self.length_scale, str):
            return {"length_scale": shown_scale(self.length_scale, 6)}
        shown: dict[str, object] = {"length_scale": repr(self.length_scale)}
        if self.length_scale_ is not None:
            shown["length_scale"] = f"{self.length_scale!r} -> {shown_scale(self.length_scale_, 4)}"
        if self.length_scale == "auto" and self.neighbors != 3:
            shown["neighbors"] = f"{self.neighbors:g}"
        return shown

    def on(self, columns: Columns) -> Self:
        chosen = super().on(columns)
        if isinstance(self.length_scale, str):
            chosen.length_scale_ = None  # a scale fitted on other columns says nothing about these
        return chosen


def shown_scale(scale: Scale, digits: int) -> str:
    """A length scale as text: a number, or (a, b, ...)."""
    return (
        f"({', '.join(f'{each:.{digits}g}' for each in scale)})"
        if isinstance(scale, tuple)
        else f"{scale:.{digits}g}"
    )


def distances(a: Tensor, b: Tensor) -> Tensor:
    """Euclidean distances by differences: exact where the expanded square would cancel."""
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")


class RBF(Stationary):
    r"""k(a, b) = exp(-|a - b|^2 / (2 length_scale^2)).

    The release's `temp_z`, and the paper's sigma^2, are 2 * length_scale^2.

    >>> import torch
    >>> RBF(length_scale=1.0)(torch.tensor([0.0, 1.0]))
    tensor([[1.0000, 0.6065],
            [0.6065, 1.0000]])
    >>> RBF("age") * RBF("dose", length_scale=0.5)
    RBF('age', length_scale='auto') * RBF('dose', length_scale=0.5)
    """

    def evaluate(self, a: Condition, b: Condition) -> Tensor:
        left, right = self.scaled(a, b)
        if left.shape[1] <= WIDE:
            return distances(left, right).square_().mul_(-0.5).exp_()
        # Wide conditions go through a matrix product; without a common offset, which would cancel
        # digits.
        norms = left.square().sum(dim=1)[:, None] + right.square().sum(dim=1)
        return norms.sub_(left @ right.T, alpha=2).clamp_min_(0).mul_(-0.5).exp_()


class Laplacian(Stationary):
    r"""k(a, b) = exp(-|a - b| / length_scale), with the Euclidean norm (scikit-learn's has the L1
    norm).

    The release's `temp_z` is length_scale.

    >>> import torch
    >>> Laplacian(length_scale=2.0)(torch.tensor([0.0, 2.0]))
    tensor([[1.0000, 0.3679],
            [0.3679, 1.0000]])
    """

    def evaluate(self, a: Condition, b: Condition) -> Tensor:
        return distances(*self.scaled(a, b)).neg_().exp_()
