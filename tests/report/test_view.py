"""The helpers that make arrays small enough to show."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image

from cclk.report.view import embed2d, hex_colors, kernel_figure, sample_images

NAMES = ("red", "green", "blue")


def test_embedding_is_the_two_main_directions() -> None:
    random = np.random.default_rng(0)
    plane = random.normal(size=(300, 2)) * [5, 2]
    turn = np.linalg.qr(random.normal(size=(8, 8)))[0][:2]
    found = embed2d(
        plane @ turn + 4,
        np.arange(300) % 3,
        np.zeros((300, 1)),
        classes="abc",
        condition_names=["age"],
    )
    np.testing.assert_allclose(
        np.abs(np.corrcoef(found.points[:, 0], plane[:, 0])[0, 1]), 1, atol=1e-2
    )
    distance = np.linalg.norm(found.points[:20, None] - found.points[None, :20], axis=2)
    np.testing.assert_allclose(
        distance, np.linalg.norm(plane[:20, None] - plane[None, :20], axis=2), atol=1e-6
    )
    assert sum(found.explained) == pytest.approx(1)


def test_embedding_thins_all_arrays_alike_and_takes_tensors() -> None:
    rows = torch.arange(500)
    found = embed2d(
        torch.stack([rows, rows**2], 1).float(),
        rows,
        rows.float(),
        classes=(),
        condition_names=["row"],
        limit=50,
    )
    assert found.points.shape == (50, 2)
    assert np.array_equal(found.labels, found.condition[:, 0])


def test_collapsed_and_one_dimensional_features_can_be_shown() -> None:
    flat = embed2d(np.ones((5, 3)), np.zeros(5), np.zeros(5), classes="a", condition_names=["age"])
    assert flat.explained == (0.0, 0.0)
    line = embed2d(
        np.arange(5.0)[:, None], np.zeros(5), np.zeros(5), classes="a", condition_names=["age"]
    )
    assert line.explained == pytest.approx((1.0, 0.0))


def test_one_sample_has_no_embedding() -> None:
    with pytest.raises(ValueError, match="the test split has 1 samples"):
        embed2d(np.ones((1, 3)), np.zeros(1), np.zeros(1), classes="a", condition_names=["age"])


def test_kernel_is_ordered_by_condition_and_scaled() -> None:
    z = np.random.default_rng(0).permutation(20).astype(float)
    kernel = np.exp(-np.abs(z[:, None] - z[None]))
    found = kernel_figure(kernel, 7 * kernel - 3, z)
    steps = np.diff(found.kernel[0])
    assert (steps < 0).all(), "the further along the condition, the less alike"
    np.testing.assert_allclose(found.kernel, found.weights)
    assert (found.kernel.min(), found.kernel.max()) == (0, 1)
    assert found.colors == ()


def test_kernel_of_colors_carries_them_and_is_cut() -> None:
    colors = np.random.default_rng(0).uniform(0, 255, (30, 3))
    found = kernel_figure(np.eye(30), np.ones((30, 30)), colors, condition_names=NAMES, limit=10)
    assert found.kernel.shape == (10, 10)
    assert sorted(found.colors) == sorted(hex_colors(colors[:10]))
    assert not found.weights.any(), "a constant matrix stays finite"


def test_colors() -> None:
    assert hex_colors(np.array([[255, 0.4, 16], [300, -5, 127.6]])) == ["#ff0010", "#ff0080"]


@pytest.mark.parametrize("channels", [1, 3])
def test_images_survive_as_png(channels: int) -> None:
    array = np.random.default_rng(0).integers(0, 256, (2, channels, 5, 9)).astype(np.uint8)
    images = torch.from_numpy(array)
    found = sample_images(images, images, images / 255, ["a", "b"])
    assert [len(found), found[1][3]] == [2, "b"]
    assert found[0][0] == found[0][1] == found[0][2], "bytes and numbers in 0..1 are the same"
    image = np.asarray(Image.open(io.BytesIO(base64.b64decode(found[0][0].split(",")[1]))))
    expected = array[0].transpose(1, 2, 0)
    np.testing.assert_array_equal(image, expected[:, :, 0] if channels == 1 else expected)


def test_large_images_are_made_small() -> None:
    images = torch.randint(0, 256, (8, 3, 224, 224), dtype=torch.uint8)
    found = sample_images(images, images, images, "12345678")
    assert sum(len(uri) for three in found for uri in three) < 480_000
