"""One image file as uint8 values (channels, size, size), whatever kind of image it is.

The largest square in the middle is cut out and scaled to size x size (bicubic, antialiased): the
same as scaling the shorter side to `size` and cropping the middle. The orientation noted by the
camera is respected, only the first frame of an animation is read, transparent parts become white,
16-bit gray is brought to 8 bits and CMYK to RGB.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from cclk.errors import DataError
from cclk.extras import needed_for

if TYPE_CHECKING:
    from PIL.Image import Image

Mode = Literal["RGB", "L"]

_ORIENTATION = 0x0112
_TURNS = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}


def need_pillow() -> None:
    """Say what to install where Pillow is missing."""
    with needed_for("reading image files"):
        import PIL.Image  # noqa: F401


def read_image(path: str, size: int, mode: Mode) -> tuple[npt.NDArray[np.uint8], os.stat_result]:
    """The image, and what the system says of the very file that was read."""
    from PIL import Image, UnidentifiedImageError

    try:
        with open(path, "rb") as stream:  # noqa: PTH123 - a path object for each of a million images is not free
            found = os.fstat(stream.fileno())
            with Image.open(stream) as image:
                limit, pixels = Image.MAX_IMAGE_PIXELS, image.width * image.height
                if limit is not None and pixels > limit:
                    raise _too_large(path, f"{pixels} pixels", limit)
                return _square(image, path, size, mode), found
    except DataError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise _too_large(
            path, f"{str(error).partition('(')[2].partition(' ')[0]} pixels", Image.MAX_IMAGE_PIXELS
        ) from error
    except FileNotFoundError as error:
        raise DataError(
            f"the image {path} is missing: put it back, or leave it out of the list"
        ) from error
    except UnidentifiedImageError as error:
        raise DataError(
            f"{path} is no image, or of a kind that Pillow does not know: replace it, or leave"
            " it out"
        ) from error
    except Exception as error:  # a damaged file can make Pillow raise nearly anything
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise DataError(
            f"the image {path} cannot be read, it may be cut short or damaged ({why}): replace it,"
            " or leave it out"
        ) from error


def square_image(image: Image, called: str, size: int, mode: Mode) -> npt.NDArray[np.uint8]:
    """An image in memory as values, the same as those of its file."""
    try:
        image.load()  # or it would be decoded at a smaller size, which the caller would see
        return _square(image, called, size, mode)
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            f"{called} cannot be read ({str(error) or type(error).__name__}): its file may be"
            " closed or damaged"
        ) from error


def _too_large(path: str, pixels: str, limit: int | None) -> DataError:
    return DataError(
        f"the image {path} has {pixels}, more than the {limit} that Pillow holds to be safe: "
        "scale it down, or set PIL.Image.MAX_IMAGE_PIXELS higher if you trust it"
    )


def _square(image: Image, path: str, size: int, mode: Mode) -> npt.NDArray[np.uint8]:
    from PIL.Image import Resampling, Transpose

    # A JPEG far larger than needed is decoded at a half, quarter or eighth of its size, but never
    # below twice the size that is wanted.
    # Its edges may then lie within the outermost pixels, which `draft` tells.
    drafted = image.draft(None, (2 * size, 2 * size))
    image.load()
    turn = _TURNS.get(_orientation(image))
    plain = _plain(image, path, mode)
    width, height = plain.size if drafted is None else drafted[1][2:]
    side = min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    scaled = plain.resize((size, size), Resampling.BICUBIC, (left, top, left + side, top + side))
    if turn is not None:
        # After scaling: the middle square is the same one whichever way the image is turned.
        scaled = scaled.transpose(Transpose[turn])
    values = np.asarray(scaled)
    return values[None] if mode == "L" else values.transpose(2, 0, 1)


def _orientation(image: Image) -> int:
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # a note that cannot be read is no reason to refuse the image
        return 1


def _plain(image: Image, path: str, mode: Mode) -> Image:
    """The image without transparency and in 8 bits."""
    from PIL.Image import alpha_composite, fromarray, new

    if image.mode == "F":
        raise DataError(
            f"the image {path} holds floating-point values, whose range is not known: store it with"
            " 8 or 16 bits"
        )
    if image.mode.startswith("I"):
        values: Any = np.asarray(image)
        image = fromarray((values.clip(0, 65535) // 256).astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        image = alpha_composite(new("RGBA", image.size, "white"), image)
    return image if image.mode == mode else image.convert(mode)
