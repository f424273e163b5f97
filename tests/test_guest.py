"""The library in someone's process: it leaves global state and memory as they were."""

from __future__ import annotations

import csv
import logging
import os
import random
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cclk

ROOT = Path(__file__).parents[1]


def snapshot() -> dict[str, object]:
    """The global state that users set."""
    return {
        "random": random.getstate(),
        "numpy.random": str(np.random.get_state()),
        "torch.random": torch.get_rng_state().tolist(),
        "threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "python threads": threading.active_count(),
        "signals": {name: signal.getsignal(name) for name in signal.Signals},
        "filters": list(warnings.filters),
        "grad": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "autocast": (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")),
        "deterministic": (
            torch.are_deterministic_algorithms_enabled(),
            torch.backends.cudnn.benchmark,
            torch.backends.cudnn.deterministic,
        ),
        "dtype": (torch.get_default_dtype(), torch.get_float32_matmul_precision()),
        "environment": dict(os.environ),
        "numpy errors": np.geterr(),
        "logging": (logging.root.level, len(logging.root.handlers), logging.root.manager.disable),
        "folder": str(Path.cwd()),
        "import path": list(sys.path),
    }


class Failing(nn.Module):
    """A network that raises an error in its first step."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(channels, 4)

    def forward(self, x: Tensor) -> Tensor:
        if self.training and torch.is_grad_enabled():
            raise RuntimeError("out of luck")
        features: Tensor = self.linear(x)
        return features


def use_everything(path: str) -> None:
    """Call each verb for the first time in this process, and compare the state around it."""
    folder = Path(path)
    x = np.random.default_rng(0).normal(size=(120, 3)).astype(np.float32)
    table = folder / "table.csv"
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([["a", "b", "c", "age", "y"]])
        writer.writerows([*map(float, row), float(row[0]), int(row[1] > 0)] for row in x)
    random.seed(1)
    np.random.seed(2)
    torch.manual_seed(3)
    torch.set_num_threads(2)
    signal.signal(signal.SIGTERM, lambda *_: None)

    def train(out: str, **options: str) -> cclk.Run:
        overrides = {"threads": 1, "precision": "bfloat16"}
        return cclk.train(
            table, features=["a", "b", "c"], condition="age", label="y", steps=2, batch_size=32,
            out=folder / out, quiet=True, overrides=overrides, **options,  # type: ignore[arg-type]
        )  # fmt: skip

    def fit(encoder: str = "mlp") -> cclk.ConditionalEncoder:
        return cclk.ConditionalEncoder(steps=2, encoder=encoder).fit(x, sensitive_features=x[:, 0])

    verbs: dict[str, Callable[[], object]] = {
        "fit": fit,
        "failing fit": lambda: fit("test_guest:Failing"),
        "train": lambda: train("run"),
        "failing train": lambda: train("other", encoder="test_guest:Failing"),
        "evaluate": lambda: cclk.Run(folder / "run").evaluate(bootstrap=5, quiet=True),
        "failing evaluate": lambda: cclk.Run(folder / "run").evaluate(bootstrap=-1),
        "embed": lambda: cclk.Run(folder / "run").embed(table, folder / "e.parquet", quiet=True),
        "failing embed": lambda: cclk.Run(folder / "run").embed(folder / "none.csv"),
        "export onnx": lambda: cclk.Run(folder / "run").export("onnx"),
        "export torch": lambda: cclk.Run(folder / "run").export("torch"),
        "report": lambda: cclk.Run(folder / "run").report(folder / "report.html"),
    }
    for name, verb in verbs.items():
        before = snapshot()
        fails = name.startswith("failing")
        with pytest.raises((RuntimeError, OSError, ValueError)) if fails else nullcontext():
            verb()
        after = snapshot()
        changed = [key for key in before if before[key] != after[key]]
        assert not changed, (name, changed, [(before[key], after[key]) for key in changed])


def _python(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), *sys.path])},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_global_state_is_left_as_it_was(tmp_path: Path) -> None:
    """In a new process: what libraries change when they are imported counts too.

    Except scikit-learn, which users of the estimator import themselves.
    """
    code = "import sys, sklearn.base, test_guest; test_guest.use_everything(sys.argv[1])"
    _python(code, str(tmp_path))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_left_as_it_was() -> None:
    code = "from benchmarks.guest import measure; m = measure(200, 20); print(*m.values())"
    _, own, before, after, again = map(float, _python(code).split())
    assert own > 150
    assert abs(after - before) < 50
    assert abs(again - before) < 50
