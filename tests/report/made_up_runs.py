"""Two made-up runs on colored digits: one that keeps the color and one that removed it."""

from __future__ import annotations

import numpy as np
import torch
from evaluation.made_up_scores import category, number, scores

from cclk.evaluation import Evaluation, FeatureScores
from cclk.report import RunView
from cclk.report.view import embed2d, kernel_figure, sample_images
from cclk.training.settings import load


def evaluation(
    accuracy: float, linear: float, network: float, spread: float = 0.015, leak_spread: float = 0.02
) -> FeatureScores:
    """Digits, and the color that leaks as a number."""
    return scores(accuracy, accuracy - 0.03, spread, color=number(linear, network, leak_spread))


def categorical(accuracy: float, linear: float, network: float) -> FeatureScores:
    """Digits, and the color that leaks as a category."""
    return scores(accuracy, accuracy - 0.03, 0.015, color=category(linear, network, 0.02))


def several_columns() -> FeatureScores:
    """What is measured where the condition is a number and a category."""
    return scores(0.9, 0.87, 0.015, age=number(0.3, 0.4, 0.02), site=category(0.6, 0.7, 0.02))


def make(
    name: str,
    method: str,
    seed: int,
    read: float,
    leaked: float,
    network: float,
    samples: int = 400,
) -> RunView:
    random = np.random.default_rng(seed)
    labels, color = random.integers(0, 10, samples), random.uniform(0, 255, (samples, 3))
    centers = np.random.default_rng(5).normal(size=(10, 6))
    parts = np.concatenate(
        [
            3 * read * centers[labels],
            3 * leaked * (color - 127) / 74,
            random.normal(size=(samples, 3)),
        ],
        axis=1,
    )
    parts += 0.8 * random.normal(size=parts.shape)
    names = ("red", "green", "blue")
    batch = color[:48]
    distance = ((batch[:, None] - batch[None]) ** 2).sum(axis=2)
    kernel = np.exp(-distance / 4000)
    weights = np.linalg.solve(kernel + 0.01 * np.eye(48), kernel)
    ink = np.random.default_rng(1).uniform(0, 1, (6, 1, 20, 20)) > 0.7
    colors = np.random.default_rng(2).integers(60, 255, (6, 3, 1, 1))
    images = torch.from_numpy((colors * ~ink).astype(np.uint8))
    steps = range(0, 600, 5)
    return RunView(
        name=name,
        settings=load(
            overrides={
                "method": method,
                "seed": seed,
                "batch_size": 256,
                "epochs": 120,
                "optimizer": "adam",
                "lr": 3e-3,
            }
        ),
        version="0.1.0",
        command=f"cclk train --preset {name}",
        metrics=[
            {
                "step": step,
                "epoch": step / 5,
                "loss": 5 * np.exp(-step / 150) + 1.5 + 0.05 * float(random.normal()),
                "lr": 3e-3 * (1 - step / 700),
                "samples_per_second": 9000 + 300 * float(random.normal()),
                "effective_neighbors": (
                    None if method == "infonce" else 3 + 0.2 * float(random.normal())
                ),
            }
            for step in steps
        ],
        evaluation=Evaluation(
            evaluation(read, leaked, network), evaluation(read - 0.06, leaked - 0.1, network - 0.1)
        ),
        embedding=embed2d(
            parts, labels, color, classes=[str(digit) for digit in range(10)], condition_names=names
        ),
        kernel=(
            None
            if method == "infonce"
            else kernel_figure(kernel, weights, batch, condition_names=names)
        ),
        images=sample_images(images, images[:, :, 2:18, 2:18], images / 255, "031245"),
        label="digit",
        condition="color",
        data="ColorDigits: scikit-learn's handwritten digits on colored backgrounds.",
    )


def two_runs() -> list[RunView]:
    return [
        make("infonce", "infonce", 0, 0.928, 0.99, 0.999),
        make("fair-cclk", "fair-cclk", 1, 0.965, 0.37, 0.42),
    ]
