"""From a table of one's own to a measured encoder, on the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cclk import CclkWarning
from cclk.cli.main import main


@pytest.fixture
def table(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    lines = ["path,age,site,traits,kind,s_1,s_2"]
    for row in range(90):
        age, kind = random.normal(50, 10), row % 2
        Image.fromarray(random.integers(0, 255, (12, 12, 3), np.uint8)).save(
            tmp_path / f"{row}.png"
        )
        lines.append(
            f"{row}.png,{age:.2f},{'AB'[row % 3 == 0]},{'x;y' if row % 5 else 'y'},{kind},"
            f"{kind + random.normal():.3f},{age / 9:.3f}"
        )
    path = tmp_path / "people.csv"
    path.write_text("\n".join(lines))
    return path


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def test_images_with_three_conditions(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    columns = [
        "--condition",
        "age",
        "--condition",
        "site",
        "--condition",
        "traits:attributes",
        "--label",
        "kind",
    ]
    code = run(
        "train",
        "--data",
        table,
        "--image",
        "path",
        *columns,
        "--data-dir",
        tmp_path,
        "--encoder",
        "lenet5",
        "--augmentation",
        "digits",
        "--steps",
        2,
        "--batch-size",
        16,
        "--out",
        out,
    )
    assert code == 0
    told = capsys.readouterr().err
    assert told.startswith(
        "fair-cclk on people removes age, site, traits (remove medium: penalty 5, 16 features, no"
        " noise)\n"
    )
    assert "  penalty 0." in told
    assert "leakage" not in told, "the penalty of a batch is another measure"
    assert "age is a number" in told
    assert "site is one of 2 categories (A, B); traits is a set of 2 attributes (x, y)" in told
    assert run("evaluate", out, "--bootstrap", 5) == 0
    tree = json.loads((out / "evaluation.json").read_text())
    columns = tree["encoder"]["leakage"]["columns"]
    assert set(columns) == {"age", "site", "traits"}
    assert "accuracy" not in columns["age"]
    assert "linear" in columns["site"]["accuracy"]
    assert set(tree["baselines"]) == {"untrained", "inputs"}
    assert set(tree["baselines"]["inputs"]) == {"accuracy", "leakage"}
    told = capsys.readouterr().out
    sentence = r"\nage: the worst of \d probes reads R² \S+ \(untrained \S+, inputs \S+\): \w"
    assert re.search(sentence, told)
    cost = r"\na linear probe predicts the kind with \S+ % \(untrained \S+ %, inputs \S+ %\): \w"
    assert re.search(cost, told)
    assert run("report", out, "--out", tmp_path / "page.html", "--quiet") == 0


def test_names_with_brackets_are_told_as_they_are(
    table: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    table.write_text(table.read_text().replace(",A,", ",[/a],").replace(",kind,", ",kind [k],"))
    given = (
        "--data",
        table,
        "--features",
        "s_*",
        "--label",
        "kind [k]",
        "--steps",
        2,
        "--batch-size",
        16,
    )
    assert run("train", *given, "--condition", "site", "--out", tmp_path / "site") == 0
    assert "site is one of 2 categories (B, [/a])" in capsys.readouterr().err
    assert (
        run(
            "train",
            *given,
            "--condition",
            "age",
            "--precision",
            "bfloat16",
            "--out",
            tmp_path / "age",
            "--quiet",
        )
        == 0
    )
    assert capsys.readouterr() == ("", "")
    assert not caplog.records
    assert run("evaluate", tmp_path / "site", tmp_path / "age", "--bootstrap", 2) == 0
    told = capsys.readouterr().out
    assert "kind [k]   kNN        leakage of" in told
    assert " site " in told
    assert " age " in told


def test_numbers_choose_a_network_for_numbers(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    code = run(
        "train",
        "--data",
        table,
        "--features",
        "s_*",
        "--condition",
        "age",
        "--steps",
        2,
        "--batch-size",
        16,
        "--out",
        out,
        "--quiet",
    )
    assert code == 0
    settings = json.loads((out / "settings.json").read_text())
    assert (settings["model"]["encoder"], settings["augment"]["augmentation"]) == ("mlp", "vectors")
    assert settings["table"]["condition"] == ["age"]
    assert run("evaluate", out, "--bootstrap", 2) == 0
    assert "leakage of" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::cclk.CclkWarning")  # a batch of 16 has few hard negatives
@pytest.mark.parametrize("method", ["infonce", "hardneg-infonce", "hardneg-cclk"])
def test_methods_without_a_condition(
    method: str, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = [
        "--data",
        table,
        "--features",
        "s_*",
        "--label",
        "kind",
        "--method",
        method,
        "--steps",
        2,
        "--batch-size",
        16,
    ]
    assert run("check", *columns) == 0
    assert "no condition" in capsys.readouterr().out
    out = tmp_path / "run"
    assert run("train", *columns, "--out", out) == 0
    assert "no condition" in capsys.readouterr().err
    assert run("evaluate", out, "--bootstrap", 2) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("features    kind")
    assert "R²" not in shown
    found = json.loads((out / "evaluation.json").read_text())
    assert set(found["encoder"]) == {"accuracy", "how"}
    assert run("report", out, "--out", tmp_path / "page.html", "--quiet") == 0
    page = (tmp_path / "page.html").read_text().partition("<script")[0]
    assert f"The features of {out.name} predict the kind with" in page
    assert "leak" not in page.lower().replace("leakage_penalty", "")
    assert (
        "condition"
        not in page.replace("condition_scale", "")
        .replace("no condition", "")
        .partition("Evaluation")[2]
        .partition("<footer")[0]
    )


def test_a_run_without_a_condition_beside_one_with(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = [
        "--data",
        table,
        "--features",
        "s_*",
        "--label",
        "kind",
        "--steps",
        2,
        "--batch-size",
        16,
        "--quiet",
    ]
    assert run("train", *common, "--method", "infonce", "--out", tmp_path / "plain") == 0
    assert run("train", *common, "--condition", "age", "--out", tmp_path / "fair") == 0
    folders = [tmp_path / "plain", tmp_path / "fair"]
    assert run("evaluate", *folders, "--bootstrap", 2) == 0
    assert "age         R²" in capsys.readouterr().out
    assert run("report", *folders, "--out", tmp_path / "page.html", "--quiet") == 0
    assert "leakage of the age" in (tmp_path / "page.html").read_text()


def test_nothing_to_measure(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = [
        "--data",
        table,
        "--features",
        "s_*",
        "--method",
        "infonce",
        "--steps",
        1,
        "--batch-size",
        16,
    ]
    assert run("check", *columns) == 0
    assert "without a condition either, nothing can be measured" in capsys.readouterr().out
    assert run("train", *columns, "--out", tmp_path / "run", "--quiet") == 0
    assert run("evaluate", tmp_path / "run") == 2
    assert "has neither a label nor a condition to evaluate" in capsys.readouterr().err
    assert run("report", tmp_path / "run", "--out", tmp_path / "page.html", "--quiet") == 0


def test_the_default_batch_fits_a_small_table(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """90 rows, of which 62 are for training."""
    columns = ["--data", table, "--features", "s_*", "--condition", "age", "--steps", 3]
    told = "batch_size is 32 instead of 256: people has 62 training rows"
    assert run("check", *columns) == 0
    shown = capsys.readouterr().out
    assert f"?? {told}" in shown
    assert "in a batch of 32 " in shown
    out = tmp_path / "run"
    with pytest.warns(CclkWarning) as caught:
        assert run("train", *columns, "--out", out, "--quiet") == 0
    assert str(caught[0].message) == told
    assert json.loads((out / "settings.json").read_text())["train"]["batch_size"] == 32
    (out / "encoder.safetensors").unlink()
    assert run("train", "--resume", "--out", out, "--quiet") == 0, "without another word"
    for command in ("check", "train"):
        code = run(
            command,
            *columns,
            "--batch-size",
            64,
            *(["--out", tmp_path / "other"] if command == "train" else []),
        )
        assert code == {"check": 1, "train": 2}[command]
    assert "train.batch_size is 64, but people has 62 training rows" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_the_default_batch_leaves_room_for_a_queue(table: Path, tmp_path: Path) -> None:
    columns = [
        "--data",
        table,
        "--features",
        "s_*",
        "--condition",
        "age",
        "--steps",
        1,
        "--out",
        tmp_path / "run",
        "--quiet",
    ]
    with pytest.warns(
        CclkWarning,
        match="batch_size is 16 instead of 256: people has 62 training rows and a queue of 40",
    ):
        assert run("train", *columns, "--queue", 40) == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--condition", "age"], "condition is a column of a table: pass the table too"),
        (["--data", "{}", "--dataset", "colordigits"], "data and dataset both name"),
        (
            ["--data", "{}", "--features", "s_*"],
            (
                "fair-cclk needs a condition: add a condition among path, age, site,"
                " traits, kind, s_1, s_2, or choose a method that needs none (infonce,"
                " hardneg-infonce, hardneg-cclk)"
            ),
        ),
        (
            [
                "--data",
                "{}",
                "--features",
                "s_*",
                "--method",
                "infonce",
                "--sampler",
                "local",
                "--batch-size",
                "16",
            ],
            "has no condition",
        ),
        (["--data", "{}", "--features", "s_*", "--condition", "height"], "no column 'height'"),
        (
            ["--data", "{}", "--image", "path", "--condition", "age", "--image-size", "20000"],
            "image size is 20000: it must be an integer from 1 to 1024",
        ),
        (
            [
                "--data={}",
                "--features=s_*",
                "--condition=age",
                "--batch-size=16",
                "--method=fair-infonce",
                "--clusters=1000",
            ],
            "clusters is 1000: it must be from 1 to the 62 rows",
        ),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], told: str, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run(
            "train",
            *(text.replace("{}", str(table)) for text in arguments),
            "--out",
            tmp_path / "run",
        )
        == 2
    )
    error = capsys.readouterr().err
    assert told in error
    assert len(error.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()
