"""A loaded encoder refuses what it was not trained on, and embeds samples in any form as `cclk
embed` does.
"""

# ruff: noqa: E501 (a table of mistakes reads better with one to a line)

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from PIL import Image

import cclk
from cclk.cli.main import main
from cclk.errors import DataError
from cclk.training import loop as training
from cclk.training.settings import load

ROWS = 24
SIZES = [(20, 30), (32, 32), (70, 50), (9, 9)]


def write_image(path: Path, row: int) -> None:
    """Images of many sizes and kinds: RGB, gray, transparent, and a photograph turned by its
    camera.
    """
    random = np.random.default_rng(row)
    height, width = SIZES[row % 4]
    values = random.integers(0, 256, (height, width, 4), np.uint8)
    image = [
        Image.fromarray(values[..., :3]),
        Image.fromarray(values[..., 0]),
        Image.fromarray(values),
    ][row % 3]
    exif = Image.Exif()
    if row % 5 == 0:
        exif[0x0112] = 6
    image.save(path, exif=exif)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs on RGB and gray images and on numbers, with their table and what `cclk embed` makes
    of it.
    """
    folder = tmp_path_factory.mktemp("trained")
    random = np.random.default_rng(0)
    lines = ["path,age,s_2,s_1,day,name"]
    for row in range(ROWS):
        write_image(folder / f"{row:02d}.png", row)
        lines.append(
            f"{row:02d}.png,{50 + row},{random.normal(9, 4):.3f},{random.normal():.3f},2024-05-{1 + row:02d},n{row}"
        )
    table = folder / "table.csv"
    table.write_text("\n".join(lines))
    for name, options, encoder in (
        (
            "rgb",
            {"image": "path", "size": 16},
            {"encoder": "resnet18", "encoder_options": {"stem": "cifar", "width": 8}},
        ),
        ("gray", {"image": "path", "gray": True}, {"encoder": "lenet5"}),
        ("numbers", {"features": ["day", "s_*"]}, {"encoder": "mlp", "augmentation": "vectors"}),
    ):
        overrides = {
            "dataset": str(table), "data_dir": str(folder / "cache"), "dataset_options": {"condition": ["age"], **options},
            "steps": 2, "batch_size": 8, "augmentation": "digits", **encoder,
        }  # fmt: skip
        training.train(load(overrides=overrides), folder / name, quiet=True)
        assert (
            main(
                [
                    "embed",
                    str(folder / name),
                    str(table),
                    "--out",
                    str(folder / f"{name}.npz"),
                    "--quiet",
                ]
            )
            == 0
        )
    return folder


def written(runs: Path, name: str) -> np.ndarray:
    """The features in the file of `cclk embed`."""
    with np.load(runs / f"{name}.npz") as stored:
        return np.asarray(stored["features"])


def pixels(image: Image.Image, *, first: bool = False) -> np.ndarray:
    values = np.asarray(image)
    return values.transpose(2, 0, 1) if first and values.ndim == 3 else values


@pytest.mark.parametrize("name", ["rgb", "gray"])
def test_images_in_every_form_have_the_features_of_their_files(
    name: str, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CCLK_DATA", str(runs / "untouched"))
    encoder, expected = cclk.load(runs / name), written(runs, name)
    paths = sorted(runs.glob("*.png"))
    found = encoder.embed(paths)
    assert (found.shape, found.dtype) == ((ROWS, encoder.width), np.float32)
    np.testing.assert_array_equal(found, expected)
    assert not (runs / "untouched").exists(), "images that are read once are not kept"
    images = [Image.open(path) for path in paths]
    np.testing.assert_array_equal(encoder.embed(images), expected)
    assert [image.size for image in images] == [SIZES[row % 4][::-1] for row in range(ROWS)]
    straight = [row for row in range(ROWS) if row % 5]  # an array knows nothing of its camera
    batch = encoder.embed([images[row] for row in straight])
    np.testing.assert_allclose(batch, expected[straight], atol=1e-5)
    for first in (False, True):
        arrays: list[Any] = [pixels(images[row], first=first) for row in straight]
        tensors = [torch.from_numpy(np.array(array)) for array in arrays]
        for form in (arrays, tensors):
            np.testing.assert_array_equal(encoder.embed(form), batch)
    mixed = [str(paths[0]), images[1], pixels(images[2])]
    np.testing.assert_allclose(encoder.embed(mixed), expected[:3], atol=1e-5)
    np.testing.assert_allclose(
        encoder.embed(np.array([str(path) for path in paths]), batch_size=5), expected, atol=1e-5
    )
    np.testing.assert_allclose(encoder.embed(pd.Series(paths)), expected, atol=1e-5)
    for one in (paths[3], str(paths[3]), images[3]):
        np.testing.assert_allclose(encoder.embed(one), expected[3:4], atol=1e-5)
    np.testing.assert_array_equal(encoder.embed(runs / "table.csv"), expected)
    assert encoder.embed([]).shape == (0, encoder.width)


def test_a_large_photograph_is_read_as_its_file_and_left_as_it_was(
    runs: Path, tmp_path: Path
) -> None:
    ramp = np.linspace(0, 255, 600 * 500 * 3).reshape(500, 600, 3).astype(np.uint8)
    Image.fromarray(ramp).save(tmp_path / "photo.jpg")
    encoder = cclk.load(runs / "rgb")
    photo = Image.open(tmp_path / "photo.jpg")
    np.testing.assert_allclose(
        encoder.embed(photo), encoder.embed(tmp_path / "photo.jpg"), atol=0.05
    )
    assert photo.size == (600, 500)


def test_batches_of_arrays(runs: Path) -> None:
    encoder = cclk.load(runs / "rgb")
    fitting = np.random.default_rng(0).integers(0, 256, (5, 3, 16, 16), np.uint8)
    expected = encoder(torch.from_numpy(fitting)).numpy()
    for batch in (fitting, torch.from_numpy(fitting), fitting.transpose(0, 2, 3, 1), list(fitting)):
        np.testing.assert_array_equal(encoder.embed(batch), expected)
    larger = fitting.repeat(2, axis=2).repeat(2, axis=3)
    np.testing.assert_array_equal(
        encoder.embed(larger), encoder.embed(larger.transpose(0, 2, 3, 1))
    )
    assert encoder.embed(list(fitting[:, 0])).shape == (5, encoder.width)


def test_inference_mode_ends_with_each_batch(runs: Path) -> None:
    encoder = cclk.load(runs / "numbers")
    modes = [torch.is_inference_mode_enabled() for _ in encoder.batches(encoder.example(5), 2)]
    assert modes == [False] * 3


def test_vectors_in_every_form(runs: Path) -> None:
    encoder, expected = cclk.load(runs / "numbers"), written(runs, "numbers")
    assert encoder.columns == ("day", "s_2", "s_1")
    frame = pd.read_csv(runs / "table.csv")
    dated = frame.assign(day=pd.to_datetime(frame["day"]), note=[1, "x"] * (ROWS // 2))
    days = (dated["day"] - pd.Timestamp(0)).dt.days.to_numpy()
    array = np.column_stack([days, frame["s_2"], frame["s_1"]])
    mapping = {"s_1": frame["s_1"].tolist(), "day": days, "s_2": frame["s_2"].to_numpy()}
    forms = (
        frame,
        dated,
        frame[frame.columns[::-1]],
        pa.Table.from_pandas(frame),
        mapping,
        array,
        array.tolist(),
        torch.from_numpy(array),
    )
    for form in forms:
        np.testing.assert_array_equal(encoder.embed(form), expected)
    np.testing.assert_array_equal(encoder.embed(str(runs / "table.csv")), expected)
    np.testing.assert_allclose(encoder.embed(array, batch_size=7), expected, atol=1e-5)


def test_vectors_without_names(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(30, 3))
    np.savez(tmp_path / "x.npz", x=x, y=np.arange(30) % 2, condition=x[:, 0])
    chosen = {
        "dataset": str(tmp_path / "x.npz"),
        "encoder": "mlp",
        "augmentation": "vectors",
        "batch_size": 8,
        "steps": 1,
    }
    training.train(load(overrides=chosen), tmp_path / "run", quiet=True)
    encoder = cclk.load(tmp_path / "run")
    expected = encoder.embed(x)
    np.testing.assert_array_equal(
        encoder.embed(pd.DataFrame(x, index=np.arange(30)[::-1])), expected
    )
    np.testing.assert_array_equal(encoder.embed(tmp_path / "x.npz"), expected)
    with pytest.raises(
        DataError,
        match=(
            r"of shape \(30, 4\), but the encoder takes numbers \(n, 3\): pass the columns of the"
            r" training"
        ),
    ):
        encoder.embed(pd.DataFrame(np.zeros((30, 4))))


def images(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.uint8)


REFUSED: dict[str, tuple[str, Any, str]] = {
    "one image": ("rgb", images(3, 16, 16), r"uint8 of shape \(3, 16, 16\), but the encoder takes uint8 images \(n, 3, 16, 16\): .* x\[None\]"),
    "channels last": ("rgb", images(5, 16, 16, 3), r"channels last: use x\.permute\(0, 3, 1, 2\)"),
    "one, channels last": ("rgb", images(16, 16, 3), r"one image with channels last: use x\.permute\(2, 0, 1\)\[None\]"),
    "other size": ("rgb", images(5, 3, 32, 32), r"shape \(5, 3, 32, 32\), .*: call embed, which crops, resizes and converts"),
    "other channels": ("gray", images(5, 3, 32, 32), r"uint8 images \(n, 1, 32, 32\): call embed"),
    "a number": ("rgb", images(), r"of shape \(\)"),
    "scaled": ("rgb", torch.rand(5, 3, 16, 16), r"float32 of .*: values in 0\.\.1 seem to be scaled images: pass uint8 from 0 to 255"),
    "standardized": ("rgb", torch.randn(5, 3, 16, 16), r"values from -\d\S* to \d\S* seem to be standardized: pass the uint8 images"),
    "floats": ("rgb", torch.rand(5, 3, 16, 16) * 255, r"float32 of .*: pass uint8 from 0 to 255"),
    "integers": ("rgb", images(5, 3, 16, 16).long(), r"int64 of .*: pass uint8 from 0 to 255"),
    "one vector": ("numbers", torch.zeros(3), r"shape \(3,\), but the encoder takes numbers \(n, 3\) in the columns day, s_2, s_1: .* x\[None\]"),
    "other columns": ("numbers", torch.zeros(4, 2), r"shape \(4, 2\), .*: pass the columns of the training, in their order"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_batch_of_another_form_is_refused(case: str, runs: Path) -> None:
    name, x, told = REFUSED[case]
    with pytest.raises(DataError, match=told) as raised:
        cclk.load(runs / name)(x)
    assert "\n" not in str(raised.value)


def test_only_tensors_are_called(runs: Path) -> None:
    for name, x in (
        ("rgb", np.zeros((5, 3, 16, 16), np.uint8)),
        ("numbers", np.zeros((5, 3))),
        ("numbers", [[0.0, 1.0, 2.0]]),
    ):
        with pytest.raises(
            TypeError, match=r"x is of the type (ndarray|list): pass a tensor, or call embed"
        ):
            cclk.load(runs / name)(x)


NOT_EMBEDDED: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    "folder": ("rgb", lambda runs: runs, r"is a folder: pass the paths of its images, such as sorted\(Path\("),
    "no such file": ("rgb", lambda runs: [runs / "00.png", runs / "none.png"], r"none\.png is missing"),
    "no image": ("rgb", lambda runs: [runs / "table.csv"], r"table\.csv is not an image"),
    "one array": ("rgb", lambda runs: np.zeros((16, 16, 3), np.uint8), r"shape \(16, 16, 3\): pass x\[None\] if it is one image, list\(x\)"),
    "scaled array": ("rgb", lambda runs: np.zeros((2, 3, 16, 16)), r"x is float64: values in 0\.\.1 seem to be scaled images"),
    "scaled image": ("rgb", lambda runs: [np.zeros((9, 9, 3), np.float32)], r"image 0 is float32: values in 0\.\.1"),
    "two channels": ("rgb", lambda runs: [np.zeros((9, 9, 2), np.uint8)], r"image 0 has the shape \(9, 9, 2\): it must be \(h, w\), \(h, w, c\) or"),
    "frame of paths": ("rgb", lambda runs: pd.read_csv(runs / "table.csv"), r"the encoder takes images: pass the column .* x\['path'\]"),
    "a number": ("rgb", lambda runs: 3, r"x is of the type int: pass a list of paths"),
    "float image": ("rgb", lambda runs: [Image.new("F", (9, 9))], r"image 0 holds floating-point values"),
    "text": ("numbers", lambda runs: ["a.png"], r"x is not an array of numbers: the encoder takes numbers \(n, 3\) in the columns day, s_2, s_1"),
    "one row": ("numbers", lambda runs: np.zeros(3), r"x\[None\]"),
    "NaN": ("numbers", lambda runs: [[1, 2, 3], [1, np.nan, 3]], r"x\[1, 1\] is NaN or infinite"),
    "too large": ("numbers", lambda runs: [[1e300, 2, 3]], r"x\[0, 0\] is NaN or infinite"),
    "no column": ("numbers", lambda runs: pd.DataFrame({"day": [1], "s_1": [2], "s_3": [3]}), r"x has no column 's_2' \(did you mean '.*'\?\), requested as an input"),
    "missing cell": ("numbers", lambda runs: pd.DataFrame({"day": [1, 2], "s_1": [2, None], "s_2": [3, 4]}), r"x, row 2, column 's_1' is empty"),
    "words": ("numbers", lambda runs: {"day": ["2024-05-01"], "s_1": ["old"], "s_2": [3]}, r"x, row 1, column 's_1' is 'old': it must be a number"),
    "mixed column": ("numbers", lambda runs: pd.DataFrame({"day": [1, "a"], "s_1": [2, 3], "s_2": [3, 4]}), r"x cannot be read as a table"),
}  # fmt: skip


@pytest.mark.parametrize("case", NOT_EMBEDDED)
def test_what_cannot_be_embedded_is_said(case: str, runs: Path) -> None:
    name, make, told = NOT_EMBEDDED[case]
    with pytest.raises(DataError, match=told) as raised:
        cclk.load(runs / name).embed(make(runs))
    assert "\n" not in str(raised.value)


def test_batch_size_is_checked(runs: Path) -> None:
    with pytest.raises(ValueError, match="batch_size is 0: it must be at least 1"):
        cclk.load(runs / "numbers").embed(np.zeros((2, 3)), batch_size=0)


def test_images_that_are_not_square_are_taken_as_they_are(tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(0, 256, (30, 3, 8, 16), np.uint8)
    np.savez(tmp_path / "x.npz", x=x, y=np.arange(30) % 2, condition=x.mean((1, 2, 3)))
    chosen = {
        "dataset": str(tmp_path / "x.npz"),
        "encoder": "resnet18",
        "encoder_options": {"width": 8},
        "augmentation": "none",
    }
    settings = load(overrides=chosen | {"batch_size": 8, "steps": 1})
    training.train(settings, tmp_path / "run", quiet=True)
    encoder = cclk.load(tmp_path / "run")
    np.testing.assert_array_equal(encoder.embed(x), encoder(torch.from_numpy(x)).numpy())
    with pytest.raises(DataError, match=re.escape("pass uint8 images (n, 3, 8, 16)")):
        encoder.embed([x[0]])


def test_the_checks_stay_out_of_exported_programs(runs: Path) -> None:
    encoder = cclk.load(runs / "rgb")
    program = torch.export.export(
        encoder, (encoder.example(),), dynamic_shapes=({0: torch.export.Dim("n", min=1)},)
    )
    x = encoder.example(7)
    torch.testing.assert_close(program.module()(x), encoder(x))
