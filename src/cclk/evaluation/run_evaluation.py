"""The evaluation of a run: its encoder and its projection, on the test split."""

from __future__ import annotations

from dataclasses import replace

import cclk
from cclk._terminal import Console
from cclk.errors import RunError
from cclk.evaluation import Accuracy, Evaluation, Samples, evaluate, write_evaluation
from cclk.evaluation.parts import parts_of
from cclk.training.run_folder import RunFolder

_NAMES = {"colordigits": ("digit", "color"), "colormnist": ("digit", "color")}


def label_and_condition(run: RunFolder) -> tuple[str, str]:
    """The names of label and condition in sentences; the condition is "" if there is none."""
    columns, data = run.dataset.columns, run.settings.data
    condition = columns[0].name if len(columns) == 1 else "condition" if columns else ""
    label = str(data.dataset_options.get("label", "label"))
    return _NAMES.get(data.dataset, (label, condition))


def evaluate_run(run: RunFolder, bootstrap: int = 1000, quiet: bool = False) -> Evaluation:
    """Evaluate the encoder and the projection of a run, and write RUN/evaluation.json.

    Args:
        run: A finished run.
        bootstrap: Resamples of the test split for the intervals.
        quiet: Whether to show no progress.
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
    scores = []
    for part, name in enumerate(("encoder", "projection")):
        with console.status(f"probing the {name} of {run.name}"):
            train, validation, test = (
                Samples(pair[part], split.y, split.condition)
                for pair, split in zip(embedded, splits, strict=True)
            )
            score = evaluate(
                train,
                validation,
                test,
                dataset.condition_kind,
                run.settings.seed,
                bootstrap,
                leakage=bool(dataset.columns),
                parts=parts_of(dataset),
                condition=label_and_condition(run)[1],
            )
            # Without labels there is one class, which is always predicted.
            scores.append(score if labeled else replace(score, accuracy=Accuracy()))
    evaluation = Evaluation(scores[0], scores[1], cclk.__version__)
    write_evaluation(run.folder, evaluation)
    return evaluation
