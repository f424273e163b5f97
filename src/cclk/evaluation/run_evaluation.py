"""The evaluation of a run on the test split: encoder, projection, and baselines."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import torch

import cclk
from cclk._terminal import Console
from cclk.errors import RunError
from cclk.evaluation import (
    Accuracy,
    Evaluation,
    FeatureScores,
    Samples,
    evaluate,
    read_evaluation,
    write_evaluation,
)
from cclk.evaluation.baselines import baselines_of
from cclk.training.run_folder import RunFolder

_LABELS = {
    "colordigits": "digit",
    "colormnist": "digit",
    "rotated-fashion": "garment",
    "adult": "income",
    "crime": "high crime",
    "health": "Charlson index",
    "cells": "cell type",
}


def label_and_condition(run: RunFolder) -> tuple[str, str]:
    """The names of label and condition in sentences; the condition is "" if there is none."""
    columns, settings = run.dataset.columns, run.settings
    condition = columns[0].name if len(columns) == 1 else "condition" if columns else ""
    label = str(settings.source_options.get("label", "label"))
    return _LABELS.get(settings.source, label), condition


def evaluate_run(
    run: RunFolder, bootstrap: int = 1000, quiet: bool = False, baselines: bool = True
) -> Evaluation:
    """Evaluate the encoder and the projection of a run, and write RUN/evaluation.json.

    Args:
        run: A finished run.
        bootstrap: Resamples of the test split for the intervals.
        quiet: Whether to show no progress.
        baselines: Whether to evaluate the untrained encoder and the inputs too; if not, those of an
            earlier evaluation are kept.
    """
    dataset = run.dataset
    labeled = len(dataset.classes) > 1
    if not labeled and not dataset.columns:
        raise RunError(
            f"{run.folder} has neither a label nor a condition to evaluate: train it with one"
        )
    splits = (dataset.train, dataset.validation, dataset.test)
    console = Console(stderr=True, quiet=quiet)
    with console.status(f"embedding {run.name}"):
        embedded = [run.embed_split(split) for split in splits]
    scores: list[FeatureScores] = []
    for part, name in enumerate(("encoder", "projection")):
        if scores and all(torch.equal(*pair) for pair in embedded):
            scores.append(scores[0])  # there is no projection head
            continue
        with console.status(f"probing the {name} of {run.name}"):
            train, validation, test = (
                Samples(pair[part], split.y, split.condition)
                for pair, split in zip(embedded, splits, strict=True)
            )
            score = evaluate(train, validation, test, dataset.columns, run.settings.seed, bootstrap)
            # Without labels there is one class, which is always predicted.
            scores.append(score if labeled else replace(score, accuracy=Accuracy()))
    measured: Mapping[str, FeatureScores] = {}
    if not baselines:
        with suppress(RunError):  # a damaged evaluation is replaced
            earlier = read_evaluation(run.folder)
            measured = earlier.baselines if earlier else {}
    else:
        with console.status(f"probing the untrained encoder and the inputs of {run.name}"):
            measured = baselines_of(run.settings, dataset, bootstrap=bootstrap)
    evaluation = Evaluation(scores[0], scores[1], cclk.__version__, measured)
    write_evaluation(run.folder, evaluation)
    return evaluation
