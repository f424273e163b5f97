"""The kernel that suits a condition: one kernel for each column, by its kind, and their product."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from dataclasses import replace

from cclk.columns import Column
from cclk.condition import as_condition, infer_condition
from cclk.kernels.base import Kernel
from cclk.kernels.delta import Delta
from cclk.kernels.dot_product import Cosine
from cclk.kernels.stationary import RBF


def for_column(
    column: Column, *, length_scale: float | Sequence[float] | str = "auto", neighbors: float = 3.0
) -> Kernel:
    """`Delta` for categories, `Cosine` for embeddings, `RBF` for numbers and attributes."""
    columns = column.name or None
    match column.kind:
        case "categorical":
            return Delta(columns)
        case "embedding":
            return Cosine(columns)
    return RBF(columns, length_scale=length_scale, neighbors=neighbors)


def for_condition(condition: object) -> Kernel:
    """The product of a kernel for each column: two samples are similar if they are similar in
    every column.

    Kinds are inferred (see `cclk.columns`), so pass the condition of the whole training split, not
    of a batch.

    >>> import numpy as np
    >>> for_condition({"age": np.linspace(20, 80, 50), "site": ["Oslo", "Bonn"] * 25})
    RBF('age', length_scale='auto') * Delta('site')
    """
    columns = infer_condition(condition).columns
    if not as_condition(condition).names:
        if len(columns) > 1:
            raise ValueError(
                f"condition has {len(columns)} columns without names: pass a data frame or a"
                " mapping of names"
            )
        columns = (replace(columns[0], name=""),)
    return functools.reduce(operator.mul, map(for_column, columns))
