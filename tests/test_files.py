"""A file is written whole or not at all, and may be read by whom the user lets read."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np
import pytest
import torch
from faults import largest_file
from safetensors.torch import load_file, save_file

from cclk import _files
from cclk._files import (
    LOCK,
    locked,
    read_tensors,
    remove_stale_drafts,
    replace_file,
    replace_text,
    write_tensors,
)
from cclk.errors import RunError


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_a_file_has_the_rights_the_user_gives(umask: int, mode: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        replace_text(tmp_path / "weights", "1")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "weights").stat().st_mode) == mode


def test_the_rights_of_other_threads_files_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process has one umask: to look at it is to change it for a moment, in which a thread may
    make a file that anybody may write.
    """

    def refuse(mask: int) -> int:
        raise AssertionError(f"umask was set to {mask:o}")

    monkeypatch.setattr(os, "umask", refuse)
    replace_text(tmp_path / "text", "first")


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "text"
    replace_text(path, "first")

    def fail(file: IO[bytes]) -> None:
        file.write(b"half")
        raise ValueError("of the writer")

    with pytest.raises(ValueError, match="of the writer"):
        replace_file(path, fail)
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def _by_a_library(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    replace_file(path, write)


@pytest.mark.parametrize(
    "write",
    [
        lambda path: replace_text(path, "x" * 9000),
        lambda path: write_tensors(path, {"a": torch.zeros(9000)}, {}),
        lambda path: _by_a_library(path, lambda file: np.savez(file, a=np.zeros(9000))),
    ],
    ids=["text", "safetensors", "numpy"],
)
def test_a_full_disk_names_the_file_and_leaves_it(
    write: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "file"
    replace_text(path, "first")
    with largest_file(4096), pytest.raises(OSError, match="file could not be written: File too"):
        write(path)
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_only_regular_files_are_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(OSError, match="could not be written: it is not a regular file"):
            replace_text(path, "text")
    with pytest.raises(OSError, match=r"none/file could not be written: No such file"):
        replace_text(tmp_path / "none" / "file", "text")


def test_links_are_not_written_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other, path = tmp_path / "other", tmp_path / "file"
    other.write_text("theirs")
    path.symlink_to(other)
    replace_text(path, "ours")
    assert (path.read_text(), path.is_symlink(), other.read_text()) == ("ours", False, "theirs")
    monkeypatch.setattr(_files.secrets, "token_hex", lambda _: "known")
    (tmp_path / f"{_files._DRAFT}{os.getpid()}-known.draft").symlink_to(other)
    (tmp_path / LOCK).symlink_to(other)
    with pytest.raises(OSError, match="file could not be written: File exists"):
        replace_text(path, "again")
    with pytest.raises(OSError, match="could not be written"), locked(tmp_path):
        pass
    assert (path.read_text(), other.read_text()) == ("ours", "theirs")


def test_drafts_of_killed_processes_are_removed(tmp_path: Path) -> None:
    inner = tmp_path / "checkpoints"
    inner.mkdir()
    code = (
        "import os; from pathlib import Path; from cclk._files import replace_file\n"
        f"replace_file(Path({str(inner / 'step')!r}), lambda file: os.kill(os.getpid(), 9))"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    (stale,) = inner.iterdir()

    def write(file: IO[bytes]) -> None:
        with locked(tmp_path):
            assert not stale.exists()
            remove_stale_drafts(tmp_path)
            drafts = [path for path in tmp_path.iterdir() if path.suffix == ".draft"]
            assert len(drafts) == 1, "that of this process is kept"
        file.write(b"text")

    replace_file(tmp_path / "file", write)
    assert sorted(tmp_path.iterdir()) == [inner, tmp_path / "file"]


def test_a_rename_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced, fsync = [], os.fsync

    def record(descriptor: int) -> None:
        synced.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    replace_text(tmp_path / "file", "text")
    assert synced == [False, True]


def test_a_lock_is_held_by_one(tmp_path: Path) -> None:
    for target in (tmp_path, tmp_path / "results.json"):
        with locked(target):
            message = f"{target} is being written by process {os.getpid()} on .*: wait"
            with pytest.raises(RunError, match=message), locked(target):
                pass
        assert not list(tmp_path.iterdir()), "the lock file is removed"
    with locked(tmp_path):
        with locked(tmp_path / "results.json"):
            pass
        (tmp_path / LOCK).unlink()
        with locked(tmp_path):  # of a folder that was deleted and created again
            pass


def test_equal_tensors_and_metadata_are_equal_files(tmp_path: Path) -> None:
    tensors = {
        "b": torch.arange(6.0).reshape(2, 3).T,
        "a": torch.tensor(7),
        "half": torch.ones(3, dtype=torch.bfloat16),
        "none": torch.empty(0),
    }
    metadata = {
        name: f"the {name}: “quoted”\n"
        for name in ("settings", "kernel", "shape", "inputs", "version")
    }
    written = set()
    for attempt in range(
        8
    ):  # the library alone would order the metadata in another way nearly every time
        path = tmp_path / f"{attempt}.safetensors"
        turned = (
            dict(reversed(given.items())) if attempt % 2 else given for given in (tensors, metadata)
        )
        write_tensors(path, *turned)  # type: ignore[arg-type]
        written.add(path.read_bytes())
    assert len(written) == 1
    found, told = read_tensors(path)
    assert told == metadata
    for read in (found, load_file(path)):
        assert read.keys() == tensors.keys()
        assert all(
            read[name].dtype == value.dtype and torch.equal(read[name], value)
            for name, value in tensors.items()
        )
    assert (8 + int.from_bytes(path.read_bytes()[:8], "little")) % 8 == 0, "values are aligned"


def test_a_flipped_bit_in_a_file_of_tensors_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    tensors = {"a": torch.arange(5.0), "b": torch.ones(2, 3)}
    write_tensors(path, tensors, {"shape": "[5]"})
    content = path.read_bytes()
    for position in range(len(content)):
        path.write_bytes(
            content[:position] + bytes([content[position] ^ 4]) + content[position + 1 :]
        )
        try:
            read, metadata = read_tensors(path)
        except OSError:
            continue
        # In padding, or in the name of the digest: values and metadata are intact.
        assert all(torch.equal(read[name], value) for name, value in tensors.items())
        assert metadata["shape"] == "[5]"
    save_file(tensors, path)
    assert read_tensors(path)[0].keys() == tensors.keys()  # files of other tools have no digest


def test_what_is_no_file_of_tensors_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "t.safetensors").write_text("nothing")
    for name in ("t.safetensors", "none.safetensors"):
        with pytest.raises(OSError, match=r"safetensors|header|JSON|none"):
            read_tensors(tmp_path / name)
