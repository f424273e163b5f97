"""Changed data, second writers, pickle bombs, and code that files name."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

import cclk
from benchmarks.faults.bench import ENCODER, Bench, refusal, same_run, snapshot, write_data
from benchmarks.faults.commands import Done
from benchmarks.faults.rows import Row
from cclk.errors import CclkError

_CODE = """
from pathlib import Path
Path({mark!r}).touch()
from torch import nn

class Pixels(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.linear = nn.Linear(channels, 4)
    def forward(self, x):
        return self.linear(x.mean((2, 3)) if x.ndim == 4 else x)

def build(channels=1, size=0):
    return Pixels(channels)
"""

Array = npt.NDArray[np.float64]


def data(bench: Bench) -> None:
    """Data that change between training and another command."""
    path = bench.folder / "changing.npz"

    def swap(arrays: dict[str, Array]) -> None:
        arrays["x"][[0, 1]] = arrays["x"][[1, 0]]

    def shorten(arrays: dict[str, Array]) -> None:
        for name in arrays:
            arrays[name] = arrays[name][:-1]

    def edit(arrays: dict[str, Array]) -> None:
        arrays["x"][7, 2] += 0.01

    def relabel(arrays: dict[str, Array]) -> None:
        arrays["y"][3] = 1 - arrays["y"][3]

    changes = {"a value": edit, "a label": relabel, "a row less": shorten, "rows swapped": swap}
    write_data(path)
    original = path.read_bytes()
    run = bench.path()
    bench.succeed(*bench.training(run, dataset=path))
    stopped = bench.path()
    shutil.copytree(run, stopped)
    (stopped / ENCODER).unlink()
    row = bench.row("train --resume, evaluate, report", "the data changed since training")
    for change in bench.each(row, list(changes.values())[: bench.scale.formats]):
        with np.load(path) as stored:
            arrays = {name: stored[name].copy() for name in stored.files}
        change(arrays)
        np.savez(path, **arrays)
        for words in (
            ["train", "--resume", "--out", stopped],
            ["evaluate", run],
            ["report", run, "--out", bench.path("report.html")],
        ):
            problem = refusal(bench.run(*words, "--quiet"), path.name)
            row.add("refused", undetected=problem.startswith("expected"), unexpected=problem)
        path.write_bytes(original)


def writers(bench: Bench) -> None:
    """Two commands that write into one folder."""
    changes = {"steps": 300, "checkpoint_every": 10, "log_every": 7}
    reference = bench.path("reference")
    bench.succeed(*bench.training(reference, **changes))
    row = bench.row("cclk train", "a second command writes into the same folder")
    for number in bench.each(row, range(2 * bench.scale.writers)):
        folder = bench.path()
        words = bench.training(folder, **changes)
        first = bench.start(*words)
        if number % 2:  # a second one while the first is working, or both at once
            while not (folder / "settings.json").exists() and first.running():
                time.sleep(0.005)
            words = ["train", "--resume", "--out", folder, "--quiet"]
        second = bench.start(*words)
        ends = [first.wait(), second.wait()]
        failed = [done for done in ends if done.code]
        if not same_run(folder, reference):
            row.add("another result", lost=True, unexpected=" / ".join(map(str, ends)))
        elif not failed and number % 2:
            row.add("the second came after the first; bit-identical")
        elif len(failed) != 1:
            row.add("both wrote", unexpected=" / ".join(map(str, ends)))
        else:
            row.add(
                "one refused, the other bit-identical", unexpected=refusal(failed[0], str(folder))
            )
        shutil.rmtree(folder)


class _Bomb:
    """Unpickled, it creates a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.mark,))


