"""Other penalties on what features reveal of a condition, to compare `LeakagePenalty` with.

Each is called in the same way, as `penalty(features, condition, rows)`, and ignores `rows`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cclk.condition import Condition, as_condition, column_slices
from cclk.removal.targets import condition_functions

_MARGIN = 1.0
_ADVERSARY = 256


class HSICPenalty(nn.Module):
    r"""The unbiased Hilbert-Schmidt independence criterion of features and condition.

    .. math:: \mathrm{HSIC} = \frac{1}{n (n - 3)} \Bigl(\mathrm{tr}(\tilde K \tilde L) +
              \frac{1^\top \tilde K 1\, 1^\top \tilde L 1}{(n - 1)(n - 2)} -
              \frac{2}{n - 2} 1^\top \tilde K \tilde L 1\Bigr)

    where K and L are RBF kernels of features and condition without their diagonals, divided by the
    root of the criterion of each with itself, as in centered kernel alignment, without gradient.

    Reference:
        Song et al., Feature Selection via Dependence Maximization, JMLR 2012.
    """

    def forward(self, features: Tensor, condition: object, rows: object = None) -> Tensor:
        functions = condition_functions(as_condition(condition, device=features.device), None)
        values = [_rbf(each.values) for each in functions if each.values.shape[1]]
        kernel = _rbf(_standardized(features.double()))
        scale = _hsic(kernel, kernel).detach().clamp_min(1e-12)
        total = features.new_zeros((), dtype=torch.float64)
        for each in values:
            total = total + _hsic(kernel, each) / (scale * _hsic(each, each)).sqrt()
        return total.to(features.dtype)


class InverseContrast(nn.Module):
    """Inverse contrast: samples of similar condition are pushed apart, others pulled together.

    The mean over pairs of s (margin - distance)_+^2 + (1 - s) distance^2, where s is 1 for pairs of
    the same category and an RBF kernel of numbers, and distances are those of standardized
    features, divided by the root of twice their width.

    Reference:
        Akash et al., Learning Invariant Representations using Inverse Contrastive Loss, AAAI 2021.
    """

    def forward(self, features: Tensor, condition: object, rows: object = None) -> Tensor:
        table = as_condition(condition, device=features.device)
        unit = _standardized(features.double())
        squares = _distances(unit) / (2 * unit.shape[1])
        total = features.new_zeros((), dtype=torch.float64)
        pairs = ~torch.eye(len(unit), dtype=torch.bool, device=unit.device)
        for each in condition_functions(table, None):
            if each.values.shape[1]:
                similar = _rbf(each.values)
                apart = (_MARGIN - (squares + 1e-12).sqrt()).clamp_min(0).square()
                loss = similar * apart + (1 - similar) * squares
                total = total + loss[pairs].mean()
        return total.to(features.dtype)


class GradientReversal(nn.Module):
    """The share of each column of the condition that an adversary network reads, summed over the
    columns. The network learns while the features unlearn.

    Two hidden layers of 256 units predict standardized numbers and indicators of categories. Their
    gradients are reversed, so one optimizer trains the adversary to read and the encoder to hide.

    Args:
        width: Number of features.
        condition: The condition of all training rows, which determines scales and categories.

    Reference:
        Ganin et al., Domain-Adversarial Training of Neural Networks, JMLR 2016.
    """

    def __init__(self, width: int, condition: Condition) -> None:
        super().__init__()
        self.columns: list[tuple[slice, int, float, float]] = []
        for column, part in column_slices(condition.columns):
            values = condition.values[:, part].double()
            if column.kind == "categorical":
                self.columns.append((part, int(values.max()) + 1, 0.0, 1.0))
            else:
                std = float(values.std(correction=0)) or 1.0
                self.columns.append((part, 0, float(values.mean()), std))
        outputs = sum(size or part.stop - part.start for part, size, _, _ in self.columns)
        self.adversary = nn.Sequential(
            nn.Linear(width, _ADVERSARY), nn.ReLU(),
            nn.Linear(_ADVERSARY, _ADVERSARY), nn.ReLU(),
            nn.Linear(_ADVERSARY, outputs),
        )  # fmt: skip

    def forward(self, features: Tensor, condition: object, rows: object = None) -> Tensor:
        targets = [
            target.to(features)
            for target in self._targets(as_condition(condition, device=features.device))
        ]
        fixed = {name: value.detach() for name, value in self.adversary.named_parameters()}
        unit = _standardized(features)
        hidden = _read(torch.func.functional_call(self.adversary, fixed, unit), targets)
        learned = _read(self.adversary(unit.detach()), targets)
        return hidden - (learned - learned.detach())

    def _targets(self, condition: Condition) -> Iterator[Tensor]:
        """What the adversary predicts of each column."""
        for part, size, mean, std in self.columns:
            values = condition.values[:, part]
            if size:
                yield F.one_hot(values[:, 0].long(), size).double()
            else:
                yield (values.double() - mean) / std


def _read(prediction: Tensor, targets: Sequence[Tensor]) -> Tensor:
    """The explained share of each column, summed over columns that vary in the batch."""
    total, start = prediction.new_zeros(()), 0
    for target in targets:
        part = prediction.narrow(1, start, target.shape[1])
        start += target.shape[1]
        variance = (target - target.mean(dim=0)).square().mean()
        if variance > 1e-12:
            total = total + 1 - (part - target).square().mean() / variance
    return total


def _standardized(features: Tensor) -> Tensor:
    centered = features - features.mean(dim=0)
    return centered / (centered.square().mean(dim=0) + 1e-5).sqrt()


def _distances(x: Tensor) -> Tensor:
    squares = x.square().sum(dim=1)
    return (squares[:, None] + squares - 2 * x @ x.T).clamp_min(0)


def _rbf(x: Tensor) -> Tensor:
    distances = _distances(x)
    return torch.exp(-distances / distances.detach().median().clamp_min(1e-12))


def _hsic(first: Tensor, second: Tensor) -> Tensor:
    """The unbiased estimate of HSIC from two kernel matrices."""
    size = len(first)
    first, second = (each - each.diagonal().diag() for each in (first, second))
    sums, theirs = first.sum(dim=1), second.sum(dim=1)
    trace = (first * second).sum()
    product = sums.sum() * theirs.sum() / ((size - 1) * (size - 2))
    return (trace + product - 2 / (size - 2) * (sums * theirs).sum()) / (size * (size - 3))
