"""Damaged and foreign files: what is read must be intact, or be refused."""

from __future__ import annotations

import json
import random
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

import cclk
from benchmarks.faults.bench import ENCODER, Bench, same_run
from benchmarks.faults.rows import Row
from cclk.errors import CclkError, CclkWarning
from cclk.training import loop as training

Damage = Callable[[bytes, random.Random], bytes]


def _flip(content: bytes, numbers: random.Random) -> bytes:
    damaged = bytearray(content)
    damaged[numbers.randrange(len(damaged))] ^= 1 << numbers.randrange(8)
    return bytes(damaged)


def _truncate(content: bytes, numbers: random.Random) -> bytes:
    return content[: numbers.randrange(len(content))]


def _zero(content: bytes, numbers: random.Random) -> bytes:
    size = min(512, len(content) // 4)
    start = numbers.randrange(len(content) - size)
    return content[:start] + bytes(size) + content[start + size :]


DAMAGE: dict[str, Damage] = {
    "one flipped bit": _flip,
    "truncated": _truncate,
    "a block of zeros": _zero,
}


def checkpoints(bench: Bench) -> None:
    """Resume from damaged and foreign checkpoints."""
    others = bench.others
    share = max(1, bench.scale.checkpoints // (len(DAMAGE) + len(others) + 3))
    total = bench.scale.checkpoints
    for name, damage in DAMAGE.items():
        count = max(share, total // 5)
        for both in (False, True):
            which = "the newest two checkpoints" if both else "the newest checkpoint"
            row = bench.row(f"resume in Python: {which}", name)
            for _ in bench.each(row, range(count // 4 if both else count)):
                folder = bench.interrupted()
                _damage_checkpoints(folder, damage, both, bench.random)
                _resume(row, folder, bench.finished)
    for name, other in others.items():
        row = bench.row("resume in Python: a checkpoint", f"that of {name}")
        for _ in bench.each(row, range(max(1, total // 25))):
            folder = bench.interrupted()
            target = bench.random.choice(_checkpoints(folder))
            shutil.copy(other / "checkpoints" / target.name, target)
            _resume(row, folder, bench.finished)
    row = bench.row("resume in Python: a checkpoint", "renamed to another step")
    for _ in bench.each(row, range(max(1, total // 25))):
        folder = bench.interrupted()
        old = bench.random.choice(_checkpoints(folder))
        name = f"step-{bench.random.choice((1, 3, 5, 7, 8)):09d}"
        old.rename(old.with_name(f"{name}.safetensors"))
        _resume(row, folder, bench.finished)
    row = bench.row("resume in Python: settings.json", "one setting edited")
    for _ in bench.each(row, range(max(1, total // 25))):
        folder = bench.interrupted()
        _edit_settings(folder, bench.random)
        _resume(row, folder, bench.finished)
    row = bench.row("cclk train --resume", "the newest checkpoint damaged")
    for number in bench.each(row, range(bench.scale.checkpoint_commands)):
        folder = bench.interrupted()
        damage = list(DAMAGE.values())[number % len(DAMAGE)]
        _damage_checkpoints(folder, damage, number % 5 == 4, bench.random)
        fresh = number < bench.scale.fresh
        done = bench.run("train", "--resume", "--out", folder, "--quiet", fresh=fresh)
        if done.traceback or len(done.lines) > 3 or done.code not in (0, 2):
            row.add("another end", unexpected=str(done))
        elif done.code:
            row.add("refused")
        else:
            _judge(row, folder, bench.finished, "damaged" in done.text)
        shutil.rmtree(folder)


def _checkpoints(folder: Path) -> list[Path]:
    return sorted((folder / "checkpoints").glob("*.safetensors"))


def _damage_checkpoints(folder: Path, damage: Damage, both: bool, numbers: random.Random) -> None:
    for path in _checkpoints(folder)[0 if both else -1 :]:
        path.write_bytes(damage(path.read_bytes(), numbers))


def _edit_settings(folder: Path, numbers: random.Random) -> None:
    path = folder / "settings.json"
    tree = json.loads(path.read_text())
    edits: list[tuple[str, str, object]] = [
        ("optim", "lr", 0.01), ("loss", "temperature", 0.2), ("train", "batch_size", 16),
        ("train", "steps", 8), ("model", "projection", 8), ("loss", "neighbors", 5.0),
        ("data", "condition_scale", 2.0), ("optim", "optimizer", "sgd"),
    ]  # fmt: skip
    section, name, value = numbers.choice(edits)
    tree[section][name] = value
    path.write_text(json.dumps(tree))


def _resume(row: Row, folder: Path, reference: Path) -> None:
    """Resume in this process and count what happened."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CclkWarning)
        try:
            training.resume(folder, quiet=True)
        except CclkError:
            row.add("refused")
        except Exception as error:
            row.add("another error", unexpected=f"{type(error).__name__}: {error}")
        else:
            warned = any("damaged" in str(warning.message) for warning in caught)
            _judge(row, folder, reference, warned)
    shutil.rmtree(folder)


def _judge(row: Row, folder: Path, reference: Path, warned: bool) -> None:
    if not same_run(folder, reference):
        row.add("other weights", lost=True, undetected=not warned, unexpected=folder.name)
    elif warned:
        row.add("the one before was used, with a warning; bit-identical")
    else:
        row.add("content intact; bit-identical")


def files(bench: Bench) -> None:
    """Read damaged and foreign encoders, settings, evaluations and metrics."""
    x = np.random.default_rng(2).normal(size=(4, 5)).astype(np.float32)
    run = cclk.Run(bench.finished)
    reference = run.encoder.embed(x)
    settings, evaluation, metrics = run.settings, run.evaluation, run.metrics()

    def features(folder: Path) -> bool:
        return np.array_equal(cclk.load(folder).embed(x), reference)

    def same_settings(folder: Path) -> bool:
        opened = cclk.Run(folder)
        assert opened.encoder is not None  # reads the encoder too
        return opened.settings == settings

    readers: dict[str, Callable[[Path], bool]] = {
        ENCODER: features,
        "settings.json": same_settings,
        "evaluation.json": lambda folder: cclk.Run(folder).evaluation == evaluation,
    }
    for name, unchanged in readers.items():
        for kind, damage in DAMAGE.items():
            row = bench.row(name, kind)
            count = bench.scale.files if damage is _flip else bench.scale.files // 4
            folder = bench.path()
            shutil.copytree(bench.finished, folder)
            content = (folder / name).read_bytes()
            for _ in bench.each(row, range(count)):
                (folder / name).write_bytes(damage(content, bench.random))
                _read(row, folder, unchanged)
    row = bench.row(ENCODER, "that of another run")
    for other in bench.each(row, list(bench.others.values())):
        folder = bench.path()
        shutil.copytree(bench.finished, folder)
        shutil.copy(other / ENCODER, folder / ENCODER)
        _read(row, folder, features)
    for kind, damage in DAMAGE.items():
        row = bench.row("metrics.jsonl (a log, without a digest)", kind)
        for _ in bench.each(row, range(bench.scale.files // 4)):
            folder = bench.interrupted()
            path = folder / "metrics.jsonl"
            path.write_bytes(damage(path.read_bytes(), bench.random))
            _read_log(row, folder, metrics, bench.finished)


def _read(row: Row, folder: Path, unchanged: Callable[[Path], bool]) -> None:
    try:
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            same = unchanged(folder)
    except CclkError:
        row.add("refused")
    except Exception as error:
        row.add("another error", unexpected=f"{type(error).__name__}: {error}")
    else:
        if same:
            row.add("content intact")
        else:
            row.add("other content was read", undetected=True)


def _read_log(row: Row, folder: Path, metrics: list[dict[str, float]], reference: Path) -> None:
    """A damaged log must not disturb the run, nor lose other lines than the damaged one."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            read = cclk.Run(folder).metrics()
            training.resume(folder, quiet=True)
        except CclkError:
            row.add("refused")
            return
        except Exception as error:
            row.add("another error", unexpected=f"{type(error).__name__}: {error}")
            return
    same = (folder / ENCODER).read_bytes() == (reference / ENCODER).read_bytes()
    if not same:
        row.add("other weights", lost=True, undetected=True)
    elif read == metrics:
        row.add("content intact; bit-identical")
    elif row.fault != "one flipped bit" or len([line for line in metrics if line not in read]) <= 2:
        # A damaged end of a line joins two lines.
        said = " with a warning" if caught else ""
        row.add(f"lines dropped or changed{said}; encoder bit-identical")
    else:
        row.add("intact lines dropped", lost=True, unexpected=f"{len(read)} of {len(metrics)}")
