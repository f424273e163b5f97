"""Run folders: damage is detected, foreign checkpoints are refused, one process writes."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import cclk
from cclk._files import read_tensors, write_tensors
from cclk.errors import CclkError, CclkWarning, RunError
from cclk.training import train as training
from cclk.training.checkpoints import _read
from cclk.training.settings import Settings, load
from cclk.training.trainer import Trainer


def small(data: Path, **overrides: object) -> Settings:
    common = {"dataset": str(data), "encoder": "mlp", "encoder_options": {"hidden": [8]}}
    common |= {"augmentation": "vectors", "batch_size": 32, "steps": 6, "checkpoint_every": 2}
    return load(overrides=common | {"projection": 4, "log_every": 2} | overrides)


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    x = np.random.default_rng(0).normal(size=(100, 4))
    path = tmp_path_factory.mktemp("data") / "table.npz"
    np.savez(path, x=x, y=(x[:, 0] > 0).astype(int), condition=x[:, 1])
    return path


@pytest.fixture(scope="module")
def finished(vectors: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return training.train(small(vectors), tmp_path_factory.mktemp("run") / "run", quiet=True).folder


def interrupted(finished: Path, folder: Path) -> tuple[Path, Path]:
    """A copy of the run that has not written its encoder; and its two checkpoints."""
    shutil.copytree(finished, folder)
    (folder / "encoder.safetensors").unlink()
    older, newest = sorted((folder / "checkpoints").iterdir())
    return older, newest


def test_a_flipped_bit_never_changes_what_is_resumed(finished: Path, tmp_path: Path) -> None:
    newest = sorted((finished / "checkpoints").iterdir())[-1]
    content, detected = newest.read_bytes(), 0
    expected = _read(newest)["network"]
    path = tmp_path / newest.name
    for seed in range(100):
        random.seed(seed)
        damaged = bytearray(content)
        damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
        path.write_bytes(damaged)
        try:
            network = _read(path)["network"]
        except RunError:
            detected += 1
        else:  # the bit was in padding or in names of the archive
            assert all(torch.equal(value, network[name]) for name, value in expected.items())
    assert detected > 30


@pytest.mark.parametrize("how", ["truncated", "zeroed", "empty"])
def test_the_checkpoint_before_is_used(how: str, finished: Path, tmp_path: Path) -> None:
    _, newest = interrupted(finished, tmp_path / "run")
    content = newest.read_bytes()
    middle = len(content) // 2
    zeroed = content[:middle] + bytes(512) + content[middle + 512 :]
    damage = {"truncated": content[:middle], "zeroed": zeroed, "empty": b""}
    newest.write_bytes(damage[how])
    with pytest.warns(CclkWarning, match="is damaged .*using the checkpoint before"):
        training.resume(tmp_path / "run", quiet=True)
    files = [folder / "encoder.safetensors" for folder in (finished, tmp_path / "run")]
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [({"seed": 1}, "seed was 1 and is 0"), ({"lr": 0.5}, "optim.lr was 0.5 and is 0.003")],
)
def test_a_checkpoint_of_another_run_is_refused(
    overrides: dict[str, object], message: str, vectors: Path, finished: Path, tmp_path: Path
) -> None:
    other = training.train(small(vectors, **overrides), tmp_path / "other", quiet=True).folder
    _, newest = interrupted(finished, tmp_path / "run")
    shutil.copy(other / "checkpoints" / newest.name, newest)
    with pytest.raises(RunError, match=f"belongs to another run: {message}"):
        training.resume(tmp_path / "run", quiet=True)


def test_edited_settings_and_renamed_checkpoints_are_refused(
    finished: Path, tmp_path: Path
) -> None:
    older, newest = interrupted(finished, tmp_path / "run")
    shutil.copy(older, newest)
    with pytest.warns(CclkWarning, match="it contains step 4"):
        training.resume(tmp_path / "run", quiet=True)
    interrupted(finished, tmp_path / "edited")
    path = tmp_path / "edited" / "settings.json"
    path.write_text(path.read_text().replace('"temperature": 0.1', '"temperature": 0.2'))
    with pytest.raises(CclkError, match=r"loss.temperature was 0.1 and is 0.2"):
        training.resume(tmp_path / "edited", quiet=True)


def test_an_encoder_of_another_run_is_refused(
    vectors: Path, finished: Path, tmp_path: Path
) -> None:
    other = training.train(small(vectors, seed=1), tmp_path / "other", quiet=True).folder
    shutil.copytree(finished, tmp_path / "run")
    shutil.copy(other / "encoder.safetensors", tmp_path / "run" / "encoder.safetensors")
    with pytest.raises(RunError, match=r"trained with other settings .*: seed was 1 and is 0"):
        cclk.load(tmp_path / "run")


def test_one_process_writes_a_folder(vectors: Path, finished: Path, tmp_path: Path) -> None:
    interrupted(finished, tmp_path / "run")
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    ready = tmp_path / "ready"
    code = (
        "import sys, time; from pathlib import Path; from cclk._files import locked\n"
        f"with locked(Path({str(tmp_path / 'run')!r})):\n"
        f"    Path({str(ready)!r}).touch(); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code])
    while not ready.exists():
        time.sleep(0.05)
    with pytest.raises(RunError, match=f"is being written by process {holder.pid} on .*: wait"):
        training.resume(tmp_path / "run", quiet=True)
    (tmp_path / "run" / "settings.json").rename(tmp_path / "settings.json")
    with pytest.raises(RunError, match=f"is being written by process {holder.pid}"):
        training.train(small(vectors), tmp_path / "run", quiet=True)
    (tmp_path / "settings.json").rename(tmp_path / "run" / "settings.json")
    after = {path: path.read_bytes() for path in before if path.name != ".lock"}
    assert after == {path: before[path] for path in after}
    holder.kill()
    holder.wait()
    training.resume(tmp_path / "run", quiet=True)  # the lock ended with its process
    assert (tmp_path / "run" / "encoder.safetensors").exists()


def test_a_run_that_diverges_is_not_saved(
    vectors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Trainer.step

    def diverges(self: Trainer, number: int) -> torch.Tensor:
        loss = step(self, number)
        if number == 3:
            next(self.network.parameters()).data[0] = torch.nan
        return loss

    monkeypatch.setattr(Trainer, "step", diverges)
    with pytest.raises(RunError, match=r"training diverged by step 4: .* is not finite; lower lr"):
        training.train(small(vectors, log_every=4), tmp_path / "run", quiet=True)
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == [
        "step-000000002.ckpt"
    ]
    assert not (tmp_path / "run" / "encoder.safetensors").exists()


def test_weights_and_features_that_are_not_finite_are_refused(
    vectors: Path, finished: Path, tmp_path: Path
) -> None:
    encoder = cclk.load(finished)
    x = np.zeros((3, 4), np.float32)
    x[1] = 3e38
    with pytest.raises(RunError, match="the features of sample 1 are not finite"):
        encoder.embed(x * np.float32(1.0) + np.array([0, 0, 0, 0], np.float32))
    shutil.copytree(finished, tmp_path / "run")
    path = tmp_path / "run" / "encoder.safetensors"
    tensors, metadata = read_tensors(path)
    name = next(name for name in tensors if name.endswith("weight"))
    write_tensors(path, tensors | {name: tensors[name] * torch.inf}, metadata)
    with pytest.raises(RunError, match=r"weights .* are not finite: train it again"):
        cclk.load(tmp_path / "run")
