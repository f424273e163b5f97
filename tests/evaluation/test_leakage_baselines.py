"""What probes read of the inputs of a run."""

from __future__ import annotations

import pytest
import torch

from cclk.data.dataset import Split
from cclk.evaluation.run_evaluation import _inputs


def split(x: torch.Tensor) -> Split:
    return Split(x, torch.zeros(len(x), dtype=torch.int64), torch.zeros(len(x), 1))


def test_inputs_are_rows_and_large_images_are_averaged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cclk.evaluation.run_evaluation._BATCH", 3)
    images = torch.randint(256, (7, 2, 64, 64), dtype=torch.uint8)
    means = images.float().reshape(7, 2, 32, 2, 32, 2).mean(dim=(3, 5)).flatten(1)
    torch.testing.assert_close(_inputs(split(images)), means)
    small = images[..., :8, :8]
    torch.testing.assert_close(_inputs(split(small)), small.float().flatten(1))
    assert _inputs(split(small[:0])).shape == (0, 128)
    vectors = torch.randn(4, 5)
    torch.testing.assert_close(_inputs(split(vectors)), vectors)
