"""No file runs code: an import path in a file is refused before anything is imported."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from cclk_paper.features import extract
from PIL import Image

import cclk
from cclk._files import read_tensors, write_tensors
from cclk.backbones import build_extractor
from cclk.cli.main import main
from cclk.errors import CclkError
from cclk.training.export import FORMATS
from cclk.training.settings import load, parse

CODE = """
from pathlib import Path
Path({mark!r}).touch()
from torch import nn
def build(channels=1, size=0):
    return nn.Linear(channels, 4)
"""


class Planted:
    """A finished run whose settings name code that leaves a mark when it is imported."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.mark = folder, folder / "imported"
        x = np.random.default_rng(0).normal(size=(60, 5))
        self.data = folder / "data.npz"
        np.savez(self.data, x=x, y=(x[:, 0] > 0).astype(int), condition=x[:, 1])
        overrides = {"dataset": str(self.data), "encoder": "mlp", "augmentation": "vectors"}
        overrides |= {"encoder_options": {"hidden": [4]}, "batch_size": 16, "steps": 1}
        self.run = folder / "run"
        cclk.train(overrides=overrides, out=self.run, quiet=True)
        self.estimator = folder / "estimator.safetensors"
        fitted = cclk.ConditionalEncoder(steps=1, encoder_options={"hidden": [4]})
        fitted.fit(x.astype(np.float32)).save(self.estimator)
        (folder / "planted_code.py").write_text(CODE.format(mark=str(self.mark)))
        self.toml = folder / "settings.toml"
        self.toml.write_text(
            f'[data]\ndataset = "{self.data}"\n[augment]\naugmentation = "vectors"\n'
            '[model]\nencoder = "planted_code:build"\n[train]\nsteps = 1\nbatch_size = 16\n'
        )
        settings = self.run / "settings.json"
        tree = json.loads(settings.read_text())
        tree["model"] |= {"encoder": "planted_code:build", "encoder_options": {}}
        settings.write_text(json.dumps(tree))
        for path in (self.run / "encoder.safetensors", self.estimator):
            tensors, metadata = read_tensors(path)
            changed = json.loads(metadata["settings"])
            changed["model"] |= {"encoder": "planted_code:build", "encoder_options": {}}
            write_tensors(path, tensors, metadata | {"settings": json.dumps(changed)})


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    return Planted(tmp_path_factory.mktemp("planted"))


