"""Samples that are not in memory: read ahead in a thread, with the same result as from memory,
and nothing left behind.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor

from cclk.columns import Column
from cclk.data.dataset import Dataset, Split
from cclk.data.streamed import StreamedImages
from cclk.errors import Interrupted
from cclk.training import loop as training
from cclk.training.loading import Loader, StepRows
from cclk.training.settings import load
from cclk.training.trainer import Trainer


class Slow:
    """Samples that tell who reads them, and wait until they may be read."""

    def __init__(self, bad: int = -1) -> None:
        self.reads: list[tuple[list[int], str]] = []
        self.bad, self.gate = bad, threading.Event()
        self.gate.set()

    def __getitem__(self, rows: Tensor) -> Tensor:
        self.reads.append((rows.tolist(), threading.current_thread().name))
        assert self.gate.wait(10)
        if self.bad in rows.tolist():
            raise KeyError("row 4 is gone")
        return rows * 10


def rows(step: int) -> StepRows:
    own = torch.tensor([2 * step, 2 * step + 1])
    return StepRows(own, own[:0], own)


def loader(x: Any, total: int = 4) -> Loader:
    return Loader(x, rows, total)


def loaded(made: Loader, step: int) -> list[int]:
    drawn, samples = made.load(step)
    assert torch.equal(drawn.own, rows(step).own)
    return samples.tolist()


def readers() -> list[str]:
    return [
        thread.name for thread in threading.enumerate() if thread.name.startswith("cclk-loader")
    ]


def test_tensors_are_read_when_asked_for() -> None:
    made = loader(torch.arange(8) * 10)
    assert readers() == []
    assert loaded(made, 1) == [20, 30]
    made.close()


def test_the_next_step_is_read_meanwhile() -> None:
    x = Slow()
    made = loader(x)
    assert loaded(made, 0) == [0, 10]
    x.gate.clear()
    deadline = time.time() + 10
    while len(x.reads) < 2:  # nobody has asked for step 1 yet
        assert time.time() < deadline
    x.gate.set()
    for step in (1, 2, 3):
        assert loaded(made, step) == [20 * step, 20 * step + 10]
    assert [read for read, _ in x.reads] == [
        [0, 1],
        [2, 3],
        [4, 5],
        [6, 7],
    ]  # each once, and none beyond the last step
    assert all(name.startswith("cclk-loader") for _, name in x.reads)
    assert loaded(made, 0) == [0, 10]  # any step may be asked for
    made.close()
    assert readers() == []


def test_an_error_surfaces_as_itself() -> None:
    made = loader(Slow(bad=4))
    made.load(0)
    made.load(1)
    with pytest.raises(KeyError, match="row 4 is gone"):
        made.load(2)
    made.close()
    assert readers() == []


@pytest.fixture
def images(tmp_path: Path) -> Dataset:
    """Sixty-four images of noise, in files."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (64, 3, 32, 32), generator=generator, dtype=torch.uint8)
    paths = [tmp_path / f"{row}.png" for row in range(64)]
    for path, image in zip(paths, x, strict=True):
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(path)
    streamed = StreamedImages(paths, 32, cache_dir=tmp_path)
    split = Split(streamed, torch.arange(64) % 2, torch.rand(64, 1, generator=generator))
    return Dataset("images", split, split, split, ("0", "1"), (Column("z"),), "")


def in_memory(dataset: Dataset) -> Dataset:
    return replace(dataset, train=replace(dataset.train, x=dataset.train.x[torch.arange(64)]))


def test_files_train_as_memory_does(
    images: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load(
        overrides={
            "batch_size": 16,
            "steps": 6,
            "sampler": "local",
            "group": 4,
            "log_every": 2,
            "encoder": "lenet5",
            "augmentation": "digits",
        }
    )
    for name, dataset in (("streamed", images), ("memory", in_memory(images))):
        monkeypatch.setattr(training, "load_dataset", lambda settings, dataset=dataset: dataset)
        training.train(settings, tmp_path / name, quiet=True)
        assert readers() == []
    stored = [load_file(tmp_path / name / "encoder.safetensors") for name in ("streamed", "memory")]
    assert all(torch.equal(value, stored[1][key]) for key, value in stored[0].items())


def test_ctrl_c_and_errors_leave_no_reader(
    images: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load(overrides={"batch_size": 16, "steps": 50})
    monkeypatch.setattr(training, "load_dataset", lambda settings: images)
    step = Trainer.step

    def interrupted(self: Trainer, number: int) -> Tensor:
        if number == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, number)

    monkeypatch.setattr(Trainer, "step", interrupted)
    with pytest.raises(Interrupted, match="stopped at step 4"):
        training.train(settings, tmp_path / "run", quiet=True)
    monkeypatch.setattr(Trainer, "step", step)
    assert readers() == []
    (tmp_path / "40.png").unlink()
    for cached in tmp_path.glob("*.rows*"):
        cached.unlink()
    with pytest.raises(ValueError, match=r"1 of 192 images .*: 40\.png \(missing\)"):
        training.train(settings, tmp_path / "again", quiet=True)
    assert readers() == []
