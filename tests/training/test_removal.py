"""Removal while training: what is penalized, with which strength, and what stays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import cross_entropy

import cclk
from cclk.errors import Interrupted, SettingsError
from cclk.training import loop as training
from cclk.training.removal import Removal
from cclk.training.run_folder import load_dataset
from cclk.training.settings import Settings, load
from cclk.training.trainer import Trainer


@pytest.fixture
def table(tmp_path: Path) -> Path:
    random_state = np.random.default_rng(1)
    path = tmp_path / "table.npz"
    x = random_state.normal(size=(300, 6)).astype(np.float32)
    y = (x[:, 1] + 0.3 * random_state.normal(size=300) > 0).astype(np.int64)
    np.savez(path, x=x, y=y, condition=x[:, :1].copy())
    return path


def small(data: Path, **overrides: object) -> Settings:
    chosen = {
        "dataset": str(data),
        "method": "infonce",
        "encoder": "mlp",
        "encoder_options": {"hidden": [16]},
        "augmentation": "vectors",
        "batch_size": 64,
        "steps": 20,
        "holdout": 0,
        "log_every": 1,
    }
    return load(overrides=chosen | overrides)


def trainer_of(settings: Settings) -> Trainer:
    return Trainer(settings, load_dataset(settings))


def released(trainer: Trainer, rows: torch.Tensor) -> torch.Tensor:
    x = trainer.dataset.train.x[rows]
    assert isinstance(x, torch.Tensor)
    with torch.no_grad():
        features: torch.Tensor = trainer.network.encoder(x)
    return features


def added(trainer: Trainer, plain: Trainer, step: int) -> float:
    return float(trainer.step(step)) - float(plain.step(step))


def test_the_penalty_is_that_of_the_features_of_unaugmented_samples(table: Path) -> None:
    trainer = trainer_of(small(table, leakage_penalty=3, penalty_ramp=0))
    plain = trainer_of(small(table))
    rows = trainer.method.sampler.batch(0)
    condition = trainer.dataset.train.condition[rows]
    expected = cclk.LeakagePenalty()(released(trainer, rows), condition)
    assert added(trainer, plain, 0) == pytest.approx(3 * float(expected), rel=1e-4)
    line = trainer.metrics(1, 0.0)
    assert line["penalty"] == pytest.approx(float(expected), abs=1e-4)


def test_the_strength_rises_over_the_ramp(table: Path) -> None:
    removal = trainer_of(small(table, leakage_penalty=2, penalty_ramp=0.5)).removal
    assert removal is not None
    features, rows = torch.randn(64, 16), torch.arange(64)
    losses = [
        float(removal.loss(step, features, None, rows, slice(0, 64), [64], None))
        for step in (0, 4, 9, 19)
    ]
    assert np.allclose(np.array(losses) / losses[-1], [0.1, 0.5, 1.0, 1.0])


def test_further_rows_are_outside_the_batch_and_read_from(table: Path) -> None:
    trainer = trainer_of(small(table, leakage_penalty=1, penalty_ramp=0, penalty_rows=100))
    plain = trainer_of(small(table))
    assert trainer.removal is not None
    batch = trainer.method.sampler.batch(0)
    rows = trainer.removal.further_rows(0, batch)
    assert len(rows.unique()) == 100
    assert not torch.isin(rows, batch).any()
    assert torch.equal(rows, trainer.removal.further_rows(0, batch))
    assert not torch.equal(rows, trainer.removal.further_rows(1, batch))
    condition = trainer.dataset.train.condition
    expected = cclk.LeakagePenalty()(
        released(trainer, batch), condition[batch], rows=(released(trainer, rows), condition[rows])
    )
    assert added(trainer, plain, 0) == pytest.approx(float(expected), rel=1e-3)


def test_odds_are_parity_within_each_label(table: Path) -> None:
    options = {"leakage_penalty": 1, "penalty_ramp": 0, "independence": "odds"}
    trainer, plain = trainer_of(small(table, **options)), trainer_of(small(table))
    rows = trainer.method.sampler.batch(0)
    features, labels = released(trainer, rows), trainer.dataset.train.y[rows]
    condition = trainer.dataset.train.condition[rows]
    expected = sum(
        float((labels == label).float().mean())
        * float(cclk.LeakagePenalty()(features[labels == label], condition[labels == label]))
        for label in (0, 1)
    )
    assert added(trainer, plain, 0) == pytest.approx(expected, rel=1e-3)


def test_the_kept_label_is_predicted_from_released_features(table: Path) -> None:
    trainer = trainer_of(small(table, keep="label", keep_strength=4))
    plain = trainer_of(small(table))
    rows = trainer.method.sampler.batch(0)
    with torch.no_grad():
        scores = trainer._trained.classifier(released(trainer, rows))  # type: ignore[operator]
    expected = float(cross_entropy(scores, trainer.dataset.train.y[rows]))
    contrast = float(plain.step(0))
    assert float(trainer.step(0)) == pytest.approx(contrast / 4 + expected, rel=1e-4)


def test_every_method_takes_a_penalty(table: Path) -> None:
    for method in ("fair-cclk", "weaksup-cclk", "hardneg-cclk", "fair-infonce", "hardneg-infonce"):
        trainer = trainer_of(small(table, method=method, leakage_penalty=1))
        assert trainer.step(0).isfinite()


@pytest.mark.parametrize("penalty", ["adversary", "hsic", "icl"])
def test_other_penalties_take_its_place(table: Path, penalty: str) -> None:
    trainer = trainer_of(small(table, penalty=penalty, leakage_penalty=1, penalty_ramp=0))
    before = [parameter.clone() for parameter in trainer._trained.parameters()]
    for step in range(3):
        assert trainer.step(step).isfinite()
    after = trainer._trained.parameters()
    assert all(not torch.equal(old, new) for old, new in zip(before, after, strict=True))


@pytest.mark.parametrize("queue", [0, 60])
def test_an_interrupted_run_ends_in_the_same_weights(
    table: Path, tmp_path: Path, queue: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = small(
        table,
        leakage_penalty=2,
        penalty_rows=50,
        keep="label",
        feature_noise=0.3,
        feature_width=5,
        queue=queue,
        checkpoint_every=7,
    )
    training.train(settings, tmp_path / "straight", quiet=True)
    step = Trainer.step

    def interrupted(self: Trainer, number: int) -> torch.Tensor:
        if number == 11:
            raise Interrupted(15, number, tmp_path / "resumed")
        return step(self, number)

    monkeypatch.setattr(Trainer, "step", interrupted)
    with pytest.raises(Interrupted):
        training.train(settings, tmp_path / "resumed", quiet=True)
    monkeypatch.undo()
    training.resume(tmp_path / "resumed", quiet=True)
    first, second = (
        load_file(tmp_path / name / "encoder.safetensors") for name in ("straight", "resumed")
    )
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert cclk.load(tmp_path / "resumed").width == 5


def test_it_removes_what_can_be_read(table: Path) -> None:
    def leak(**options: object) -> float:
        settings = small(table, steps=150, lr=1e-2, batch_size=128, **options)
        trainer = trainer_of(settings)
        for step in range(150):
            trainer.step(step)
        trainer.network.eval()
        rows = torch.arange(len(trainer.dataset.train))
        condition = trainer.dataset.train.condition
        return float(cclk.LeakagePenalty()(released(trainer, rows), condition))

    assert leak() > 0.3 > 0.15 > leak(leakage_penalty=5)


def test_what_cannot_be_removed_or_kept_is_refused(table: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.npz"
    x = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)
    np.savez(bare, x=x, y=np.zeros(100, dtype=np.int64))
    for data, options, message in (
        (bare, {"leakage_penalty": 1}, "no condition to remove"),
        (bare, {"keep": "label"}, "no label to keep"),
        (table, {"keep": "income"}, "the label of .* is 'label'"),
    ):
        settings = small(data, **options)
        with pytest.raises(SettingsError, match=message):
            Removal(settings, load_dataset(settings), 10, cclk.LeakagePenalty())
