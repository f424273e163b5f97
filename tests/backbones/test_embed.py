"""`cclk embed --backbone`: images through a frozen encoder, without a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import tiny
from PIL import Image

from cclk.cli.main import main


def table(folder: Path, rows: int = 5) -> Path:
    for row in range(rows):
        Image.new("RGB", (9, 9), (40 * row, 0, 255)).save(folder / f"{row}.png")
    path = folder / "images.csv"
    path.write_text("path,who\n" + "".join(f"{row}.png,p{row}\n" for row in range(rows)))
    return path


def test_images_of_a_table_keep_their_ids(tmp_path: Path) -> None:
    source, out = table(tmp_path), tmp_path / "f.parquet"
    options = ["--image", "path", "--image-size", "8", "--row-id", "who", "--batch-size", "2"]
    command = ["embed", str(source), "--backbone", "tiny:Mean", "--out", str(out), *options]
    assert main(command) == 0
    written = pq.read_table(out)
    assert written["id"].to_pylist() == [f"p{row}" for row in range(5)]
    red = (40 * np.arange(5) / 255 - 0.5) / 0.25  # as encoders see images
    np.testing.assert_allclose(written["f0"].to_numpy(), red, rtol=1e-5)
    assert written.column_names == ["id", "f0", "f1", "f2"]


def test_images_of_an_array_and_a_dataset(tmp_path: Path) -> None:
    images, out = tmp_path / "images.npz", tmp_path / "f.npz"
    np.savez(images, x=tiny.split(4, 0).x.numpy(), ids=np.array(["a", "b", "c", "d"]))
    assert main(["embed", str(images), "--backbone", "tiny:Side", "--out", str(out)]) == 0
    with np.load(out) as written:
        assert written["ids"].tolist() == ["a", "b", "c", "d"]
        assert written["features"].tolist() == [[8.0]] * 4
    assert main(["embed", "colordigits", "--backbone", "tiny:Mean", "--out", str(out)]) == 0
    with np.load(out) as written:
        assert written["features"].shape == (1797, 3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["t.csv", "--backbone", "tiny:Mean"],
            "pass the column with paths of images, such as --image path",
        ),
        (["runs/a", "new.csv", "--backbone", "tiny:Mean"], "or only images with --backbone"),
        (["runs/a"], "pass the folder of a run and its data"),
        (["v.npz", "--backbone", "tiny:Mean"], "contains no images to run tiny:Mean on"),
        (["x.npz", "--backbone", "tiny:Bad"], "tiny:Bad returns NaN or infinite features"),
        (["x.npz", "--backbone", "tiny:Mean", "--batch-size", "0"], "must be at least 1"),
    ],
)
def test_wrong_input_is_one_line(
    options: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("v.npz", x=np.ones((3, 2)))
    np.savez("x.npz", x=tiny.split(4, 0).x.numpy())
    monkeypatch.setattr(tiny, "Bad", lambda: tiny.Mean(float("nan")), raising=False)
    assert main(["embed", *options, "--out", "f.npz"]) == 2
    assert words in capsys.readouterr().err
    assert not Path("f.npz").exists()
