"""Images as PNG data URIs."""

from __future__ import annotations

import base64
import io

import numpy as np
from torch import Tensor

from cclk.errors import DataError
from cclk.report.view import Array, SampleImages, as_array

SHOWN = 10
_LARGEST = 64  # pixels a side; larger images are downscaled


def triples(images: SampleImages) -> list[tuple[str, str, str]]:
    """Return data URIs of the first images and their two views."""
    parts = [_as_bytes(part) for part in (images.images, images.first, images.second)]
    if not len(parts[0]) == len(parts[1]) == len(parts[2]):
        raise DataError(
            f"there are {len(parts[0])} images, but {len(parts[1])} first and {len(parts[2])}"
            " second views: one of each is needed"
        )
    rows = zip(*(part[:SHOWN] for part in parts), strict=True)
    return [(_uri(image), _uri(first), _uri(second)) for image, first, second in rows]


def _as_bytes(values: Array | Tensor) -> Array:
    """Return (n, h, w, 1 or 3) bytes."""
    array = as_array(values)
    if array.ndim != 4 or not {array.shape[1], array.shape[3]} & {1, 3}:
        raise DataError(
            f"images must be (n, c, h, w) or (n, h, w, c) with 1 or 3 channels, got {array.shape}"
        )
    if array.shape[1] in (1, 3):
        array = array.transpose(0, 2, 3, 1)
    if array.dtype != np.uint8:
        unit = np.clip(np.nan_to_num(array.astype(np.float64)), 0, 1)
        array = np.rint(unit * 255).astype(np.uint8)
    return array


def _uri(array: Array) -> str:
    from PIL import Image

    image = Image.fromarray(np.ascontiguousarray(array[:, :, 0] if array.shape[2] == 1 else array))
    image.thumbnail((_LARGEST, _LARGEST), Image.Resampling.LANCZOS)
    with io.BytesIO() as file:
        image.save(file, "PNG", optimize=True)
        return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")
