"""How many threads a run computes with, and that a resumed run keeps them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from cclk.cli.start import is_busy, wait_passively
from cclk.training import _process as threads
from cclk.training import loop as training
from cclk.training.settings import load
from cclk.training.trainer import Trainer

SHORT = {"steps": 2, "batch_size": 16, "encoder": "lenet5"}


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ({4: 1.0, 2: 1.2, 1: 2.0}, 4),
        ({4: 1.0, 2: 0.95, 1: 0.98}, 4),
        ({4: 1.0, 2: 0.7, 1: 0.9}, 2),
        ({4: 5.0, 2: 3.0, 1: 1.0}, 1),
    ],
)
def test_fewer_threads_only_where_they_are_clearly_faster(
    seconds: dict[int, float], expected: int
) -> None:
    assert threads.fastest(lambda: seconds[torch.get_num_threads()], 4) == expected
    assert torch.get_num_threads() == 1


def test_measuring_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    network = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Dropout())
    before = {key: value.clone() for key, value in network.state_dict().items()}
    with threads.computing_with(2):
        assert threads.best_threads(network, torch.randn(80, 6)) in (1, 2)
        random = torch.random.get_rng_state()
        threads.best_threads(network, torch.ones(80, 6))
    assert torch.equal(torch.random.get_rng_state(), random)
    assert all(torch.equal(before[key], value) for key, value in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())


def test_what_the_user_has_decided_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "fastest", lambda *_: pytest.fail("measured"))
    with threads.computing_with(2):
        monkeypatch.setenv("OMP_NUM_THREADS", "2")
        assert threads.best_threads(nn.Linear(2, 2), torch.ones(4, 2)) == 2
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert (
        threads.best_threads(nn.Linear(2, 2), torch.ones(4, 2)) == 1
    )  # one thread cannot be fewer


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
    monkeypatch.setattr(Trainer, "best_threads", lambda *_: 2)
    training.train(load(overrides=SHORT), tmp_path / "measured", quiet=True)
    training.train(load(overrides={**SHORT, "threads": 3}), tmp_path / "asked", quiet=True)
    monkeypatch.setattr(Trainer, "best_threads", lambda *_: pytest.fail("measured again"))
    for name in ("measured", "asked"):
        training.resume(tmp_path / name, quiet=True)
    assert seen == [2, 3, 2, 3]
    assert torch.get_num_threads() == 1
    assert json.loads((tmp_path / "measured" / "settings.json").read_text())["threads"] == 2


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
