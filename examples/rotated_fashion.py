"""Images with a continuous nuisance: garments photographed at any angle, and an encoder told to
ignore the angle.

`python -m examples.rotated_fashion --out DIR` makes of Fashion-MNIST what a user has,
DIR/images/*.png and DIR/rotated.csv with the columns path, angle, garment and split, and then does
what a user does: `cclk train` and `cclk evaluate`, for InfoNCE and for Fair-CCLK on the same
images. Each method first chooses among as many settings on the validation split, and is measured on
the test split in the end. No view is ever turned, so that only the condition can remove the angle.
`--images-only` stops after the images.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from cclk.training.run import Run
from PIL import Image

import cclk
from cclk.cli.main import main as run_cclk
from cclk.data.dataset import Dataset
from cclk.data.randomness import generator
from cclk.data.splits import stratified_order
from cclk.datasets import load
from cclk.errors import DataError
from cclk.evaluation import read_evaluation
from cclk.experiments.measure import measure
from cclk.experiments.plan import score
from cclk.files import replace_text

ANGLE = 60.0
"""Degrees: angles are drawn evenly from -ANGLE to ANGLE."""
COLUMNS = (
    "--image",
    "path",
    "--gray",
    "--condition",
    "angle",
    "--label",
    "garment",
    "--split",
    "split",
)
Choice = dict[str, str]
_SHARED: list[Choice] = [
    {"lr": "3e-3", "temperature": "0.2", "head": "linear-bn"},
    {"lr": "6e-3", "temperature": "0.5", "head": "linear-bn"},
    {"lr": "6e-3", "temperature": "0.5", "head": "none"},
]
_CLOSE = {"weights": "nw", "sampler": "local", "group": "32"}
CHOICES: dict[str, list[Choice]] = {
    "infonce": _SHARED,
    "fair-cclk": [choice | _CLOSE for choice in _SHARED],
}
"""What each method may choose among: the same rates, temperatures and heads, since these too
decide how much of the angle is kept.
"""


def make_images(out: Path, garments: Dataset, rows: int, seed: int = 0) -> Path:
    """Turn `rows` garments by angles of their own, write them as PNG files, and give back the
    CSV file that tells about them.
    """
    if not 20 <= rows <= len(garments.train):
        raise SystemExit(
            f"--rows is {rows}: {garments.name} has {len(garments.train):,} images to take from,"
            " and fewer than 20 are too few"
        )
    random = generator(seed, "rotated fashion")
    chosen = np.sort(random.permutation(len(garments.train))[:rows])
    angles = random.uniform(-ANGLE, ANGLE, rows)
    labels = garments.train.y.numpy()[chosen]
    split = np.empty(rows, dtype=object)
    for name, part in zip(
        ("train", "validation", "test"),
        np.split(stratified_order(labels, seed), _ends(rows)),
        strict=True,
    ):
        split[part] = name
    (out / "images").mkdir(parents=True, exist_ok=True)
    table = out / "rotated.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(("path", "angle", "garment", "split"))
        for number, row in enumerate(chosen):
            path = f"images/{number:05d}.png"
            turned(garments.train.x[int(row)][0].numpy(), angles[number]).save(out / path)
            lines.writerow(
                (path, f"{angles[number]:.2f}", garments.classes[labels[number]], split[number])
            )
    return table


def _ends(rows: int) -> list[int]:
    """Where training and validation rows end: 70 : 15 : 15."""
    return [round(0.7 * rows), round(0.85 * rows)]


def turned(image: npt.NDArray[np.uint8], angle: float) -> Image.Image:
    """The image on a black ground wide enough that no corner is lost."""
    inner = image[2:-2, 2:-2]  # the margin that the dataset comes with
    side = math.ceil(inner.shape[0] * math.sqrt(2))
    margin = (side - inner.shape[0]) // 2
    return Image.fromarray(np.pad(inner, margin)).rotate(angle, resample=Image.Resampling.BILINEAR)


def train(table: Path, method: str, choice: Choice, budget: Choice, seed: int, folder: Path) -> Run:
    """What `cclk train` does with these options; a run that is there already is not trained
    again, if it had the same budget.
    """
    options = [part for name, value in (choice | budget).items() for part in (f"--{name}", value)]
    if not (folder / "encoder.safetensors").exists():
        _cclk(
            "train",
            "--data",
            str(table),
            *COLUMNS,
            "--method",
            method,
            *options,
            "--seed",
            str(seed),
            "--out",
            str(folder),
            "--quiet",
        )
    run = Run(folder)
    had = {"steps": run.settings.train.steps, "batch-size": run.settings.train.batch_size}
    for name, value in had.items():
        if str(value) != budget[name]:
            raise SystemExit(
                f"{folder} was trained with --{name} {value}, not {budget[name]}: choose another"
                " --out"
            )
    return run


def _cclk(*arguments: str) -> None:
    code = run_cclk(list(arguments))
    if code:
        raise SystemExit(code)


def choose(table: Path, method: str, budget: Choice, runs: Path) -> list[dict[str, Any]]:
    """Every choice of a method with what it gave on the validation split, one seed; the best
    comes first.
    """
    tried = []
    for number, choice in enumerate(CHOICES[method]):
        run = train(table, method, choice, budget, 0, runs / f"{method}-choice{number}-seed0")
        found = measure(run.dataset, run.embed, ("accuracy", "nonlinear_r2"), "validation", 0)
        tried.append(
            {
                "number": number,
                "settings": choice,
                "validation": {name: round(value, 4) for name, value in found.items()},
            }
        )
        print(
            f"{method} {choice}: on validation, accuracy {found['accuracy']:.3f}, angle R^2"
            f" {found['nonlinear_r2']:.3f}",
            flush=True,
        )
    return sorted(tried, key=lambda one: -score(one["validation"]))


def work(table: Path, budget: Choice, seeds: int, runs: Path) -> dict[str, Any]:
    """Both methods: choose, train with every seed, evaluate on the test split."""
    found: dict[str, Any] = {}
    for method in CHOICES:
        tried = choose(table, method, budget, runs)
        evaluations = []
        for seed in range(seeds):
            best = tried[0]
            run = train(
                table,
                method,
                best["settings"],
                budget,
                seed,
                runs / f"{method}-choice{best['number']}-seed{seed}",
            )
            _cclk("evaluate", str(run.folder), "--quiet")
            evaluation = read_evaluation(run.folder)
            assert evaluation is not None
            evaluations.append(evaluation.to_json())
        found[method] = {
            "settings": tried[0]["settings"],
            "tried": tried,
            "evaluations": evaluations,
        }
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="folder of the images, the table and the runs"
    )
    parser.add_argument(
        "--dataset",
        default="fashion-mnist",
        help="where the garments come from: a name, or an .npz file",
    )
    parser.add_argument(
        "--rows", type=int, default=10_000, help="how many images (default: %(default)s)"
    )
    parser.add_argument("--steps", type=int, default=300, help="of training (default: %(default)s)")
    parser.add_argument(
        "--batch-size", type=int, default=256, help="images per step (default: %(default)s)"
    )
    parser.add_argument(
        "--seeds", type=int, default=3, help="of each method (default: %(default)s)"
    )
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    parser.add_argument(
        "--images-only", action="store_true", help="make the images and their table, and stop"
    )
    given = sys.argv[1:] if arguments is None else arguments
    options = parser.parse_args(given)
    if options.json and not options.json.resolve().parent.is_dir():
        parser.error(
            f"there is no folder {options.json.resolve().parent} for --json: make it"
        )  # before the work, not after
    began = time.perf_counter()
    try:
        garments = load(options.dataset, seed=0)
    except DataError as error:
        parser.error(str(error))
    table = make_images(options.out, garments, options.rows)
    print(f"written: {table} and {options.rows:,} images", flush=True)
    if options.images_only:
        return
    budget = {"steps": str(options.steps), "batch-size": str(options.batch_size), "warmup": "2"}
    found_before = len(
        list((options.out / "runs").glob("*/encoder.safetensors"))
    )  # these are not trained again
    methods = work(table, budget, options.seeds, options.out / "runs")
    result = {
        "command": " ".join(["python -m examples.rotated_fashion", *given]),
        "version": cclk.__version__,
        "seconds": round(time.perf_counter() - began),
        "runs_found": found_before,
        "settings": {"rows": options.rows, "angle": ANGLE, "columns": " ".join(COLUMNS), **budget},
        "seeds": list(range(options.seeds)),
        "methods": methods,
    }
    if options.json:
        replace_text(options.json, json.dumps(result, indent=1) + "\n")
    for method, told in methods.items():
        for seed, evaluation in enumerate(told["evaluations"]):
            leaks = evaluation["encoder"]["leakage"]
            read = evaluation["encoder"]["accuracy"]["linear"]["value"]
            linear, network = (leaks[probe]["r2"]["value"] for probe in ("linear", "nonlinear"))
            print(
                f"{method}, seed {seed}: garment {100 * read:.1f} %, angle R^2 {linear:.2f} linear,"
                f" {network:.2f} non-linear"
            )


if __name__ == "__main__":
    main()
