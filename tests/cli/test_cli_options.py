"""Options: how they are listed, messages on unknown ones, and options with several values."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from cclk.cli.main import main
from cclk.registry import METHODS
from cclk.training.settings import choices, setting_fields


@pytest.fixture
def table(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    path = tmp_path / "people.csv"
    lines = [",".join(f"{value:.3f}" for value in row) for row in random.normal(size=(90, 5))]
    path.write_text("\n".join(["a,b,c,age,dose", *lines]))
    return path


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that a wrong command ends with."""
    assert main(list(arguments)) == 2
    output, error = capsys.readouterr()
    assert output == ""
    assert error.count("\n") == 1
    return error


@pytest.mark.parametrize("columns", [100, 110, 120])
def test_the_help_of_train_fits_a_screen(columns: int) -> None:
    # In a process of its own: the width of the console is read once.
    page = subprocess.run(
        [sys.executable, "-m", "cclk", "train", "--help"],
        capture_output=True, text=True, check=True, env=os.environ | {"COLUMNS": str(columns)},
    ).stdout  # fmt: skip
    assert len(page.splitlines()) <= 50
    assert page.index("--data ") < page.index("--method "), "one's own table first"
    words = " ".join(page.replace("│", " ").split())
    for told in (
        *METHODS,
        "adamw",
        "polynomial",
        "digits-fair",
        "[default: fair-cclk]",
        "[default: 0.003]",
        "auto: medium for fair methods on a table, else none",
        "--help-all",
    ):
        assert told in words
    assert "--checkpoint-every" not in words


