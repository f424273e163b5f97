"""Images with a continuous nuisance: garments at any angle, and an encoder that ignores the angle.

`python -m examples.rotated_fashion --out DIR` writes rotated images of Fashion-MNIST as
DIR/images/*.png and DIR/rotated.csv with the columns path, angle, garment and split. Then it runs
`cclk train` and `cclk evaluate` for InfoNCE and for Fair-CCLK on these images. Each method is tuned
over the same number of settings on the validation split, and evaluated on the test split. The
augmentation does not rotate, so that only the condition can remove the angle. `--images-only` stops
after the images.
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
from cclk_paper.experiments.measure import measure
from cclk_paper.experiments.plan import score
from PIL import Image

import cclk
from cclk.data.dataset import Dataset
from cclk.data.randomness import generator
from cclk.data.splits import stratified_order
from cclk.datasets import load
from cclk.errors import DataError
from cclk.evaluation import Evaluation

ANGLE = 60.0
"""Degrees: angles are uniform in -ANGLE to ANGLE."""
COLUMNS = (
    "--image", "path", "--gray", "--condition", "angle", "--label", "garment", "--split", "split",
)  # fmt: skip
"""The options of `cclk train` that read the table."""
Choice = dict[str, str]
_SHARED: list[Choice] = [
    {"lr": "3e-3", "temperature": "0.2", "head": "linear-bn"},
    {"lr": "6e-3", "temperature": "0.5", "head": "linear-bn"},
    {"lr": "6e-3", "temperature": "0.5", "head": "none"},
]
_CLOSE = {"weights": "nw", "sampler": "local", "sampler-options": "{ group = 32 }"}
CHOICES: dict[str, list[Choice]] = {
    "infonce": _SHARED,
    "fair-cclk": [choice | _CLOSE for choice in _SHARED],
}
"""Settings to select from: the same rates, temperatures and heads for both methods, since these too
determine how much of the angle remains.
"""


def make_images(out: Path, garments: Dataset, rows: int, seed: int = 0) -> Path:
    """Rotate garments by random angles, write them as PNG files, and return their CSV file.

    Args:
        out: folder of the files.
        garments: the dataset to take images from.
        rows: number of images.
        seed: seed of the angles and the splits.
    """
    if not 20 <= rows <= len(garments.train):
        raise SystemExit(
            f"--rows is {rows}: {garments.name} has {len(garments.train):,} images, and at"
            " least 20 are needed"
        )
    random = generator(seed, "rotated fashion")
    sample = np.sort(random.permutation(len(garments.train))[:rows])
    angles = random.uniform(-ANGLE, ANGLE, rows)
    labels = garments.train.y.numpy()[sample]
    split = np.empty(rows, dtype=object)
    parts = np.split(stratified_order(labels, seed), [round(0.7 * rows), round(0.85 * rows)])
    for name, part in zip(("train", "validation", "test"), parts, strict=True):
        split[part] = name
    (out / "images").mkdir(parents=True, exist_ok=True)
    table = out / "rotated.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(("path", "angle", "garment", "split"))
        for number, row in enumerate(sample):
            path = f"images/{number:05d}.png"
            rotated(garments.train.x[int(row)][0].numpy(), angles[number]).save(out / path)
            lines.writerow(
                (path, f"{angles[number]:.2f}", garments.classes[labels[number]], split[number])
            )
    return table


def rotated(image: npt.NDArray[np.uint8], angle: float) -> Image.Image:
    """Rotate an image on a black background that is large enough for its corners."""
    inner = image[2:-2, 2:-2]  # without the margin of the dataset
    side = math.ceil(inner.shape[0] * math.sqrt(2))
    margin = (side - inner.shape[0]) // 2
    return Image.fromarray(np.pad(inner, margin)).rotate(angle, resample=Image.Resampling.BILINEAR)


def train(
    table: Path, method: str, choice: Choice, budget: Choice, seed: int, folder: Path
) -> cclk.Run:
    """Train, unless the run exists and has the same budget."""
    if not (folder / "encoder.safetensors").exists():
        cclk.train(
            table,
            image="path",
            gray=True,
            condition="angle",
            label="garment",
            split="split",
            method=method,
            seed=seed,
            overrides=choice | budget | {"remove": "none"},  # the losses alone, without a penalty
            out=folder,
            quiet=True,
        )
    run = cclk.Run(folder)
    trained = {"steps": run.settings.train.steps, "batch-size": run.settings.train.batch_size}
    for name, value in trained.items():
        if str(value) != budget[name]:
            raise SystemExit(
                f"{folder} was trained with --{name} {value}, not {budget[name]}: choose another"
                " --out"
            )
    return run


def choose(table: Path, method: str, budget: Choice, runs: Path) -> list[dict[str, Any]]:
    """Try every choice of a method on the validation split with one seed; the best comes first."""
    tried = []
    for number, choice in enumerate(CHOICES[method]):
        run = train(table, method, choice, budget, 0, runs / f"{method}-choice{number}-seed0")
        scores = measure(
            run.dataset, run.embed_split, ("accuracy", "nonlinear_r2"), "validation", 0
        )
        rounded = {name: round(value, 4) for name, value in scores.items()}
        tried.append({"number": number, "settings": choice, "validation": rounded})
        print(
            f"{method} {choice}: on validation, accuracy {scores['accuracy']:.3f}, angle R^2"
            f" {scores['nonlinear_r2']:.3f}",
            flush=True,
        )
    return sorted(tried, key=lambda choice: -score(choice["validation"]))


def compare(table: Path, budget: Choice, seeds: int, runs: Path) -> dict[str, Any]:
    """Tune both methods, train them with every seed, and evaluate them on the test split."""
    methods: dict[str, Any] = {}
    for method in CHOICES:
        tried = choose(table, method, budget, runs)
        best, evaluations = tried[0], []
        for seed in range(seeds):
            folder = runs / f"{method}-choice{best['number']}-seed{seed}"
            run = train(table, method, best["settings"], budget, seed, folder)
            evaluations.append(run.evaluate(quiet=True).to_json())
        results = {"settings": best["settings"], "tried": tried, "evaluations": evaluations}
        methods[method] = results
    return methods


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
        help="name of the dataset of garments, or an .npz file",
    )
    parser.add_argument(
        "--rows", type=int, default=10_000, help="number of images (default: %(default)s)"
    )
    parser.add_argument(
        "--steps", type=int, default=300, help="training steps (default: %(default)s)"
    )
    parser.add_argument(
        "--batch-size", type=int, default=256, help="images per step (default: %(default)s)"
    )
    parser.add_argument(
        "--seeds", type=int, default=3, help="seeds of each method (default: %(default)s)"
    )
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    parser.add_argument(
        "--images-only", action="store_true", help="write only the images and their table"
    )
    typed = sys.argv[1:] if arguments is None else arguments
    options = parser.parse_args(typed)
    if options.json and not options.json.resolve().parent.is_dir():  # before hours of training
        parser.error(f"there is no folder {options.json.resolve().parent} for --json: create it")
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
    existing = len(list((options.out / "runs").glob("*/encoder.safetensors")))
    methods = compare(table, budget, options.seeds, options.out / "runs")
    result = {
        "command": " ".join(["python -m examples.rotated_fashion", *typed]),
        "version": cclk.__version__,
        "seconds": round(time.perf_counter() - began),
        "runs_found": existing,
        "settings": {"rows": options.rows, "angle": ANGLE, "columns": " ".join(COLUMNS), **budget},
        "seeds": list(range(options.seeds)),
        "methods": methods,
    }
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for method, results in methods.items():
        for seed, evaluation in enumerate(results["evaluations"]):
            print(f"{method}, seed {seed}\n{Evaluation.from_json(evaluation)}")


if __name__ == "__main__":
    main()
