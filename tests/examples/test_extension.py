"""The example of an extension: from the command line by import path, and by its entry points."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from pages import ROOT, commands

import cclk
from cclk import registry
from cclk.cli.main import main
from cclk.registry import DATASETS
from cclk.training import methods
from cclk.training.resolve import resolve
from cclk.training.settings import load

EXTENSION = ROOT / "examples" / "extension"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The extension as pip would install it: a folder with its metadata on the path."""
    project = tomllib.loads((EXTENSION / "pyproject.toml").read_text())["project"]
    info = tmp_path / "cclk_sky-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cclk-sky\nVersion: 0.1.0\n")
    lines = [
        line
        for group, names in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {path}" for name, path in names.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(EXTENSION))
    registry.entry_points.cache_clear()
    yield
    registry.entry_points.cache_clear()


def test_the_commands_of_its_readme_work_without_installing_it(tmp_path: Path) -> None:
    path = os.pathsep.join([str(EXTENSION), os.environ.get("PYTHONPATH", "")])
    for _, *command in commands((EXTENSION / "README.md").read_text()):
        done = subprocess.run(
            [sys.executable, "-m", "cclk", *command],
            cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    settings = json.loads((tmp_path / "runs" / "sky" / "settings.json").read_text())
    assert settings["method"] == "cclk_sky:FAIR_BY_HOUR"
    evaluation = json.loads((tmp_path / "runs" / "sky" / "evaluation.json").read_text())
    assert evaluation["encoder"]["accuracy"]["linear"]["value"] > 0.9
    assert evaluation["encoder"]["leakage"]["columns"]["hour"]["by_probe"]["linear"]["value"] < 0.5
    assert "cclk_sky:FAIR_BY_HOUR" in (tmp_path / "report.html").read_text()


@pytest.mark.usefixtures("installed")
def test_its_entry_points_are_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "fair-by-hour" in registry.METHODS
    assert list(registry.KERNELS)[-1] == "periodic"
    out = tmp_path / "run"
    chosen = ["--dataset", "sky", "--method", "fair-by-hour", "--kernel", "periodic"]
    more = ["--encoder", "mlp", "--augmentation", "vectors"]
    length = ["--batch-size", "32", "--steps", "2"]
    assert main(["train", *chosen, *more, *length, "--out", str(out), "--quiet"]) == 0
    assert json.loads((out / "settings.json").read_text())["loss"]["kernel"] == "periodic"
    assert main(["train", "--method", "fair-by-hours", "--out", str(tmp_path / "other")]) == 2
    assert "(did you mean 'fair-by-hour'?)" in capsys.readouterr().err


@pytest.mark.usefixtures("installed")
def test_its_kernel_gets_hours_that_are_not_standardized() -> None:
    dataset = DATASETS.create("sky", {"seed": 0, "data_dir": None})
    names = {"dataset": "sky", "method": "fair-cclk", "kernel": "periodic", "batch_size": 128}
    built = methods.build(resolve(load(overrides=names), dataset), dataset)
    assert built.condition is not None
    assert built.kernel is not None
    assert torch.equal(built.condition.values, dataset.train.condition)
    hours = built.condition.rows(slice(0, 128))
    median = cclk.diagnose(built.kernel, hours, weights="nw").effective_sample_size.median()
    assert 10 < float(median) < 20, "an hour of a day before and after"
    settings = resolve(load(overrides=names | {"kernel": "rbf"}), dataset)
    plain = methods.build(settings, dataset)
    assert plain.condition is not None
    assert float(plain.condition.values.std()) == pytest.approx(1)
