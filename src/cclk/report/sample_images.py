"""Images as PNG data URIs, so that a page can carry them."""

from __future__ import annotations

import base64
import io

import numpy as np
from torch import Tensor

from cclk.report.view import Array, SampleImages, as_array

SHOWN = 10
_LARGEST = 64  # pixels a side; larger images are shrunk


def triples(images: SampleImages) -> list[tuple[str, str, str]]:
    """Data URIs of the first few images and their two views."""
    parts = [_as_bytes(part) for part in (images.images, images.first, images.second)]
    if not len(parts[0]) == len(parts[1]) == len(parts[2]):
        raise ValueError(
            f"there are {len(parts[0])} images, but {len(parts[1])} first and {len(parts[2])}"
            " second views: one of each is needed"
        )
    return [
        (_uri(a), _uri(b), _uri(c))
        for a, b, c in zip(*(part[:SHOWN] for part in parts), strict=True)
    ]


def _as_bytes(values: Array | Tensor) -> Array:
    """(n, h, w, 1 or 3) bytes."""
    array = as_array(values)
    if array.ndim != 4 or not {array.shape[1], array.shape[3]} & {1, 3}:
        raise ValueError(
            f"images must be (n, c, h, w) or (n, h, w, c) with 1 or 3 channels, got {array.shape}"
        )
    if array.shape[1] in (1, 3):
        array = array.transpose(0, 2, 3, 1)
    if array.dtype != np.uint8:
        array = np.rint(np.clip(np.nan_to_num(array.astype(np.float64)), 0, 1) * 255).astype(
            np.uint8
        )
    return array


def _uri(array: Array) -> str:
    from PIL import Image

    image = Image.fromarray(np.ascontiguousarray(array[:, :, 0] if array.shape[2] == 1 else array))
    image.thumbnail((_LARGEST, _LARGEST), Image.Resampling.LANCZOS)
    with io.BytesIO() as file:
        image.save(file, "PNG", optimize=True)
        return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")
