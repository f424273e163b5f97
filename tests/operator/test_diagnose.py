"""The diagnosis and its plain words."""

from __future__ import annotations

import pytest
import torch

import cclk
from cclk import diagnose, kernels

COLOURS = torch.rand(256, 3, generator=torch.Generator().manual_seed(0)) * 255


def test_too_narrow() -> None:
    """The command in the release's README: temp_z = 1 on colours from 0 to 255."""
    found = diagnose(kernels.RBF(length_scale=0.5**0.5), COLOURS)
    assert not found.healthy
    assert found.dead_share > 0.95
    assert found.verdict.startswith("Bandwidth so small that ")
    advised = float(found.verdict.split("above ")[1].split(",")[0])
    assert diagnose(kernels.RBF(length_scale=advised), COLOURS).healthy


def test_too_narrow_in_a_product() -> None:
    kernel = kernels.RBF(0, length_scale=0.01) * kernels.RBF(1, length_scale=0.01)
    assert "raise the length_scale of 0 above" in diagnose(kernel, COLOURS).verdict


def test_too_wide() -> None:
    found = diagnose(kernels.RBF(length_scale=1e4), COLOURS, weights="nw")
    assert not found.healthy
    assert "Nearly unconditional: the median anchor sees 255 of 255 others" in found.verdict
    assert float(found.effective_sample_size.median()) == pytest.approx(255, rel=1e-3)


def test_constant() -> None:
    found = diagnose(kernels.RBF(length_scale=1.0), torch.ones(20))
    assert "constant" in found.verdict
    assert found.effective_rank == pytest.approx(20 / 20.01)


def test_lonely_categories() -> None:
    assert "alone in the batch" in diagnose(kernels.Delta(), torch.arange(20)).verdict


def test_good() -> None:
    found = diagnose(kernels.RBF().fit(COLOURS, 256), COLOURS)
    assert found.healthy
    assert 1 < float(found.effective_sample_size.median()) < 10
    assert 0 < found.negative_share < 1
    text = str(found)
    for word in ("Good", "effective partners", "dead anchors: ", "effective rank", "solver: exact"):
        assert word in text


def test_numbers_are_those_of_the_weights() -> None:
    kernel = kernels.RBF(length_scale=20.0)
    found = diagnose(kernel, COLOURS[:50], ridge=0.1)
    weights = cclk.conditional_weights(kernel, COLOURS[:50].double(), 0.1, weights="loo")
    raw = cclk.conditional_weights(kernel, COLOURS[:50].double(), 0.1)
    torch.testing.assert_close(found.mass, weights.sum(dim=0))
    torch.testing.assert_close(found.effective_sample_size[~found.dead], (weights.sum(0) ** 2 / (weights**2).sum(0))[~found.dead])
    assert found.effective_rank == pytest.approx(float(raw.trace()))
    assert found.negative_share == pytest.approx(float((raw < -1e-12).double().mean()), abs=0.01)


def test_needs_two_samples() -> None:
    with pytest.raises(ValueError, match="condition has 1 rows"):
        diagnose(kernels.Delta(), [1])
