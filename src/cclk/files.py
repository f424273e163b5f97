"""Files are written whole or not at all: a crash, a signal or a full disk never leaves half of one in place of a good one."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a draft beside the file, make sure it is on the disk, then let it take the file's place.

    Raises:
        OSError: if it could not be written; the file is as it was before.
    """
    draft = path.with_name(f".{path.name}.draft-{os.getpid()}")
    try:
        draft.touch()
        rights = draft.stat().st_mode
        write(draft)
        if draft.stat().st_mode != rights:  # some libraries make files that only their owner may read
            draft.chmod(stat.S_IMODE(rights))
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        draft.replace(path)
    except RuntimeError as error:  # what torch makes of a failed write
        raise OSError(f"{path} could not be written: {str(error).strip().partition(chr(10))[0]}") from error
    except OSError as error:
        raise OSError(f"{path} could not be written: {error.strerror or error}") from error
    finally:
        draft.unlink(missing_ok=True)


def replace_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    replace_file(path, lambda draft: draft.write_text(text, encoding="utf-8"))
