"""The helpers that make arrays small enough to show."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cclk.report import SampleImages, embed2d, kernel_figure
from cclk.report.sample_images import SHOWN, triples
from cclk.report.view import hex_colors

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


def test_embedding_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="3, 2 and 3 rows"):
        embed2d(np.ones((3, 3)), np.zeros(2), np.zeros(3), classes="a", condition_names=["age"])
    with pytest.raises(ValueError, match="3 columns and 1 names"):
        embed2d(
            np.ones((3, 3)), np.zeros(3), np.zeros((3, 3)), classes="a", condition_names=["age"]
        )


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
    with pytest.raises(ValueError, match=r"must be \(30, 30\)"):
        kernel_figure(np.eye(29), np.eye(29), colors)


def test_colors() -> None:
    assert hex_colors(np.array([[255, 0.4, 16], [300, -5, 127.6]])) == ["#ff0010", "#ff0080"]


@pytest.mark.parametrize("shape", [(3, 5, 9), (5, 9, 3), (1, 5, 9), (5, 9, 1)])
def test_images_survive_as_png(shape: tuple[int, ...]) -> None:
    import base64
    import io

    from PIL import Image

    array = np.random.default_rng(0).integers(0, 256, (2, *shape)).astype(np.uint8)
    found = triples(SampleImages(array, torch.tensor(array), array.astype(np.float32) / 255))
    assert len(found) == 2
    assert found[0][0] == found[0][1] == found[0][2], (
        "bytes, tensors and numbers in 0..1 are the same image"
    )
    image = np.asarray(Image.open(io.BytesIO(base64.b64decode(found[0][0].split(",")[1]))))
    expected = array[0].transpose(1, 2, 0) if shape[0] in (1, 3) else array[0]
    np.testing.assert_array_equal(image, expected[:, :, 0] if expected.shape[2] == 1 else expected)


def test_many_large_images_are_few_and_small() -> None:
    array = np.random.default_rng(0).integers(0, 256, (30, 3, 224, 224)).astype(np.uint8)
    found = triples(SampleImages(array, array, array))
    assert len(found) == SHOWN
    assert sum(len(uri) for three in found for uri in three) < 600_000


def test_bad_images_are_named() -> None:
    with pytest.raises(ValueError, match=r"got \(2, 7, 5, 5\)"):
        triples(
            SampleImages(np.zeros((2, 7, 5, 5)), np.zeros((2, 7, 5, 5)), np.zeros((2, 7, 5, 5)))
        )
    with pytest.raises(ValueError, match="2 images, but 1 first and 2 second"):
        triples(
            SampleImages(np.zeros((2, 3, 5, 5)), np.zeros((1, 3, 5, 5)), np.zeros((2, 3, 5, 5)))
        )
