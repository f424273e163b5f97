"""The documentation shows what was measured, and its examples run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.tables import PAGES, ROOT, render
from cclk.cli.experiments import results

EVERY_PAGE = [*PAGES, *(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES)
def test_tables_are_what_the_results_say(page: str) -> None:
    text = (ROOT / page).read_text()
    assert render(text) == text, "run python -m benchmarks.tables"


def test_the_readmes_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    exec(compile(example, "README.md", "exec"), {})
    assert "effective partners" in capsys.readouterr().out
    assert len([line for line in example.splitlines() if line.strip()]) <= 10


def test_the_results_page_is_what_the_results_say(tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    page.write_text((ROOT / "docs" / "results.md").read_text())
    results(ROOT / "results", out=page, quiet=True)
    assert page.read_text() == (ROOT / "docs" / "results.md").read_text(), "run cclk results --out docs/results.md"


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_figures_and_pages_are_there(page: str) -> None:
    for target in re.findall(r"\]\(((?!http).*?)\)", (ROOT / page).read_text()):
        assert Path(ROOT, page).parent.joinpath(target.partition("#")[0]).exists(), target