@pytest.mark.parametrize("command", ["train", "check"])
def test_all_settings_are_listed_with_their_choices(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    assert main([command, "--help-all"]) == 0
    page = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for name, _, field in setting_fields():
        assert f"--{name.replace('_', '-')} " in page
        assert ", ".join(choices(field)) in page
    assert main([command, "--help"]) == 0
    assert "--checkpoint-every" not in capsys.readouterr().out, "the next page is short again"


@pytest.mark.parametrize(
    "arguments", [["--help"], ["train", "--help"], ["train", "--help-all"], ["train"]]
)
def test_help_does_not_wait_for_torch(arguments: list[str]) -> None:
    code = (
        "import sys; from cclk.cli.start import main; code = main(); sys.exit(code or 'torch' in"
        " sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", ["train", "check"])
def test_a_command_alone_shows_its_help(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([command, "--help"]) == 0
    page = capsys.readouterr().out
    assert main([command]) == 0
    assert capsys.readouterr().out == page
    assert list(tmp_path.iterdir()) == []


def test_train_wants_to_know_on_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is nothing to train: pass --data FILE" in said(
        capsys, "train", "--out", str(tmp_path / "run")
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("--conditon", "--condition"),
        ("--featurs", "--features"),
        ("--lable", "--label"),
        ("--rowid", "--row-id"),
        ("--sead", "--seed"),
        ("--resum", "--resume"),
        ("--temprature", "--temperature"),
        ("--temp", "--temperature"),
        ("--encoder-option", "--encoder-options"),
        ("--learning-rate", "--lr"),
        ("--learning_rate=0.1", "--lr"),
        ("--batchsize", "--batch-size"),
        ("--batch_sizes", "--batch-size"),
        ("--bs", "--batch-size"),
        ("--tau", "--temperature"),
        ("--iterations", "--steps"),
        ("--wd", "--weight-decay"),
        ("--gpus", "--devices"),
        ("--backbone", "--encoder"),
        ("--model", "--encoder"),
        ("--output", "--out"),
        ("--sensitive", "--condition"),
        ("--target", "--label"),
        ("--csv", "--data"),
        ("--loss", "--method"),
        ("--train.lr", "--lr"),
        ("--optim.momentun", "--momentum"),
        ("--no-standardize", "--standardize false"),
    ],
)
def test_an_unknown_option_names_the_one_that_was_meant(
    option: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = said(capsys, "train", option, "1")
    assert told == f"cclk: train has no option {option.partition('=')[0]}: did you mean {meant}?\n"


def test_options_that_are_not_needed_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--device", "--gpu", "--cuda"):
        assert "a GPU is used if there is one, and --devices N starts N processes" in said(
            capsys, "train", option, "1"
        )
    assert "images are read by one thread per core" in said(capsys, "train", "--num-workers", "4")


def test_options_of_a_kernel_or_a_loss_name_their_setting(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = said(capsys, "train", "--neighbors", "12")
    assert error.endswith("use --kernel-options '{ neighbors = VALUE }'\n")


def test_unknown_options_of_other_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert "cclk: check has no option --conditon: did you mean --condition?" in said(
        capsys, "check", "--conditon", "age"
    )
    told = said(capsys, "embed", "run", "x.csv", "--out", "e.npz", "--bs", "3")
    assert "cclk: embed has no option --bs: did you mean --batch-size?" in told
    assert "cclk: report has no option --color: --help lists all of them" in said(
        capsys, "report", "run", "--color", "red"
    )
    assert "cclk: train has no option --zzz: --help-all lists all of them" in said(
        capsys, "train", "--zzz", "1"
    )


def test_arguments_too_many(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        said(capsys, "train", "run.toml", "--lr", "1", "2", "3 4")
        == "cclk: unexpected arguments: 2 '3 4'\n"
    )


@pytest.mark.parametrize(
    ("option", "value", "meant"),
    [
        ("method", "fair", "'fair-cclk' or 'fair-infonce'"),
        ("method", "hard", "'hardneg-cclk' or 'hardneg-infonce'"),
        ("method", "fair_cclk", "'fair-cclk'"),
        ("method", "simclr", "'infonce'"),
        ("augmentation", "digit", "'digits'"),
        ("kernel", "gaussian", "'rbf'"),
        ("kernel", "laplace", "'laplacian'"),
        ("weights", "auhtors", "'authors'"),
        ("clusters", "value", "'values'"),
        ("optimizer", "adamW", "'adamw'"),
        ("sampler", "cluster", "'clusters'"),
        ("precision", "bf16", "'bfloat16'"),
    ],
)
def test_a_wrong_value_names_the_one_that_was_meant(
    option: str, value: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = said(capsys, "train", f"--{option}", value)
    assert f" {value!r} (did you mean {meant}?)" in told


@pytest.mark.parametrize("apart", [True, False])
def test_several_columns_after_one_option(apart: bool, table: Path, tmp_path: Path) -> None:
    given = {"--features": ["a", "b", "c"], "--condition": ["age", "dose"]}
    columns = [
        word
        for option, names in given.items()
        for word in ([w for name in names for w in (option, name)] if apart else [option, *names])
    ]
    out = tmp_path / "run"
    assert (
        main(
            [
                "train",
                "--data",
                str(table),
                *columns,
                "--batch-size",
                "16",
                "--steps",
                "1",
                "--out",
                str(out),
                "--quiet",
            ]
        )
        == 0
    )
    options = json.loads((out / "settings.json").read_text())["table"]
    assert (options["features"], options["condition"]) == (
        given["--features"],
        given["--condition"],
    )


def test_warnings_are_one_line(table: Path, tmp_path: Path) -> None:
    """In a process of its own: here every warning is an error."""
    columns = [
        "--data",
        str(table),
        "--features",
        "a",
        "b",
        "age",
        "--condition",
        "age",
        "--batch-size",
        "16",
        "--steps",
        "1",
    ]
    command = [
        sys.executable,
        "-m",
        "cclk",
        "train",
        *columns,
        "--out",
        str(tmp_path / "run"),
        "--quiet",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    assert lines
    assert all(line.startswith("cclk: warning: ") for line in lines), done.stderr
    assert (
        f"cclk: warning: {table}: the condition age is also an input (age): remove it"
        " from the features to ignore it" in lines
    )


def test_other_peoples_warnings_are_left_as_they_were() -> None:
    before = warnings.formatwarning
    assert main(["--help"]) == 0
    assert warnings.formatwarning is before
