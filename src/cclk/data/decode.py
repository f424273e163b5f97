"""Decode an image file to uint8 values (channels, size, size).

The largest centered square is scaled to size x size (bicubic, antialiased), which equals scaling
the shorter side to `size` and cropping the center. EXIF orientation is applied, only the first
frame of an animation is read, transparency becomes white, 16-bit gray becomes 8-bit, and CMYK
becomes RGB.
"""

from __future__ import annotations

import mmap
import os
import re
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from cclk._extras import needed_for
from cclk._reading import is_pointer
from cclk.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image

Mode = Literal["RGB", "L"]
FORMATS = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
"""The formats that are read. Others, such as EPS, start other programs, and JPEG 2000 can take
gigabytes for a few kilobytes, whatever its size in pixels.
"""
_MOST_PIXELS = 1 << 25
"""Pixels of the largest image that is decoded, if each takes 8 bytes: the image and a copy. A JPEG
file may have more, since it is decoded at a smaller size.
"""
_MOST_SCANNED = 1 << 30
"""Pixels of all scans of a JPEG file: each scan takes time, however few bytes it has."""
_JPEG_MARKER = re.compile(rb"\xff[^\x00\x01\xd0-\xd8\xff]")
_SCAN, _END = 0xDA, 0xD9
_TILE_SIZE = (322, 323)
_PILLOW_LIMIT = 89_478_485

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
    """Raise an error that names the extra to install if Pillow is missing."""
    with needed_for("reading image files"):
        import PIL.Image  # noqa: F401


def read_image(path: str, size: int, mode: Mode) -> tuple[npt.NDArray[np.uint8], os.stat_result]:
    """Return the values of an image file, and the stat result of the file that was read."""
    from PIL import Image, UnidentifiedImageError

    try:
        with open(path, "rb") as stream:  # noqa: PTH123 - Path objects for a million images are slow
            status = os.fstat(stream.fileno())
            with Image.open(stream, formats=FORMATS) as image:
                limit, pixels = Image.MAX_IMAGE_PIXELS, image.width * image.height
                if limit is not None and pixels > limit:
                    raise _too_large(path, f"{pixels} pixels", limit)
                if image.format in ("JPEG", "MPO") and _is_limited():
                    with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
                        _require_few_scans(image, path, content)
                return _square(image, path, size, mode, limited=_is_limited()), status
    except DataError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        pixels_text = str(error).partition("(")[2].partition(" ")[0]
        raise _too_large(path, f"{pixels_text} pixels", Image.MAX_IMAGE_PIXELS) from error
    except FileNotFoundError as error:
        raise DataError(
            f"the image {path} is missing: restore it, or remove it from the list"
        ) from error
    except UnidentifiedImageError as error:
        with open(path, "rb") as stream:  # noqa: PTH123
            if is_pointer(stream.read(100)):
                raise DataError(
                    f"the image {path} is a Git LFS pointer: run git lfs pull to get the image"
                ) from None
        raise DataError(
            f"{path} is not an image in a supported format ({', '.join(FORMATS)}): replace it, or"
            " remove it from the list"
        ) from error
    except Exception as error:  # a damaged file can make Pillow raise nearly anything
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise DataError(
            f"the image {path} cannot be read, it may be truncated or damaged ({why}): replace it,"
            " or remove it from the list"
        ) from error


def square_image(image: Image, name: str, size: int, mode: Mode) -> npt.NDArray[np.uint8]:
    """Return the values of a Pillow image, equal to those of its file; `name` is for errors."""
    try:
        image.load()  # otherwise `draft` would shrink the caller's image
        return _square(image, name, size, mode)
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            f"{name} cannot be read ({str(error) or type(error).__name__}): its file may be"
            " closed or damaged"
        ) from error


def _too_large(path: str, pixels: str, limit: int | None) -> DataError:
    return DataError(
        f"the image {path} has {pixels}, more than the {limit} that are considered safe: scale it"
        " down, or raise PIL.Image.MAX_IMAGE_PIXELS if you trust the file"
    )


