"""The names of the categories of a condition."""

from __future__ import annotations

from cclk.data.dataset import Dataset


def category_names(dataset: Dataset) -> dict[str, tuple[str, ...]]:
    """Map each categorical value of the condition to its categories, in order of their codes."""
    names: dict[str, tuple[str, ...]] = {}
    for column in dataset.columns:
        if column.kind == "attributes":
            names |= dict.fromkeys(column.value_names, ("no", "yes"))
        elif column.kind == "categorical":
            names[column.name] = column.categories
    return names
