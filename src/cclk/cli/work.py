"""What the commands do with runs: measure them, put them on a page, and the demo made of all of it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

import cclk
from cclk import augment
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
from cclk.evaluation.parts import parts_of
from cclk.evaluation.table import evaluation_table
from cclk.report import (
    KernelFigure,
    RunView,
    SampleImages,
    category_names,
    embed2d,
    kernel_figure,
    summarize,
    write_report,
)
from cclk.training import engine, methods
from cclk.training.files import write_json
from cclk.training.run import SETTINGS, Run
from cclk.training.settings import load

SHOWN = 8
"""Sample images on a report."""
NOUNS = {"colordigits": ("digit", "color"), "colormnist": ("digit", "color")}
"""What label and condition of a dataset are called."""


def nouns(run: Run) -> dict[str, str]:
    """Label and condition as they are called in sentences: in a table of one's own, by their
    columns; "" if there is no condition.
    """
    columns = run.dataset.columns
    condition = columns[0].name if len(columns) == 1 else "condition" if columns else ""
    own = (run.settings.data.dataset_options.get("label", "label"), condition)
    label, condition = NOUNS.get(run.settings.data.dataset, own)
    return {"label": label, "condition": condition}


def evaluate_run(run: Run, bootstrap: int = 1000, quiet: bool = False) -> Evaluation:
    """Evaluate encoder and projection of a run, and write RUN/evaluation.json."""
    dataset = run.dataset
    if len(dataset.classes) == 1 and not dataset.columns:
        raise RunError(
            f"{run.folder} has neither a label nor a condition to measure: train it with --label or"
            " --condition to evaluate it"
        )
    splits = (dataset.train, dataset.validation, dataset.test)
    console = Console(stderr=True, quiet=quiet)
    with console.status(f"embedding {run.name}"):
        embedded = [run.embed(split) for split in splits]
    found: list[FeatureScores] = []
    for place, name in enumerate(("encoder", "projection")):
        with console.status(f"probing the {name} of {run.name}"):
            samples = [
                Samples(pair[place], split.y, split.condition)
                for pair, split in zip(embedded, splits, strict=True)
            ]
            scores = evaluate(
                samples[0],
                samples[1],
                samples[2],
                dataset.condition_kind,
                run.settings.seed,
                bootstrap,
                leakage=bool(dataset.columns),
                parts=parts_of(dataset),
                condition=nouns(run)["condition"],
            )
            # Data without labels have one class, which is always predicted.
            found.append(
                replace(scores, accuracy=Accuracy()) if len(dataset.classes) == 1 else scores
            )
    evaluation = Evaluation(found[0], found[1], cclk.__version__)
    write_evaluation(run.folder, evaluation)
    return evaluation


def report_runs(runs: list[Run], out: Path) -> Path:
    """One page about these runs."""
    out.parent.mkdir(parents=True, exist_ok=True)
    return write_report([_view(run) for run in runs], out)


def _view(run: Run) -> RunView:
    dataset, settings = run.dataset, run.settings
    features = run.embed(dataset.test)[0]
    categories = category_names(dataset)
    called = nouns(run)
    return RunView(
        name=run.name,
        settings=settings,
        metrics=run.metrics(),
        evaluation=read_evaluation(run.folder, called["condition"]),
        version=run.about["version"] or "",
        command=run.about["command"] or "",
        data_fingerprint=run.about["data_fingerprint"] or "",
        embedding=embed2d(
            features, dataset.test.y, dataset.test.condition,
            classes=dataset.classes, condition_names=dataset.condition_names, categories=categories,
        ),
        kernel=_kernel_figure(run, categories),
        images=_images(run),
        data=dataset.description,
        **called,
    )  # fmt: skip


def _kernel_figure(run: Run, categories: Mapping[str, Sequence[str]]) -> KernelFigure | None:
    method = methods.build(run.settings, run.dataset)
    if method.kernel is None or method.condition is None:
        return None
    method.kernel.load_state_dict(run.kernel_state)
    rows = method.sampler.batch(0)
    condition = method.condition.rows(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cclk.CclkWarning)
        weights = cclk.conditional_weights(
            method.kernel, condition, run.settings.loss.ridge, weights=run.settings.loss.weights
        )
    shown = run.dataset.train.condition[rows]
    names = run.dataset.condition_names
    return kernel_figure(
        method.kernel(condition), weights, shown, condition_names=names, categories=categories
    )


def _images(run: Run) -> SampleImages | None:
    split = run.dataset.train
    if split.x.dtype != torch.uint8:
        return None
    rows = np.linspace(0, len(split) - 1, SHOWN).astype(int)
    x = split.x[torch.from_numpy(rows)]
    chosen = run.settings.augment
    augmentation = augment.preset(
        chosen.augmentation, size=x.shape[-1], channels=x.shape[1], **chosen.augmentation_options
    )
    views = [augmentation(x, torch.Generator().manual_seed(view)).clamp(0, 1) for view in (0, 1)]
    captions = [run.dataset.classes[int(label)] for label in split.y[torch.from_numpy(rows)]]
    return SampleImages(x, views[0], views[1], captions)


DEMO: dict[str, tuple[str, dict[str, float]]] = {
    "untrained": (
        "digits-infonce",
        {"steps": 1, "lr": 1e-9},
    ),  # what training is to be compared with
    "digits-infonce": ("digits-infonce", {}),
    "digits-fair": ("digits-fair", {}),
}
"""The runs of the demo: a preset, and what is changed of it."""


def run_demo(out: Path, seeds: int) -> None:
    """Train InfoNCE and Fair-CCLK on colored digits, and a network that stays untrained;
    evaluate, compare and report all of them.
    """
    began = time.perf_counter()
    console = Console()
    console.print(
        "Handwritten digits on colored backgrounds. One encoder is trained with InfoNCE, one with"
        " Fair-CCLK, which should ignore the color, and one is not trained at all. Then probes try"
        " to read the digit and the color from the features of each.\n"
    )
    runs: dict[str, list[Run]] = {name: [] for name in DEMO}
    for seed in range(seeds):
        for name, (preset, changes) in DEMO.items():
            folder = out / (name if seeds == 1 else f"{name}-seed{seed}")
            if (folder / SETTINGS).exists():
                run = engine.resume(folder)
            else:
                run = engine.train(
                    load(preset=preset, overrides={**changes, "seed": seed}),
                    folder,
                    command="cclk demo",
                )
            runs[name].append(run)
    found = {name: [evaluate_run(run) for run in made] for name, made in runs.items()}
    evaluations = {
        name: [evaluation.to_json() for evaluation in made] for name, made in found.items()
    }
    write_json(
        out / "demo.json",
        {
            "command": f"cclk demo --seeds {seeds}",
            "version": cclk.__version__,
            "evaluations": evaluations,
        },
    )
    everyone = [run for made in runs.values() for run in made]
    named = {
        run.name: evaluation
        for name, made in runs.items()
        for run, evaluation in zip(made, found[name], strict=True)
    }
    console.print(evaluation_table(named, label=nouns(everyone[0])["label"]))
    views = [_view(run) for run in everyone]
    page = write_report(views, out / "report.html")
    for sentence in summarize(views):
        console.print(f"\n{sentence}", highlight=False, markup=False, soft_wrap=True)
    console.print(
        f"\n{time.perf_counter() - began:.0f} s in all. The report: {page.resolve()}",
        highlight=False,
        soft_wrap=True,
    )