def _square(
    image: Image, name: str, size: int, mode: Mode, *, limited: bool = False
) -> npt.NDArray[np.uint8]:
    from PIL.Image import Resampling, Transpose

    # A large JPEG is decoded at a half, quarter or eighth of its size, but never below twice the
    # requested size. The image may then end within the outermost pixels, as `draft` reports.
    drafted = image.draft(None, (2 * size, 2 * size))
    if limited:
        _require_memory(image, name)
    image.load()
    turn = _TURNS.get(_orientation(image))
    plain = _plain(image, name, mode)
    width, height = plain.size if drafted is None else drafted[1][2:]
    side = min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    scaled = plain.resize((size, size), Resampling.BICUBIC, (left, top, left + side, top + side))
    if turn is not None:  # after scaling, which is cheaper; the center square is the same
        scaled = scaled.transpose(Transpose[turn])
    values = np.asarray(scaled)
    return values[None] if mode == "L" else values.transpose(2, 0, 1)


def _is_limited() -> bool:
    """Return whether memory and time are limited: not if the user raised Pillow's limit."""
    from PIL.Image import MAX_IMAGE_PIXELS

    return MAX_IMAGE_PIXELS is not None and MAX_IMAGE_PIXELS <= _PILLOW_LIMIT


def _require_memory(image: Image, name: str) -> None:
    """Raise an error for an image that takes more than 256 MiB to decode."""
    pixel_bytes = 8
    if image.format == "WEBP":
        pixel_bytes = 20  # its decoder has two frames and a copy
    if _is_transparent(image) or image.mode == "I":
        pixel_bytes += 8
    limit, pixels = 8 * _MOST_PIXELS // pixel_bytes, image.width * image.height
    tags = getattr(image, "tag_v2", {})
    if all(tag in tags for tag in _TILE_SIZE):  # a tile of TIFF can be larger than its image
        pixels = max(pixels, tags[_TILE_SIZE[0]] * tags[_TILE_SIZE[1]])
    if pixels > limit:
        raise _too_large(name, f"{pixels} pixels", limit)


def _require_few_scans(image: Image, name: str, content: mmap.mmap) -> None:
    """Raise an error for a JPEG file that takes too much time or memory, because of its scans."""
    scans = _scans(content)
    pixels, limit = image.width * image.height, 4 * _MOST_PIXELS // len(image.getbands())
    if scans > 1 and pixels > limit:  # all coefficients are kept until the last scan
        raise _too_large(name, f"{pixels} pixels in several scans", limit)
    if scans * pixels > _MOST_SCANNED:
        raise _too_large(name, f"{scans} scans of {pixels} pixels", _MOST_SCANNED)


def _scans(content: mmap.mmap) -> int:
    """Return the number of scans of a JPEG file, of which a progressive one has about 10."""
    scans, position = 0, 2
    while (marker := _JPEG_MARKER.search(content, position)) and marker[0][1] != _END:
        scans += marker[0][1] == _SCAN
        position = marker.end() + int.from_bytes(content[marker.end() : marker.end() + 2], "big")
    return scans


def _is_transparent(image: Image) -> bool:
    return image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info


def _orientation(image: Image) -> int:
    if image.format == "JPEG" and not image.info.keys() & {"exif", "xmp"}:
        return 1  # the same, without the time that Pillow takes to find out
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # an image with damaged EXIF data is still usable
        return 1


def _plain(image: Image, name: str, mode: Mode) -> Image:
    """Remove transparency and convert to 8 bits."""
    from PIL.Image import alpha_composite, fromarray, new

    if image.mode == "F":
        raise DataError(
            f"the image {name} holds floating-point values, whose range is not known: store it with"
            " 8 or 16 bits"
        )
    if image.mode.startswith("I"):
        values: Any = np.asarray(image)
        image = fromarray((values.clip(0, 65535) // 256).astype(np.uint8))
    if _is_transparent(image):
        image = image.convert("RGBA")
        image = alpha_composite(new("RGBA", image.size, "white"), image)
    return image if image.mode == mode else image.convert(mode)
