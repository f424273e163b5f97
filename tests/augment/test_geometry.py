"""Boxes as defined, and resampling that moves pixels where it should."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from cclk.augment.geometry import BOX_DRAWS, TRIES, boxes, flipped, resample


def draws(count: int, seed: int = 0) -> Tensor:
    return torch.rand(BOX_DRAWS, count, generator=torch.Generator().manual_seed(seed))


def box_by_loop(
    column: list[float],
    height: int,
    width: int,
    scale: tuple[float, float],
    ratio: tuple[float, float],
) -> list[float]:
    for attempt in range(TRIES):
        area = (scale[0] + column[attempt] * (scale[1] - scale[0])) * height * width
        shape = math.exp(
            math.log(ratio[0]) + column[TRIES + attempt] * (math.log(ratio[1]) - math.log(ratio[0]))
        )
        tall, wide = math.sqrt(area / shape), math.sqrt(area * shape)
        if tall <= height and wide <= width:
            return [
                column[2 * TRIES] * (height - tall),
                column[2 * TRIES + 1] * (width - wide),
                tall,
                wide,
            ]
    tall, wide = float(height), float(width)
    if width / height < ratio[0]:
        tall = width / ratio[0]
    elif width / height > ratio[1]:
        wide = height * ratio[1]
    return [(height - tall) / 2, (width - wide) / 2, tall, wide]


@pytest.mark.parametrize(("height", "width"), [(32, 32), (20, 50), (50, 20)])
@pytest.mark.parametrize("scale", [(0.08, 1.0), (0.9, 1.0)])
def test_boxes_equal_a_loop(height: int, width: int, scale: tuple[float, float]) -> None:
    sample = draws(200)
    found = boxes(sample, height, width, scale, (3 / 4, 4 / 3))
    wanted = torch.tensor(
        [box_by_loop(column, height, width, scale, (3 / 4, 4 / 3)) for column in sample.T.tolist()]
    ).T
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-3)


def test_boxes_have_the_stated_distribution() -> None:
    top, left, tall, wide = boxes(draws(20000), 32, 32, (0.1, 0.3), (3 / 4, 4 / 3)).double()
    area, shape = tall * wide / 1024, (wide / tall).log() / math.log(4 / 3)
    for values, low, high in (
        (area, 0.1, 0.3),
        (shape, -1.0, 1.0),
        (top / (32 - tall), 0.0, 1.0),
        (left / (32 - wide), 0.0, 1.0),
    ):
        position = (values - low) / (high - low)
        assert position.min() > -1e-5
        assert position.max() < 1 + 1e-5
        # Uniform: the deciles are where they should be.
        torch.testing.assert_close(
            position.quantile(torch.arange(0.1, 1.0, 0.1).double()),
            torch.arange(0.1, 1.0, 0.1).double(),
            rtol=0,
            atol=0.015,
        )


def test_a_box_that_never_fits_is_central() -> None:
    found = boxes(draws(3), 32, 32, (1.0, 1.0), (2.0, 3.0))
    torch.testing.assert_close(
        found, torch.tensor([8.0, 0.0, 16.0, 32.0]).unsqueeze(1).expand(4, 3)
    )


def test_the_whole_image_is_the_image() -> None:
    images = torch.rand(5, 3, 32, 32)
    found = boxes(draws(5), 32, 32, (1.0, 1.0), (1.0, 1.0))
    assert torch.equal(resample(images, found, 32), images)
    odd = torch.rand(5, 1, 27, 27)
    torch.testing.assert_close(
        resample(odd, boxes(draws(5), 27, 27, (1.0, 1.0), (1.0, 1.0)), 27), odd, rtol=0, atol=1e-5
    )


def test_a_whole_pixel_box_is_a_slice_and_its_flip_a_flip() -> None:
    images = torch.rand(2, 3, 32, 32)
    box = torch.tensor([[4.0, 0.0], [6.0, 24.0], [8.0, 8.0], [8.0, 8.0]])
    wanted = torch.stack([images[0, :, 4:12, 6:14], images[1, :, :8, 24:]])
    assert torch.equal(resample(images, box, 8), wanted)
    mirrored = resample(images, flipped(box, torch.tensor([True, False])), 8)
    assert torch.equal(mirrored[0], wanted[0].flip(-1))
    assert torch.equal(mirrored[1], wanted[1])


@pytest.mark.parametrize(("height", "width", "size"), [(32, 32, 32), (20, 40, 32), (48, 48, 24)])
def test_a_crop_of_a_ramp_is_a_ramp(height: int, width: int, size: int) -> None:
    down, right = (
        torch.arange(height).float().view(-1, 1).expand(height, width),
        torch.arange(width).float().expand(height, width),
    )
    images = torch.stack([down, right]).expand(50, 2, height, width)
    box = boxes(draws(50), height, width, (0.1, 0.9), (1 / 2, 2.0))
    top, left, tall, wide = box.unsqueeze(-1)
    steps = (torch.arange(size) + 0.5) / size
    rows = (top + steps * tall - 0.5).clamp(0, height - 1)
    columns = (left + steps * wide - 0.5).clamp(0, width - 1)
    found = resample(images, box, size)
    torch.testing.assert_close(
        found[:, 0], rows.unsqueeze(2).expand(50, size, size), rtol=0, atol=1e-4
    )
    torch.testing.assert_close(
        found[:, 1], columns.unsqueeze(1).expand(50, size, size), rtol=0, atol=1e-4
    )
