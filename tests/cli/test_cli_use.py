"""Using a trained encoder: embeddings of new data, exports that agree, and Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pyarrow.csv
import pyarrow.parquet
import pytest
import torch
from PIL import Image
from safetensors import safe_open

import cclk
from cclk.cli.main import main
from cclk.training.encoder import TrainedEncoder
from cclk.training.export import FORMATS, export
from cclk.training.run_folder import RunFolder

COLUMNS = "path,age,s_1,s_2,name"


def write_table(path: Path, rows: int) -> Path:
    random = np.random.default_rng(0)
    lines = [COLUMNS]
    for row in range(rows):
        Image.fromarray(random.integers(0, 255, (9, 9), np.uint8)).save(path.parent / f"{row}.png")
        lines.append(
            f"{row}.png,{random.normal(50, 10):.2f},{random.normal():.3f},"
            f"{random.normal(9, 4):.3f},n{row}"
        )
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, on images and on numbers, with their table."""
    folder = tmp_path_factory.mktemp("use")
    table = write_table(folder / "table.csv", 60)
    common = [
        "--data",
        table,
        "--condition",
        "age",
        "--steps",
        2,
        "--batch-size",
        16,
        "--data-dir",
        folder,
        "--row-id",
        "name",
        "--quiet",
    ]
    assert run("train", *common, "--image", "path", "--gray", "--out", folder / "images") == 0
    assert run("train", *common, "--features", "s_*", "--out", folder / "numbers") == 0
    return folder


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def test_an_encoder_in_python_needs_no_data(folder: Path) -> None:
    encoder = cclk.load(folder / "images")
    opened = RunFolder(folder / "images")
    split = opened.dataset.test
    expected = opened.embed_split(split)[0]
    torch.testing.assert_close(encoder(split.x[torch.arange(len(split))]), expected)
    assert encoder.width == 16
    assert not encoder.training
    numbers = cclk.load(folder / "numbers")
    split = RunFolder(folder / "numbers").dataset.test
    torch.testing.assert_close(
        numbers(split.x), RunFolder(folder / "numbers").embed_split(split)[0]
    )


@pytest.mark.parametrize("kind", ["images", "numbers"])
def test_embeddings_keep_ids_and_agree_in_every_format(
    kind: str, folder: Path, tmp_path: Path
) -> None:
    for suffix in (".parquet", ".csv", ".npz"):
        out = tmp_path / f"e{suffix}"
        assert (
            run(
                "embed",
                folder / kind,
                folder / "table.csv",
                "--out",
                out,
                "--batch-size",
                7,
                "--data-dir",
                tmp_path,
                "--quiet",
            )
            == 0
        )
    table = pyarrow.parquet.read_table(tmp_path / "e.parquet")
    assert table.column("id").to_pylist() == [f"n{row}" for row in range(60)]
    found = np.column_stack([table.column(name).to_numpy() for name in table.column_names[1:]])
    dataset = RunFolder(folder / kind).dataset
    expected = {}
    for split in (dataset.train, dataset.validation, dataset.test):
        expected |= dict(
            zip(split.ids, RunFolder(folder / kind).embed_split(split)[0].numpy(), strict=True)
        )
    np.testing.assert_allclose(
        found, np.stack([expected[f"n{row}"] for row in range(60)]), atol=1e-5
    )
    text = pyarrow.csv.read_csv(tmp_path / "e.csv")
    np.testing.assert_allclose(
        np.column_stack([text.column(name).to_numpy() for name in text.column_names[1:]]),
        found,
        rtol=1e-5,
    )
    with np.load(tmp_path / "e.npz") as stored:
        np.testing.assert_allclose(stored["features"], found)
        assert stored["ids"][3] == "n3"


@pytest.mark.parametrize("kind", ["images", "numbers"])
def test_exports_give_the_same_features(kind: str, folder: Path, tmp_path: Path) -> None:
    encoder = cclk.load(folder / kind)
    samples = encoder.example(9)
    expected = encoder(samples).numpy()
    paths = {
        form: export(TrainedEncoder(RunFolder(folder / kind)), form, tmp_path / f"x{suffix}")
        for form, suffix in zip(FORMATS, (".onnx", ".safetensors", ".pt2"), strict=True)
    }
    session = onnxruntime.InferenceSession(str(paths["onnx"]))
    np.testing.assert_allclose(session.run(None, {"x": samples.numpy()})[0], expected, atol=1e-5)
    np.testing.assert_allclose(
        torch.export.load(paths["torch"]).module()(samples).numpy(), expected, atol=1e-5
    )
    with safe_open(paths["safetensors"], framework="pt") as stored:
        assert set(stored.keys()) == set(encoder.state_dict())
        assert "settings" in stored.metadata()


