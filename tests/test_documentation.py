"""The documentation shows what was measured, and its examples run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.tables import PAGES, ROOT, render


@pytest.mark.parametrize("page", PAGES)
def test_tables_are_what_the_results_say(page: str) -> None:
    text = (ROOT / page).read_text()
    assert render(text) == text, "run python -m benchmarks.tables"


def test_the_readmes_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    exec(compile(example, "README.md", "exec"), {})
    assert "effective partners" in capsys.readouterr().out
    assert len([line for line in example.splitlines() if line.strip()]) <= 10


def test_figures_are_there() -> None:
    for page in PAGES:
        for picture in re.findall(r"!\[.*?\]\((.*?)\)", (ROOT / page).read_text()):
            assert Path(ROOT, picture).is_file()
