"""The columns of a dataset's condition as `evaluate` takes them."""

from __future__ import annotations

from cclk.condition import placed
from cclk.data.dataset import Dataset
from cclk.evaluation.evaluate import Parts


def parts_of(dataset: Dataset) -> Parts:
    """Return the columns of a mixed condition, each of which is evaluated separately."""
    if dataset.condition_kind != "mixed":
        return ()
    return [
        (column.name, "categorical" if column.kind == "categorical" else "continuous", position)
        for column, position in placed(dataset.columns)
    ]
