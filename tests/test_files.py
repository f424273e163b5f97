"""A file is written whole or not at all, and may be read by whom the user lets read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from cclk._files import read_tensors, replace_file, replace_text, write_tensors


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_a_file_has_the_rights_the_user_gives(umask: int, mode: int, tmp_path: Path) -> None:
    def private(draft: Path) -> None:
        draft.unlink(missing_ok=True)
        draft.touch(mode=0o600)

    before = os.umask(umask)
    try:
        replace_file(tmp_path / "weights", private)
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

    def fail(draft: Path) -> None:
        draft.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="text could not be written: No space left on device"):
        replace_file(path, fail)
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


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
        with pytest.raises(OSError, match=r"safetensors|header"):
            read_tensors(tmp_path / name)
