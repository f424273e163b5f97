"""Signals to a run: to one of several processes, of a terminal that closes, and before its end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from faults import children, command_of, is_running

from cclk.training import launch
from cclk.training._process import deferred_signals

ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


def test_a_hangup_stops_a_run_unless_it_is_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
    try:
        with deferred_signals() as caught:
            signal.raise_signal(signal.SIGHUP)
            assert caught == [signal.SIGHUP]
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
        with deferred_signals() as caught:
            signal.raise_signal(signal.SIGHUP)
            assert caught == []
            signal.raise_signal(signal.SIGTERM)
            assert caught == [signal.SIGTERM]
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def checkpoints(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("checkpoints/*.safetensors"))


def begin(folder: Path, *options: str) -> tuple[subprocess.Popen[str], int]:
    """Start two processes and wait for another checkpoint; the command and its second process."""
    before = checkpoints(folder)
    command = [sys.executable, "-m", "cclk", "train", *options, "--quiet", "--out", str(folder)]
    process = subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while checkpoints(folder) == before:
        assert time.monotonic() < until
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        time.sleep(0.05)
    (second,) = (child for child in children(process.pid) if "cclk" in command_of(child))
    return process, second


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are listed in /proc")
def test_two_processes_end_together(tmp_path: Path) -> None:
    """On a signal to either of them both stop at the same step, which is saved; if the first is
    killed, the second ends, too.
    """
    random = np.random.default_rng(0)
    x, z = random.normal(size=(2, 64, 8)).astype(np.float32)
    np.savez(tmp_path / "table.npz", x=x, y=np.arange(64) % 3, condition=z[:, :1])
    options = (
        f"--dataset {tmp_path / 'table.npz'} --encoder mlp --augmentation vectors --devices 2"
        " --batch-size 32 --steps 100000 --log-every 1000 --checkpoint-every 50"
    )
    folder = tmp_path / "run"
    process, second = begin(folder, *options.split())
    os.kill(second, signal.SIGTERM)
    _, message = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    pattern = r"cclk: stopped at step (\d+), which is saved; resume with: cclk train .*\n"
    match = re.fullmatch(pattern, message)
    assert match, message
    assert checkpoints(folder)[-1] == f"step-{int(match[1]):09d}.safetensors"
    process, second = begin(folder, "--resume")
    process.kill()
    _, message = process.communicate(timeout=60)
    until = time.monotonic() + 30
    while is_running(second):
        assert time.monotonic() < until
        time.sleep(0.05)
    assert message == ""


def test_one_process_agrees_with_itself() -> None:
    agreement = launch.Agreement(SimpleNamespace(world_size=1))
    assert [agreement.largest(number) for number in (0, 15)] == [0, 15]
    assert agreement.mean(torch.tensor(2.5)) == 2.5
