"""The commands of the guide on tables, one after the other, as a user with a table and a folder
of images would type them.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pyarrow.parquet
import pytest
import torch
from pages import ROOT, commands
from PIL import Image

import cclk
from cclk.cli.main import main

GUIDE = ROOT / "docs" / "how-to" / "train-from-a-table.md"
ROWS, NEW = 160, 7
FEWER = {"--steps": "3"}
"""The guide's own values are for real data."""


def quick(arguments: list[str]) -> list[str]:
    """The command with a few steps of small batches."""
    changed = [
        FEWER.get(before, word) for before, word in zip(["", *arguments], arguments, strict=False)
    ]
    return [*changed, "--batch-size", "32"] if changed[0] in ("check", "train") else changed


def make_people(folder: Path) -> None:
    """The table that the guide describes, and one of new images."""
    random = np.random.default_rng(0)
    (folder / "faces").mkdir()
    lines = ["path,age,site,traits,smiling"]
    for row in range(ROWS):
        name, smiling = f"faces/{row:03d}.jpg", row % 2
        image = random.integers(0, 128, (20, 20, 3), np.uint8) + np.uint8(100 * smiling)
        Image.fromarray(image).save(folder / name)
        traits = ["hat;glasses", "hat", "", "beard;hat"][row % 4]
        lines.append(
            f"{name},{random.uniform(18, 90):.1f},{('Oslo', 'Bonn', 'Lyon')[row % 3]},{traits},"
            f"{('no', 'yes')[smiling]}"
        )
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    (folder / "new.csv").write_text(
        "\n".join(["path", *(f"faces/{row:03d}.jpg" for row in range(NEW))]) + "\n"
    )


def test_the_guides_commands_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CCLK_DATA", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    make_people(tmp_path)
    told = {}
    for _, *arguments in commands(GUIDE.read_text()):
        code = main(quick(arguments))
        captured = capsys.readouterr()
        assert code == 0, captured.err
        told[arguments[0]] = captured.out + captured.err
    assert list(told) == [
        "check",
        "train",
        "evaluate",
        "embed",
        "export",
        "report",
    ], "in this order"

    for words in (
        f"{ROWS} rows",
        "age is a number",
        "site is one of 3 categories (Bonn, Lyon, Oslo)",
        "traits is a set of 3 attributes (beard, glasses, hat), of which 40 rows have none",
    ):
        assert words in told["check"]
        assert words in told["train"]
    assert f"all {ROWS} images can be read" in told["check"]
    assert "!!" not in told["check"]
    assert "evaluate it with: cclk evaluate runs/people" in told["train"]

    run = tmp_path / "runs" / "people"
    assert json.loads((run / "settings.json").read_text())["method"] == "fair-cclk"
    panel = json.loads((run / "evaluation.json").read_text())["encoder"]["leakage"]
    leakages = panel["columns"]
    assert {name: "accuracy" in found for name, found in leakages.items()} == {
        "age": False,
        "site": True,
        "traits": False,
    }
    assert "smiling" in told["evaluate"], "columns are called by their names"
    assert all(name in told["evaluate"] for name in leakages)

    embedded = pyarrow.parquet.read_table(tmp_path / "embeddings.parquet")
    features = np.column_stack(
        [embedded.column(name).to_numpy() for name in embedded.column_names[1:]]
    )
    images = [
        np.asarray(Image.open(tmp_path / f"faces/{row:03d}.jpg").resize((32, 32))).transpose(
            2, 0, 1
        )
        for row in range(NEW)
    ]
    assert features.shape == (NEW, cclk.load(run).width)
    x = torch.from_numpy(np.stack(images))
    session = onnxruntime.InferenceSession(str(run / "export.onnx"))
    np.testing.assert_allclose(
        session.run(None, {"x": x.numpy()})[0], cclk.load(run)(x).numpy(), atol=1e-5
    )

    page = (tmp_path / "report.html").read_text()
    assert "The features of people predict the smiling with" in page
    for name in leakages:
        assert f"of the {name}" in page or f"predict the {name} with" in page, name
    assert [f'"name":"{site}"' in page for site in ("Bonn", "Lyon", "Oslo")] == [True] * 3, (
        "categories have names"
    )
