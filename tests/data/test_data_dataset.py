"""Splits check themselves; the data folder; what importing the package costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from cclk.data import Split
from cclk.data.folder import data_folder


def test_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CCLK_DATA", raising=False)
    assert data_folder() == tmp_path / ".cache" / "cclk"
    monkeypatch.setenv("CCLK_DATA", "~/mine")
    assert data_folder() == tmp_path / "mine"
    assert data_folder(Path("elsewhere")) == Path("elsewhere")
    monkeypatch.setenv("CCLK_DATA", "")
    assert data_folder() == tmp_path / ".cache" / "cclk"


def test_splits_check_themselves() -> None:
    x, y, z = torch.zeros(4, 2), torch.zeros(4, dtype=torch.int64), torch.zeros(4, 1)
    assert len(Split(x, y, z)) == 4
    assert Split(torch.arange(8.0).reshape(4, 2), y, z).subset(torch.tensor([2, 0])).x.tolist() == [
        [4, 5],
        [0, 1],
    ]
    with pytest.raises(ValueError, match="differ in length: 4, 3, 4"):
        Split(x, y[:3], z)
    with pytest.raises(ValueError, match="x is float64"):
        Split(x.double(), y, z)
    with pytest.raises(ValueError, match=r"y is float32 of shape \(4,\)"):
        Split(x, y.float(), z)
    with pytest.raises(ValueError, match=r"condition is float32 of shape \(4,\)"):
        Split(x, y, z[:, 0])


def test_importing_the_package_is_cheap() -> None:
    code = (
        "import sys, cclk.data, cclk.data.samplers; print({m.split('.')[0] for m in sys.modules})"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert "torch" in loaded
    for heavy in ("sklearn", "scipy", "PIL", "pandas"):
        assert heavy not in loaded
