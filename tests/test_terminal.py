"""Control characters from files never reach the terminal, and formulas no spreadsheet."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from rich.progress import Progress
from rich.table import Table

from cclk._terminal import Console, escape
from cclk.cli.main import main
from cclk.training.embeddings import write_embeddings

HOSTILE = "a\x1b]0;title\x07\x1b[2J\x9b\u202eb\r"


def test_escape() -> None:
    assert escape(HOSTILE) == r"a\x1b]0;title\x07\x1b[2J\x9b\u202eb\x0d"
    assert escape("tab\tline\né 🙂") == "tab\tline\né 🙂"


def test_console_escapes_text_tables_and_progress() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=200, color_system=None)
    console.print(HOSTILE, markup=False)
    table = Table(HOSTILE)
    table.add_row(HOSTILE)
    console.print(table)
    with Progress(console=console) as progress:
        progress.add_task(HOSTILE, total=1)
    text = stream.getvalue()
    assert r"\x1b]0;" in text
    assert "\x1b]0;" not in text
    assert "\x1b[2J" not in text
    assert "\u202e" not in text


def test_messages_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "t.csv"
    table.write_text("a\x1b[31mb,c\n1,2\n3,4\n")
    assert main(["check", "--data", str(table), "--features", "x"]) == 2
    printed = "".join(capsys.readouterr())
    assert r"a\x1b[31mb" in printed
    assert "\x1b[31mb" not in printed


def test_formulas_in_exported_ids(tmp_path: Path) -> None:
    ids = ["=1+1", "+a", "-5", "@x", "\tx", "plain", "-1e3"]
    write_embeddings(tmp_path / "e.csv", ids, 1, [np.zeros((len(ids), 1), np.float32)])
    lines = (tmp_path / "e.csv").read_text().splitlines()[1:]
    written = [line.rsplit(",", 1)[0].strip('"') for line in lines]
    assert written == ["'=1+1", "'+a", "-5", "'@x", "'\tx", "plain", "-1e3"]
