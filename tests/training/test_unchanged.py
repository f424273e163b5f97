"""Training gives the numbers it gave when the committed results were made.

Settings and modules may be renamed, and code may move: `SETUPS` names settings as the command line
does, and `trained` alone turns a setup into a run. The numbers in `unchanged.json` must not change.
They hold on every processor, because the training is in float64. Check a setup on others with

    ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 python -m pytest FILE
    ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 python -m pytest FILE

If a change of the numbers is intended, `python tests/training/test_unchanged.py` computes them
anew; the commit then says why they change.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import cclk

STORED = Path(__file__).with_name("unchanged.json")
STEPS = 5
SEVERAL = "two processes"
COMMON: dict[str, Any] = {
    "seed": 3,
    "steps": STEPS,
    "log_every": 1,
    "threads": 1,
    "batch_size": 24,
    "temperature": 0.2,
    "lr": 1e-3,
    "head": "linear-bn",
    "projection": 16,
    "remove": "none",
}
NUMBERS: dict[str, Any] = {
    "features": ["f*"],
    "label": "label",
    "split": "split",
    "encoder": "mlp",
    "encoder_options": {"hidden": [24, 12]},
    "augmentation": "vectors",
}
IMAGES: dict[str, Any] = {"image": "path", "label": "label", "split": "split"}
LENET = IMAGES | {"encoder": "lenet5", "augmentation": "digits"}
RESNET = IMAGES | {
    "image_size": 16,
    "encoder": "resnet18",
    "encoder_options": {"stem": "cifar", "width": 4, "blocks": [1, 1, 1, 1]},
    "augmentation": "simclr",
}
SETUPS: dict[str, dict[str, Any]] = {
    "no condition": LENET | {"method": "infonce"},
    "rbf": LENET
    | {
        "method": "fair-cclk",
        "condition": ["t0", "t1", "t2"],
        "kernel": "rbf",
        "weights": "nw",
        "symmetric": False,
    },
    "laplacian": NUMBERS
    | {
        "method": "fair-cclk",
        "condition": ["dose"],
        "kernel": "laplacian",
        "weights": "loo",
        "solver": "exact",
        "optimizer": "sgd",
    },
    "two columns": NUMBERS
    | {"method": "fair-cclk", "condition": ["dose", "site"], "kernel": "auto", "head": "mlp"},
    "leakage penalty": NUMBERS
    | {
        "method": "fair-cclk",
        "condition": ["dose", "site"],
        "leakage_penalty": 3,
        "penalty_ramp": 0.5,
    },
    "label kept": NUMBERS
    | {
        "method": "fair-cclk",
        "condition": ["dose"],
        "kernel": "rbf",
        "keep": "label",
        "leakage_penalty": 3,
        "independence": "odds",
    },
    "cosine, local batches": NUMBERS
    | {
        "method": "weaksup-cclk",
        "condition": ["t*"],
        "standardize": False,
        "kernel": "cosine",
        "sampler": "local",
        "group": 4,
        "positives": "outer",
        "optimizer": "lars",
        "views": "cross",
    },
    "linear": NUMBERS
    | {
        "method": "weaksup-cclk",
        "condition": ["t*"],
        "standardize": False,
        "kernel": "linear",
        "solver": "features",
        "own_share": 0.2,
    },
    "polynomial": NUMBERS
    | {
        "method": "fair-cclk",
        "condition": ["t*"],
        "standardize": False,
        "kernel": "polynomial",
        "weights": "paper",
    },
    "nystrom": NUMBERS
    | {"method": "fair-cclk", "condition": ["dose"], "kernel": "rbf", "solver": "nystrom"},
    "delta": RESNET
    | {
        "method": "weaksup-cclk",
        "condition": ["site"],
        "kernel": "delta",
        "weights": "authors",
        "positives": "inner",
    },
    "hard negatives": NUMBERS
    | {"method": "hardneg-cclk", "kernel": "cosine", "optimizer": "adamw"},
    "hard negatives without a kernel": RESNET | {"method": "hardneg-infonce", "beta": 0.5},
    "clusters, fair": NUMBERS | {"method": "fair-infonce", "condition": ["dose"], "clusters": 3},
    "clusters, weakly supervised": NUMBERS
    | {"method": "weaksup-infonce", "condition": ["dose"], "clusters": 3},
    "defaults of a table": {
        "features": ["f*"],
        "condition": ["dose", "site"],
        "label": "label",
        "steps": STEPS,
        "batch_size": 32,
        "log_every": 1,
        "threads": 1,
    },
    SEVERAL: LENET | {"method": "fair-cclk", "condition": ["dose"], "kernel": "rbf", "devices": 2},
}
PRESETS: dict[str, tuple[dict[str, object], list[float]]] = {
    "digits-fair": ({"leakage_penalty": 0}, [5.311253, 5.151710]),
    "digits-infonce": ({"temperature": 0.1, "lr": 1e-3}, [4.007085, 3.119016]),
}
"""Settings that version 0.1.0 had in place of those of today's presets, and the losses of the first
two steps with seed 0.
"""


def trained(name: str, folder: Path) -> cclk.Run:
    """Train a setup into `folder / "run"`, from data that are written to `folder`."""
    setup = SETUPS[name] if name == "defaults of a table" else COMMON | SETUPS[name]
    arguments = ("image", "image_size", "features", "condition", "label", "split")
    columns = {key: setup[key] for key in arguments if key in setup}
    return cclk.train(
        write_table(folder),
        **columns,
        overrides={key: value for key, value in setup.items() if key not in columns}
        | {"data_dir": str(folder)},
        out=folder / "run",
        quiet=True,
    )


def write_table(folder: Path) -> Path:
    """A table with columns of numbers, images and conditions; every process writes the same."""
    path = folder / "table.csv"
    if path.exists():
        return path
    random, rows = np.random.RandomState(0), 96
    label, site = random.randint(0, 2, rows), random.randint(0, 3, rows)
    # Multiples of 1/256, whose float32 sums are exact in any order.
    dose = 4 * random.randint(0, 3, rows) + random.randint(0, 64, rows) / 64  # three groups
    traits = random.randint(0, 64, (rows, 3)) / 64
    features = random.randint(0, 64, (rows, 6)) / 64 + np.outer(label, [1, 0, 0, 1, 0, 0])
    features += np.outer(dose, [0, 0.25, 0, 0, 0.5, 0]) + np.outer(site, [0, 0, 0.5, 0, 0, 0])
    lines = ["path,split,label,site,dose,t0,t1,t2,f0,f1,f2,f3,f4,f5"]
    for row in range(rows):
        image = random.randint(0, 256, (8, 8, 3)).repeat(4, axis=0).repeat(4, axis=1)
        Image.fromarray(image.astype(np.uint8)).save(folder / f"{row}.png")
        part = "train" if row < 64 else "validation" if row < 80 else "test"
        numbers = (dose[row], *traits[row], *features[row])
        values = ",".join(f"{value:.8f}" for value in numbers)
        lines.append(f"{row}.png,{part},{label[row]},{'abc'[site[row]]},{values}")
    path.write_text("\n".join(lines) + "\n")
    return path


def losses(name: str, folder: Path) -> list[float]:
    """The losses of the first steps of a setup."""
    if name == SEVERAL:  # the second process is started with the command of the first
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        command = [sys.executable, __file__, name, str(folder)]
        subprocess.run(command, env=environment, check=True, timeout=120)
        run = cclk.Run(folder / "run")
    else:
        run = trained(name, folder)
    return [line["loss"] for line in run.metrics()]


@pytest.mark.parametrize("name", SETUPS)
@pytest.mark.usefixtures("float64")
def test_the_first_losses(name: str, tmp_path: Path) -> None:
    expected = json.loads(STORED.read_text())[name]
    assert len(expected) == STEPS
    assert losses(name, tmp_path) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("preset", PRESETS)
def test_the_first_steps_of_a_preset(preset: str, tmp_path: Path) -> None:
    changes, expected = PRESETS[preset]
    overrides = {"steps": len(expected), "log_every": 1, **changes}
    run = cclk.train(preset=preset, overrides=overrides, out=tmp_path / "run", quiet=True)
    assert [line["loss"] for line in run.metrics()] == pytest.approx(expected, rel=1e-4)


def main(arguments: list[str]) -> None:
    """Train one setup into a folder, or compute all numbers anew."""
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    if arguments:
        trained(arguments[0], Path(arguments[1]))
        return
    computed = {}
    for name in SETUPS:
        with TemporaryDirectory() as folder:
            computed[name] = losses(name, Path(folder))
    lines = [f" {json.dumps(name)}: {json.dumps(values)}" for name, values in computed.items()]
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
