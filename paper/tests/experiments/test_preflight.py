"""What is checked before a grid starts: missing data are told once, and long runs without a GPU
are not started by accident.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from cclk_paper.cli.main import main
from cclk_paper.experiments import Cell, Claim, Experiment, pending
from cclk_paper.experiments.preflight import check_data, hours_without_gpu
from made_up_results import TINY, FakePool, HerePool, made

from cclk import CclkWarning

LONG = Cell("InfoNCE", "digits", {"method": "infonce", "encoder": "resnet50", "steps": 100_000_000})
SHORT = Cell("InfoNCE", "digits", {"method": "infonce"})


class NoPool:
    """No process may be started."""

    def __init__(self, *_: object) -> None:
        pytest.fail("a pool was made")


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    return ["--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")]


def test_missing_data_are_listed_once_and_nothing_is_started(
    folders: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("cclk_paper.cli.reproduce.Pool", NoPool)
    data = tmp_path / "data"
    assert (
        main(
            [
                "reproduce",
                "weaksup",
                "weaksup-kernels",
                "--size",
                "paper",
                "--data-dir",
                str(data),
                *folders,
            ]
        )
        == 2
    )
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "cclk: 4 datasets or feature files are missing, and nothing was started:"
    for line, words in zip(
        lines[1:],
        ("UT-Zappos50K", "CUB-200-2011", "imagenet-100-clip.npz", "ImageNet-100"),
        strict=True,
    ):
        assert line.startswith("cclk: ")
        assert words in line
        assert "get " in line or "make it with cclk-paper features" in line, "what to do"
    assert list(tmp_path.iterdir()) == []


def test_one_missing_dataset_is_one_line(
    folders: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("cclk_paper.cli.reproduce.Pool", NoPool)
    arguments = [
        "reproduce",
        "weaksup",
        "--only",
        "CUB",
        "--size",
        "paper",
        "--data-dir",
        str(tmp_path),
    ]
    assert main([*arguments, *folders]) == 2
    told = capsys.readouterr().err
    assert told.startswith("cclk: CUB-200-2011 is not complete")
    assert told.count("\n") == 1


def use(monkeypatch: pytest.MonkeyPatch, *cells: Cell, **options: Any) -> Experiment:
    experiment = made(*cells, **options)
    monkeypatch.setattr("cclk_paper.cli.reproduce.experiment", lambda name: experiment)
    return experiment


def test_what_is_finished_needs_no_data(
    folders: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "cclk_paper.cli.reproduce.Pool",
        lambda workers: FakePool(lambda job: {"accuracy": 0.5, "knn": 0.25}),
    )
    experiment = use(monkeypatch, SHORT, seeds=1)
    assert len(pending(experiment, "cpu", results_folder=tmp_path / "results")) == 1
    assert main(["reproduce", "made-up", *folders, "--quiet"]) == 0
    assert pending(experiment, "cpu", results_folder=tmp_path / "results") == []
    monkeypatch.setattr(
        "cclk_paper.experiments.preflight.load_dataset",
        lambda settings: pytest.fail("data were loaded"),
    )
    assert main(["reproduce", "made-up", *folders, "--quiet"]) == 0


def test_long_runs_without_a_gpu_have_to_be_confirmed(
    folders: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    use(monkeypatch, LONG)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("cclk_paper.cli.reproduce.Pool", NoPool)
    command = ["reproduce", "made-up", "--size", "paper", *folders]
    assert main(command) == 2
    told = capsys.readouterr().err
    assert told.startswith("cclk: without a GPU, 2 runs at --size paper take about ")
    assert (
        "years on this machine: use a machine with a GPU, choose --size cpu, or add --yes" in told
    )
    assert told.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
    with (
        pytest.warns(CclkWarning, match="without a GPU, 2 runs at --size paper take about"),
        pytest.raises(pytest.fail.Exception),
    ):
        main([*command, "--yes"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(pytest.fail.Exception, match="a pool was made"):
        main(command)


def test_short_runs_say_how_long_they_take(
    folders: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, SHORT, seeds=1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("cclk_paper.cli.reproduce.Pool", HerePool)
    assert main(["reproduce", "made-up", "--size", "paper", *folders]) == 0
    assert (
        "without a GPU, 1 run at --size paper take about 0 hours on this machine"
        in capsys.readouterr().err
    )


def test_the_estimate_grows_with_the_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        "cclk_paper.experiments.preflight._seconds_per_image", lambda settings, shape: 1.0
    )

    def hours(**settings: object) -> float:
        common = {name: value for name, value in TINY.items() if name != "steps"}
        jobs = pending(
            made(Cell("a", "b", settings), seeds=3, common=common, train_on_holdout=False),
            "cpu",
            results_folder=tmp_path,
        )
        return hours_without_gpu(jobs, check_data(jobs))

    assert hours(steps=10) == pytest.approx(3 * 10 * 32 * 2 / 3600)
    assert hours(epochs=2) == pytest.approx(3 * 2 * (1200 // 32) * 32 * 2 / 3600)
    assert hours(epochs=2, holdout=0) == pytest.approx(3 * 2 * (1400 // 32) * 32 * 2 / 3600)


def test_a_smoke_run_says_that_it_proves_nothing(
    folders: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = (
        Cell("InfoNCE", "digits", {"method": "infonce"}),
        Cell("Fair", "digits", {"method": "fair-cclk"}),
    )
    use(monkeypatch, *cells, claims=(Claim("accuracy", "Fair", ("InfoNCE",)),))
    monkeypatch.setattr(
        "cclk_paper.cli.reproduce.Pool",
        lambda workers: FakePool(lambda job: {"accuracy": 0.5, "knn": 0.25}),
    )
    for size in ("smoke", "cpu"):
        assert (
            main(
                [
                    "reproduce",
                    "made-up",
                    "--size",
                    size,
                    "--results",
                    f"{folders[1]}-{size}",
                    *folders[2:],
                ]
            )
            == 0
        )
        shown = capsys.readouterr().out
        assert ("A smoke run shows only that everything runs" in shown) == (size == "smoke")
        assert ("cannot be told" in shown) == (size == "cpu")
