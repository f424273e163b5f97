"""Images read from their files when asked for: what they decode to, the cache on disk, errors,
memory.
"""

from __future__ import annotations

import errno
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from cclk import CclkWarning
from cclk._extras import MissingExtraError
from cclk.data import Split, decode, image_cache, streamed
from cclk.data.decode import read_image
from cclk.data.streamed import StreamedImages
from cclk.errors import DataError

QUADRANTS = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [255, 255, 0]]], np.uint8)
"""Red, green / blue, yellow."""


def quadrants(height: int = 16, width: int = 16) -> Image.Image:
    return Image.fromarray(QUADRANTS.repeat(height // 2, 0).repeat(width // 2, 1))


def close(found: list[list[int]], expected: list[list[int]]) -> bool:
    """Up to what scaling takes from beyond an edge."""
    return bool((torch.tensor(found) - torch.tensor(expected)).abs().max() <= 20)


def corners(image: torch.Tensor) -> list[list[int]]:
    """The colors at the four corners, left to right and top to bottom."""
    return [image[:, y, x].tolist() for y in (0, -1) for x in (0, -1)]


@pytest.fixture
def numbered(tmp_path: Path) -> list[Path]:
    """Forty gray images; image i is of value 5 i throughout."""
    folder = tmp_path / "numbered"
    folder.mkdir()
    paths = [folder / f"{number:02}.png" for number in range(40)]
    for number, path in enumerate(paths):
        Image.new("L", (9, 7), 5 * number).save(path)
    return paths


def make(paths: list[Path], tmp_path: Path, size: int = 4, **options: Any) -> StreamedImages:
    return StreamedImages(paths, size, **({"cache_dir": tmp_path / "cache"} | options))


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were decoded."""
    names: list[str] = []

    def count(path: str, *rest: Any) -> Any:
        names.append(Path(path).name)
        return read_image(path, *rest)

    monkeypatch.setattr(streamed, "read_image", count)
    return names


def values(images: torch.Tensor) -> list[int]:
    """The single value of each image, over 5."""
    flat = images.flatten(1)
    assert (flat == flat[:, :1]).all()
    return (flat[:, 0] // 5).tolist()


def test_it_stands_in_for_a_tensor(numbered: list[Path], tmp_path: Path) -> None:
    images = make(numbered, tmp_path)
    assert images.shape == torch.Size([40, 3, 4, 4])
    assert isinstance(images.shape, torch.Size)
    assert (images.dtype, images.ndim, len(images)) == (torch.uint8, 4, 40)
    assert make(numbered, tmp_path, mode="L").shape == (40, 1, 4, 4)
    one = images[3]
    assert one.shape == (3, 4, 4)
    assert one.dtype == torch.uint8
    assert (one == 15).all()
    assert values(images[-1:]) == [39]
    assert (images[-2] == 5 * 38).all()
    assert images[:0].shape == (0, 3, 4, 4)
    assert images[torch.empty(0, dtype=torch.int64)].shape == (0, 3, 4, 4)
    with pytest.raises(IndexError):
        images[40]
    assert values(torch.stack(list(images))) == list(range(40))
    assert images.paths == [str(path) for path in numbered]


@given(drawn=st.data())
def test_any_rows_are_those_of_a_tensor(
    tmp_path_factory: pytest.TempPathFactory, drawn: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp() / "any rows"
    paths = [folder / f"{number}.png" for number in range(40)]
    if not folder.exists():
        folder.mkdir()
        for number, path in enumerate(paths):
            Image.new("L", (9, 7), 5 * number).save(path)
    images, truth = make(paths, folder), torch.arange(40)
    chosen = torch.tensor(drawn.draw(st.lists(st.integers(-40, 39))), dtype=torch.int64)
    cut = drawn.draw(st.slices(40).filter(lambda cut: (cut.step or 1) > 0))
    assert values(images[chosen]) == truth[chosen].tolist()
    assert values(images[cut]) == truth[cut].tolist()
    assert values(images.subset(chosen)[:]) == truth[chosen].tolist()


@pytest.mark.parametrize(
    "rows",
    [
        torch.tensor([True, False]),
        torch.tensor([1.0]),
        torch.tensor([[1]]),
        [1, 2],
        torch.tensor(1),
    ],
)
def test_other_indices_are_refused(rows: Any, numbered: list[Path], tmp_path: Path) -> None:
    with pytest.raises(
        TypeError, match="index images with an integer, a slice or an integer tensor"
    ):
        make(numbered, tmp_path)[rows]


def test_a_split_takes_its_subset_without_decoding(
    numbered: list[Path], tmp_path: Path, decoded: list[str]
) -> None:
    split = Split(make(numbered, tmp_path), torch.arange(40), torch.arange(40.0)[:, None])
    part = split.subset(torch.tensor([30, 2, 9])).subset(torch.tensor([2, 0]))
    assert decoded == []
    assert part.x.shape == (2, 3, 4, 4)
    assert values(part.x[torch.tensor([0, 1])]) == part.y.tolist() == [9, 30]
    assert sorted(decoded) == ["09.png", "30.png"]
    with pytest.raises(ValueError, match="differ in length: 40, 39, 40"):
        Split(split.x, split.y[:39], split.condition)


@pytest.mark.parametrize(("width", "height"), [(32, 16), (16, 32), (16, 16), (160, 80)])
def test_the_middle_square_is_kept(tmp_path: Path, width: int, height: int) -> None:
    path, side = tmp_path / "wide.png", min(width, height)
    image = Image.new("RGB", (width, height), "white")
    image.paste(quadrants(side, side), ((width - side) // 2, (height - side) // 2))
    image.save(path)
    assert close(corners(make([path], tmp_path, 8)[0]), QUADRANTS.reshape(4, 3).tolist())


def test_scaling_down_is_antialiased(tmp_path: Path) -> None:
    path = tmp_path / "stripes.png"
    Image.fromarray(np.tile(np.array([0, 255], np.uint8), (64, 32))).save(path)
    assert (make([path], tmp_path, 8, mode="L")[0].float() - 127.5).abs().max() < 10


@pytest.mark.parametrize("size", [7, 32])
def test_a_large_jpeg_is_what_careful_scaling_makes_of_it(tmp_path: Path, size: int) -> None:
    path = tmp_path / "photo.jpg"
    smooth = np.random.default_rng(0).integers(0, 255, (9, 13, 3), dtype=np.uint8)
    Image.fromarray(smooth).resize((650, 450), Image.Resampling.BICUBIC).save(path, quality=95)
    with Image.open(path) as image:
        whole = np.asarray(
            image.resize((size, size), Image.Resampling.BICUBIC, (100, 0, 550, 450)), int
        )
    found = make([path], tmp_path, size)[0].permute(1, 2, 0).numpy()
    assert np.abs(found - whole).max() <= 4
    assert np.abs(found - whole).mean() <= 0.5


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_orientation_of_the_camera_is_respected(tmp_path: Path, orientation: int) -> None:
    from PIL import ImageOps

    path = tmp_path / "turned.png"
    exif = Image.Exif()
    exif[0x0112] = orientation
    wide = Image.new("RGB", (24, 16), "white")
    wide.paste(quadrants(), (4, 0))
    wide.save(path, exif=exif)
    with Image.open(path) as image:
        upright = np.asarray(ImageOps.exif_transpose(image))
    if orientation == 6:  # a quarter turn clockwise, written out once
        assert close(
            corners(make([path], tmp_path, 8)[0]),
            [[0, 0, 255], [255, 0, 0], [255, 255, 0], [0, 255, 0]],
        )
    top, left = (upright.shape[0] - 16) // 2, (upright.shape[1] - 16) // 2
    middle = upright[top : top + 16, left : left + 16]
    assert close(
        corners(make([path], tmp_path, 8)[0]),
        [middle[y, x].tolist() for y in (0, -1) for x in (0, -1)],
    )


def palette() -> Image.Image:
    return quadrants().quantize(8)


def clear_palette() -> Image.Image:
    """A palette image whose first color, all over the right half, is transparent."""
    image = Image.new("P", (16, 16), 1)
    image.putpalette([9, 9, 9, 255, 0, 0])
    image.paste(0, (8, 0, 16, 16))
    image.info["transparency"] = 0
    return image


def half_clear() -> Image.Image:
    """Opaque red on the left, black that is fully transparent on the right."""
    image = Image.new("RGBA", (16, 16), (255, 0, 0, 255))
    image.paste((0, 0, 0, 0), (8, 0, 16, 16))
    return image


def sixteen_bits() -> Image.Image:
    return Image.fromarray(
        np.array([[0, 65535], [256 * 128, 255]], np.uint16).repeat(8, 0).repeat(8, 1)
    )


RED, WHITE, BLACK = [255, 0, 0], [255] * 3, [0] * 3


@pytest.mark.parametrize(
    ("image", "ending", "expected"),
    [
        (palette, "png", QUADRANTS.reshape(4, 3).tolist()),
        (clear_palette, "gif", [RED, WHITE, RED, WHITE]),
        (clear_palette, "png", [RED, WHITE, RED, WHITE]),
        (half_clear, "png", [RED, WHITE, RED, WHITE]),
        (lambda: half_clear().convert("LA"), "png", [[76] * 3, WHITE, [76] * 3, WHITE]),
        (sixteen_bits, "png", [BLACK, WHITE, [128] * 3, BLACK]),
        (sixteen_bits, "tif", [BLACK, WHITE, [128] * 3, BLACK]),
        (lambda: quadrants().convert("CMYK"), "tif", QUADRANTS.reshape(4, 3).tolist()),
        (
            lambda: quadrants().convert("L").point(lambda value: 255 * (value > 100)).convert("1"),
            "png",
            [BLACK, WHITE, BLACK, WHITE],
        ),
    ],
)
def test_every_kind_of_image(
    tmp_path: Path, image: Callable[[], Image.Image], ending: str, expected: list[list[int]]
) -> None:
    path = tmp_path / f"image.{ending}"
    image().save(path)
    assert corners(make([path], tmp_path, 16)[0]) == expected


def test_a_cmyk_jpeg_keeps_its_colors(tmp_path: Path) -> None:
    path = tmp_path / "print.jpg"
    quadrants(64, 64).convert("CMYK").save(path, quality=95)
    found = torch.tensor(corners(make([path], tmp_path, 8)[0]))
    assert (found - torch.from_numpy(QUADRANTS.reshape(4, 3)).int()).abs().max() < 30


def test_gray_is_the_brightness(tmp_path: Path) -> None:
    path = tmp_path / "colors.png"
    quadrants().save(path)
    assert corners(make([path], tmp_path, 8, mode="L")[0]) == [[76], [150], [29], [226]]


def test_floating_point_images_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "float.tif"
    Image.fromarray(np.ones((4, 4), np.float32)).save(path)
    with pytest.raises(DataError, match=r"float\.tif holds floating-point values"):
        make([path], tmp_path)[0]


def one_line(error: pytest.ExceptionInfo[DataError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def test_a_missing_image_is_named_at_once_and_later(numbered: list[Path], tmp_path: Path) -> None:
    images = make(numbered, tmp_path)
    numbered[5].unlink()
    with pytest.raises(DataError) as later:
        images[torch.arange(40)]
    assert f"the image {numbered[5]} is missing" in one_line(later)
    with pytest.raises(DataError) as early:
        make(numbered, tmp_path)
    assert f"the image {numbered[5]} is missing" in one_line(early)


@pytest.mark.parametrize("threads", [1, 3])
def test_what_is_no_image_is_named(numbered: list[Path], tmp_path: Path, threads: int) -> None:
    text = tmp_path / "text.jpg"
    text.write_text("no image\n")
    with pytest.raises(DataError) as error:
        make([*numbered, text], tmp_path, threads=threads)[torch.arange(41)]
    assert f"{text} is not an image" in one_line(error)


@pytest.mark.parametrize("ending", ["jpg", "png"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_truncated_image_is_named(tmp_path: Path, ending: str, share: float) -> None:
    path = tmp_path / f"cut.{ending}"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (50, 50, 3), dtype=np.uint8)).save(
        path
    )
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(DataError) as error:
        make([path], tmp_path)[0]
    assert str(path) in one_line(error)


@pytest.mark.parametrize(("limit", "pixels"), [(1000, 2500), (2000, 2500)])
@pytest.mark.parametrize("filtered", ["error", "ignore"])
def test_a_image_beyond_the_limit_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, pixels: int, filtered: Any
) -> None:
    path = tmp_path / "vast.png"
    Image.new("L", (50, 50)).save(path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    with warnings.catch_warnings():
        warnings.simplefilter(filtered)
        with pytest.raises(DataError) as error:
            make([path], tmp_path)[0]
    text = one_line(error)
    assert f"{path} has {pixels} pixels, more than the {limit}" in text
    assert "PIL.Image.MAX_IMAGE_PIXELS" in text
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 2500)
    assert make([path], tmp_path)[0].sum() == 0


@pytest.mark.parametrize(
    "options", [{"size": 0}, {"size": True}, {"size": 2.5}, {"mode": "RGBA"}, {"threads": 0}]
)
def test_bad_arguments_are_named(
    numbered: list[Path], tmp_path: Path, options: dict[str, Any]
) -> None:
    with pytest.raises(DataError, match=f"{next(iter(options))} is "):
        make(numbered, tmp_path, **options)


def test_the_second_read_decodes_nothing(
    numbered: list[Path], tmp_path: Path, decoded: list[str]
) -> None:
    first = make(numbered, tmp_path)[torch.arange(30)]
    assert len(decoded) == 30
    again = make(numbered, tmp_path)
    assert torch.equal(again[torch.arange(30)], first)
    assert len(decoded) == 30
    assert values(again[25:35]) == list(range(25, 35))
    assert sorted(decoded[30:]) == [f"{number}.png" for number in range(30, 35)]
    # What is handed out is the reader's own: scribbling on it leaves the cache as it is.
    again[torch.arange(30)].zero_()
    assert torch.equal(again[torch.arange(30)], first)


@pytest.mark.parametrize("change", ["content", "time", "size", "mode", "order"])
def test_nothing_stale_is_served(
    numbered: list[Path], tmp_path: Path, decoded: list[str], change: str
) -> None:
    make(numbered, tmp_path)[:]
    decoded.clear()
    options: dict[str, Any] = {}
    expected = list(range(40))
    if change == "content":
        Image.new("L", (9, 7), 250).save(numbered[3])
        expected[3] = 50
    elif change == "time":
        # The same number of bytes: only the time tells.
        stamp = numbered[3].stat()
        numbered[3].write_bytes(numbered[4].read_bytes().ljust(stamp.st_size))
        os.utime(numbered[3], ns=(stamp.st_atime_ns, stamp.st_mtime_ns + 1))
        expected[3] = 4
    elif change == "size":
        options["size"] = 5
    elif change == "mode":
        options["mode"] = "L"
    else:
        numbered.reverse()
        expected.reverse()
    assert values(make(numbered, tmp_path, **options)[:]) == expected
    assert len(decoded) == 40
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_a_file_that_changes_while_in_use_is_not_kept(numbered: list[Path], tmp_path: Path) -> None:
    images, stamp, content = make(numbered, tmp_path), numbered[3].stat(), numbered[3].read_bytes()
    Image.new("L", (9, 7), 250).save(numbered[3])
    os.utime(numbered[3], ns=(stamp.st_atime_ns, stamp.st_mtime_ns + 1))
    assert (images[3] == 250).all()
    numbered[3].write_bytes(content)
    os.utime(numbered[3], ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert values(make(numbered, tmp_path)[3:4]) == [3]


def test_a_damaged_cache_is_decoded_again(
    numbered: list[Path], tmp_path: Path, decoded: list[str]
) -> None:
    make(numbered, tmp_path)[:]
    (file,) = (tmp_path / "cache").iterdir()
    content = bytearray(file.read_bytes())
    record = 4 + 3 * 4 * 4
    content[7 * record + 20] ^= 1
    content[9 * record : 10 * record] = bytes(record)
    file.write_bytes(content[: 38 * record + 10])
    decoded.clear()
    assert values(make(numbered, tmp_path)[:]) == list(range(40))
    assert sorted(decoded) == ["07.png", "09.png", "38.png", "39.png"]
    file.unlink()
    assert values(make(numbered, tmp_path)[:]) == list(range(40))


def test_the_cache_is_in_the_data_folder_by_default(
    numbered: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CCLK_DATA", str(tmp_path / "data"))
    StreamedImages(numbered, 4)[0]
    assert len(list((tmp_path / "data" / "decoded").iterdir())) == 1


def check_goes_on_without(images: StreamedImages, decoded: list[str], why: str) -> None:
    with pytest.warns(CclkWarning, match=why) as found:
        assert values(images[:]) == list(range(40))
    assert len(found) == 1
    assert "\n" not in str(found[0].message)
    # And not a word more, here or in a subset.
    assert values(images[:]) == list(range(40))
    assert values(images.subset(torch.tensor([8]))[:]) == [8]
    assert len(decoded) == 81


def test_an_unusable_folder_means_no_cache(
    numbered: list[Path], tmp_path: Path, decoded: list[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    check_goes_on_without(
        make(numbered, tmp_path, cache_dir=tmp_path / "file" / "cache"),
        decoded,
        "not cached in .* every image",
    )


def test_too_small_a_disk_means_no_cache(
    numbered: list[Path], tmp_path: Path, decoded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Little:
        free = image_cache._SPARE + 1000

    monkeypatch.setattr("shutil.disk_usage", lambda path: Little)
    check_goes_on_without(
        make(numbered, tmp_path), decoded, "would take .* more, and the disk has 268.4 MB left"
    )


@pytest.mark.parametrize("threads", [1, 3])
def test_a_full_disk_means_no_cache(
    numbered: list[Path],
    tmp_path: Path,
    decoded: list[str],
    monkeypatch: pytest.MonkeyPatch,
    threads: int,
) -> None:
    def full(*arguments: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    check_goes_on_without(make(numbered, tmp_path, threads=threads), decoded, "No space left")


def test_many_threads_may_read(numbered: list[Path], tmp_path: Path) -> None:
    images = make(numbered, tmp_path, threads=4)
    orders = [
        torch.randperm(40, generator=torch.Generator().manual_seed(seed)) for seed in range(24)
    ]
    with ThreadPoolExecutor(8) as pool:
        for order, found in zip(orders, pool.map(lambda order: images[order], orders), strict=True):
            assert values(found) == order.tolist()


PROCESS = """
import sys, torch
from pathlib import Path
from cclk.data.streamed import StreamedImages
folder, seed = Path(sys.argv[1]), int(sys.argv[2])
images = StreamedImages(sorted((folder / "numbered").iterdir()), 4, cache_dir=folder / "cache")
for turn in range(20):
    order = torch.randperm(40, generator=torch.Generator().manual_seed(100 * seed + turn))[:16]
    assert ((images[order].flatten(1) // 5) == order[:, None]).all()
    if turn % 7 == 0:
        (folder / "cache" / Path(images._source._cache.path).name).unlink(missing_ok=True)
"""


def test_processes_may_share_a_cache(
    numbered: list[Path], tmp_path: Path, decoded: list[str]
) -> None:
    """Both read, write and even delete it."""
    running = [
        subprocess.Popen([sys.executable, "-c", PROCESS, str(tmp_path), str(seed)])
        for seed in (1, 2)
    ]
    assert [process.wait(60) for process in running] == [0, 0]
    images = make(numbered, tmp_path)
    assert values(images[:]) == list(range(40))
    decoded.clear()
    assert values(images[:]) == list(range(40))
    assert decoded == []


def test_it_can_be_pickled(numbered: list[Path], tmp_path: Path) -> None:
    images = make(numbered, tmp_path, threads=2)
    images[:20]
    assert values(pickle.loads(pickle.dumps(images))[:]) == list(range(40))


MEMORY = """
import resource, sys, torch
from cclk.data.streamed import StreamedImages
images = StreamedImages([sys.argv[1]] * 20_000, 64, cache_dir=sys.argv[2])
images[:500]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in ("decoded", "from the cache"):
    for start in range(0, 6_000, 500):
        assert images[start : start + 500].shape == (500, 3, 64, 64)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_images_do_not_stay_in_memory(tmp_path: Path) -> None:
    """20,000 images of 64 x 64 are 246 MB, the 6,000 that are read 74 MB."""
    path = tmp_path / "small.png"
    Image.new("L", (4, 4), 7).save(path)
    command = [sys.executable, "-c", MEMORY, str(path), str(tmp_path / "cache")]
    assert (
        int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) < 20_000
    )  # kilobytes


def test_a_missing_pillow_says_what_to_install(
    numbered: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(
        MissingExtraError, match=r"needs the module PIL, .* pip install '\.\[train\]'"
    ):
        decode.need_pillow()
