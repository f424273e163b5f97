"""On a full disk every command names the file, and what was there before stays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from faults import largest_file

from cclk.cli.main import main
from cclk.training import loop as training
from cclk.training.metrics import MetricsWriter, read_metrics
from cclk.training.settings import Settings, load


def small(data: Path) -> Settings:
    return load(
        overrides={
            "dataset": str(data),
            "encoder": "mlp",
            "encoder_options": {"hidden": [64]},
            "augmentation": "vectors",
            "batch_size": 32,
            "steps": 4,
            "log_every": 1,
        }
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "table.npz"
    random = np.random.default_rng(0)
    x, z = random.normal(size=(2, 64, 8)).astype(np.float32)
    np.savez(path, x=x, y=np.arange(64) % 3, condition=z[:, :1])
    return path


@pytest.fixture(scope="module")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return training.train(small(data), tmp_path_factory.mktemp("run") / "run", quiet=True).folder


@pytest.mark.parametrize("out", ["e.onnx", "e.pt2", "e.safetensors", "e.csv", "e.parquet", "e.npz"])
def test_exports_and_embeddings(
    out: str, run: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / out
    path.write_text("before")
    formats = {".onnx": "onnx", ".pt2": "torch", ".safetensors": "safetensors"}
    command = ["embed", str(run), str(data)]
    if path.suffix in formats:
        command = ["export", str(run), "--format", formats[path.suffix]]
    with largest_file(4096):
        assert main([*command, "--out", str(path)]) == 2
    message = capsys.readouterr().err
    assert message == f"cclk: {path} could not be written: File too large\n"
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_metrics_stop_the_run(tmp_path: Path) -> None:
    with MetricsWriter(tmp_path, 0, enabled=True) as metrics:
        metrics.add({"step": 1, "loss": 0.5})
        with (
            largest_file(40),
            pytest.raises(OSError, match=r"metrics.jsonl could not be written: File too large"),
        ):
            metrics.add({"step": 2, "loss": 0.25})
    assert read_metrics(tmp_path)[0] == {"step": 1, "loss": 0.5}
    with MetricsWriter(tmp_path, 1, enabled=True) as metrics:
        metrics.add({"step": 2, "loss": 0.125})
    assert [line["loss"] for line in read_metrics(tmp_path)] == [0.5, 0.125]
