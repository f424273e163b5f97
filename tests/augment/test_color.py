"""Color changes against the definitions, written as plain loops over images and pixels."""

from __future__ import annotations

import colorsys
import itertools
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from cclk.augment import color

Pixel = tuple[float, float, float]


def luma(pixel: Pixel) -> float:
    return 0.2989 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2]


def blend(pixel: Pixel, other: float, factor: float) -> Pixel:
    red, green, blue = (
        min(1.0, max(0.0, factor * value + (1 - factor) * other)) for value in pixel
    )
    return red, green, blue


def brightness(pixels: list[Pixel], factor: float) -> list[Pixel]:
    return [blend(pixel, 0.0, factor) for pixel in pixels]


def contrast(pixels: list[Pixel], factor: float) -> list[Pixel]:
    mean = sum(map(luma, pixels)) / len(pixels)
    return [blend(pixel, mean, factor) for pixel in pixels]


def saturation(pixels: list[Pixel], factor: float) -> list[Pixel]:
    return [blend(pixel, luma(pixel), factor) for pixel in pixels]


def hue(pixels: list[Pixel], turn: float) -> list[Pixel]:
    turned = []
    for pixel in pixels:
        angle, strength, value = colorsys.rgb_to_hsv(*pixel)
        turned.append(colorsys.hsv_to_rgb((angle + turn) % 1.0, strength, value))
    return turned


def by_loop(
    images: Tensor, factors: Tensor, change: Callable[[list[Pixel], float], list[Pixel]]
) -> Tensor:
    out = []
    for image, factor in zip(images, factors.tolist(), strict=True):
        pixels = [(p[0], p[1], p[2]) for p in image.flatten(1).T.tolist()]
        out.append(torch.tensor(change(pixels, factor)).T.view_as(image))
    return torch.stack(out)


@pytest.fixture
def images() -> Tensor:
    """Random images, and one of all corners, edges and grays of the color cube, where the cases
    of the definitions meet.
    """
    cube = torch.tensor(list(itertools.product((0.0, 0.25, 0.5, 1.0), repeat=3))).T.reshape(3, 8, 8)
    return torch.cat(
        [torch.rand(7, 3, 8, 8, generator=torch.Generator().manual_seed(0)), cube.unsqueeze(0)]
    )


FACTORS = torch.tensor([0.0, 0.3, 0.6, 1.0, 1.2, 1.4, 2.0, 0.7])
TURNS = torch.tensor([0.0, 0.1, -0.1, 0.5, -0.5, 0.33, -0.07, 0.21])


@pytest.mark.parametrize(
    ("change", "loop", "factors"),
    [
        (color.brightness_, brightness, FACTORS),
        (color.contrast_, contrast, FACTORS),
        (color.saturation_, saturation, FACTORS),
        (color.hue_, hue, TURNS),
    ],
)
def test_equals_the_loop(
    images: Tensor,
    change: Callable[[Tensor, Tensor], Tensor],
    loop: Callable[[list[Pixel], float], list[Pixel]],
    factors: Tensor,
) -> None:
    wanted = by_loop(images, factors, loop)
    torch.testing.assert_close(change(images.clone(), factors), wanted, rtol=0, atol=2e-6)
    # The image with the corner cases, with every factor.
    corners = images[-1:].expand(8, -1, -1, -1)
    torch.testing.assert_close(
        change(corners.clone(), factors), by_loop(corners, factors, loop), rtol=0, atol=2e-6
    )


@given(st.integers(-2, 2), st.floats(-0.5, 0.5), st.integers(0, 1000))
def test_whole_turns_do_nothing_and_turns_add_up(whole: int, turn: float, seed: int) -> None:
    images = torch.rand(1, 3, 6, 6, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(
        color.hue_(images.clone(), torch.tensor([float(whole)])), images, rtol=0, atol=3e-6
    )
    there = color.hue_(images.clone(), torch.tensor([turn]))
    torch.testing.assert_close(color.hue_(there, torch.tensor([-turn])), images, rtol=0, atol=1e-5)


def test_hue_of_nearly_gray_images_stays() -> None:
    images = (0.5 + 1e-7 * torch.randn(4, 3, 8, 8)).clamp(0, 1)
    images[0] = 0.7
    torch.testing.assert_close(color.hue_(images.clone(), torch.rand(4)), images, rtol=0, atol=2e-6)


def test_gray_has_equal_channels_and_others_stay(images: Tensor) -> None:
    chosen = torch.tensor([1.0, 0, 1, 0, 0, 1, 0, 1])
    found = color.gray_(images.clone(), chosen)
    for before, after, gray in zip(images, found, chosen.tolist(), strict=True):
        if gray:
            assert torch.equal(after[0], after[1])
            assert torch.equal(after[0], after[2])
            torch.testing.assert_close(
                after[0], 0.2989 * before[0] + 0.587 * before[1] + 0.114 * before[2]
            )
        else:
            assert torch.equal(after, before)


def test_contrast_of_one_channel_is_about_its_mean() -> None:
    images = 0.25 + 0.5 * torch.rand(2, 1, 5, 5)
    mean = images.mean((1, 2, 3), keepdim=True)
    torch.testing.assert_close(
        color.contrast_(images.clone(), torch.tensor([0.5, 0.5])), mean + (images - mean) / 2
    )
