"""Default kernels: one for each column by its kind, and their product."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from dataclasses import replace

from cclk.columns import Column
from cclk.condition import as_condition, infer_condition
from cclk.errors import CclkError
from cclk.kernels.base import Kernel
from cclk.kernels.delta import Delta
from cclk.kernels.stationary import RBF


def for_column(
    column: Column, *, length_scale: float | Sequence[float] | str = "auto", neighbors: float = 3.0
) -> Kernel:
    """Return `Delta` for categories, else `RBF`.

    Args:
        column: A column of a condition.
        length_scale: As in `RBF`.
        neighbors: As in `RBF`.
    """
    columns = column.name or None
    if column.kind == "categorical":
        return Delta(columns)
    return RBF(columns, length_scale=length_scale, neighbors=neighbors)


def for_condition(condition: object) -> Kernel:
    """Return the product of a kernel for each column: similar means similar in every column.

    Args:
        condition: The condition of the full training split, not of a batch: kinds are inferred
            from the values (see `cclk.columns`).

    Example:
        >>> import numpy as np
        >>> for_condition({"age": np.linspace(20, 80, 50), "site": ["Oslo", "Bonn"] * 25})
        RBF('age', length_scale='auto') * Delta('site')
    """
    columns = infer_condition(condition).columns
    if not as_condition(condition).names:
        if len(columns) > 1:
            raise CclkError(
                f"condition has {len(columns)} columns without names: pass a data frame or a"
                " mapping of names"
            )
        columns = (replace(columns[0], name=""),)
    return functools.reduce(operator.mul, map(for_column, columns))
