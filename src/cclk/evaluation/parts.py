"""The columns of a dataset's condition as evaluation takes them."""

from __future__ import annotations

from cclk.condition import placed
from cclk.data.dataset import Dataset
from cclk.evaluation.evaluate import Parts


def parts_of(dataset: Dataset) -> Parts:
    """The columns of a mixed condition, each of which may leak by itself."""
    if dataset.condition_kind != "mixed":
        return ()
    return [
        (column.name, "categorical" if column.kind == "categorical" else "continuous", place)
        for column, place in placed(dataset.columns)
    ]
