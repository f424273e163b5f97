"""Kernels of the distance between two outcomes: RBF and Laplacian."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor

from cclk.condition import Columns, Condition
from cclk.kernels.bandwidth import HasLengthScale
from cclk.kernels.base import Leaf


class Stationary(Leaf, HasLengthScale):
    """A kernel of |a - b| / length_scale.

    Args:
        columns: names or numbers of the columns it looks at; all by default.
        length_scale: a positive number; "auto", fitted so that the median anchor of a batch has `partners` effective partners;
            or "median", the median distance.
        partners: how many effective partners "auto" leaves. Removal (`FairCCLK`) wants few and close ones.
    """

    def __init__(self, columns: Columns | None = None, *, length_scale: float | str = "auto", partners: float = 3.0) -> None:
        super().__init__(columns)
        if isinstance(length_scale, str):
            if length_scale not in ("auto", "median"):
                raise ValueError(f"length_scale is {length_scale!r}: it must be a positive number, 'auto' or 'median'")
        elif not 0 < length_scale < float("inf"):
            raise ValueError(f"length_scale is {length_scale}: it must be a positive number, 'auto' or 'median'")
        if not partners >= 1:
            raise ValueError(f"partners is {partners}: an anchor has at least 1")
        self.length_scale = length_scale
        self.partners = partners
        self.scale: float | None = None if isinstance(length_scale, str) else float(length_scale)

    def scaled_by(self) -> float:
        """The length scale as a number."""
        if self.scale is None:
            raise ValueError(f"{self!r} is not fitted: call kernel.fit(training_condition) first")
        return self.scale

    def diagonal(self, a: Condition) -> Tensor:
        return torch.ones(len(a), dtype=torch.float64, device=a.values.device)

    def settings(self) -> dict[str, object]:
        if not isinstance(self.length_scale, str):
            return {"length_scale": f"{self.length_scale:g}"}
        shown: dict[str, object] = {"length_scale": repr(self.length_scale)}
        if self.scale is not None:
            shown["length_scale"] = f"{self.length_scale!r} -> {self.scale:.4g}"
        if self.length_scale == "auto" and self.partners != 3:
            shown["partners"] = f"{self.partners:g}"
        return shown

    def on(self, columns: Columns) -> Self:
        chosen = super().on(columns)
        if isinstance(self.length_scale, str):
            chosen.scale = None  # a scale fitted on other columns says nothing about these
        return chosen


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
        left, right = a.select(self.columns), b.select(self.columns)
        scale = self.scaled_by()
        if left.shape[1] <= 32:
            return distances(left, right).div_(scale).square_().mul_(-0.5).exp_()
        # Wide conditions go through a matrix product, about the mean so that a common offset does not cancel digits.
        centre = right.mean(dim=0)
        left, right = (left - centre) / scale, (right - centre) / scale
        norms = left.square().sum(dim=1)[:, None] + right.square().sum(dim=1)
        return norms.sub_(left @ right.T, alpha=2).clamp_min_(0).mul_(-0.5).exp_()


class Laplacian(Stationary):
    r"""k(a, b) = exp(-|a - b| / length_scale), with the Euclidean norm (scikit-learn's has the L1 norm).

    The release's `temp_z` is length_scale.

    >>> import torch
    >>> Laplacian(length_scale=2.0)(torch.tensor([0.0, 2.0]))
    tensor([[1.0000, 0.3679],
            [0.3679, 1.0000]])
    """

    def evaluate(self, a: Condition, b: Condition) -> Tensor:
        left, right = a.select(self.columns), b.select(self.columns)
        return distances(left, right).div_(-self.scaled_by()).exp_()
