"""What streaming images from a table costs: `python -m benchmarks.manifest [--rows 200000]
[--json FILE]`.

A CSV whose rows name 500 images over and over is trained on with LeNet-5. Memory: the peak of the
training process above that of one that only imported torch. Time: a whole step with streamed images
as a ratio to one whose images are all in memory; and the same for a table that names a file of its
own in every row, while none of them has been decoded yet. The ways take turns, a ratio is between
the best of several rounds.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch

import cclk
from cclk import datasets
from cclk.files import replace_text
from cclk.training import engine
from cclk.training.settings import Settings, load

IMAGES, BATCH, SIZE, BURST = 500, 256, 32, 10
MIB = 1 << 20


def write_manifest(folder: Path, rows: int, distinct: int) -> Path:
    """Images of twice the size that is trained on, under so many names, and a table of so many
    rows that name them.
    """
    from PIL import Image

    digits = datasets.load("colordigits")
    for number, image in enumerate(digits.train.x[torch.arange(IMAGES)]):
        drawn = Image.fromarray(image.permute(1, 2, 0).numpy())
        drawn.resize((2 * SIZE, 2 * SIZE)).save(folder / f"{number}.jpg", quality=90)
    for number in range(IMAGES, distinct):
        (folder / f"{number}.jpg").hardlink_to(folder / f"{number % IMAGES}.jpg")
    table = folder / "images.csv"
    with table.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["path", "redness", "digit"])
        for row in range(rows):
            number = row % IMAGES
            lines.writerow(
                [
                    f"{row % distinct}.jpg",
                    float(digits.train.condition[number, 0]) + row / rows,
                    int(digits.train.y[number]),
                ]
            )
    return table


def settings_of(table: Path, steps: int) -> Settings:
    options = {"image": "path", "condition": ["redness"], "label": "digit", "size": SIZE}
    chosen = {
        "dataset": str(table),
        "data_dir": str(table.parent),
        "dataset_options": options,
        "method": "fair-cclk",
        "weights": "nw",
    }
    return load(overrides=chosen | {"encoder": "lenet5", "batch_size": BATCH, "steps": steps})


def memory(folder: Path, table: Path, steps: int) -> dict[str, float]:
    """Peaks of an idle process and of one that trains, in MiB."""
    idle = _child("import torch")
    trains = (
        "import benchmarks.manifest as m; from pathlib import Path; from cclk.training import"
        " engine\n"
    )
    trains += (
        f"engine.train(m.settings_of(Path({str(table)!r}), {steps}), Path({str(folder / 'run')!r}),"
        " quiet=True)"
    )
    training = _child(trains)
    return {
        "idle_mib": round(idle / MIB),
        "training_mib": round(training / MIB),
        "above_idle_mib": round((training - idle) / MIB),
    }


def _child(code: str) -> int:
    """The most memory that a process held while it ran this; unlike getrusage's, not what its
    parent held.
    """
    code += (
        "\nfrom pathlib import"
        " Path\nprint(int(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0]) *"
        " 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return int(done.stdout.split()[-1])


def speed(folder: Path, table: Path, unseen: Path, rounds: int, burst: int) -> dict[str, float]:
    """Best seconds per step of each way."""
    streamed = engine.Training(settings_of(table, 10**6), folder / "streamed", quiet=True)
    dataset = streamed.dataset
    distinct = dataset.train.x[torch.arange(4 * BATCH)]
    held = distinct[torch.arange(len(dataset.train)) % len(distinct)]
    in_memory = replace(dataset, train=replace(dataset.train, x=held))
    ways = {
        "in_memory": engine.Training(
            streamed.settings, folder / "held", quiet=True, dataset=in_memory
        ),
        "streamed": streamed,
        "decoding": engine.Training(settings_of(unseen, 10**6), folder / "unseen", quiet=True),
    }
    best = dict.fromkeys(ways, math.inf)
    for place in range(rounds + 1):
        for name, way in ways.items():
            start = time.perf_counter()
            for step in range(burst):
                way.step(place * burst + step)
            if place:  # the first round warms up
                best[name] = min(best[name], (time.perf_counter() - start) / burst)
    for way in ways.values():
        way.loader.close()
    return {
        "in_memory_milliseconds": round(best["in_memory"] * 1e3, 2),
        "streamed_to_in_memory": round(best["streamed"] / best["in_memory"], 3),
        "decoding_to_in_memory": round(best["decoding"] / best["in_memory"], 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rows", type=int, default=200_000, help="of the table (default: %(default)s)"
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=300,
        help="of the run whose memory is measured (default: %(default)s)",
    )
    parser.add_argument("--rounds", type=int, default=8, help="timed rounds (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name in ("few", "all"):
            (folder / name).mkdir()
        table = write_manifest(folder / "few", options.rows, IMAGES)
        looked_at = (
            2 * (options.rounds + 1) * BURST * BATCH
        )  # and as many that are validated and tested on, or never met
        unseen = write_manifest(folder / "all", looked_at, looked_at)
        found: dict[str, object] = {"rows": options.rows, "images": IMAGES, "batch_size": BATCH}
        found |= speed(folder, table, unseen, options.rounds, BURST)
        found |= memory(folder, table, options.steps)
    print(json.dumps(found, indent=1))
    if options.json:
        about = {
            "command": " ".join(["python -m benchmarks.manifest", *sys.argv[1:]]),
            "version": cclk.__version__,
            "torch": torch.__version__,
            "cores": os.cpu_count(),
        }
        replace_text(options.json, json.dumps(about | found, indent=1) + "\n")


if __name__ == "__main__":
    main()
