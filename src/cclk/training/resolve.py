"""The defaults of a run that depend on its data: `resolve` fills them in, and nothing else does."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping

from cclk.data.dataset import Dataset
from cclk.data.samplers import ClusterBatches, LocalBatches
from cclk.data.streamed import StreamedImages
from cclk.errors import warn
from cclk.training.methods import MethodSpec, find
from cclk.training.settings import OPTIONS, Settings

STEPS, STEPS_OF_NUMBERS = 1175, 400
"""The paper's number on ColorMNIST; and to remove a condition of columns of numbers, where longer
training gains nothing and costs small tables much.
"""
TRAINING = {"views": "all", "symmetric": True, "positives": "outer"}
"""Where training follows SimCLR and the authors' code, and losses the paper's equations."""
KERNEL = {"length_scale": "auto", "neighbors": 3.0, "degree": 3, "offset": 0.0}
TEMPERATURE, TEMPERATURE_OF_REMOVAL = 0.1, 0.2
REMOVE, REMOVE_FROM_TABLES = "none", "medium"
REMOVAL: dict[str, tuple[dict[str, float], dict[str, float]]] = {
    "none": ({}, {}),
    "light": (
        {"leakage_penalty": 5.0, "feature_width": 32},
        {"leakage_penalty": 5.0, "feature_width": 8, "mask": 0.6},
    ),
    "medium": (
        {"leakage_penalty": 5.0, "feature_width": 16},
        {"leakage_penalty": 5.0, "feature_width": 4, "mask": 0.6, "feature_noise": 0.2},
    ),
    "strong": (
        {"leakage_penalty": 10.0, "feature_width": 8},
        {
            "leakage_penalty": 10.0,
            "feature_width": 4,
            "mask": 0.6,
            "penalty_rows": 512,
            "feature_noise": 0.35,
        },
    ),
}
"""Level of `remove` -> settings for images, and for numbers: selected on validation over six
datasets, see docs/how-to/remove-a-condition.md.
"""
_NEIGHBORS = 4
"""Rows per group of neighbors that are positives: the nearest are of the same class most often."""
_SMALL = 32
"""Pixels of images that LeNet-5 reads."""


def resolve(settings: Settings, dataset: Dataset) -> Settings:
    """Return all settings of a run: those that depend on the data are filled in.

    What has been set stays, so settings that are resolved already are returned as they are.

    Args:
        settings: Settings, of which some may be unset, None or "auto".
        dataset: The data to train on.
    """
    spec = find(settings.method)
    numbers = len(dataset.train.x.shape) == 2
    removes = settings.data.dataset is None and spec.removes and bool(dataset.columns)
    if settings.train.epochs is None:
        settings = settings.with_defaults(
            steps=STEPS_OF_NUMBERS if removes and numbers else STEPS,
        )
    settings = settings.with_defaults(
        remove=REMOVE_FROM_TABLES if removes else REMOVE,
        temperature=TEMPERATURE_OF_REMOVAL if removes else TEMPERATURE,
        batch_size=_batch_size(settings, dataset),
        **_network(settings, dataset),
    )
    settings = settings.with_defaults(sampler=_sampler(spec, dataset))
    settings = settings.with_defaults(sampler_options=_sampler_options(settings, spec))
    options = {
        "kernel_options": KERNEL | settings.loss.kernel_options,
        "loss_options": _loss_options(spec) | settings.loss.loss_options,
    }
    loss = settings.loss.model_copy(update=options)
    return _with_removal(settings.model_copy(update={"loss": loss}))


def _loss_options(spec: MethodSpec) -> dict[str, object]:
    """The options of a loss: its own defaults, except for those of training."""
    parameters = inspect.signature(spec.loss).parameters
    own = {name: parameters[name].default for name in OPTIONS["loss_options"] if name in parameters}
    return own | {name: value for name, value in TRAINING.items() if name in own}


def _network(settings: Settings, dataset: Dataset) -> Mapping[str, object]:
    """Encoder and augmentation for the shape of the samples."""
    x = dataset.train.x
    channels, *size = x.shape[1:]
    if not size:
        return {"encoder": "mlp", "augmentation": "vectors"}
    gray = channels == 1
    if not isinstance(x, StreamedImages) or (gray and max(size) == _SMALL):
        return {"encoder": "lenet5", "augmentation": "digits"}
    options = {"stem": "cifar" if max(size) < 96 else "imagenet", "width": 16}
    return {
        "encoder": "resnet18",
        "augmentation": "digits" if gray else "simclr",
        # Those of a network that was chosen are the user's.
        **({"encoder_options": options} if settings.model.encoder == "auto" else {}),
    }


def _batch_size(settings: Settings, dataset: Dataset) -> int:
    """The default size, lowered to the largest power of two that fits."""
    size, rows = settings.train.batch_size, len(dataset.train) - settings.train.queue
    if "batch_size" in settings.train.model_fields_set or size <= rows or rows < 2:
        return size  # `methods.build` rejects a size that is too large
    lower = 1 << (rows.bit_length() - 1)
    queued = settings.train.queue
    queue = f" and a queue of {queued}" if queued else ""
    warn(
        f"batch_size is {lower} instead of {size}: {dataset.name} has {len(dataset.train)} training"
        f" rows{queue}"
    )
    return lower


def _sampler(spec: MethodSpec, dataset: Dataset) -> str:
    if spec.batches == "neighbors" and dataset.condition_kind != "categorical":
        return "local"
    return "clusters" if spec.needs_clusters else "uniform"


def _sampler_options(settings: Settings, spec: MethodSpec) -> dict[str, object]:
    """The rows per group, if batches are drawn in groups."""
    if settings.train.sampler == "local" and spec.batches == "neighbors":
        return {"group": math.gcd(settings.train.batch_size, _NEIGHBORS)}
    samplers = {"local": LocalBatches, "clusters": ClusterBatches}
    if settings.train.sampler not in samplers or spec.batches == "fair":
        return {}
    parameters = inspect.signature(samplers[settings.train.sampler]).parameters
    return {"group": parameters["group"].default}


def _with_removal(settings: Settings) -> Settings:
    """Set what the level of removal stands for, unless it is set."""
    numbers, model, views = settings.model.encoder == "mlp", settings.model, settings.augment
    changes: dict[str, object] = dict(REMOVAL[settings.removal.remove][numbers])
    if numbers and model.encoder_options:  # which set the width of the network
        changes.pop("feature_width", None)
    mask = changes.pop("mask", None)
    if mask is not None and views.augmentation == "vectors":
        options = {"mask": mask, **views.augmentation_options}
        views = views.model_copy(update={"augmentation_options": options})
    return settings.with_defaults(**changes).model_copy(update={"augment": views})
