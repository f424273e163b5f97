"""Checkpoints: damage is detected, and a checkpoint of another run is refused."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from cclk.errors import CclkError, CclkWarning, RunError
from cclk.training import train as training
from cclk.training.checkpoints import _read
from cclk.training.settings import Settings, load


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
