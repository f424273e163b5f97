"""Noise on released features: Gaussian, fixed for each sample, and part of every export."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

import cclk
from cclk.models.feature_noise import FeatureNoise
from cclk.training import loop as training
from cclk.training.settings import load


def test_it_is_standard_normal_and_independent_across_features_and_samples() -> None:
    noise = FeatureNoise(8, 1.0, 12)
    generator = torch.Generator().manual_seed(0)
    random_samples = torch.randn(5_000, 12, generator=generator)
    neighbors = torch.zeros(5_000, 12)
    neighbors[:, 3] = torch.arange(5_000) / 1024
    for samples in (random_samples, neighbors):
        values = noise.noise(samples)
        assert min(stats.kstest(each.numpy(), "norm").pvalue for each in values.T) > 1e-3
        correlations = torch.corrcoef(torch.cat([values[1:], values[:-1]], dim=1).T)
        assert (correlations - torch.eye(16)).abs().max() < 0.08


def test_a_sample_always_has_the_same_noise() -> None:
    noise = FeatureNoise(4, 0.5, 6).eval()
    samples = torch.randn(10, 6)
    assert torch.equal(noise.noise(samples)[3:4], noise.noise(samples[3:4]))
    assert torch.equal(noise.noise(samples), FeatureNoise(4, 2.0, 6).noise(samples))
    extreme = torch.tensor([[3e38, -3e38, 0.0, 1e-38, -1e9, 7.0]])
    assert noise.noise(extreme).isfinite().all()


def test_equal_samples_of_a_table_have_different_noise() -> None:
    noise = FeatureNoise(4, 0.5, 6).eval()
    different = torch.randn(3, 6)
    samples = different[[0, 1, 0, 2, 0, 1]]
    released = noise.noise(samples)
    assert len(released.unique(dim=0)) == 6
    assert torch.equal(released[[0, 1, 3]], noise.noise(different))
    assert torch.equal(released, noise.noise(samples))
    with noise.one_table():
        parts = torch.cat([noise.noise(part) for part in samples.split(2)])
    assert torch.equal(parts, released)
    assert torch.equal(noise.noise(samples[2:4]), noise.noise(different[[0, 2]]))


def test_scale_is_relative_to_the_features() -> None:
    noise = FeatureNoise(3, 0.5, 5)
    features, samples = 100 * torch.randn(4000, 3) + 7, torch.randn(4000, 5)
    std = noise(features, samples).std(dim=0)
    assert torch.allclose(std, torch.full((3,), 1.25**0.5), atol=0.05)


@pytest.mark.parametrize("images", [False, True])
def test_every_export_has_the_noise(tmp_path: Path, images: bool) -> None:
    random_state = np.random.default_rng(1)
    if images:
        x = random_state.integers(0, 256, size=(60, 1, 32, 32)).astype(np.uint8)
        shape = {"encoder": "lenet5", "augmentation": "digits"}
    else:
        x = (5 * random_state.normal(size=(60, 6)) + 3).astype(np.float32)
        shape = {"encoder": "mlp", "augmentation": "vectors"}
    data = tmp_path / "data.npz"
    np.savez(data, x=x, y=np.arange(60) % 2, condition=random_state.normal(size=(60, 1)))
    overrides = {"dataset": str(data), "batch_size": 30, "steps": 3, "holdout": 0, **shape}
    settings = load(overrides={**overrides, "feature_noise": 0.5, "feature_width": 4})
    training.train(settings, tmp_path / "run", quiet=True)
    run = cclk.Run(tmp_path / "run")
    assert run.encoder.encoder.noise is not None
    features = run.encoder.embed(x)
    assert np.allclose(features, run.encoder.embed(x, batch_size=7), atol=1e-5)
    import onnxruntime  # type: ignore[import-untyped]

    session = onnxruntime.InferenceSession(run.export("onnx"), providers=["CPUExecutionProvider"])
    assert np.allclose(session.run(None, {"x": x})[0], features, atol=1e-4)
    program = torch.export.load(run.export("torch")).module()
    assert np.allclose(program(torch.from_numpy(x)).numpy(), features, atol=1e-4)
