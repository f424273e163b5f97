"""A sweep: knobs from text, settings that round-trip, and a small one from end to end."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cclk_paper.cli.main import main
from cclk_paper.experiments.sweep import DEFAULT, Knob, flat, sweep
from made_up_results import HerePool

from cclk.errors import SettingsError
from cclk.training.run_folder import RunFolder, load_dataset
from cclk.training.settings import load, presets


@pytest.mark.parametrize(
    ("text", "knob"),
    [
        ("fair-cclk:neighbors=1.5,3,6", Knob("fair-cclk", "neighbors", (1.5, 3, 6))),
        ("infonce:lr=3e-4", Knob("infonce", "lr", (3e-4,))),
        ("fair-infonce:clusters=3, 5", Knob("fair-infonce", "clusters", (3, 5))),
        ("infonce:train.batch-size=32,", Knob("infonce", "train.batch-size", (32,))),
        ("my.methods:MINE:lr=1,2", Knob("my.methods:MINE", "lr", (1, 2))),
    ],
)
def test_knobs(text: str, knob: Knob) -> None:
    found = Knob.read(text)
    assert found == knob
    assert [type(value) for value in found.values] == [type(value) for value in knob.values], (
        "a whole number stays one"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "infonce",
        "infonce:lr",
        "infonce:lr=",
        "infonce:=1",
        ":lr=1",
        "infonce:lr=a",
        "infonce:lr=1;2",
        "infonce:lr='1'",
        "infonce:lr=[1]",
        "lr=1",
    ],
)
def test_bad_knobs_are_one_line(text: str) -> None:
    with pytest.raises(
        SettingsError,
        match=(
            r"^['\"].*['\"] is not METHOD:SETTING=VALUE,VALUE,\.\.\. with numbers, such as"
            r" fair-cclk:"
        ),
    ) as raised:
        Knob.read(text)
    assert "\n" not in str(raised.value)
    with pytest.raises(SettingsError, match=r"unknown method 'info' \(did you mean 'infonce'\?\)"):
        Knob.read("info:lr=1")


def test_the_default_knobs_can_be_run() -> None:
    planned = sweep(
        "s", [Knob.read(text) for text in DEFAULT], {"dataset": "colordigits"}, 1, "validation"
    ).plan("cpu")
    assert {cell.settings["method"] for cell in planned.cells} == {
        "fair-cclk",
        "fair-infonce",
        "infonce",
    }


@pytest.mark.parametrize("preset", presets())
def test_settings_come_back_as_they_were(preset: str) -> None:
    whole = load(
        preset=preset, overrides={"seed": 3, "data_dir": "/data", "crop": None, "steps": 7}
    )
    told = flat(whole)
    assert not {"method", "seed"} & set(told)
    assert load(overrides={**told, "method": whole.method, "seed": 3}) == whole
    assert json.loads(json.dumps(told)) == told


def test_only_what_was_set_is_told() -> None:
    assert flat(
        load(overrides={"lr": 0.5, "dataset_options": {"segments": True}, "method": "infonce"})
    ) == {"lr": 0.5, "dataset_options": {"segments": True}}


def test_what_was_set_to_the_default_is_told_too() -> None:
    default = load().optim.lr
    assert flat(load(overrides={"lr": default})) == {"lr": default}, (
        "another version may have another default"
    )


def test_a_plan_has_a_cell_for_every_value() -> None:
    knobs = [
        Knob("fair-cclk", "neighbors", (1.5, 3)),
        Knob("infonce", "lr", (0.1,)),
        Knob("infonce", "epochs", (2,)),
    ]
    experiment = sweep("mine", knobs, {"lr": 1.0, "steps": 5}, 2, "validation")
    plan = experiment.plan("cpu")
    assert (experiment.name, plan.seeds, plan.split) == ("mine", 2, "validation")
    assert {"accuracy", "worst_r2"} <= set(plan.measures)
    assert [(cell.row, cell.x) for cell in plan.cells] == [
        ("fair-cclk (neighbors)", 1.5),
        ("fair-cclk (neighbors)", 3),
        ("infonce (lr)", 0.1),
        ("infonce (epochs)", 2),
    ]
    settings = [load(overrides=cell.settings) for cell in plan.cells]
    assert [
        (one.method, one.loss.kernel_options.get("neighbors", 3), one.optim.lr)
        for one in settings[:3]
    ] == [
        ("fair-cclk", 1.5, 1.0),
        ("fair-cclk", 3.0, 1.0),
        ("infonce", 3.0, 0.1),
    ]
    assert (settings[3].train.epochs, settings[3].train.steps) == (2, None), "the knob holds"
    assert sweep("mine", knobs, {}, 1, "test").plan("cpu").split == "test"


def test_batches_of_like_conditions_are_for_kernels_only() -> None:
    knobs = [
        Knob("fair-cclk", "neighbors", (3,)),
        Knob("fair-infonce", "lr", (0.1,)),
        Knob("infonce", "lr", (0.1,)),
    ]
    planned = sweep(
        "mine", knobs, {"sampler": "local", "group": 8, "steps": 5}, 1, "validation"
    ).plan("cpu")
    assert [
        (load(overrides=cell.settings).train.sampler, cell.settings["steps"])
        for cell in planned.cells
    ] == [("local", 5), ("auto", 5), ("auto", 5)]


@pytest.mark.parametrize(("holdout", "rows"), [((), 200), (("--holdout", "60"), 60)])
def test_a_preset_that_holds_nothing_out_leaves_something_to_measure_on(
    holdout: tuple[str, ...], rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "whole.toml"
    config.write_text(
        'method = "fair-cclk"\n[data]\ndataset = "colordigits"\nholdout = 0\n[train]\nsteps ='
        " 1\nbatch_size = 16\n"
    )
    monkeypatch.setattr("cclk_paper.cli.sweep.Pool", HerePool)
    folders = ["--results", str(tmp_path), "--runs", str(tmp_path / "runs")]
    assert (
        main(
            [
                "sweep",
                "--config",
                str(config),
                "--over",
                "infonce:lr=1e-3",
                *holdout,
                *folders,
                "--quiet",
            ]
        )
        == 0
    )
    (run,) = (tmp_path / "runs").glob("*/*/settings.json")
    assert len(load_dataset(RunFolder(run.parent).settings).validation) == rows
    assert main(["sweep", "--config", str(config), "--holdout", "0", *folders]) == 2, (
        "told before anything runs"
    )


def test_a_sweep_is_not_lost_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """More values go on with it; others want another name; data that changed are run anew."""
    monkeypatch.setattr("cclk_paper.cli.sweep.Pool", HerePool)
    table, random = tmp_path / "table.npz", np.random.default_rng(0)
    folders = ["--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs"), "--quiet"]
    network = [
        "--encoder",
        "mlp",
        "--augmentation",
        "vectors",
        "--batch-size",
        "16",
        "--steps",
        "1",
    ]
    begin = ["sweep", "--dataset", str(table), *network, *folders]
    path = tmp_path / "results" / "sweep.json"

    def keys(*values: str) -> list[str]:
        assert main([*begin, "--over", f"infonce:lr={','.join(values)}"]) == 0
        return [
            run["key"] for cell in json.loads(path.read_text())["cells"] for run in cell["runs"]
        ]

    def draw() -> None:
        x, y = random.normal(size=(90, 3)).astype(np.float32), np.arange(90) % 2
        np.savez(
            table,
            x=x,
            y=y,
            condition=random.permutation(90) % 4,  # categories can be swept over, too
            split=np.repeat(["train", "validation", "test"], 30),
        )

    draw()
    first = keys("1e-3")
    assert keys("1e-3", "1e-2")[:1] == first
    before = path.read_text()
    assert main([*begin, "--over", "infonce:lr=1e-3"]) == 2
    assert (
        capsys.readouterr().err
        == f"cclk: {path} contains another sweep: keep both with --name, or delete it\n"
    )
    assert path.read_text() == before
    draw()
    assert not set(keys("1e-3", "1e-2")) & set(first)
    assert main([*begin, "--test", "--name", "on-test", "--over", "infonce:lr=1e-3"]) == 0, (
        "rows held out by the file itself stay so"
    )
    for name in ("fair", "fair-smoke", "weaksup-paper"):
        assert main([*begin, "--name", name]) == 2


def test_a_wrong_value_is_told_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = ["--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")]
    for arguments, told in (
        (
            ["--over", "infonce:lr=1,-1"],
            "cclk: settings: optim.lr: input should be greater than 0, not -1",
        ),
        (
            ["--over", "infonce:tempurature=1"],
            (
                "cclk: unknown setting 'tempurature' (did you mean 'temperature'?): `cclk train"
                " --help-all` lists them"
            ),
        ),
        (
            ["--over", "info:lr=1"],
            "cclk: unknown method 'info' (did you mean 'infonce'?): choose infonce, ",
        ),
        (["--seeds", "0"], "cclk: --seeds is 0: it must be at least 1"),
        (["--workers", "0"], "cclk: --workers is 0: it must be at least 1"),
        (["--name", "fair"], "cclk: --name fair is an experiment of this package: choose another"),
        (
            ["--preset", "digit-fair"],
            "cclk: unknown preset 'digit-fair' (did you mean 'digits-fair'?)",
        ),
    ):
        assert main(["sweep", *arguments, *folders]) == 2
        error = capsys.readouterr().err
        assert error.startswith(told)
        assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_small_sweep_from_end_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Really trained and measured; the second time nothing is, and the files are the same."""
    arguments = [
        "sweep",
        "--preset",
        "digits-fair",
        "--over",
        "fair-cclk:neighbors=1.5",
        "--over",
        "infonce:temperature=0.2",
        "--steps",
        "2",
        "--batch-size",
        "32",
        "--name",
        "frontier",
        "--results",
        str(tmp_path / "results"),
        "--runs",
        str(tmp_path / "runs"),
    ]
    monkeypatch.setattr("cclk_paper.cli.sweep.Pool", HerePool)
    assert main(arguments) == 0
    output, error = capsys.readouterr()
    assert "The frontier of accuracy and leakage" in output
    assert "written:" in error
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == [
        "frontier.json",
        "frontier.svg",
    ]
    content = json.loads((tmp_path / "results" / "frontier.json").read_text())
    assert (content["experiment"], content["split"], content["seeds"]) == (
        "frontier",
        "validation",
        [0],
    )
    assert [(cell["row"], cell["x"], len(cell["runs"])) for cell in content["cells"]] == [
        ("fair-cclk (neighbors)", 1.5, 1),
        ("infonce (temperature)", 0.2, 1),
    ]
    for cell in content["cells"]:
        assert (cell["settings"]["steps"], cell["settings"]["batch_size"]) == (2, 32)
        assert set(content["measures"]) <= set(cell["runs"][0]["measures"])
    before = {path.name: path.read_bytes() for path in (tmp_path / "results").iterdir()}
    assert b"<svg" in before["frontier.svg"]

    assert main([*arguments, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert {path.name: path.read_bytes() for path in (tmp_path / "results").iterdir()} == before
