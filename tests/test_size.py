"""The library stays small: every capability pays for its lines with deletions."""

from __future__ import annotations

from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "cclk"
LINES = 22_000
"""Of all modules together, comments and blank lines included."""


def test_the_library_stays_below_its_limit() -> None:
    lines = {path: len(path.read_text().splitlines()) for path in SOURCE.rglob("*.py")}
    largest = sorted(lines, key=lambda path: -lines[path])[:5]
    assert sum(lines.values()) < LINES, [path.name for path in largest]
