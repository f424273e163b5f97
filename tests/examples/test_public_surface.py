"""The script that uses the whole public surface; mypy checks its types."""

from __future__ import annotations

import pytest

from examples import public_surface


def test_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    public_surface.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("RBF('age'")
    assert "report.html 4" in lines
    assert lines[-1] == "(400, 4)"
