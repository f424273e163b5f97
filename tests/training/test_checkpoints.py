"""Run folders: damage is detected, foreign checkpoints are refused, one process writes."""

from __future__ import annotations

import math
import pickletools
import random
import re
import shutil
import subprocess
import sys
import time
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch

import cclk
from cclk._files import read_tensors, write_tensors
from cclk.errors import CclkError, CclkWarning, RunError
from cclk.training import loop as training
from cclk.training.checkpoints import RunIdentity, _read, load_checkpoint, save_checkpoint
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
    older, newest = sorted((folder / "checkpoints").glob("*.safetensors"))
    return older, newest


def test_a_flipped_bit_is_detected(finished: Path, tmp_path: Path) -> None:
    newest = max((finished / "checkpoints").glob("*.safetensors"))
    path, content = tmp_path / newest.name, newest.read_bytes()
    intact = repr(_read(newest))
    for seed in range(100):
        random.seed(seed)
        damaged = bytearray(content)
        damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
        path.write_bytes(damaged)
        with suppress(RunError):
            assert repr(_read(path)) == intact, "of the padding"
        damaged = bytearray(content)
        damaged[-1 - seed] ^= 1  # of a weight
        path.write_bytes(damaged)
        with pytest.raises(RunError, match=r"is damaged \(its content does not match its digest"):
            _read(path)


def test_damaged_checkpoints_are_named(finished: Path, tmp_path: Path) -> None:
    older, newest = interrupted(finished, tmp_path / "run")
    for path in (older, newest):
        path.write_bytes(path.read_bytes()[:-1] + b"!")
    with (
        pytest.warns(CclkWarning, match="is damaged .its content does not match its digest"),
        pytest.raises(RunError, match=r"all checkpoints of .*run are damaged: train again"),
    ):
        training.resume(tmp_path / "run", quiet=True)


def test_no_file_of_a_run_contains_a_pickle(finished: Path) -> None:
    files = [path for path in finished.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".json", ".jsonl", ".safetensors"}
    for path in files:
        content = path.read_bytes()
        assert not zipfile.is_zipfile(path), path
        with pytest.raises(Exception, match=r"."):  # of pickletools, which raises several kinds
            list(pickletools.genops(content))


def test_nothing_is_unpickled_that_was_not_verified() -> None:
    """Only weights of another package are, whose SHA-256 is known."""
    source = Path(cclk.__file__).parent
    forbidden = re.compile(r"torch\.(load|save)\(|import pickle|allow_pickle=True|joblib\.")
    found = [
        f"{path.relative_to(source).as_posix()}: {line.strip()}"
        for path in sorted(source.rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if forbidden.search(line)
    ]
    assert len(found) == 1
    assert found[0].startswith("models/mobilenet.py: weights: dict[str, Tensor] = torch.load(Byt")


def test_a_state_of_any_form_is_restored(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    tensor = torch.arange(6.0).reshape(2, 3)
    state = {
        "shared": [tensor, tensor.T, tensor[0]],
        "keys": {1: torch.tensor(1), "1": torch.tensor(2), "1'": torch.empty(0, 3)},
        "values": (None, True, 7, "text", 0.1, 1e300, -math.inf, (), {}, []),
    }
    identity = RunIdentity({}, "data", "version", 1)
    save_checkpoint(tmp_path, 3, state, identity)
    stored = load_checkpoint(tmp_path, identity)
    assert stored is not None
    assert stored[1].pop("step") == 3
    assert repr(stored[1]) == repr(state)
    with pytest.raises(RunError, match=r"values/0 of the state of the run is of type set"):
        save_checkpoint(tmp_path, 4, {"values": [{1}]}, identity)


@pytest.mark.parametrize("what", ["the folder", "its files", "the files of a finished run"])
def test_deleted_checkpoints_are_named(what: str, finished: Path, tmp_path: Path) -> None:
    """The run does not start anew unasked."""
    shutil.copytree(finished, tmp_path / "run")
    if what != "the files of a finished run":
        (tmp_path / "run" / "encoder.safetensors").unlink()
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    if what != "the folder":
        (tmp_path / "run" / "checkpoints").mkdir()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    message = r"checkpoints is missing or empty, although 6 steps were logged: restore it, or train"
    with pytest.raises(RunError, match=message):
        training.resume(tmp_path / "run", quiet=True)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_pickled_checkpoints_are_refused(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "run")
    for path in (tmp_path / "run" / "checkpoints").iterdir():
        path.rename(path.with_suffix(".ckpt"))
    with pytest.raises(RunError, match=r"\.ckpt is in a format that can run code, and is not"):
        training.resume(tmp_path / "run", quiet=True)


def test_a_run_killed_before_its_first_checkpoint_starts_anew(
    vectors: Path, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("cclk.training.checkpoints.write_tensors", killed)
        with pytest.raises(KeyboardInterrupt):
            training.train(small(vectors), tmp_path / "run", quiet=True)
    assert not list((tmp_path / "run" / "checkpoints").iterdir())
    training.resume(tmp_path / "run", quiet=True)
    files = [folder / "encoder.safetensors" for folder in (finished, tmp_path / "run")]
    assert files[0].read_bytes() == files[1].read_bytes()


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
    with pytest.raises(
        RunError, match=r"training diverged by step 4: .* is not finite; lower lr \(now"
    ):
        training.train(small(vectors, log_every=4), tmp_path / "run", quiet=True)
    assert sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir()) == [
        "step-000000002.safetensors",
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
    name = next(name for name in tensors if re.fullmatch(r"encoder\..*weight", name))
    write_tensors(path, tensors | {name: tensors[name] * torch.inf}, metadata)
    with pytest.raises(RunError, match=r"weights .* are not finite: train it again"):
        cclk.load(tmp_path / "run")
