"""Cost of streaming images from a table: `python -m benchmarks.manifest [--json FILE]`.

Trains LeNet-5 on a CSV file whose rows name 500 images repeatedly. Memory: the peak of the training
process above that of a process that has only imported torch. Time: a full step with streamed images
as a ratio to one with all images in memory; and the same for a table with a different file in every
row, before any of them has been decoded. They alternate in every round; each ratio is between the
best of several rounds.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import torch

from benchmarks.common import best_seconds, write_result
from cclk import datasets
from cclk.training.run_folder import load_dataset
from cclk.training.settings import Settings, load
from cclk.training.trainer import Trainer

IMAGES, BATCH, SIZE, BURST = 500, 256, 32, 10
MIB = 1 << 20


def write_manifest(folder: Path, rows: int, distinct: int) -> Path:
    """Write images of twice the size that is trained on, and a table that names them.

    Args:
        folder: of the files.
        rows: of the table.
        distinct: number of image files.
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
    settings = {
        "dataset": str(table),
        "data_dir": str(table.parent),
        "dataset_options": options,
        "method": "fair-cclk",
        "weights": "nw",
    }
    return load(overrides=settings | {"encoder": "lenet5", "batch_size": BATCH, "steps": steps})


def memory(folder: Path, table: Path, steps: int) -> dict[str, float]:
    """Return the peak memory of an idle process and of one that trains, in MiB."""
    idle = _child("import torch")
    training = _child(
        "import cclk, benchmarks.manifest as m; from pathlib import Path\n"
        f"settings = m.settings_of(Path({str(table)!r}), {steps})\n"
        f"cclk.train(settings=settings, out={str(folder / 'run')!r}, quiet=True)"
    )
    return {
        "idle_mib": round(idle / MIB),
        "training_mib": round(training / MIB),
        "above_idle_mib": round((training - idle) / MIB),
    }


def _child(code: str) -> int:
    """Return the peak memory of a process that runs this code; getrusage includes its parent's."""
    code += (
        "\nfrom pathlib import"
        " Path\nprint(int(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0]) *"
        " 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return int(done.stdout.split()[-1])


def speed(folder: Path, table: Path, unseen: Path, rounds: int, burst: int) -> dict[str, float]:
    """Return milliseconds per step in memory, and the ratios of the others to it."""
    settings, other = settings_of(table, 10**6), settings_of(unseen, 10**6)
    dataset = load_dataset(settings)
    distinct = dataset.train.x[torch.arange(4 * BATCH)]
    repeated = distinct[torch.arange(len(dataset.train)) % len(distinct)]
    in_memory = replace(dataset, train=replace(dataset.train, x=repeated))
    runs = {
        "in_memory": Trainer(settings, in_memory),
        "streamed": Trainer(settings, dataset),
        "decoding": Trainer(other, load_dataset(other)),
    }
    best = best_seconds({name: run.step for name, run in runs.items()}, rounds, burst)
    for run in runs.values():
        run.close()
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
        "--rows", type=int, default=200_000, help="rows of the table (default: %(default)s)"
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=300,
        help="steps of the run whose memory is measured (default: %(default)s)",
    )
    parser.add_argument("--rounds", type=int, default=8, help="timed rounds (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name in ("few", "all"):
            (folder / name).mkdir()
        table = write_manifest(folder / "few", options.rows, IMAGES)
        # Half of the rows are for validation and test.
        decoded = 2 * (options.rounds + 1) * BURST * BATCH
        unseen = write_manifest(folder / "all", decoded, decoded)
        result: dict[str, object] = {"rows": options.rows, "images": IMAGES, "batch_size": BATCH}
        result |= speed(folder, table, unseen, options.rounds, BURST)
        result |= memory(folder, table, options.steps)
    print(json.dumps(result, indent=1))
    write_result(options.json, "manifest", result)


if __name__ == "__main__":
    main()
