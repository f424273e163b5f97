"""Conditions straight from lists, arrays and data frames: what each column is, and codes that
agree between batches.
"""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import cclk
from cclk import kernels
from cclk.columns import Column
from cclk.condition import Condition, as_condition, infer_condition

N = 24
GROUPS = np.arange(N) % 3
SITES = np.array(["Oslo", "Bonn", "Rome"])[GROUPS]
X, Y = torch.randn(2, N, 8, generator=torch.Generator().manual_seed(0))
EXPECTED = cclk.FairCCLK(kernels.Delta())(X, Y, torch.from_numpy(GROUPS))


class Frame:
    """As much of a data frame as every library has."""

    def __init__(self, **columns: Any) -> None:
        self.data, self.columns = columns, list(columns)

    def __getitem__(self, name: str) -> Any:
        return self.data[name]


TEXTS = {
    "list": SITES.tolist(),
    "array": SITES,
    "bytes": SITES.astype("S"),
    "objects": SITES.astype(object),
    "mapping": {"site": SITES.tolist()},
    "series": pd.Series(SITES, name="site"),
    "string series": pd.Series(SITES, name="site", dtype="string"),
    "categorical series": pd.Series(
        SITES, dtype=pd.CategoricalDtype(["Rome", "Oslo", "Bonn", "Lyon"])
    ),
    "frame": pd.DataFrame({"site": SITES}),
    "other frame": Frame(site=SITES.tolist()),
    "one column": SITES[:, None],
}


@pytest.mark.parametrize("form", TEXTS)
def test_text_is_categories(form: str) -> None:
    torch.testing.assert_close(cclk.FairCCLK(kernels.Delta())(X, Y, TEXTS[form]), EXPECTED)
    name = "site" if form in ("mapping", "series", "string series", "frame", "other frame") else ""
    assert [(column.name, column.kind) for column in as_condition(TEXTS[form]).columns] == [
        (name, "categorical")
    ]


@pytest.mark.parametrize(
    "kernel", [kernels.RBF, kernels.Laplacian, kernels.Linear, kernels.Cosine, kernels.Polynomial]
)
def test_text_has_no_distance(kernel: Any) -> None:
    with pytest.raises(
        ValueError,
        match=r"needs numbers, but condition column 'site' holds categories: use Delta\('site'\)",
    ):
        cclk.FairCCLK(kernel())(X, Y, {"site": SITES})
    frame = pd.DataFrame({"age": np.arange(N), "site": SITES})
    with pytest.raises(ValueError, match=r"^RBF\('site', .*use Delta\('site'\)"):
        cclk.FairCCLK(kernels.RBF("age", length_scale=1) * kernels.RBF("site", length_scale=1))(
            X, Y, frame
        )
    mixed = kernels.Delta("site") * kernels.RBF("age", length_scale=5.0) + 1
    assert cclk.FairCCLK(mixed)(X, Y, frame).isfinite()