def pickles(bench: Bench) -> None:
    """Pickles that run code, in the place of files that are read."""
    mark = bench.path("mark")
    bomb = _Bomb(mark)
    plain = pickle.dumps(bomb)
    arrays = bench.folder / "bomb.npz"
    np.savez(arrays, x=np.array([bomb, bomb], object), y=np.zeros(2), condition=np.zeros(2))
    saved = bench.path("saved")
    torch.save({"step": 6, "state": bomb}, saved)
    legacy = bench.path("legacy")
    torch.save({"step": 6, "state": bomb}, legacy, _use_new_zipfile_serialization=False)

    def checkpoint(content: bytes) -> list[object]:
        folder = bench.interrupted()
        for path in (folder / "checkpoints").glob("*.safetensors"):
            path.write_bytes(content)
        return ["train", "--resume", "--out", folder, "--quiet"]

    def encoder(content: bytes) -> list[object]:
        folder = bench.path()
        shutil.copytree(bench.finished, folder)
        (folder / ENCODER).write_bytes(content)
        return ["evaluate", folder, "--quiet"]

    inside = bench.path("inside.npz")
    with zipfile.ZipFile(inside, "w") as archive:
        archive.writestr("x.npy", plain)
    attempts: dict[str, list[object]] = {
        "a checkpoint of torch.save": checkpoint(saved.read_bytes()),
        "a checkpoint, legacy": checkpoint(legacy.read_bytes()),
        "a checkpoint, plain pickle": checkpoint(plain),
        "an encoder": encoder(plain),
        "an encoder of torch.save": encoder(saved.read_bytes()),
        "an .npz of objects": bench.training(bench.path(), dataset=arrays),
        "embed an .npz of objects": [
            "embed", bench.finished, arrays, "--out", bench.path("e.npz"), "--quiet"
        ],
        "a pickle as array of an .npz": bench.training(bench.path(), dataset=inside),
        "a pickle as .npz": bench.training(bench.path(), dataset=_write(bench, plain)),
        "check an .npz of objects": ["check", "--dataset", arrays],
    }  # fmt: skip
    row = bench.row("checkpoints, encoders, .npz files", "pickles that run code")
    for name in bench.each(row, list(attempts)[: max(3, bench.scale.entries)]):
        done = bench.run(*attempts[name])
        if mark.exists():
            row.add("code was run", undetected=True, unexpected=f"{name}: {done}")
            mark.unlink()
        elif done.code == 0 or done.traceback or done.code == 124:
            row.add("another end", unexpected=f"{name}: {done}")
        else:
            row.add("refused, no code was run")


def _write(bench: Bench, content: bytes) -> Path:
    path = bench.folder / "pickle.npz"
    path.write_bytes(content)
    return path


def trust(bench: Bench) -> None:
    """Import paths in files: refused without an import; with consent, they work."""
    folder = bench.path("trust")
    folder.mkdir()
    mark = folder / "imported"
    (folder / "planted_code.py").write_text(_CODE.format(mark=str(mark)))
    toml = folder / "settings.toml"
    toml.write_text(
        f'[data]\ndataset = "{bench.data}"\n[augment]\naugmentation = "vectors"\n'
        '[model]\nencoder = "planted_code:build"\n[train]\nsteps = 2\nbatch_size = 16\n'
    )
    cifar = _cifar(folder)
    run, images, estimator = folder / "run", folder / "images", folder / "estimator.safetensors"
    typed = ["--encoder", "planted_code:build", "--batch-size", 16, "--steps", 2, "--quiet"]
    vectors = ["train", "--dataset", bench.data, "--augmentation", "vectors", *typed, "--out", run]
    # Options that are typed are consent.
    for words in (
        vectors,
        ["train", "--method", "infonce", "--dataset", "cifar10", "--data-dir", cifar, "--holdout",
         10, *typed, "--out", images],
    ):  # fmt: skip
        done = bench.run(*words, folder=folder)
        if done.code:
            raise RuntimeError(f"cclk {' '.join(map(str, words))}: {done}")
    _fit(bench, folder, estimator)
    commands: dict[str, list[object]] = {
        "evaluate": ["evaluate", run, "--bootstrap", 5],
        "train --resume": ["train", "--resume", "--out", run],
        "train X.toml": ["train", toml, "--out", folder / "own"],
        "check X.toml": ["check", toml],
        "report": ["report", run, "--out", folder / "report.html"],
        "export": ["export", run, "--format", "safetensors"],
        "embed": ["embed", run, bench.data, "--out", folder / "e.npz"],
        "features": ["features", "cifar10", "--data-dir", cifar, "--encoder", images / ENCODER,
                     "--out", folder / "f.npz"],
    }  # fmt: skip
    calls: dict[str, Callable[[bool], object]] = {
        "cclk.load": lambda consent: cclk.load(run, trust_code=consent),
        "ConditionalEncoder.load": lambda consent: cclk.ConditionalEncoder.load(
            estimator, trust_code=consent
        ),
    }
    row = bench.row("10 commands and functions", "a file that names code by an import path")
    for name in bench.each(row, list(commands)[: bench.scale.entries]):
        mark.unlink(missing_ok=True)
        refused = bench.run(*commands[name], folder=folder)
        problem = refusal(refused, "planted_code:build", "--trust-code")
        imported = mark.exists()
        if imported or problem:
            row.add("not refused", undetected=imported, unexpected=f"{name}: {problem}")
            continue
        trust = ("--trust-code", "planted_code:build")
        done = bench.run(*commands[name], *trust, folder=folder)
        _judge_consent(row, name, mark, done.code == 0, str(done))
    for name in bench.each(row, list(calls)[: bench.scale.entries]):
        mark.unlink(missing_ok=True)
        _call(row, name, folder, mark, calls[name])


