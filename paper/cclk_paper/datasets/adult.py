"""Adult: 48,842 people of the US census of 1994, with the age to ignore and the income to predict.

    <data folder>/tabular/   adult.data, adult.test

Inputs are categories, one-hot with those of fewer than 0.5 % of the rows merged, logarithms of
capital gain and loss, the years of education and the hours of work per week. Left out are the age,
fnlwgt, which is the weight of a row in the survey, and education, which is education-num in text.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cclk.data.dataset import Dataset
from cclk_paper.datasets.image_folder import at_line, damaged
from cclk_paper.datasets.tabular import one_hot, table_path, tabular_dataset

_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week",
    "native-country", "income",
)  # fmt: skip
_CATEGORIES = (
    "workclass", "marital-status", "occupation", "relationship", "race", "sex", "native-country",
)  # fmt: skip
_AMOUNTS, _NUMBERS = ("capital-gain", "capital-loss"), ("education-num", "hours-per-week")
_CLASSES = ("<=50K", ">50K")
_SOURCE = "https://archive.ics.uci.edu/dataset/2/adult"

Cells = npt.NDArray[np.str_]


def load(*, data_dir: Path | None = None, seed: int = 0, holdout: int | None = None) -> Dataset:
    """Return the dataset in its official split; the condition is the age, the label the income.

    Args:
        data_dir: the data folder; None: CCLK_DATA, else ~/.cache/cclk.
        seed: seed of the rows held out.
        holdout: number of training rows held out for validation; None: a fifth, at most 5,000.
    """
    parts = [
        _read(table_path(data_dir, f"tabular/{file}", "Adult", _SOURCE))
        for file in ("adult.data", "adult.test")
    ]
    rows = np.arange(sum(map(len, parts)))
    train, test = rows[: len(parts[0])], rows[len(parts[0]) :]
    table = dict(zip(_COLUMNS, np.concatenate(parts).T, strict=True))
    inputs: dict[str, npt.NDArray[np.generic]] = {}
    for name in _CATEGORIES:
        inputs |= one_hot(name, table[name], train)
    inputs |= {name: np.log1p(table[name].astype(np.float64)) for name in _AMOUNTS}
    inputs |= {name: table[name].astype(np.float64) for name in _NUMBERS}
    return tabular_dataset(
        "adult",
        inputs,
        (table["income"] == _CLASSES[1]).astype(np.int64),
        {"age": table["age"].astype(np.float64)},
        train,
        test,
        classes=_CLASSES,
        holdout=holdout,
        seed=seed,
        description=f"Adult: {len(rows)} people with their age and income",
    )


def _read(path: Path) -> Cells:
    """Return the cells (n, 15) of a file without a header; adult.test begins with a comment, and
    its labels end in a period.
    """
    people: list[list[str]] = []
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            lines = csv.reader(stream, skipinitialspace=True)
            for cells in lines:
                if not cells or cells[0].startswith("|"):
                    continue
                if len(cells) != len(_COLUMNS):
                    wrong = f"it has {len(cells)} cells instead of {len(_COLUMNS)}"
                    raise at_line(path, lines.line_num, wrong)
                cells = [cell.strip() for cell in cells]
                cells[-1] = cells[-1].removesuffix(".")
                if cells[-1] not in _CLASSES:
                    wrong = f"the income is {cells[-1]!r}: it must be {' or '.join(_CLASSES)}"
                    raise at_line(path, lines.line_num, wrong)
                for name in ("age", *_AMOUNTS, *_NUMBERS):
                    cell = cells[_COLUMNS.index(name)]
                    if not (cell.isascii() and cell.isdigit()):
                        wrong = f"{name} is {cell!r}: it must be an integer of at least 0"
                        raise at_line(path, lines.line_num, wrong)
                people.append(cells)
    except (UnicodeDecodeError, csv.Error) as error:
        raise damaged(path, f"is not a CSV file in UTF-8 ({error})") from error
    except OSError as error:
        raise damaged(path, f"cannot be read ({error.strerror or error})") from error
    if not people:
        raise damaged(path, "has no rows")
    return np.array(people)
