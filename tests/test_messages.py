"""Messages are one line of at most 300 characters, whatever they quote."""

from __future__ import annotations

import ast
import io
import re
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

import cclk
from cclk.cli.main import main
from cclk.errors import CclkWarning, DataError, warn

LONG = "x" * 100_000
SOURCE = Path(cclk.__file__).parent
LIBRARY = [
    path
    for path in sorted(SOURCE.rglob("*.py"))
    if path.relative_to(SOURCE).parts[0] not in ("cli", "experiments")
]
OPTION = re.compile(r"(?<![\w-])--[a-z]")


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """A Parquet file with images as bytes, and an age."""
    stream = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (100, 100, 3), dtype=np.uint8)
    Image.fromarray(noise).save(stream, "png")
    path = tmp_path / "images.parquet"
    parquet.write_table(
        pa.table({"image": [stream.getvalue()] * 30, "age": range(30), "name": [LONG] * 30}), path
    )
    return path


def test_a_long_message_keeps_problem_and_remedy() -> None:
    error = DataError(f"people.csv, row 3 is {LONG}: it must be a number")
    assert str(error) == f"people.csv, row 3 is {'x' * 16}...{'x' * 30}: it must be a number"
    error = DataError(f"people.csv, row 3 is {'x ' * 1000}: it must be a number")
    assert len(str(error)) == 300
    assert str(error).startswith("people.csv, row 3 is x x")
    assert str(error).endswith("x x : it must be a number")
    assert str(DataError("x" * 300)) == "x" * 300
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CclkWarning)
        warn(LONG)
    assert len(str(caught[0].message)) == 50


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "--data", LONG],
        ["train", "--data", f"{LONG}.csv", "--features", "a"],
        ["train", "--dataset", "\x1b" * 1000],
        ["train", f"--{LONG}", "1"],
        ["train", "--preset", LONG],
        ["train", "--lr", LONG],
        ["train", LONG],
        ["evaluate", LONG],
        ["evaluate", "run", "--bootstrap", LONG],
        ["embed", LONG, LONG, "--out", "a.npz"],
        ["report", *["runs/\N{SNOWMAN}"] * 3000],
        [LONG],
        ["results", LONG, *[LONG] * 5],
        ["features", LONG, "--out", "a.npz"],
    ],
    ids=lambda arguments: " ".join(each[:10] for each in arguments[:3]),
)
def test_the_command_line_quotes_little(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert len(line) <= 301


def test_images_in_a_table_are_named_as_such(
    pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = ["train", "--data", str(pictures), "--condition", "age"]
    assert main([*table, "--image", "image"]) == 2
    line = capsys.readouterr().err
    assert "column 'image' holds binary, not paths of images: write each image to a file" in line
    for options in (["--image", "name"], ["--features", "image"], ["--features", "name"]):
        assert main([*table, *options]) == 2
        assert len(capsys.readouterr().err) <= 301


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a.tsv", "separated by tabs: rename it to .csv"),
        ("a.h5ad", "an AnnData file: join adata.obs"),
        ("a.h5", "a file of arrays: read it in Python and save it with numpy.savez"),
        ("a.xlsx", "a spreadsheet: save it as .csv"),
        ("a.pkl", "which can run code and is not opened"),
        ("a.csv.gz", "compressed: unpack it first"),
        ("a.jpg", "an image: pass a .csv file with a column of the paths"),
        ("a.CSV", "ends in .CSV: rename it to .csv"),
        ("a.other", "is not a .csv, .parquet or .npz file"),
        ("folder", "is a folder: pass a .csv or .parquet file with one row per sample"),
    ],
)
@pytest.mark.parametrize("command", ["train", "check"])
def test_other_files_are_named(
    command: str, name: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.mkdir() if name == "folder" else path.touch()
    assert main([command, "--data", str(path), "--features", "a", "--condition", "b"]) == 2
    line = capsys.readouterr().err
    assert f"{path} " in line
    assert words in line
    assert "unknown dataset" not in line
    assert len(line) <= 301


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: str(path.relative_to(SOURCE)))
def test_the_library_names_arguments_not_options(path: Path) -> None:
    """The command line writes them as options; whole commands may be named anywhere."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documentation = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)
    }  # docstrings
    for node in ast.walk(tree):
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        text = "".join(
            part.value
            for part in parts
            if isinstance(part, ast.Constant) and isinstance(part.value, str)
        )
        if " " in text.strip() and id(node) not in documentation and OPTION.search(text):
            assert re.search(r"cclk \w+|pip install", text), text
