"""Every experiment of the paper from end to end, as a user runs it: small data, a few steps,
every method, kernel and cluster count.
"""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cclk_paper.cli.main import main
from cclk_paper.experiments import EXPERIMENTS, experiment

from cclk.registry import METHODS
from cclk.training.settings import load

CPU_SECONDS = 300
"""Far above what it takes, for other tests run beside it: so that a grid does not grow unnoticed
beyond 3 minutes of two cores.
"""


def test_all_experiments_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "results"
    command = [
        sys.executable,
        "-m",
        "cclk_paper",
        "reproduce",
        "all",
        "--size",
        "smoke",
        "--workers",
        "2",
        "--quiet",
    ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [*command, "--results", str(folder), "--runs", str(tmp_path / "runs")],
        capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime - before.ru_utime < CPU_SECONDS

    found = {path.name: json.loads(path.read_text()) for path in folder.iterdir()}
    assert set(found) == {f"{name}-smoke.json" for name in EXPERIMENTS}
    ran: set[tuple[Any, ...]] = set()
    for name in EXPERIMENTS:
        content = found[f"{name}-smoke.json"]
        plan = experiment(name).plan("smoke")
        assert content["command"] == f"cclk-paper reproduce {name} --size smoke"
        assert len(content.get("cells", [])) == len(plan.cells)
        for cell in content.get("cells", []):
            assert len(cell["runs"]) == plan.seeds
            assert len(cell["tuning"]) == (
                len(cell["choices"]) if len(cell["choices"]) > 1 else 0
            ), "each choice was tried"
            assert (cell["selected"] is not None) == bool(cell["choices"])
            for run in [*cell["tuning"], *cell["runs"]]:
                assert set(plan.measures) <= set(run["measures"])
                assert all(math.isfinite(value) for value in run["measures"].values())
                assert 0 < run["measures"]["accuracy"] <= 1
            if plan.watch:
                assert all(run["curve"] for run in cell["runs"])
            chosen = cell["choices"][cell["selected"]] if cell["choices"] else {}
            settings = load(overrides={**content["common"], **cell["settings"], **chosen})
            ran |= {
                ("method", settings.method),
                (settings.method, "kernel", settings.loss.kernel),
                (settings.method, settings.loss.clusters),
            }
    assert {("method", method) for method in METHODS if method != "y-aware"} <= ran
    for method, kernels in (
        ("weaksup-cclk", ("rbf", "laplacian", "linear", "cosine")),
        ("fair-cclk", ("polynomial", "laplacian", "cosine")),
        ("hardneg-cclk", ("linear", "rbf", "polynomial")),
    ):
        assert {(method, "kernel", kernel) for kernel in kernels} <= ran
    assert ran & {("fair-cclk", "kernel", "rbf"), ("fair-cclk", "kernel", "auto")}, (
        "auto is RBF for numbers such as colors"
    )
    assert {("fair-infonce", count) for count in (3, 5, 10, 15, 20)} <= ran

    # What a smoke test leaves is not for the documentation; as if it were, all of it is rendered.
    assert main(["results", str(folder)]) == 2
    assert "contains no results at size cpu or paper" in capsys.readouterr().err
    shown = tmp_path / "shown"
    shown.mkdir()
    for content in found.values():
        (shown / f"{content['experiment']}.json").write_text(json.dumps(content | {"size": "cpu"}))
    page = tmp_path / "docs" / "results.md"
    page.parent.mkdir()
    assert main(["results", str(shown), "--out", str(page), "--quiet"]) == 0
    text = page.read_text()
    for name in EXPERIMENTS:
        assert f"<!-- {name} -->\n## {experiment(name).title}\n" in text
        for cell in experiment(name).plan("smoke").cells:
            assert f"| {cell.row} | " in text
    assert "| - |" not in text, "no run is missing"
    assert "Selected on the validation split:" in text
    linked = {part.split(")")[0] for part in text.split("](figures/")[1:]}
    assert linked == {path.name for path in (page.parent / "figures").iterdir()}
    assert {
        "weights.svg",
        "fair-1.svg",
        "fair-2.svg",
        "hardneg.svg",
        "insufficient.svg",
        "weaksup-bandwidth.svg",
    } <= linked