def _judge_consent(row: Row, name: str, mark: Path, works: bool, shown: str) -> None:
    if works and mark.exists():
        row.add("refused without an import; works with consent")
    else:
        row.add("refused also with consent", unexpected=f"{name}: {shown}")


def _call(row: Row, name: str, folder: Path, mark: Path, call: Callable[[bool], object]) -> None:
    before, path = Path.cwd(), list(sys.path)
    os.chdir(folder)
    try:
        try:
            call(False)
        except CclkError:
            refused = not mark.exists()
        else:
            refused = False
        if not refused:
            row.add("not refused", undetected=mark.exists(), unexpected=name)
            return
        sys.path.insert(0, str(folder))
        call(True)
        _judge_consent(row, name, mark, True, "")
    except Exception as error:
        _judge_consent(row, name, mark, False, str(error))
    finally:
        os.chdir(before)
        sys.path[:] = path
        sys.modules.pop("planted_code", None)


def _fit(bench: Bench, folder: Path, out: Path) -> None:
    """Write an estimator whose file names code."""
    x = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    sys.path.insert(0, str(folder))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            estimator = cclk.ConditionalEncoder(steps=1, encoder="planted_code:build")
            estimator.fit(x).save(out)
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop("planted_code", None)


def _cifar(folder: Path) -> Path:
    """CIFAR-10 with 10 images a file."""
    target = folder / "data" / "cifar10"
    target.mkdir(parents=True)
    numbers = np.random.default_rng(0)
    for name in (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"):
        records = numbers.integers(0, 256, (10, 3073), dtype=np.uint8)
        records[:, 0] = np.arange(10)
        (target / name).write_bytes(records.tobytes())
    return target.parent


def modules(bench: Bench) -> None:
    """Modules in the current folder that are named like those that cclk imports."""
    row = bench.row("cclk evaluate, check", "sklearn.py, pyarrow.py, statistics.py in the folder")
    folder = bench.path("planted")
    folder.mkdir()
    for name in ("sklearn", "pyarrow", "statistics"):
        (folder / f"{name}.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    attempts = [
        ["-m", "cclk", "evaluate", str(bench.finished), "--bootstrap", "5", "--quiet"],
        ["-m", "cclk", "check", "--dataset", str(bench.data), "--augmentation", "vectors",
         "--encoder", "mlp", "--batch-size", "32"],
        # As the console script starts: its own folder comes first.
        ["-P", "-c", "from cclk.cli.start import main; main()", "evaluate", str(bench.finished),
         "--bootstrap", "5", "--quiet"],
    ]  # fmt: skip
    before = snapshot(folder)
    for words in bench.each(row, attempts if bench.scale.fresh else attempts[:1]):
        ended = subprocess.run(
            [sys.executable, *words],
            cwd=folder, capture_output=True, text=True, check=False,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        done = Done(ended.returncode, ended.stderr, 0.0)
        if (folder / "ran").exists():
            row.add("a planted module was run", undetected=True, unexpected=str(done))
            (folder / "ran").unlink()
        elif done.code or before.keys() != snapshot(folder).keys():
            row.add("another end", unexpected=str(done))
        else:
            row.add("worked, no planted module was run")
