"""A run folder that an earlier version wrote can be opened, evaluated, embedded and resumed.

`stored_run/` holds the run, a table and, in `expected.json`, what the run gave when it was made. If
the format of a run folder changes on purpose, `python tests/training/test_stored_run.py` makes the
folder anew; it keeps `expected.json`, because a new format must not change the numbers.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

import cclk

STORED = Path(__file__).with_name("stored_run")
STEPS, SAVED = 8, 4
TABLE, RUN, EXPECTED = "table.csv", "run", "expected.json"


def make() -> None:
    """Make `stored_run/` anew, except `expected.json`."""
    torch.set_num_threads(1)
    STORED.mkdir(exist_ok=True)
    os.chdir(STORED)
    write_table(Path(TABLE))
    shutil.rmtree(RUN, ignore_errors=True)
    cclk.train(
        dataset=TABLE,  # a relative path, so that the folder can move
        method="fair-cclk",
        seed=0,
        encoder="mlp",
        steps=STEPS,
        batch_size=32,
        lr=1e-3,
        overrides={
            "dataset_options": {
                "features": ["f*"],
                "condition": ["age", "site"],
                "label": "label",
                "split": "split",
            },
            "augmentation": "vectors",
            "encoder_options": {"hidden": [16, 8]},
            "projection": 8,
            "leakage_penalty": 2,
            "threads": 1,
            "log_every": 1,
            "checkpoint_every": SAVED,
        },
        out=RUN,
        quiet=True,
    )
    Path(RUN, ".lock").unlink(missing_ok=True)


def write_table(path: Path) -> None:
    """160 rows of numbers, of which the label and both columns of the condition can be read."""
    random, rows = np.random.RandomState(0), 160
    label, site = random.randint(0, 2, rows), random.randint(0, 3, rows)
    age = random.randint(20, 84, rows)
    features = random.randint(0, 64, (rows, 5)) / 64 + np.outer(label, [1, 0, 0, 0, 0])
    features += np.outer(age / 32, [0, 1, 0, 0, 0]) + np.outer(site, [0, 0, 1, 0, 0])
    lines = ["split,label,age,site,f0,f1,f2,f3,f4"]
    for row in range(rows):
        part = "train" if row < 64 else "validation" if row < 96 else "test"
        numbers = ",".join(f"{value:.6f}" for value in features[row])
        lines.append(f"{part},{label[row]},{age[row]},{'abc'[site[row]]},{numbers}")
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> cclk.Run:
    """The stored run, in a copy."""
    monkeypatch.chdir(shutil.copytree(STORED, tmp_path / "copy"))
    return cclk.Run(RUN)


def expected(name: str) -> npt.NDArray[np.float64]:
    return np.array(json.loads((STORED / EXPECTED).read_text())[name])


def embedded(run: cclk.Run) -> npt.NDArray[np.float32]:
    return run.embed(TABLE, quiet=True)


def test_it_is_small() -> None:
    sizes = [path.stat().st_size for path in STORED.rglob("*") if path.is_file()]
    assert sum(sizes) < 100 * 1024


def test_it_opens(run: cclk.Run) -> None:
    assert run.settings.method == "fair-cclk"
    assert "not evaluated" in str(run)
    assert [column.name for column in run.dataset.columns] == ["age", "site"]
    losses = [line["loss"] for line in run.metrics()]
    np.testing.assert_allclose(losses, expected("losses"), rtol=1e-5)


def test_it_embeds(run: cclk.Run) -> None:
    np.testing.assert_allclose(embedded(run)[-8:], expected("embedding"), rtol=1e-5, atol=1e-5)


def test_it_is_evaluated(run: cclk.Run) -> None:
    """To few digits only, because probes are fitted until they hardly improve."""
    evaluation = run.evaluate(bootstrap=20, baselines=False, quiet=True)
    leakages = [evaluation.leakage[name].worst for name in ("age", "site")]
    accuracies = [evaluation.accuracy.linear, evaluation.accuracy.knn]
    found = [estimate.value for estimate in (*accuracies, *leakages) if estimate is not None]
    np.testing.assert_allclose(found, expected("evaluation"), atol=0.02)
    assert cclk.Run(RUN).evaluation == evaluation


def test_it_resumes(run: cclk.Run) -> None:
    for path in (run.folder / "checkpoints").glob(f"step-*{STEPS}.*"):
        path.unlink()
    (run.folder / "encoder.safetensors").unlink()
    assert "not finished" in str(cclk.Run(RUN))
    resumed = cclk.Run(RUN).resume(quiet=True)
    assert [line["step"] for line in resumed.metrics()] == list(range(1, STEPS + 1))
    np.testing.assert_allclose(embedded(resumed)[-8:], expected("embedding"), rtol=1e-5, atol=1e-5)
    losses = [line["loss"] for line in resumed.metrics()]
    np.testing.assert_allclose(losses, expected("losses"), rtol=1e-5)


if __name__ == "__main__":
    make()
