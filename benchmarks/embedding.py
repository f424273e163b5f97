"""The embeddings in the README's figure: `python -m benchmarks.embedding [--json FILE]`.

Trains the two presets of the demo with one seed and projects their features of the test split to
two dimensions by t-SNE. `python -m benchmarks.figures` draws the figure from the committed result.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.manifold import TSNE  # type: ignore[import-untyped]

import cclk
from cclk.datasets import load

PRESETS = ("digits-infonce", "digits-fair")


def embed(preset: str, seed: int, x: torch.Tensor) -> list[list[float]]:
    """Train a preset and project its features of samples to (n, 2), each axis standardized."""
    with tempfile.TemporaryDirectory() as folder:
        run = cclk.train(
            preset=preset, seed=seed, overrides={"threads": 1}, out=Path(folder, preset), quiet=True
        )
        features = run.encoder(x).numpy()
    points = TSNE(random_state=seed, init="pca").fit_transform(features)
    standardized = (points - points.mean(axis=0)) / points.std(axis=0)
    return [[round(float(value), 3) for value in point] for point in standardized]


def measure(seed: int) -> dict[str, Any]:
    """Digits, background colors and projected embeddings of the test split."""
    test = load("colordigits").test
    x = test.x[:]
    # Strokes are black, so the brightest pixel is the background.
    colors = np.asarray(x.amax(dim=(2, 3)))
    return {
        "digits": test.y.tolist(),
        "colors": colors.tolist(),
        "embeddings": {preset: embed(preset, seed, x) for preset in PRESETS},
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of training and projection (default: %(default)s)"
    )
    parser.add_argument(
        "--json",
        type=Path,
        default=Path("results/embedding-digits.json"),
        help="file to write (default: %(default)s)",
    )
    options = parser.parse_args()
    command = " ".join(["python -m benchmarks.embedding", *sys.argv[1:]])
    source = {
        "command": command,
        "version": cclk.__version__,
        "torch": torch.__version__,
        "seed": options.seed,
    }
    options.json.write_text(json.dumps(source | measure(options.seed)) + "\n")


if __name__ == "__main__":
    main()
