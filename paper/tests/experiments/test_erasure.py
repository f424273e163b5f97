"""Erasing the condition after training: what a linear probe reads is gone, or reduced."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from cclk_paper.experiments.erasure import Erasure, embed_inputs, erased
from cclk_paper.experiments.job import Job
from made_up_results import FakePool, no_display
from torch import Tensor

import cclk
from cclk.columns import Column
from cclk.data.dataset import Dataset, Split
from cclk.errors import DataError
from cclk.removal.eraser import linear_r2


def dataset(kind: str = "continuous") -> Dataset:
    """Three inputs, two of which depend on the condition."""
    random = np.random.default_rng(0)

    def split(rows: int) -> Split:
        z = random.normal(size=(rows, 1)) if kind == "continuous" else np.arange(rows)[:, None] % 2
        x = random.normal(size=(rows, 3)) + z * [2, 1, 0]
        y = torch.from_numpy(x[:, 2] > 0).long()
        return Split(torch.from_numpy(x).float(), y, torch.from_numpy(z).float())

    column = Column("z", kind, 1)  # type: ignore[arg-type]
    return Dataset("made up", split(200), split(0), split(100), ("no", "yes"), (column,), "")


def linear(data: Dataset, features: Tensor, split: Split) -> float:
    return linear_r2(features, data.condition(split))["z"]


def test_leace_leaves_nothing_linear() -> None:
    data = dataset()
    assert linear(data, embed_inputs(data.train)[0], data.train) > 0.7
    embed = erased(Erasure("leace"), data, embed_inputs)
    assert linear(data, embed(data.train)[0], data.train) < 1e-6
    features, projection = embed(data.test)
    assert linear(data, features, data.test) < 0.1
    assert features.dtype == torch.float32
    assert torch.equal(projection, embed_inputs(data.test)[1]), "only features are erased"
    assert len(embed(data.validation)[0]) == 0


def test_the_correlation_remover() -> None:
    data, left = dataset(), []
    for alpha in (0.0, 0.5, 1.0):
        embed = erased(Erasure("correlation-remover", alpha), data, embed_inputs)
        left.append(linear(data, embed(data.train)[0], data.train))
        assert embed(data.test)[0].shape == (100, 3)
        assert len(embed(data.validation)[0]) == 0
    assert left[0] > left[1] > left[2]
    assert left[2] < 1e-6


def test_categories_are_refused_by_the_correlation_remover() -> None:
    with pytest.raises(DataError, match=r"^made up has categories in its condition, but the"):
        erased(Erasure("correlation-remover"), dataset("categorical"), embed_inputs)


def test_leace_is_that_of_its_authors() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it uses torch.jit.script, which is deprecated
        import concept_erasure as package
    data = dataset()
    x, z = data.train.x, data.train.condition
    assert isinstance(x, Tensor)
    theirs = package.LeaceEraser.fit(x.double(), z.double(), shrinkage=False, svd_tol=1e-9)
    ours = cclk.LinearEraser().fit(x.double(), sensitive_features=z)
    assert torch.allclose(ours.transform(x.double()), theirs(x.double()), atol=1e-8)


def test_an_erasure_is_part_of_the_key_but_not_of_the_folder() -> None:
    def job(erase: Erasure | None, rows: int = 0) -> Job:
        return Job("", {"method": "infonce"}, 0, "test", (), erase=erase, rows=rows)

    jobs = [
        job(None),
        job(None, 100),
        job(Erasure("leace")),
        job(Erasure("correlation-remover")),
        job(Erasure("correlation-remover", 0.5)),
        job(Erasure("correlation-remover", inputs=True)),
    ]
    assert len({one.key for one in jobs}) == len(jobs)
    assert len({one.folder for one in jobs}) == 1
    watched = Job("", {"method": "infonce"}, 0, "test", (), watch=5)
    assert (watched.key, watched.folder != jobs[0].folder) == (jobs[0].key, True)


def test_jobs_of_one_encoder_do_not_run_at_the_same_time(tmp_path: Path) -> None:
    pool = FakePool(lambda job: {"accuracy": 0.5})
    pool.workers = 2
    jobs = [
        Job(title, {"method": method}, 0, "test", (), erase=erase)
        for title, method, erase in (
            ("trained", "infonce", None),
            ("erased", "infonce", Erasure("leace")),
            ("other", "fair-cclk", None),
        )
    ]
    with no_display() as display:
        pool.run(jobs, tmp_path, lambda job, result: None, display)
    assert [job.title for job in pool.ran] == ["trained", "other", "erased"]