def test_columns_are_found_by_name_in_any_order(folder: Path, tmp_path: Path) -> None:
    lines = [line.split(",") for line in (folder / "table.csv").read_text().splitlines()]
    turned = tmp_path / "turned.csv"
    turned.write_text(
        "\n".join(
            ",".join([row[3], "extra", row[2]]) if number else "s_2,s_9,s_1"
            for number, row in enumerate(lines)
        )
    )
    for source, name in ((folder / "table.csv", "a.npz"), (turned, "b.npz")):
        assert run("embed", folder / "numbers", source, "--out", tmp_path / name, "--quiet") == 0
    with np.load(tmp_path / "a.npz") as one, np.load(tmp_path / "b.npz") as two:
        np.testing.assert_array_equal(one["features"], two["features"])
        assert (one["ids"][0], two["ids"][0]) == (
            "n0",
            "1",
        )  # the run's id column is not in the other file


def test_arrays_in_other_types(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = np.array([[1, 2], [3, 4]])
    found = []
    for kind in (np.uint8, np.int64, np.float64):
        np.savez(tmp_path / "x.npz", x=whole.astype(kind))
        assert (
            run(
                "embed",
                folder / "numbers",
                tmp_path / "x.npz",
                "--out",
                tmp_path / "e.npz",
                "--quiet",
            )
            == 0
        )
        with np.load(tmp_path / "e.npz") as stored:
            found.append(stored["features"])
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    for wrong, told in (
        ({"x": np.zeros((2, 1, 32, 32))}, "they must be uint8"),
        ({"x": np.full((2, 2), np.nan)}, "NaN or infinite"),
        ({"x": whole, "ids": np.array(["a"])}, "2 samples and 1 ids"),
        ({"x": np.float64(3)}, "x is float64 of shape ()"),
    ):
        np.savez(tmp_path / "x.npz", **wrong)
        assert (
            run(
                "embed",
                folder / "numbers",
                tmp_path / "x.npz",
                "--out",
                tmp_path / "e.npz",
                "--quiet",
            )
            == 2
        )
        assert told in capsys.readouterr().err


def test_export_by_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("export", folder / "numbers") == 0
    assert (folder / "numbers" / "export.onnx").exists()
    assert "export.onnx" in capsys.readouterr().err


def test_a_path_with_brackets_is_told_as_it_is(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / ("[red] of a long name " * 5) / "encoder.safetensors"
    target.parent.mkdir()
    assert run("export", folder / "numbers", "--format", "safetensors", "--out", target) == 0
    assert f"written: {target}\n" in capsys.readouterr().err


def test_mistakes_are_one_line(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "t.csv"
    missing.write_text("path,s_1,s_2\nx.png,,3\n")
    wrong = tmp_path / "x.npz"
    np.savez(wrong, x=np.zeros((3, 5), np.float32))
    out = tmp_path / "e.parquet"
    cases = [
        (["embed", folder / "numbers", missing, "--out", out], "row 1, column 's_1' is empty"),
        (
            ["embed", folder / "images", missing, "--out", out],
            "row 1, column 'path': the image",
        ),
        (["embed", folder / "numbers", wrong, "--out", out], "have the shape (5,), but"),
        (
            ["embed", folder / "numbers", folder / "table.csv", "--out", tmp_path / "e.xls"],
            "must end in .parquet, .csv, .npz",
        ),
        (["embed", folder / "numbers", "nothing", "--out", out], "neither a .csv"),
        (["embed", tmp_path, missing, "--out", out], "is it the folder of a run?"),
        (["export", folder / "numbers", "--out", tmp_path / "x.bin"], "does not end in .onnx"),
    ]
    for arguments, told in cases:
        assert run(*arguments) == 2
        error = capsys.readouterr().err
        assert told in error
        assert len(error.strip().splitlines()) == 1
    assert not out.exists()
