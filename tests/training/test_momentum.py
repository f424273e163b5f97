"""The queue of past keys: what is in it, who follows whom, and what the loss is given."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import cclk
from cclk.condition import Condition
from cclk.data.fingerprint import fingerprint
from cclk.errors import CclkWarning, SettingsError
from cclk.training import loop as training
from cclk.training.checkpoints import RunIdentity, save_checkpoint
from cclk.training.run_folder import load_dataset
from cclk.training.settings import Settings, load
from cclk.training.trainer import Trainer


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    random_state = np.random.default_rng(1)
    path = tmp_path / "table.npz"
    x = random_state.normal(size=(200, 6)).astype(np.float32)
    np.savez(path, x=x, y=np.arange(200) % 2, condition=x[:, :1].copy())
    return path


def small(data: Path, **overrides: object) -> Settings:
    chosen = {
        "dataset": str(data),
        "encoder": "mlp",
        "encoder_options": {"hidden": [8]},
        "head": "none",
        "augmentation": "vectors",
        "batch_size": 20,
        "steps": 30,
        "queue": 50,
        "ema": 0.9,
        "holdout": 0,
        "log_every": 1,
    }
    return load(overrides=chosen | overrides)


def trainer_of(settings: Settings) -> Trainer:
    return Trainer(settings, load_dataset(settings))


class Seen:
    """What the loss is called with, by step."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer, self.calls, self.loss = trainer, [], trainer.method.loss.forward
        trainer.method.loss.forward = self  # type: ignore[method-assign, assignment]

    def __call__(
        self,
        x: Tensor,
        y: Tensor,
        condition: Condition | None,
        support: tuple[Tensor, Condition | None] | None,
    ) -> Tensor:
        self.calls.append((x, y, condition, support))
        value: Tensor = self.loss(x, y, condition, support)
        return value


def test_a_step_with_a_queue_by_hand(vectors: Path, tmp_path: Path) -> None:
    trainer = trainer_of(small(vectors))
    momentum, seen = trainer.momentum, Seen(trainer)
    assert momentum is not None
    assert trainer.method.condition is not None
    followed = {name: value.detach().clone() for name, value in trainer.network.named_parameters()}
    kept: list[tuple[int, Tensor]] = []  # row and key, oldest first
    for step in range(30):
        loss = trainer.step(step)
        rows = trainer.method.sampler.batch(step)
        (one, key_of_two, condition, support), (two, key_of_one, again, same) = seen.calls[-2:]
        assert one.requires_grad
        assert two.requires_grad
        assert not key_of_one.requires_grad
        assert not key_of_two.requires_grad
        # Both networks begin alike, so the first keys are the queries of the other view.
        if step == 0:
            torch.testing.assert_close(key_of_two, two.detach())
            torch.testing.assert_close(key_of_one, one.detach())
        assert torch.equal(condition.values, trainer.method.condition.rows(rows).values)
        assert trainer.method.kernel is not None
        fair = cclk.FairCCLK(trainer.method.kernel, views="all")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CclkWarning)
            ways = [
                fair(x.detach(), y, condition, support)
                for x, y in ((one, key_of_two), (two, key_of_one))
            ]
        torch.testing.assert_close(loss, (ways[0] + ways[1]) / 2)
        assert again is condition
        assert same is support
        others = [(row, key) for row, key in kept if row not in rows.tolist()]
        if others:
            assert torch.equal(support[0], torch.stack([key for _, key in others]))
            assert torch.equal(
                support[1].values,
                trainer.method.condition.rows(torch.tensor([row for row, _ in others])).values,
            )
        else:
            assert support is None
        kept = (kept + list(zip(rows.tolist(), key_of_two, strict=True)))[-50:]
        for name, value in trainer.network.named_parameters():
            followed[name] = 0.9 * followed[name] + 0.1 * value.detach()
    assert any(len(call[3][0]) < 50 for call in seen.calls[10:]), (
        "some batch should have met itself in the queue"
    )
    for name, value in momentum.follower.named_parameters():
        torch.testing.assert_close(value, followed[name])
        assert value.grad is None


def test_one_way_without_symmetric(vectors: Path, tmp_path: Path) -> None:
    trainer = trainer_of(small(vectors, symmetric=False))
    seen = Seen(trainer)
    for step in range(3):
        trainer.step(step)
    assert len(seen.calls) == 3


def test_embeddings_are_their_own_condition(vectors: Path, tmp_path: Path) -> None:
    trainer = trainer_of(small(vectors, method="hardneg-cclk"))
    seen = Seen(trainer)
    for step in range(3):
        trainer.step(step)
    assert seen.calls[-1][3][1] is None


def test_the_bandwidth_counts_on_the_queue(vectors: Path, tmp_path: Path) -> None:
    """Fitted for batch and queue: narrower than for the batch alone, and the median anchor has
    its neighbors once the queue is full.
    """
    scale = {}
    for queue in (0, 150):
        trainer = trainer_of(small(vectors, queue=queue, weights="nw", neighbors=4.0))
        assert trainer.method.kernel is not None
        scale[queue] = next(iter(trainer.method.kernel.state_dict().values()))
    assert scale[150] < 0.5 * scale[0]
    run = training.train(
        small(vectors, queue=150, weights="nw", neighbors=4.0), tmp_path / "run", quiet=True
    )
    neighbors = [line["effective_neighbors"] for line in run.metrics()]
    assert np.mean(neighbors[12:]) == pytest.approx(4.0, rel=0.25)
    assert neighbors[0] < 2.5


@pytest.mark.parametrize("steps", [2, 9])
def test_a_queue_goes_on_with_the_run(steps: int, vectors: Path, tmp_path: Path) -> None:
    """From a queue half full, and from a full one."""
    settings = small(vectors, steps=12, head="linear-bn")
    whole, cut = (
        training.train(settings, tmp_path / "whole", quiet=True),
        trainer_of(settings),
    )
    (tmp_path / "cut" / "checkpoints").mkdir(parents=True)
    shutil.copy(whole.folder / "settings.json", tmp_path / "cut")
    for step in range(steps):
        cut.step(step)
    data = fingerprint(cut.dataset)
    identity = RunIdentity(cut.settings.model_dump(mode="json"), data, cclk.__version__, 1)
    save_checkpoint(tmp_path / "cut", steps, cut.state_dict(), identity)
    run = training.resume(tmp_path / "cut", quiet=True)
    stored = [load_file(folder / "encoder.safetensors") for folder in (whole.folder, run.folder)]
    assert all(torch.equal(value, stored[1][key]) for key, value in stored[0].items())


def test_a_checkpoint_without_its_queue_is_refused(vectors: Path, tmp_path: Path) -> None:
    run = training.train(small(vectors, queue=0, steps=2), tmp_path / "run", quiet=True)
    path = run.folder / "settings.json"
    path.write_text(path.read_text().replace('"queue": 0', '"queue": 50'))
    with pytest.raises(ValueError, match=r"belongs to another run: train.queue was 0 and is 50"):
        training.resume(run.folder, quiet=True)


def test_a_queue_longer_than_the_data_is_refused(vectors: Path, tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError,
        match=(
            r"train\.queue is 190, but table has 170 training rows: beside a batch of 20, choose at"
            r" most 150"
        ),
    ):
        training.train(small(vectors, queue=190), tmp_path / "run", quiet=True)
