"""What a report shows of a run: its settings, metrics, evaluation, embedding, kernel and images."""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import torch

import cclk
from cclk import augment
from cclk.data.dataset import Dataset
from cclk.errors import CclkWarning
from cclk.evaluation import read_evaluation
from cclk.evaluation.run_evaluation import label_and_condition
from cclk.report.view import (
    KernelFigure,
    RunView,
    Triple,
    embed2d,
    kernel_figure,
    sample_images,
)
from cclk.training import methods
from cclk.training.run_folder import RunFolder

_IMAGES = 8


def view_run(run: RunFolder) -> RunView:
    """Collect what a report shows of a run; its evaluation only if it has been evaluated."""
    dataset = run.dataset
    categories = category_names(dataset)
    label, condition = label_and_condition(run)
    return RunView(
        name=run.name,
        settings=run.settings.without_paths(),
        metrics=run.metrics(),
        evaluation=read_evaluation(run.folder),
        version=run.metadata.version or "",
        command=_published(run.metadata.command or ""),
        data_fingerprint=run.metadata.data_fingerprint or "",
        embedding=embed2d(
            run.embed_split(dataset.test)[0],
            dataset.test.y,
            dataset.test.condition,
            classes=dataset.classes,
            condition_names=dataset.condition_names,
            categories=categories,
        ),
        kernel=_kernel_figure(run, categories),
        images=_sample_images(run),
        data=dataset.description,
        label=label,
        condition=condition,
    )


def _published(command: str) -> str:
    """Return a command with the last part of absolute paths only."""
    try:
        parts = shlex.split(command)
    except ValueError:
        return ""
    return shlex.join(re.sub(r"(^|=)~?/(.*/)?(?=.)", r"\1", part) for part in parts)


def _kernel_figure(run: RunFolder, categories: Mapping[str, Sequence[str]]) -> KernelFigure | None:
    method = run.method
    if method.kernel is None or method.condition is None:
        return None
    rows = method.sampler.batch(0)
    condition = method.condition.rows(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CclkWarning)
        how = methods.conditioning(method, run.settings)
        weights = cclk.conditional_weights(
            how.kernel, condition, how.ridge, how.solver, weights=how.weights
        )
    return kernel_figure(
        method.kernel(condition),
        weights,
        run.dataset.train.condition[rows],
        condition_names=run.dataset.condition_names,
        categories=categories,
    )


def _sample_images(run: RunFolder) -> tuple[Triple, ...]:
    split = run.dataset.train
    if split.x.dtype != torch.uint8:
        return ()
    rows = torch.from_numpy(np.linspace(0, len(split) - 1, _IMAGES).astype(int))
    x, options = split.x[rows], run.settings.augment
    augmentation = augment.for_samples(
        options.augmentation, x.shape[1:], options.augmentation_options
    )
    scaled = run.network.encoder.inputs.scale(x)
    views = [augmentation(scaled, torch.Generator().manual_seed(v)).clamp(0, 1) for v in (0, 1)]
    captions = [run.dataset.classes[int(label)] for label in split.y[rows]]
    return sample_images(x, views[0], views[1], captions)


def category_names(dataset: Dataset) -> dict[str, tuple[str, ...]]:
    """Map each categorical value of the condition to its categories, in order of their codes."""
    names: dict[str, tuple[str, ...]] = {}
    for column in dataset.columns:
        if column.kind == "attributes":
            names |= dict.fromkeys(column.value_names, ("no", "yes"))
        elif column.kind == "categorical":
            names[column.name] = column.categories
    return names
