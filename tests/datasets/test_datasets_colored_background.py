"""Colors and painting; ColorMNIST and ColorDigits as the paper constructs them."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cclk import datasets
from cclk.data.fingerprint import fingerprint
from cclk.datasets.colored_background import _PALETTE, draw_colors, paint
from cclk.errors import DataError


@given(stroke=st.integers(0, 255), color=st.tuples(*[st.floats(0, 255, width=32)] * 3))
@settings(max_examples=50, deadline=None)
def test_paint_is_the_formula(stroke: int, color: tuple[float, float, float]) -> None:
    image = paint(np.full((1, 2, 2), stroke, np.uint8), torch.tensor([color]))
    expected = np.array(color) * (255 - stroke) / 255
    assert np.abs(image[0, :, 1, 0].numpy() - expected).max() <= 0.5 + 1e-4


def test_paint_many_rows() -> None:
    """More rows than are painted at a time, each in its own color."""
    colors = draw_colors(5000, "uniform", 0)
    images = paint(np.zeros((5000, 1, 1), np.uint8), colors)
    assert torch.equal(images[:, :, 0, 0], colors.round().to(torch.uint8))


@pytest.mark.parametrize("kind", ["palette", "uniform"])
def test_a_color_depends_on_seed_and_sample_alone(kind: str) -> None:
    many = draw_colors(3000, kind, 5, "train")
    assert torch.equal(many[:100], draw_colors(100, kind, 5, "train"))
    assert not torch.equal(many[:100], draw_colors(100, kind, 6, "train"))
    assert not torch.equal(many[:100], draw_colors(100, kind, 5, "test"))
    assert many.min() >= 0
    assert many.max() <= 255
    assert many.dtype == torch.float32


def test_palette_colors_are_palette_plus_noise() -> None:
    colors = draw_colors(20_000, "palette", 0).numpy()
    nearest = np.linalg.norm(colors[:, None] - _PALETTE, axis=2).argmin(1)
    assert np.bincount(nearest, minlength=10).min() > 1000
    # The published color variance is about 5,430 per channel.
    assert 4500 < colors.var(axis=0).mean() < 6200
    # Clipping at both ends happens, as it must with a spread of 40.
    assert (colors == 0).any()
    assert (colors == 255).any()


def test_palette_noise_has_the_papers_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of the range, where hardly anything is clipped, the noise is N(0, 40^2)."""
    monkeypatch.setattr(
        "cclk.datasets.colored_background._PALETTE", np.full((10, 3), 127.5, np.float32)
    )
    noise = draw_colors(40_000, "palette", 1) - 127.5
    assert noise.mean().abs() < 0.5
    assert abs(noise.std() - 40) < 0.5


def test_uniform_colors_fill_the_cube() -> None:
    colors = draw_colors(20_000, "uniform", 0)
    assert (colors.mean(0) - 127.5).abs().max() < 2
    assert (colors.var(0) - 255**2 / 12).abs().max() < 120


def test_unknown_colors_are_refused() -> None:
    with pytest.raises(DataError, match="colors is 'pink': choose palette or uniform"):
        datasets.load("colordigits", colors="pink")


STORED_PALETTE = [244.3884, 121.5234, 80.0352]
STORED_UNIFORM = [31.1001, 102.6566, 135.7701]


def test_stored_colors_do_not_drift() -> None:
    """Numbers of the first release: another numpy must not quietly give another dataset."""
    assert draw_colors(1, "palette", 0, "colormnist", "train")[0].tolist() == pytest.approx(
        STORED_PALETTE, abs=1e-3
    )
    assert draw_colors(1, "uniform", 0, "colormnist", "train")[0].tolist() == pytest.approx(
        STORED_UNIFORM, abs=1e-3
    )


def test_color_digits() -> None:
    digits = datasets.load("colordigits")
    sizes = [len(split) for split in (digits.train, digits.validation, digits.test)]
    assert sizes == [1200, 200, 397]
    assert digits.train.x.shape == (1200, 3, 32, 32)
    for split in (digits.train, digits.validation, digits.test):
        share = split.y.bincount(minlength=10) / len(split)
        assert (share - 0.1).abs().max() < 0.012
        # Where there is no ink the image has the color of its condition, and ink is black.
        assert torch.equal(split.x.amax(dim=(2, 3)), split.condition.round().to(torch.uint8))
        assert split.x.amin(dim=(1, 2, 3)).float().mean() < 3
    assert (digits.condition_names, digits.condition_kind) == (
        ("red", "green", "blue"),
        "continuous",
    )


def test_color_digits_are_the_same_on_every_processor() -> None:
    """Without vector instructions, too: a run must find its data unchanged on another machine."""
    code = (
        "from cclk import datasets; from cclk.data.fingerprint import fingerprint;"
        " print(fingerprint(datasets.load('colordigits')))"
    )
    plain = {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | plain, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout.strip() == fingerprint(datasets.load("colordigits"))


def test_color_digits_color_says_nothing_of_the_digit() -> None:
    train = datasets.load("colordigits", holdout=0).train
    means = torch.stack([train.condition[train.y == digit].mean(0) for digit in range(10)])
    # Standard error of a mean of 140 colors with standard deviation 75 is about 6.
    assert (means - train.condition.mean(0)).abs().max() < 25


def test_color_digits_split_is_fixed_and_seed_draws_colors_only() -> None:
    one, two = datasets.load("colordigits", seed=0), datasets.load("colordigits", seed=1)
    assert torch.equal(one.test.y, two.test.y)
    assert torch.equal(one.validation.y, two.validation.y)
    assert not torch.equal(one.test.condition, two.test.condition)
    ink = [
        (d.test.x.float() / d.test.condition.clamp_min(1)[:, :, None, None]).amax(1)
        for d in (one, two)
    ]
    assert (ink[0] - ink[1]).abs().mean() < 0.02
