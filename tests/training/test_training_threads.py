"""How many threads a run computes with, and that a resumed run keeps them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from cclk.cli.start import is_busy, wait_passively
from cclk.training import _process as threads
from cclk.training import loop as training
from cclk.training.settings import load

SHORT = {"steps": 2, "batch_size": 16, "encoder": "lenet5"}


def test_a_resumed_run_computes_with_the_threads_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    original = training._Loop.run
    monkeypatch.setattr(
        training._Loop,
        "run",
        lambda self: (seen.append(torch.get_num_threads()), original(self))[1],
    )
    with threads.computing_with(2):
        training.train(load(overrides=SHORT), tmp_path / "plain", quiet=True)
    training.train(load(overrides={**SHORT, "threads": 3}), tmp_path / "asked", quiet=True)
    for name in ("plain", "asked"):
        training.resume(tmp_path / name, quiet=True)
    assert seen == [2, 3, 2, 3]
    assert torch.get_num_threads() == 1
    assert json.loads((tmp_path / "plain" / "settings.json").read_text())["threads"] == 2


def test_the_command_line_lets_threads_sleep_while_they_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    wait_passively()
    assert os.environ.pop("OMP_WAIT_POLICY") == "PASSIVE"
    monkeypatch.setenv("GOMP_SPINCOUNT", "5")
    wait_passively()
    assert "OMP_WAIT_POLICY" not in os.environ, "what the user has set holds"


def test_a_busy_machine_is_noticed() -> None:
    others = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(2 * (os.cpu_count() or 1))
    ]
    try:
        assert is_busy(samples=15)
    finally:
        for other in others:
            other.kill()
            other.wait()


def test_the_policy_is_set_before_torch_is_imported() -> None:
    code = (
        "import sys; from cclk.cli import start; assert 'torch' not in sys.modules;"
        " start.wait_passively()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