def test_columns_of_a_data_frame() -> None:
    born = pd.Series(pd.date_range("2024-05-01", periods=N, freq="12h"))
    frame = pd.DataFrame(
        {
            "age": np.arange(N) + 20,
            "dose": pd.array(np.arange(N) / 2, "Float64"),
            "ill": np.arange(N) % 2 == 0,
            "known": pd.array([True, False] * (N // 2), "boolean"),
            "ward": pd.Series(GROUPS).astype("category"),
            "born": born,
            "there": born.dt.tz_localize("Europe/Oslo"),
            "site": SITES,
        }
    )
    found = as_condition(frame)
    kinds = [
        "continuous",
        "continuous",
        "categorical",
        "categorical",
        "categorical",
        "continuous",
        "continuous",
        "categorical",
    ]
    assert [(column.name, column.kind, column.width) for column in found.columns] == [
        (name, kind, 1) for name, kind in zip(frame, kinds, strict=True)
    ]
    assert found.select("born")[:, 0].tolist() == [19844 + row / 2 for row in range(N)]
    assert found.select("there")[:, 0].tolist() == pytest.approx(
        [19844 + row / 2 - 1 / 12 for row in range(N)]
    )
    assert found.select("age")[:, 0].tolist() == list(range(20, 20 + N))
    assert found.select("dose")[:, 0].tolist() == [row / 2 for row in range(N)]
    assert (
        found.select("ill")[:, 0].tolist()
        == found.select("known")[:, 0].tolist()
        == [1, 0] * (N // 2)
    )
    assert kernels.RBF("ill", length_scale=1.0)(frame).shape == (
        N,
        N,
    ), "two values have one distance"


@pytest.mark.parametrize(
    "days",
    [
        np.array(["2024-05-01", "2024-05-02"], "datetime64[D]"),
        [date(2024, 5, 1), date(2024, 5, 2)],
        [datetime(2024, 5, 1), datetime(2024, 5, 2, tzinfo=UTC)],
    ],
)
def test_dates_are_days(days: Any) -> None:
    assert as_condition(days).values[:, 0].tolist() == [19844, 19845]


def test_categories_agree_between_batch_support_and_calls() -> None:
    loss, codes = cclk.FairCCLK(kernels.Delta("site")), torch.from_numpy(GROUPS)
    reference = cclk.FairCCLK(kernels.Delta())
    names = np.array(["Oslo", "Bonn", "Rome"])
    for first in range(3):  # every batch lacks a site that its support has
        rows = torch.from_numpy(np.flatnonzero(first != GROUPS))
        rest = torch.from_numpy(np.flatnonzero(first == GROUPS))
        rest = torch.cat([rest, rows[:5]])
        found = loss(
            X[rows],
            Y[rows],
            pd.DataFrame({"site": names[GROUPS[rows]]}),
            support=(Y[rest], {"site": names[GROUPS[rest]].tolist()}),
        )
        torch.testing.assert_close(
            found, reference(X[rows], Y[rows], codes[rows], support=(Y[rest], codes[rest]))
        )
    with pytest.raises(
        ValueError, match=r"condition\['site'\] holds text in one table and numbers in the other"
    ):
        loss(X, Y, {"site": SITES}, support=(Y, {"site": GROUPS}))


def test_codes_do_not_depend_on_the_process() -> None:
    code = (
        "from cclk.condition import as_condition; print(as_condition(['Oslo', 'Bonn',"
        " 'é']).values[:, 0].tolist())"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    }
    assert printed == {f"{as_condition(['Oslo', 'Bonn', 'é']).values[:, 0].tolist()}\n"}


def test_clusters_may_be_text() -> None:
    found = cclk.WeaklySupInfoNCE()(X, Y, SITES)
    torch.testing.assert_close(found, cclk.WeaklySupInfoNCE()(X, Y, torch.from_numpy(GROUPS)))


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (
            pd.DataFrame({"site": [None, *SITES[1:]]}),
            r"^condition\['site'\] has missing values: drop or impute them",
        ),
        (
            pd.DataFrame({"dose": pd.array([None, *range(1, N)], "Int64")}),
            r"^condition\['dose'\] has .*: drop or impute them",
        ),
        (
            pd.DataFrame({"born": [pd.NaT, *pd.date_range("2024-05-01", periods=N - 1)]}),
            r"^condition\['born'\] has 1 values that are NaN",
        ),
        (
            pd.DataFrame({"stay": pd.to_timedelta([1] * N, "h")}),
            r"^condition\['stay'\] holds values that are not numbers \(dtype timedelta",
        ),
        (np.full(N, 1j), r"^condition holds values that are not numbers \(dtype complex"),
        (pd.DataFrame(), "^condition is an empty table"),
        (np.full(N, 2**60), "^condition holds integers beyond 2"),
    ],
)
def test_mistakes_are_named(condition: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cclk.FairCCLK(kernels.Delta())(X, Y, condition)


def test_pandas_is_not_imported() -> None:
    code = (
        "import sys, cclk.condition; cclk.condition.as_condition(['a', 'b']); assert 'pandas' not"
        " in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_kernel_for_a_data_frame() -> None:
    frame = pd.DataFrame({"age": np.linspace(20, 80, N), "site": SITES, "stage": np.arange(N) % 4})
    kernel = kernels.for_condition(frame)
    assert repr(kernel) == "RBF('age', length_scale='auto') * Delta('site') * Delta('stage')"
    kernel.fit(frame, batch_size=N)
    assert cclk.FairCCLK(kernel)(X, Y, frame).isfinite()
    assert repr(kernels.for_condition(frame["age"])) == "RBF('age', length_scale='auto')"
    assert repr(kernels.for_condition(SITES)) == "Delta()"
    with pytest.raises(
        ValueError,
        match="condition has 2 columns without names: pass a data frame or a mapping of names",
    ):
        kernels.for_condition(np.stack([GROUPS, GROUPS], 1))


def test_columns_without_names_must_match_too() -> None:
    with pytest.raises(ValueError, match=r"^condition\['face'\] is 1 wide in one table and 2 wide"):
        as_condition({"face": np.zeros((3, 2))}).in_columns_of(as_condition({"face": [1, 2, 3]}))
    half = Condition(torch.zeros(3, 2), (Column("age"), Column("")))
    with pytest.raises(ValueError, match=r"^condition is 2 wide in one table and 1 wide"):
        as_condition({"age": [1, 2, 3]}).in_columns_of(half)


@pytest.mark.parametrize("empty", [np.zeros((3, 0)), np.zeros((3, 0), dtype=int)])
def test_a_condition_needs_a_column(empty: np.ndarray) -> None:
    for convert in (as_condition, infer_condition):
        with pytest.raises(ValueError, match=r"^condition has shape \(3, 0\)"):
            convert(empty)


def test_rows_of_a_split_are_cheap_and_exact() -> None:
    values = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    split = Condition(values, (Column("age"), Column("color", width=3)), torch.float32)
    batch = split.rows(torch.tensor([7, 3]))
    assert batch.values.dtype == torch.float64
    assert torch.equal(batch.select("color"), values[[7, 3], 1:].double())
    assert batch.widths(None) == [1, 3], "a named column is one unit"
    assert kernels.RBF("color", length_scale=1.0)(split).dtype == torch.float32


def test_embeddings_are_standardized_to_directions_around_their_mean() -> None:
    """Not each value to unit variance, which would weight noise as much as content."""
    vectors = torch.tensor([[5.0, 1.0], [3.0, 1.0], [4.0, 1.5], [4.0, 0.5]])
    table = Condition(vectors, (Column("features", "embedding", 2),))
    expected = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    torch.testing.assert_close(table.standardized().values.float(), expected)
    torch.testing.assert_close(table.standardized(unit_variance=False).values, vectors)
    same = Condition(torch.ones(3, 2), table.columns).standardized().values
    assert torch.equal(same, torch.zeros_like(same)), "a constant embedding has no direction"
