"""The scale of raw samples: images and vectors, both steps, what is saved, and errors."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from cclk.models import InputTransform
from cclk.models.mobilenet import IMAGENET_MEAN, IMAGENET_STD

IMAGES = torch.randint(
    0, 256, (5, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
)


def test_images_are_scaled_then_normalized() -> None:
    transform, kept = InputTransform(3), IMAGES.clone()
    assert torch.equal(transform.scale(IMAGES), IMAGES / 255)
    assert torch.equal(transform.scale(IMAGES / 255), IMAGES / 255), "in 0..1 already"
    assert torch.equal(transform.normalize(IMAGES / 255), (IMAGES / 255 - 0.5) * 4)
    assert torch.equal(transform(IMAGES), (IMAGES / 255 - 0.5) * 4)
    assert torch.equal(IMAGES, kept)
    imagenet = InputTransform(3, IMAGENET_MEAN, IMAGENET_STD)(IMAGES)
    expected = (IMAGES[:, 1] / 255 - IMAGENET_MEAN[1]) / IMAGENET_STD[1]
    torch.testing.assert_close(imagenet[:, 1], expected)


def test_gray_images_fill_the_channels() -> None:
    gray = IMAGES[:, :1]
    color = InputTransform(3, IMAGENET_MEAN, IMAGENET_STD)
    assert torch.equal(color(gray), color(gray.expand(-1, 3, -1, -1)))


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_images_are_resized_before_they_are_normalized(interpolation: Any) -> None:
    resized = InputTransform(3, size=20, interpolation=interpolation)(IMAGES)
    expected = F.interpolate(IMAGES / 255, (20, 20), mode=interpolation, antialias=True)
    torch.testing.assert_close(resized, (expected - 0.5) * 4)
    # Shrinking averages over what is dropped.
    stripes = torch.tensor([255, 0, 0, 255] * 4, dtype=torch.uint8).expand(1, 1, 16, 16)
    small = InputTransform(1, 0.0, 1.0, size=4, interpolation=interpolation)(stripes)
    assert (small[..., 1:-1] - 0.5).abs().max() < 0.1


def test_vectors_are_standardized_by_the_first_step() -> None:
    vectors = torch.randn(50, 4, dtype=torch.float64) * 3 + 7
    transform = InputTransform(4, 0.0, 1.0, images=False)
    assert torch.equal(transform(vectors), vectors.float())
    transform.fit(vectors)
    scaled = transform.scale(vectors)
    assert scaled.dtype == torch.float32
    torch.testing.assert_close(scaled.mean(dim=0), torch.zeros(4), atol=1e-5, rtol=0)
    torch.testing.assert_close(scaled.std(dim=0, correction=0), torch.ones(4))
    assert transform.normalize(scaled) is scaled
    assert transform.double()(vectors).dtype == torch.float64
    again = InputTransform(4, 0.0, 1.0, images=False)
    again.load_state_dict(transform.state_dict())
    assert torch.equal(again(vectors), scaled)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mean": (1.0, 2.0)}, "mean has 2 values: use one, or 3, one per channel"),
        ({"std": (1.0, 0.0, 1.0)}, "std is (1.0, 0.0, 1.0): it must be positive"),
        ({"std": float("nan")}, "std is nan: it must be positive"),
        ({"size": 0}, "images cannot be resized to 0 pixels per side: use a positive integer"),
        ({"size": True}, "images cannot be resized to True pixels per side"),
    ],
)
def test_wrong_settings_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        InputTransform(3, **options)


def test_wrong_images_are_named() -> None:
    with pytest.raises(ValueError, match="images have 3 channels: they must have 1"):
        InputTransform(1)(IMAGES)
    with pytest.raises(ValueError, match=r"images are torch.int64: they must be uint8, or float"):
        InputTransform(3)(IMAGES.long())
