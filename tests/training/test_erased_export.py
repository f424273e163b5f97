"""Exports without a linear trace of the condition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import cclk
from cclk.backbones import build_extractor
from cclk.errors import RunError
from cclk.training import loop as training
from cclk.training.export import erased
from cclk.training.settings import load


@pytest.mark.parametrize("width", [None, 12])
def test_exports_equal_the_eraser(tmp_path: Path, width: int | None) -> None:
    random_state = np.random.default_rng(1)
    x = random_state.integers(0, 256, size=(300, 1, 32, 32)).astype(np.uint8)
    z = x[:, 0, :16].mean(axis=(1, 2))[:, None] + random_state.normal(size=(300, 1))
    data = tmp_path / "data.npz"
    np.savez(data, x=x, y=np.arange(300) % 2, condition=z)
    overrides = {"dataset": str(data), "batch_size": 30, "steps": 3, "holdout": 0}
    settings = load(overrides={**overrides, "feature_width": width})
    training.train(settings, tmp_path / "run", quiet=True)
    run = cclk.Run(tmp_path / "run")
    train = run.dataset.train
    assert isinstance(train.x, torch.Tensor)
    features = run.encoder.embed(train.x.numpy())
    eraser = cclk.LinearEraser().fit(features, sensitive_features=train.condition)
    expected = eraser.transform(features)
    samples = train.x.numpy()

    import onnxruntime  # type: ignore[import-untyped]

    path = run.export("onnx", erase="linear")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert np.allclose(session.run(None, {"x": samples})[0], expected, atol=1e-5)
    path = run.export("safetensors", erase="linear")
    extractor = build_extractor(str(path), channels=1, pixels=32)
    assert np.allclose(extractor(train.x).numpy(), expected, atol=1e-5)
    program = torch.export.load(run.export("torch", erase="linear")).module()
    assert np.allclose(program(train.x).numpy(), expected, atol=1e-5)
    assert np.allclose(run.encoder.embed(samples), features)  # the run itself is unchanged


def test_a_run_without_a_condition(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x, y=np.arange(60) % 2)
    overrides = {"dataset": str(tmp_path / "data.npz"), "encoder": "mlp", "method": "infonce"}
    more = {"augmentation": "vectors", "batch_size": 20, "steps": 2}
    training.train(load(overrides=overrides | more), tmp_path / "run", quiet=True)
    with pytest.raises(RunError, match="no condition to erase"):
        erased(cclk.load(tmp_path / "run"))
