"""Functions of the condition that a reader of the features tries to predict.

A number is represented by cos(pi k u) of its rank u in (0, 1), k = 1 to 4, which makes outliers and
units irrelevant; a category by an indicator of each value; a vector by the functions of its leading
principal coordinates; any kernel by the leading eigenvectors of its centered matrix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cclk._numerals import FEW
from cclk.columns import Column
from cclk.condition import WIDE, Condition, column_slices
from cclk.kernels import Kernel
from cclk.kernels.base import group_numbers

COSINES = 4
AXES = 8
"""The largest number of principal coordinates of a vector."""
EIGENVECTORS = 16
"""The largest number of eigenvectors of a kernel."""


@dataclass(frozen=True)
class ColumnFunctions:
    """Functions of one column of the condition: mean 0, variance 1, none of them constant."""

    name: str
    values: Tensor
    """(n, m); m is 0 if the column is constant."""
    weights: Tensor
    """(m,), the share of each function in the leakage of the column; they sum to 1."""


@torch.no_grad()
def condition_functions(condition: Condition, kernel: Kernel | None) -> list[ColumnFunctions]:
    """Return the functions of every column, or those of a kernel."""
    if kernel is not None:
        return [_eigenvectors(kernel, condition)]
    functions = []
    for number, (column, part) in enumerate(column_slices(_units(condition))):
        values = _unit_variance(_of_column(condition.values[:, part], column))
        weights = values.new_full((values.shape[1],), 1 / max(values.shape[1], 1))
        functions.append(ColumnFunctions(column.name or f"column {number}", values, weights))
    return functions


def linear_targets(condition: Condition) -> Tensor:
    """Return the targets of linear predictors, (n, m): numbers as they are and an indicator of each
    category, with mean 0 and variance 1.
    """
    parts = [
        _indicators(condition.values[:, part], smallest=1)
        if column.kind == "categorical"
        else condition.values[:, part]
        for column, part in column_slices(_units(condition))
    ]
    return _unit_variance(torch.cat(parts, dim=1).double())


def _units(condition: Condition) -> tuple[Column, ...]:
    if condition.columns:
        return condition.columns
    width = condition.values.shape[1]
    if width > WIDE:
        return (Column("", "embedding", width),)
    return tuple(Column("") for _ in range(width))


def _of_column(values: Tensor, column: Column) -> Tensor:
    match column.kind:
        case "categorical":
            return _indicators(values, smallest=2)
        case "attributes":
            return values
    if values.shape[1] > 1:
        return torch.cat([_cosines(axis) for axis in _principal(values).T], dim=1)
    # Indicators of few values span all functions of a number. This covers integer class labels in
    # a plain tensor, whose order means nothing.
    if int(group_numbers(values).max()) < min(FEW, len(values) // 4):
        return _indicators(values, smallest=2)
    return _cosines(values[:, 0])


def _indicators(values: Tensor, smallest: int) -> Tensor:
    """An indicator of each value with at least `smallest` rows; a value that occurs once cannot be
    predicted from other rows.
    """
    parts = []
    for each in values.T:
        numbers = group_numbers(each[:, None])
        counts = numbers.bincount()
        kept = (counts >= smallest).nonzero()[:, 0]
        parts.append((numbers[:, None] == kept).double())
    return torch.cat(parts, dim=1)


def _cosines(numbers: Tensor) -> Tensor:
    groups = group_numbers(numbers[:, None])
    counts = groups.bincount().double()
    middle = counts.cumsum(0) - counts / 2  # ties share their average rank
    ranks = middle[groups] / len(numbers)
    order = torch.arange(1, COSINES + 1, device=numbers.device)
    return torch.cos(math.pi * ranks[:, None] * order)


def _principal(values: Tensor) -> Tensor:
    """The leading principal coordinates of rows of a vector, (n, at most `AXES`)."""
    largest = values.abs().amax().clamp_min(1e-300)
    centered = values / largest
    centered = centered - centered.mean(dim=0)
    # The sign of an axis is arbitrary, but reversed ranks change cosines only by their signs.
    wide = len(values) < values.shape[1]
    gram = centered @ centered.T if wide else centered.T @ centered
    axes: Tensor = torch.linalg.eigh(gram)[1][:, -AXES:]
    return axes if wide else centered @ axes


def _eigenvectors(kernel: Kernel, condition: Condition) -> ColumnFunctions:
    """The leading eigenvectors of H K H by subspace iteration, weighted by their eigenvalues."""
    matrix = kernel.evaluate(condition, condition)
    matrix = matrix - matrix.mean(dim=0)
    matrix = matrix - matrix.mean(dim=1, keepdim=True)
    size = len(matrix)
    random = torch.Generator().manual_seed(0)
    start = torch.randn(size, min(size, 2 * EIGENVECTORS), generator=random, dtype=torch.float64)
    basis = start.to(matrix.device)
    for _ in range(8):
        basis = torch.linalg.qr(matrix @ basis)[0]
    eigenvalues, rotation = torch.linalg.eigh(basis.T @ matrix @ basis)
    # A constant kernel leaves rounding errors, on the scale of its trace.
    smallest = max(1e-6 * float(eigenvalues[-1]), 1e-12 * float(kernel.diagonal(condition).sum()))
    kept = (eigenvalues > smallest).nonzero()[:, 0][-EIGENVECTORS:]
    values = _unit_variance(basis @ rotation[:, kept])
    weights = eigenvalues[kept][: values.shape[1]]
    return ColumnFunctions(repr(kernel), values, weights / weights.sum())


def _unit_variance(values: Tensor) -> Tensor:
    """Columns with mean 0 and variance 1, without those that are constant up to rounding."""
    largest = values.abs().amax(dim=0).clamp_min(1e-300)
    scaled = values / largest
    centered = scaled - scaled.mean(dim=0)
    std = centered.square().mean(dim=0).sqrt()
    kept = std > 1e-10
    return centered[:, kept] / std[kept]