COMMANDS: dict[str, Callable[[Planted], list[object]]] = {
    "evaluate": lambda files: ["evaluate", files.run],
    "report": lambda files: ["report", files.run, "--out", files.folder / "report.html"],
    "export": lambda files: ["export", files.run, "--format", "safetensors"],
    "embed": lambda files: ["embed", files.run, files.data, "--out", files.folder / "e.npz"],
    "resume": lambda files: ["train", "--resume", "--out", files.run],
    "check": lambda files: ["check", files.toml],
    "train": lambda files: ["train", files.toml, "--out", files.folder / "other"],
}  # fmt: skip
CALLS: dict[str, Callable[[Planted], object]] = {
    "load": lambda files: cclk.load(files.run),
    "Run": lambda files: cclk.Run(files.run),
    "train": lambda files: cclk.train(settings=files.toml, out=files.folder / "third"),
    "check": lambda files: cclk.check(settings=files.toml),
    "ConditionalEncoder.load": lambda files: cclk.ConditionalEncoder.load(files.estimator),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_refuse_code_from_files(
    name: str, planted: Planted, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(planted.folder)
    assert main([str(part) for part in COMMANDS[name](planted)]) == 2
    line = capsys.readouterr().err
    assert "names code that would be imported and run: " in line
    assert "is 'planted_code:build'" in line
    assert line.endswith(" --trust-code planted_code:build\n")
    assert line.count("\n") == 1
    assert not planted.mark.exists()


@pytest.mark.parametrize("name", CALLS)
def test_calls_refuse_code_from_files(
    name: str, planted: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(planted.folder)
    with pytest.raises(CclkError, match=r"is 'planted_code:build'; if .* trust_code=\['plan"):
        CALLS[name](planted)
    assert not planted.mark.exists()


def test_consent_runs_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is typed is consent for that call; a file needs it each time."""
    planted = Planted(tmp_path)
    monkeypatch.chdir(tmp_path)
    run = cclk.train(settings=planted.toml, trust_code=True, out=tmp_path / "own", quiet=True)
    assert planted.mark.exists()
    assert run.resume(quiet=True).settings.model.encoder == "planted_code:build"
    trust = ["--trust-code", "planted_code:build"]
    assert main(["evaluate", "--quiet", *trust, str(run.folder)]) == 0
    assert main(["report", str(run.folder), "--out", "a.html", f"{trust[0]}={trust[1]}"]) == 0
    for consent in (True, ["planted_code:build"], "planted_code:build"):
        assert cclk.load(run.folder, trust_code=consent).width == 4
    typed = ["--dataset", str(planted.data), "--augmentation", "vectors", "--steps", "1"]
    typed += ["--batch-size", "16", "--encoder", "planted_code:build", "--out", "typed", "--quiet"]
    assert main(["train", *typed]) == 0


@pytest.mark.parametrize(
    "trust",
    [["--trust-code"], ["--trust-code", "planted_code:other"], ["--trust-code", "os:system"]],
)
@pytest.mark.parametrize("first", [True, False])
def test_consent_is_by_name(
    trust: list[str],
    first: bool,
    planted: Planted,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without a name, the command names what it would run."""
    monkeypatch.chdir(planted.folder)
    arguments = [*trust, str(planted.run)] if first else [str(planted.run), *trust]
    assert main(["evaluate", *arguments]) == 2
    line = capsys.readouterr().err
    assert "model.encoder is 'planted_code:build'" in line
    assert line.endswith("on the command line --trust-code planted_code:build\n")
    for consent in (False, [], "planted_code:build2", ["planted_code"]):
        with pytest.raises(CclkError, match="planted_code:build"):
            cclk.load(planted.run, trust_code=consent)
    assert not planted.mark.exists()


def test_all_code_of_a_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text('method = "a:b"\n[model]\nencoder = "c:d"\nhead = "a:b"\n')
    with pytest.raises(
        CclkError, match=r"method is 'a:b', model.encoder is 'c:d', model.head is"
    ) as caught:
        load(path)
    assert str(caught.value).endswith("--trust-code a:b --trust-code c:d")
    with pytest.raises(CclkError, match=r"run: model.encoder is 'c:d'; .* trust_code=\['c:d'\]"):
        load(path, trust_code=["a:b"])


def test_a_kernel_of_a_condition_is_code_too(tmp_path: Path) -> None:
    options = {"condition": ["age", "hour:package.module:Kernel"]}
    settings = load(overrides={"dataset": "people.csv", "dataset_options": options})
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(parse(settings.model_dump()).model_dump(mode="json")))
    with pytest.raises(CclkError, match=r"hour:package.module:Kernel is 'package.module:Kernel'"):
        cclk.Run(tmp_path)


def test_the_current_folder_is_not_searched(tmp_path: Path) -> None:
    for name in ("sklearn", "pyarrow", "statistics", "cyclopts"):
        code = f"from pathlib import Path\nPath('ran-{name}').touch()\n"
        (tmp_path / f"{name}.py").write_text(code)
    for command in (["-m", "cclk"], ["-c", "from cclk.cli.start import main; main()"]):
        if command[0] == "-c":  # as the console script starts: its own folder comes first
            command = ["-P", *command]
        arguments = ["check", "--preset", "digits-infonce", "--steps", "1"]
        done = subprocess.run(
            [sys.executable, *command, *arguments],
            cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert not list(tmp_path.glob("ran-*")), done.stderr
        assert done.returncode == 0, done.stderr


def test_encoder_files_contain_no_paths(planted: Planted) -> None:
    for path in (planted.run / "encoder.safetensors", planted.estimator):
        assert str(planted.folder) not in str(read_tensors(path)[1])
    assert "data.npz" in str(read_tensors(planted.run / "encoder.safetensors")[1])


def test_a_run_does_not_decide_where_folders_are_created(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    settings = {"data": {"dataset": "colormnist", "data_dir": str(elsewhere)}}
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "settings.json").write_text(json.dumps(settings))
    assert cclk.Run(tmp_path / "run").settings.data.data_dir is None


@pytest.mark.parametrize("cached", [False, True])
def test_nothing_is_created_in_the_data_folder_of_a_run(
    cached: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a run folder names is read only; decoded images are cached in the user's folder."""
    own, elsewhere, run = tmp_path / "own", tmp_path / "elsewhere", tmp_path / "run"
    monkeypatch.setenv("CCLK_DATA", str(own))
    rng, lines = np.random.default_rng(0), ["path,age,label"]
    for row in range(40):
        pixels = rng.integers(0, 255, (8, 8, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{row}.png")
        lines.append(f"{row}.png,{row},{'ab'[row % 2]}")
    table = tmp_path / "table.csv"
    table.write_text("\n".join(lines))
    overrides = {"data_dir": str(elsewhere), "encoder_options": {"width": 4}, "batch_size": 8}
    cclk.train(
        table, image="path", condition=["age"], label="label", image_size=8, steps=2, out=run,
        overrides=overrides, quiet=True,
    )  # fmt: skip
    if not cached:
        shutil.rmtree(elsewhere)
        elsewhere.mkdir()
    before = {path: path.stat().st_mtime_ns for path in elsewhere.rglob("*")}
    loaded = cclk.Run(run)
    assert loaded.settings.data.data_dir == elsewhere
    loaded.evaluate(bootstrap=2, quiet=True, baselines=False)
    loaded.report(run / "report.html")
    loaded.embed(table)
    loaded.resume(quiet=True)
    assert {path: path.stat().st_mtime_ns for path in elsewhere.rglob("*")} == before
    assert own.exists() != cached
    loaded.embed(table, data_dir=tmp_path / "asked")
    assert (tmp_path / "asked").exists()


def test_downloads_do_not_go_to_the_data_folder_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, elsewhere = tmp_path / "own", tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("CCLK_DATA", str(own))
    folders: list[Path] = []

    def fetch(source: object, files: list[str], work: Path, folder: Path) -> None:
        folders.append(folder)
        raise OSError("no space left")

    monkeypatch.setattr("cclk_paper.datasets.download._fetch", fetch)
    settings = {"data": {"dataset": "colormnist", "data_dir": str(elsewhere)}}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    with pytest.raises(CclkError, match="no space left"):
        cclk.Run(tmp_path).dataset  # noqa: B018
    with pytest.raises(CclkError, match="no space left"):
        cclk.datasets.load("colormnist", data_dir=elsewhere)
    assert folders == [own / "mnist", elsewhere / "mnist"]


def test_a_home_folder_that_does_not_exist(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"data": {"dataset": "~nobody-of-this-name/a.csv", "data_dir": "~nobody-else/data"}}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    assert main(["evaluate", str(tmp_path)]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert "home directory" in line


def test_published_files_contain_no_paths(tmp_path: Path) -> None:
    home = tmp_path / "home of a user"
    home.mkdir()
    x = np.random.default_rng(0).integers(0, 256, (60, 1, 32, 32)).astype(np.uint8)
    data = home / "data.npz"
    np.savez(data, x=x, y=np.arange(60) % 2, condition=x.mean(axis=(1, 2, 3)))
    overrides = {"dataset": str(data), "data_dir": str(home), "encoder": "lenet5"}
    overrides |= {"augmentation": "digits", "batch_size": 16, "steps": 1}
    command = shlex.join(["cclk", "train", f"--dataset={data}", "--out", str(home / "run")])
    run = cclk.train(overrides=overrides, out=home / "run", command=command, quiet=True)
    run.embed(data, out=home / "e.npz")
    weights = str(run.folder / "encoder.safetensors")
    source = build_extractor(weights, channels=1, pixels=32)
    extract(run.dataset, source, home / "features.npz", quiet=True)
    page = run.report(home / "report.html")
    assert "<code>cclk train --dataset=data.npz --out run</code>" in page.read_text()
    for path in (
        *(run.export(kind) for kind in FORMATS), page, home / "e.npz", home / "features.npz"
    ):  # fmt: skip
        contents = [path.read_bytes()]
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                contents = [archive.read(name) for name in archive.namelist()]
        for folder in (tmp_path, Path(cclk.__file__).parent, Path(torch.__file__).parent):
            for encoding in ("utf-8", "utf-32-le"):
                assert not any(str(folder).encode(encoding) in each for each in contents), path


def test_long_names_are_shown_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, names = tmp_path / "a.toml", [f"{letter * 120}:build" for letter in "abc"]
    path.write_text(f'method = "{names[0]}"\n[model]\nencoder = "{names[1]}"\nhead = "{names[2]}"')
    trusted: list[str] = []
    for name in names:
        assert main(["check", str(path), *(f"--trust-code={each}" for each in trusted)]) == 2
        text = capsys.readouterr().err
        assert text.endswith(f" --trust-code {name}\n")
        assert ("and more, which is listed once this is trusted" in text) == (name != names[2])
        trusted.append(name)
