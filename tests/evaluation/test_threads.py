"""The small fits run on one thread, and leave the number of threads as it was."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_info, threadpool_limits

from cclk.evaluation.intervals import bootstrap, share_correct
from cclk.evaluation.panel import Splits, predict_by_panel
from cclk.evaluation.probes import fit_classifier, fit_ridge, one_thread

X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
Y = np.arange(20) % 2
THREE = Splits(X, X, X)


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    with threadpool_limits(2):
        torch.set_num_threads(2)
        yield
        torch.set_num_threads(before)


def test_threads_are_given_back_even_after_an_error() -> None:
    def fail() -> None:
        with one_thread():
            assert torch.get_num_threads() == 1
            assert {pool["num_threads"] for pool in threadpool_info()} == {1}
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert torch.get_num_threads() == 2
    assert {pool["num_threads"] for pool in threadpool_info()} == {2}


@pytest.mark.parametrize(
    ("owner", "called", "work"),
    [
        (LogisticRegression, "fit", lambda: fit_classifier(X, Y, 2, X, Y)),
        (np.linalg, "eigh", lambda: fit_ridge(X, X, X, X)),
        (np, "bincount", lambda: bootstrap({"a": share_correct(Y, Y)}, 2, 0)),
        (torch.optim.AdamW, "step", lambda: predict_by_panel(THREE, THREE, 0)),
    ],
    ids=["classifier", "ridge", "bootstrap", "panel"],
)
def test_fits_use_one_thread(
    owner: object, called: str, work: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their results must not depend on the number of cores."""
    threads, original = set(), getattr(owner, called)

    def record(*arguments: object, **options: object) -> object:
        threads.add(torch.get_num_threads())
        return original(*arguments, **options)

    monkeypatch.setattr(owner, called, record)
    work()  # type: ignore[operator]
    assert threads == {1}
    assert torch.get_num_threads() == 2
