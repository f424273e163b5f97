"""Calibration of the panel of `cclk.leakage`: `python -m benchmarks.panel [--json FILE]`.

Planted leaks: 64 features that determine the condition up to noise, in a way that ridge regression
cannot see. `attainable` is the R^2 of the condition without its noise, on the same test split.
Penalized encoders: features that were trained to hide the condition (`benchmarks.penalized`), next
to scikit-learn's MLPRegressor and HistGradientBoostingRegressor on standardized features.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import cclk
from benchmarks import penalized
from benchmarks.common import write_result

Floats = npt.NDArray[np.float64]
WIDTH = 64
SIZES = (8_000, 1_500, 3_000)
"""Training, validation and test samples."""
ATTAINABLE = (0.5, 0.2)
CASES = {
    "product": "product of two directions",
    "sine": "sine with 5 periods along one feature",
    "principal sine": "sine with 5 periods along the first principal component",
    "weak": "square of a direction with a tenth of the scale",
    "sum": "sum of the signed squares of 64 features",
    "norm": "norm of the features",
    "index": "absolute value of the sum of 64 features",
    "tenth": "one direction, in a cluster of one in ten samples, 6 standard deviations away",
    "parity": "parity of the bin of a feature, bins of 1/2 standard deviation",
}
LIMITS = {
    "near tenth": "one direction, in a cluster of one in ten samples, 4 standard deviations away",
    "narrow parity": "parity of the bin of a feature, bins of 1/3 standard deviation",
    "signs": "product of the signs of two directions",
    "hidden sine": "sine with 5 periods along an arbitrary direction",
}
"""Harder leaks, at the limit of what the panel reads or beyond it."""
ENCODERS: dict[str, dict[str, Any]] = {
    "InfoNCE, penalty 5": {"fair": False, "strength": 5.0, "steps": penalized.STEPS},
    "Fair-CCLK, penalty 5": {"fair": True, "strength": 5.0, "steps": penalized.STEPS},
}


def plant(case: str, attainable: float, seed: int = 0) -> tuple[Floats, Floats, Floats]:
    """Return features, condition, and the part of the condition that the features determine.

    Args:
        case: a name of `CASES` or `LIMITS`, or "none" for independence.
        attainable: the R^2 of this part.
        seed: seed of all draws.
    """
    random = np.random.default_rng((seed, 7))
    count = sum(SIZES)
    h = random.normal(size=(count, WIDTH))
    scale = np.geomspace(3.0, 0.5, WIDTH)
    rotation = np.linalg.qr(random.normal(size=(WIDTH, WIDTH)))[0]
    rotated = True
    match case:
        case "product":
            leak = h[:, 20] * h[:, 40]
        case "sine":
            leak, rotated = np.sin(2 * np.pi * h[:, 20]), False
        case "principal sine":
            scale[0] *= 3
            leak = np.sin(2 * np.pi * h[:, 0])
        case "weak":
            scale[20] *= 0.1
            leak = h[:, 20] ** 2
        case "sum":
            leak, rotated = h**2 @ random.choice([-1.0, 1.0], size=WIDTH), False
        case "norm":
            leak = np.linalg.norm(h, axis=1)
        case "index":
            leak, rotated = np.abs(h.sum(axis=1)), False
        case "tenth" | "near tenth":
            member = random.random(count) < 0.1
            h[:, 20] += (6 if case == "tenth" else 4) * member
            leak = member * h[:, 40]
        case "parity" | "narrow parity":
            bins = 2 if case == "parity" else 3
            leak, rotated = np.floor(bins * h[:, 20]) % 2, False
        case "signs":
            leak = np.sign(h[:, 20] * h[:, 40])
        case "hidden sine":
            leak = np.sin(2 * np.pi * h[:, 20])
        case _:
            leak = random.normal(size=count)
    leak = np.sqrt(attainable) * (leak - leak.mean()) / leak.std()
    condition = leak + np.sqrt(1 - attainable) * random.normal(size=count)
    features = (h * scale) @ rotation if rotated else h * scale
    return features, condition, leak


def names(sizes: tuple[int, ...]) -> npt.NDArray[np.str_]:
    """The split of each sample."""
    return np.repeat(["train", "validation", "test"], sizes)


def r2(prediction: Floats, truth: Floats) -> float:
    """R^2, rounded."""
    error = ((prediction - truth) ** 2).mean() / ((truth - truth.mean()) ** 2).mean()
    return round(1.0 - float(error), 4)


def read(features: Any, condition: Floats, sizes: tuple[int, ...]) -> dict[str, Any]:
    """The readings of the panel, the worst probe and the processor time."""
    began = time.process_time()
    measured = cclk.leakage(features, condition, names(sizes))["condition"]
    seconds = round(time.process_time() - began, 1)
    probes = {name: round(estimate.value, 4) for name, estimate in measured.by_probe.items()}
    worst = {"probe": measured.worst_probe, "worst": max(probes.values())}
    return {"probes": probes, **worst, "seconds": seconds}


def read_planted(case: str, attainable: float) -> dict[str, Any]:
    """One row of the calibration."""
    torch.set_num_threads(1)
    features, condition, leak = plant(case, attainable)
    test = slice(sum(SIZES[:2]), None)
    what = {"case": case, "nominal": attainable, "attainable": r2(leak[test], condition[test])}
    return what | read(features, condition, SIZES)


def read_encoder(name: str) -> dict[str, Any]:
    """The panel and scikit-learn's probes on the features of an encoder."""
    torch.set_num_threads(1)
    from sklearn.ensemble import HistGradientBoostingRegressor  # type: ignore[import-untyped]
    from sklearn.exceptions import ConvergenceWarning  # type: ignore[import-untyped]
    from sklearn.neural_network import MLPRegressor  # type: ignore[import-untyped]

    images, angles = penalized.images()
    features = penalized.train(images, angles, **ENCODERS[name])
    condition, train = angles.numpy(), slice(penalized.ROWS[0])
    test = slice(sum(penalized.ROWS[:2]), None)
    std = features[train].std(axis=0)
    x = (features - features[train].mean(axis=0)) / np.where(std > 1e-6, std, 1.0)
    stock = {
        "MLPRegressor": MLPRegressor(hidden_layer_sizes=(256, 256), random_state=0),
        "HistGradientBoostingRegressor": HistGradientBoostingRegressor(random_state=0),
    }
    readings = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for probe, model in stock.items():
            model.fit(x[train], condition[train])
            readings[probe] = r2(model.predict(x[test]), condition[test])
    return {"encoder": name, "scikit-learn": readings} | read(features, condition, penalized.ROWS)


def measure(jobs: int) -> dict[str, Any]:
    """All rows, computed in several processes of one thread each."""
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        encoders = [pool.submit(read_encoder, name) for name in reversed(ENCODERS)]
        planted = [(case, each) for each in ATTAINABLE for case in CASES]
        planted += [(case, ATTAINABLE[1]) for case in LIMITS] + [("none", 0.0)]
        rows = [pool.submit(read_planted, *each) for each in planted]
        readings = []
        for row in rows:
            readings.append(row.result())
            print(readings[-1], flush=True)
        trained = [row.result() for row in encoders]
    for each in trained:
        print(each, flush=True)
    return {"sizes": SIZES, "width": WIDTH, "planted": readings, "encoders": trained[::-1]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: %(default)s)")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    write_result(options.json, "panel", measure(options.jobs))


if __name__ == "__main__":
    main()
