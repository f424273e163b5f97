"""What there is to remove from a run, and what training removed: the scores of its encoder and
projection, of the encoder before its training, and of its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

import cclk
from cclk._terminal import Console
from cclk.data.dataset import Dataset, Split
from cclk.errors import RunError
from cclk.evaluation.estimate import is_read, nothing_read
from cclk.evaluation.evaluate import evaluate
from cclk.evaluation.leakage import ColumnLeakage, Leakage, measure_leakage
from cclk.evaluation.panel import LARGEST_TRAINING_SET
from cclk.evaluation.samples import Samples, prepare
from cclk.evaluation.scores import (
    Accuracy,
    Evaluation,
    FeatureScores,
    read_evaluation,
    write_evaluation,
)
from cclk.training.check import Finding
from cclk.training.network import embed, network_for
from cclk.training.run_folder import RunFolder
from cclk.training.settings import Settings

Features = Callable[[Split], Tensor]

_PIXELS = 32  # larger images are averaged to this size before probes read them
_BATCH = 1000
_SAMPLE = 1000
"""Samples of each split that a prediction before training uses."""
_FEW = 50
"""Samples of a split below which nothing is forecast."""
_RESAMPLES = 200
"""Of the test split, for the intervals of that prediction."""
_ROWS = 2000
_NUMBERS = 20_000_000
"""Rows, or numbers if these are more rows, of a training split that the label is predicted from."""
_LABELS = {"colordigits": "digit", "colormnist": "digit"}


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


def baselines_of(
    settings: Settings, dataset: Dataset, *, bootstrap: int
) -> dict[str, FeatureScores]:
    """Measure accuracy and leakage from the network before its training, and from its inputs.

    Args:
        settings: The settings of the run, which determine the network.
        dataset: The data.
        bootstrap: Resamples of the test split.
    """
    scores = {}
    for name, features in _representations(settings, dataset).items():
        parts = _samples(features, settings, dataset, LARGEST_TRAINING_SET)
        leakage = Leakage()
        if dataset.columns:
            leakage = measure_leakage(
                *parts, columns=dataset.columns, seed=settings.seed, bootstrap=bootstrap
            )
        accuracy = Accuracy()
        if len(dataset.classes) > 1:
            train, validation, test = parts
            # Inputs may be wide, for which logistic regression takes minutes.
            rows = max(_ROWS, _NUMBERS // train.features.shape[1])
            order = np.random.default_rng((settings.seed, 4)).permutation(len(train))[:rows]
            labeled = evaluate(
                train.subset(np.sort(order)), validation, test, (), settings.seed, bootstrap
            )
            accuracy = labeled.accuracy
        scores[name] = FeatureScores(accuracy, leakage)
    return scores


def _representations(settings: Settings, dataset: Dataset) -> dict[str, Features]:
    network = network_for(settings, dataset).eval()
    return {"untrained": lambda split: embed(network, split)[0], "inputs": _inputs}


def predict_removal(settings: Settings, dataset: Dataset) -> Iterator[Finding]:
    """Yield a finding on each column of the condition: what there is to remove, and at what price.

    It compares what probes read from the inputs, from the untrained encoder and from the label,
    which is the price: features that determine the label reveal what the label reveals.

    Args:
        settings: The settings of the run.
        dataset: The data.
    """
    if not dataset.columns:
        return
    rows = len(dataset.train), len(dataset.test)
    if min(rows) < _FEW:
        yield Finding(
            "warning",
            f"{rows[0]} rows to train on and {rows[1]} to test on are too few to forecast what can"
            f" be removed: {_FEW} of each are needed",
        )
        return
    representations = _representations(settings, dataset)
    if len(dataset.classes) > 1:
        indicators = torch.eye(len(dataset.classes))
        representations["label"] = lambda split: indicators[split.y]
    measured = {
        name: measure_leakage(
            *_samples(each, settings, dataset, _SAMPLE),
            columns=dataset.columns,
            seed=settings.seed,
            bootstrap=_RESAMPLES,
            quick=True,
        )
        for name, each in representations.items()
    }
    for name in measured["inputs"]:
        of_column = {title: each[name] for title, each in measured.items()}
        if of_column["inputs"].doubt or all(each.worst for each in of_column.values()):
            yield Finding("fine", f"condition {name}: {_prediction(of_column)}")
        else:
            yield Finding(
                "warning",
                f"condition {name} never changes in the test split: nothing can be forecast",
            )


def _prediction(leakage: Mapping[str, ColumnLeakage]) -> str:
    if doubt := leakage["inputs"].doubt:
        return f"{doubt}, so what can be removed is not known before training"
    worst = {name: each.worst for name, each in leakage.items() if each.worst}
    reading = f" (read as {leakage['inputs'].reading})" if leakage["inputs"].reading else ""
    text = f"probes read R^2 {worst['inputs']:.2f} from the inputs{reading}"
    if not is_read(worst["inputs"]):
        return f"{text}: {nothing_read(worst['inputs'])}"
    text += f" and {worst['untrained']:.2f} from the untrained encoder"
    if "label" in worst and is_read(worst["label"]):
        text += (
            f"; the label alone reveals {worst['label']:.2f}: with less than that, features cannot"
            " determine the label"
        )
    return text


def _samples(
    features: Features, settings: Settings, dataset: Dataset, rows: int
) -> tuple[Samples, Samples, Samples]:
    """Return the features of at most `rows` samples of each split."""
    parts = (
        _at_most(rows, split, settings.seed)
        for split in (dataset.train, dataset.validation, dataset.test)
    )
    fitted, tuned, test = (Samples(features(part), part.y, part.condition) for part in parts)
    return prepare(fitted, tuned, test, settings.seed)


def _at_most(rows: int, split: Split, seed: int) -> Split:
    if len(split) <= rows:
        return split
    sample = np.random.default_rng((seed, 3)).permutation(len(split))[:rows]
    return split.subset(torch.from_numpy(np.sort(sample)))


def _inputs(split: Split) -> Tensor:
    """Return the samples of a split as rows of numbers, (n, d)."""
    batches = []
    for start in range(0, max(1, len(split)), _BATCH):
        x = split.x[torch.arange(start, min(start + _BATCH, len(split)))].float()
        if x.ndim == 4 and max(x.shape[2:]) > _PIXELS:
            x = F.adaptive_avg_pool2d(x, _PIXELS)
        batches.append(x.flatten(1))
    return torch.cat(batches)
