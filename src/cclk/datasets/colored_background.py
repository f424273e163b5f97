"""Colored backgrounds behind black strokes: the sensitive condition of ColorMNIST and ColorDigits.

    image = color * (255 - stroke) / 255        # per pixel and channel, stroke in 0..255

The color is one of ten palette colors plus N(0, 40^2) per channel, clipped to 0..255, or uniform in
the RGB cube. It is a function of the seed and the sample's row in the original files, independent
of the label.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cclk.columns import Column
from cclk.data.randomness import generator
from cclk.errors import DataError

Colors = Literal["palette", "uniform"]
COLOR = Column("color", width=3, categories=("red", "green", "blue"))

_PALETTE = np.array(
    [
        (225, 45, 55),  # red
        (240, 140, 50),  # orange
        (235, 220, 75),  # yellow
        (140, 215, 60),  # lime
        (50, 140, 85),  # green
        (75, 205, 205),  # turquoise
        (60, 95, 220),  # blue
        (130, 55, 195),  # violet
        (230, 115, 180),  # pink
        (180, 185, 175),  # gray
    ],
    dtype=np.float32,
)
_STD = 40.0
_ROWS_AT_A_TIME = 4096


def draw_colors(count: int, colors: Colors, seed: int, *stream: str) -> Tensor:
    """Return the colors of samples 0 to count - 1, float32 (count, 3) in 0..255; a color does not
    depend on the count.

    The stream names a dataset and its part, which get independent colors.
    """
    # One generator per kind of draw, filled row by row, so that row i depends on the seed and i.
    if colors == "uniform":
        drawn = 255 * generator(seed, *stream, "uniform colour").random((count, 3))
    elif colors == "palette":
        index = (10 * generator(seed, *stream, "palette colour").random(count)).astype(np.int64)
        noise = generator(seed, *stream, "palette noise").standard_normal((count, 3))
        drawn = (_PALETTE[index] + _STD * noise).clip(0, 255)
    else:
        raise DataError(f"colors is {colors!r}: choose palette or uniform")
    return torch.from_numpy(drawn.astype(np.float32))


def paint(strokes: npt.NDArray[np.uint8], colors: Tensor) -> Tensor:
    """Return images uint8 (n, 3, h, w) of black strokes (n, h, w), where 255 is ink, on backgrounds
    of these colors (n, 3).
    """
    background = torch.from_numpy(255 - strokes)
    images = torch.empty((len(strokes), 3, *strokes.shape[1:]), dtype=torch.uint8)
    for start in range(0, len(strokes), _ROWS_AT_A_TIME):
        rows = slice(start, start + _ROWS_AT_A_TIME)
        shade = background[rows, None].float() / 255
        images[rows] = (colors[rows, :, None, None] * shade).round_().to(torch.uint8)
    return images
