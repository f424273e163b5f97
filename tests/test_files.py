"""A file is written whole or not at all, and may be read by whom the user lets read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from cclk.files import replace_file, replace_text


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


def test_the_rights_of_other_threads_files_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process has one umask: to look at it is to change it for a moment, in which a thread may make a file that anybody may write."""

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
