"""Small files that would take gigabytes or minutes are refused before they are decoded."""

from __future__ import annotations

import gzip
import re
import struct
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
from cclk_paper.datasets.formats import read_cifar, read_idx
from PIL import Image, ImageFile

from cclk.data.decode import read_image
from cclk.errors import DataError

SCAN = re.compile(rb"\xff\xda.*?(?=\xff[^\x00\xd0-\xd7])", re.DOTALL)


@pytest.fixture
def never_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(self: ImageFile.ImageFile) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr(ImageFile.ImageFile, "load", load)


@pytest.mark.usefixtures("never_decoded")
@pytest.mark.parametrize(
    ("mode", "side", "name", "options"),
    [
        ("RGB", 3700, "a.webp", {"lossless": True, "method": 0}),
        ("RGBA", 3100, "a.webp", {"lossless": True, "method": 0}),
        ("I", 4100, "a.tif", {"compression": "tiff_adobe_deflate"}),
        ("CMYK", 5800, "a.jpg", {"progressive": True, "quality": 1}),
    ],
)
def test_images_that_take_much_memory(
    mode: str, side: int, name: str, options: dict[str, object], tmp_path: Path
) -> None:
    path = tmp_path / name
    image = Image.new(mode, (side, side))
    # The fixture is for reading: an image in memory is saved without loading a file.
    image.save(path, **options)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=rf"{name} has {side**2} pixels.* more than the \d+ that"):
        read_image(str(path), 32, "RGB")


@pytest.mark.usefixtures("never_decoded")
def test_jpeg_2000_is_not_read(tmp_path: Path) -> None:
    """The number of its code blocks, precincts and tiles is not limited by its pixels."""
    Image.new("RGB", (64, 64)).save(tmp_path / "a.jp2")
    with pytest.raises(DataError, match=r"a\.jp2 is not an image in a supported format \(JPEG, "):
        read_image(str(tmp_path / "a.jp2"), 32, "RGB")


@pytest.mark.usefixtures("never_decoded")
def test_a_tile_that_is_larger_than_its_image(tmp_path: Path) -> None:
    tile = zlib.compress(bytes(1000))
    # Width, height, bits, compression, gray; then width, height, offset and length of its tile.
    tags = {256: 16, 257: 16, 258: 8, 259: 8, 262: 1, 322: 16000, 323: 16000}
    tags |= {324: 8 + 2 + 9 * 12 + 4, 325: len(tile)}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    path = tmp_path / "a.tif"
    path.write_bytes(b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(4) + tile)
    with pytest.raises(DataError, match=r"a\.tif has 256000000 pixels"):
        read_image(str(path), 32, "RGB")


def many_scans(path: Path, count: int, extra: bytes = b"") -> None:
    """Write a progressive JPEG with its last scan repeated."""
    Image.new("RGB", (2000, 1000), "red").save(path, progressive=True)
    content = path.read_bytes()
    last = list(SCAN.finditer(content))[-1]
    path.write_bytes(content[: last.end()] + (extra + last[0]) * count + content[last.end() :])


@pytest.mark.parametrize(
    "hidden", [b"", b"\xff\xfe\x00\x04\xff\xd9", b"\xff\xff"], ids=["plain", "comment", "fill"]
)
def test_a_progressive_jpeg_with_many_scans(hidden: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    many_scans(path, 2000, hidden)
    started = time.process_time()
    with pytest.raises(DataError, match=r"a\.jpg has 20\d\d scans of 2000000 pixels, more than"):
        read_image(str(path), 32, "RGB")
    assert time.process_time() - started < 2


def test_ordinary_images_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jpg"
    many_scans(path, 3)
    # What follows the end of an image, such as a video, is not counted.
    path.write_bytes(path.read_bytes() + b"\xff\xda\x00\x02" * 100_000)
    expected = np.array([254, 0, 0])[:, None, None]
    assert np.abs(read_image(str(path), 32, "RGB")[0] - expected).max() <= 1
    Image.new("RGB", (3600, 3600), "red").save(tmp_path / "a.webp", lossless=True, method=0)
    assert read_image(str(tmp_path / "a.webp"), 32, "RGB")[0].shape == (3, 32, 32)
    monkeypatch.setattr("cclk.data.decode._MOST_SCANNED", 1000)
    with pytest.raises(DataError, match="scans"):
        read_image(str(path), 32, "RGB")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)  # the file is trusted
    assert np.abs(read_image(str(path), 32, "RGB")[0] - expected).max() <= 1


@pytest.mark.parametrize(
    "read", [lambda folder: read_idx(folder, "a", 3), lambda folder: read_cifar(folder, "a")]
)
def test_a_gzip_file_is_unpacked_up_to_a_limit(
    read: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(read)
    (tmp_path / "a.gz").write_bytes(gzip.compress(bytes(1 << 22)) * 100)
    unpacked = 0
    original = gzip.GzipFile.read

    def counted(self: gzip.GzipFile, size: int | None = -1) -> bytes:
        nonlocal unpacked
        content = original(self, size)
        unpacked += len(content)
        return content

    monkeypatch.setattr(gzip.GzipFile, "read", counted)
    with pytest.raises(DataError, match=r"a\.gz in .* is damaged: it has more than 67108864 bytes"):
        read(tmp_path)
    assert unpacked <= (1 << 26) + 1
