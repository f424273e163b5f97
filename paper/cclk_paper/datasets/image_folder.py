"""Datasets of image files: find their folder and their images, and read their lists."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from cclk.errors import DataError

_ENDINGS = (".jpg", ".jpeg", ".png")


def check_files(folder: Path, title: str, parts: Sequence[str], get: str) -> None:
    """Raise an error if a part of a dataset that must be downloaded by hand is missing."""
    missing = [part for part in parts if not (folder / part).exists()]
    if missing:
        more = f" and {len(missing) - 2} others" if len(missing) > 2 else ""
        raise DataError(
            f"{title} is not complete in {folder}, missing: {', '.join(missing[:2])}{more}; {get}"
        )


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file that are not empty, each with its number from 1."""
    try:
        with path.open(encoding="utf-8-sig") as stream:
            for number, line in enumerate(stream, 1):
                if text := line.strip():
                    yield number, text
    except UnicodeDecodeError as error:
        raise damaged(path, f"is not UTF-8 text ({error.reason} at byte {error.start})") from error
    except OSError as error:
        raise damaged(path, f"cannot be read ({error.strerror or error})") from error


def at_line(path: Path, number: int, what: str) -> DataError:
    """Return an error that names a line of a file."""
    return DataError(f"{path}, line {number}: {what}")


def damaged(path: Path, what: str) -> DataError:
    """Return an error for a damaged file."""
    return DataError(f"{path} {what}: replace it")


def image_files(folder: Path, *, recursive: bool = False) -> list[Path]:
    """Return the images in a folder, sorted by name, without hidden files."""
    images: list[Path] = []
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(folders) if recursive else []
        images.extend(
            Path(root, file)
            for file in sorted(files)
            if file.lower().endswith(_ENDINGS) and not file.startswith(".")
        )
    return images
