"""Full and read-only disks: one line that names the file and the cause, and no file changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.faults.bench import Bench, refusal, same_run, snapshot
from benchmarks.faults.commands import Done
from benchmarks.faults.rows import Row

_SIZE = 32 << 20
_PAGE = 4096
_TRAINING = 100 << 10
"""More than all files of a small training together."""
_FULL = ("no space left", "file too large", "disk is full")
_READ_ONLY = ("read-only",)


class Disk:
    """A small disk of its own; where none can be mounted, a folder with a limit on file sizes.

    Args:
        folder: Where it is mounted.
        mounted: Whether it is a disk of its own.
    """

    def __init__(self, folder: Path, mounted: bool) -> None:
        self.folder, self.mounted = folder, mounted
        self.limit: int | None = None

    def fill(self, free: int) -> None:
        """Leave only this many bytes."""
        if not self.mounted:
            self.limit = free
            return
        filler = self.folder / ".filler"
        filler.unlink(missing_ok=True)
        status = os.statvfs(self.folder)
        size = status.f_bavail * status.f_frsize - free
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(size, _PAGE))

    def empty(self) -> None:
        """Make space again."""
        (self.folder / ".filler").unlink(missing_ok=True)
        self.limit = None

    def protect(self, read_only: bool) -> None:
        """Mount it read-only, or writable again."""
        mode = "ro" if read_only else "rw"
        subprocess.run(["mount", "-o", f"remount,{mode}", str(self.folder)], check=True)


@contextmanager
def small_disk(bench: Bench) -> Iterator[Disk]:
    """Mount a disk for the block."""
    folder = bench.path("disk")
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(folder)]
    mounted = (
        sys.platform == "linux"
        and os.geteuid() == 0
        and subprocess.run(mount, check=False, capture_output=True).returncode == 0
    )
    if not mounted:
        bench.note(
            "no disk can be mounted here: files are limited in size in place of a full disk, and"
            " read-only disks are not tried"
        )
    try:
        yield Disk(folder, mounted)
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def commands_of(bench: Bench, run: Path, out: Path) -> dict[str, list[object]]:
    """Commands that write: name -> arguments."""
    commands: dict[str, list[object]] = {
        "embed .npz": ["embed", run, bench.data, "--out", out / "embeddings.npz"],
        "export onnx": ["export", run, "--format", "onnx", "--out", out / "export.onnx"],
        "report": ["report", run, "--out", out / "report.html"],
        "evaluate": ["evaluate", run, "--bootstrap", 20],
        "export torch": ["export", run, "--format", "torch", "--out", out / "export.pt2"],
        "export safetensors": [
            "export", run, "--format", "safetensors", "--out", out / "export.safetensors"
        ],
        "embed .csv": ["embed", run, bench.data, "--out", out / "embeddings.csv"],
        "embed .parquet": ["embed", run, bench.data, "--out", out / "embeddings.parquet"],
    }  # fmt: skip
    return {name: [*words, "--quiet"] for name, words in commands.items()}


def disks(bench: Bench) -> None:
    """Train, evaluate, report, export and embed on a full and on a read-only disk."""
    reference = bench.finished
    with small_disk(bench) as disk:
        row = bench.row("cclk train", "full disk")
        levels = range(0, _TRAINING, 2 * _PAGE) if disk.mounted else range(512, 20_000, 2048)
        for free in bench.each(row, bench.some(levels, bench.scale.levels)):
            folder = disk.folder / "run"
            disk.fill(free)
            words = bench.training(folder)
            done = bench.start(*words, largest_file=disk.limit).wait()
            disk.empty()
            problem = _problem(done, _FULL, folder)
            if done.code == 0:
                row.add("enough space", unexpected="" if same_run(folder, reference) else str(done))
            else:
                bench.judge(row, folder, bench.finish(folder, words), reference, problem)
            shutil.rmtree(folder, ignore_errors=True)
        row = bench.row("cclk train --resume", "full disk")
        for free in bench.each(row, bench.some(levels, bench.scale.levels)):
            folder = disk.folder / "run"
            shutil.copytree(bench.interrupted(), folder)
            max((folder / "checkpoints").glob("*.safetensors")).unlink()
            before = snapshot(folder)
            disk.fill(free)
            words = ["train", "--resume", "--out", folder, "--quiet"]
            done = bench.start(*words, largest_file=disk.limit).wait()
            disk.empty()
            after = snapshot(folder)
            kept = [name for name in before if name.endswith((".safetensors", "settings.json"))]
            if done.code == 0:
                row.add("enough space", unexpected="" if same_run(folder, reference) else str(done))
            else:
                problem = _problem(done, _FULL, folder)
                if [after.get(name) for name in kept] != [before[name] for name in kept]:
                    problem = f"a file changed, {done}"
                bench.judge(row, folder, bench.finish(folder, words), reference, problem)
            shutil.rmtree(folder, ignore_errors=True)
        _other_commands(bench, disk)
        if disk.mounted:
            _read_only(bench, disk, reference)


def _other_commands(bench: Bench, disk: Disk) -> None:
    row = bench.row("cclk evaluate, report, export, embed", "full disk")
    run, out = disk.folder / "run", disk.folder / "out"
    shutil.copytree(bench.finished, run)
    out.mkdir()
    commands = commands_of(bench, run, out)
    for name in bench.each(row, list(commands)[: bench.scale.formats]):
        target = run / "evaluation.json" if name == "evaluate" else Path(str(commands[name][-2]))
        bench.succeed(*commands[name])
        size = target.stat().st_size
        levels = (0, _PAGE * (size // 2 // _PAGE)) if disk.mounted else (size // 4, size // 2)
        for old in (False, True):
            for free in sorted(set(levels)):
                target.unlink(missing_ok=True)
                if old:
                    target.write_bytes(b"old")
                before = snapshot(disk.folder)
                disk.fill(free)
                done = bench.start(*commands[name], largest_file=disk.limit).wait()
                disk.empty()
                _judge_unchanged(row, disk.folder, before, done, _FULL, target.name, name)
        target.unlink(missing_ok=True)
        if name == "evaluate":
            shutil.copy(bench.finished / target.name, target)
    shutil.rmtree(out)
    shutil.rmtree(run)


def _read_only(bench: Bench, disk: Disk, reference: Path) -> None:
    run, out = disk.folder / "run", disk.folder / "out"
    stopped = disk.folder / "stopped"
    shutil.copytree(reference, run)
    shutil.copytree(bench.interrupted(), stopped)
    out.mkdir()
    commands = {
        "train --resume": ["train", "--resume", "--out", stopped, "--quiet"],
        "train": bench.training(disk.folder / "new" / "run"),
        **commands_of(bench, run, out),
    }
    before = snapshot(disk.folder)
    disk.protect(True)
    try:
        row = bench.row("cclk train, evaluate, report, export, embed", "read-only disk")
        for name in bench.each(row, list(commands)[: bench.scale.formats]):
            done = bench.run(*commands[name])
            _judge_unchanged(row, disk.folder, before, done, _READ_ONLY, str(disk.folder), name)
    finally:
        disk.protect(False)


def _problem(done: Done, causes: Sequence[str], folder: Path) -> str:
    problem = refusal(done, str(folder.parent))
    if not problem and not any(cause in done.text.lower() for cause in causes):
        problem = f"does not name the cause, {done}"
    return problem


def _judge_unchanged(
    row: Row,
    folder: Path,
    before: dict[str, str],
    done: Done,
    causes: Sequence[str],
    named: str,
    command: str,
) -> None:
    problem = _problem(done, causes, folder / "any")
    after = snapshot(folder)
    if not problem and named not in done.text:
        problem = f"does not name {named}, {done}"
    if any(after.get(name) != digest for name, digest in before.items()):
        row.add("an old file changed", lost=True, unexpected=f"{command}: {done}")
    elif after.keys() != before.keys():
        new = sorted(after.keys() - before.keys())
        row.add("a partial file", unexpected=f"{command}: {new[0]}, {done}")
    else:
        row.add("refused, nothing changed", unexpected=f"{command}: {problem}" if problem else "")
