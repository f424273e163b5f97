"""From settings and data to what a method needs: its loss, its batches, and the condition as the
loss sees it.
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import cclk
from cclk import kernels
from cclk.columns import Column
from cclk.condition import Condition, placed
from cclk.data.dataset import Dataset
from cclk.data.samplers import BatchSampler, ClusterBatches, LocalBatches, Uniform
from cclk.errors import SettingsError
from cclk.losses.base import ContrastiveLoss
from cclk.training.settings import Settings


@dataclass(frozen=True)
class Method:
    """A loss, and what it is given beside the embeddings."""

    loss: ContrastiveLoss
    sampler: BatchSampler
    condition: Condition | None
    """Of each training row: what the loss conditions on, clusters included; None for the
    anchor's own embedding, or for nothing.
    """
    kernel: kernels.Kernel | None
    """The fitted kernel, if there is one."""


def build(settings: Settings, dataset: Dataset) -> Method:
    """The method of these settings on this dataset; kernels are fitted on its training split."""
    condition = standardized(settings, dataset)
    points = distances(condition)
    clusters = (
        _clusters(settings, dataset, points)
        if settings.method in ("weaksup-infonce", "fair-infonce")
        else None
    )
    kernel = _kernel(settings, dataset) if settings.method.endswith("cclk") else None
    sampler = _sampler(settings, dataset, points, clusters)
    if settings.method == "hardneg-cclk" or not dataset.columns:
        return Method(_loss(settings, kernel), sampler, None, kernel)
    if kernel is not None:
        kernel.fit(condition, batch_size=settings.train.batch_size + settings.train.queue)
    if clusters is not None:
        condition = Condition(clusters[:, None], (Column("cluster", "categorical"),))
    return Method(_loss(settings, kernel), sampler, condition, kernel)


def fitting_batch(settings: Settings, dataset: Dataset) -> tuple[Settings, str]:
    """Settings whose batch is not larger than the training split, and what to tell about it.

    The default size is lowered to the largest power of two that fits beside the queue. A size that
    was given stays: `build` rejects it.
    """
    size, room = settings.train.batch_size, len(dataset.train) - settings.train.queue
    if "batch_size" in settings.train.model_fields_set or size <= room or room < 2:
        return settings, ""
    lower = 1 << (room.bit_length() - 1)
    train = settings.train.model_copy(update={"batch_size": lower})
    queue = f" and a queue of {settings.train.queue}" if settings.train.queue else ""
    told = (
        f"batch_size is {lower} instead of {size}: {dataset.name} has {len(dataset.train)} training"
        f" rows{queue}"
    )
    return settings.model_copy(update={"train": train}), told


def standardized(settings: Settings, dataset: Dataset) -> Condition:
    """The training condition in the units that the kernel sees."""
    return dataset.condition(dataset.train).standardized(
        settings.data.condition_scale, unit_variance=settings.data.standardize
    )


def distances(condition: Condition) -> Tensor:
    """The condition as points whose distances mean something: categories as corners of a
    simplex, all else as it is.
    """
    parts = [condition.values[:, :0]]
    for column, place in placed(condition.columns):
        values = condition.values[:, place]
        parts.append(
            F.one_hot(values[:, 0].long()).float()
            if column.kind == "categorical" and len(condition.columns) > 1
            else values
        )
    return torch.cat(parts, dim=1)


def _kernel(settings: Settings, dataset: Dataset) -> kernels.Kernel:
    """The product of a kernel for each column: similar means similar in every column."""
    if settings.method == "hardneg-cclk" or not dataset.columns:  # the condition is the embedding
        return _leaf(
            settings,
            Column("", "embedding", kernel=dataset.columns[0].kernel if dataset.columns else ""),
        )
    return functools.reduce(operator.mul, [_leaf(settings, column) for column in dataset.columns])


def _leaf(settings: Settings, column: Column) -> kernels.Kernel:
    chosen, loss, columns = (
        column.kernel or settings.loss.kernel,
        settings.loss,
        column.name or None,
    )
    if column.nominal and chosen not in ("auto", "delta"):
        raise SettingsError(
            f"the kernel {chosen} needs numbers, but condition {column.name} holds categories: "
            "choose delta, or auto, which selects a kernel for each column"
        )
    match chosen:
        case "rbf":
            return kernels.RBF(columns, length_scale=loss.length_scale, neighbors=loss.neighbors)
        case "laplacian":
            return kernels.Laplacian(
                columns, length_scale=loss.length_scale, neighbors=loss.neighbors
            )
        case "linear":
            return kernels.Linear(columns)
        case "cosine":
            return kernels.Cosine(columns)
        case "polynomial":
            return kernels.Polynomial(columns, degree=loss.degree, offset=loss.offset)
        case "delta":
            return kernels.Delta(columns)
    return kernels.for_column(column, length_scale=loss.length_scale, neighbors=loss.neighbors)


def _loss(settings: Settings, kernel: kernels.Kernel | None) -> ContrastiveLoss:
    loss = settings.loss
    common: dict[str, Any] = {
        "temperature": loss.temperature, "views": loss.views, "gather_distributed": True,
        # with keys, each way is a loss of its own
        "symmetric": loss.symmetric and not settings.train.queue,
    }  # fmt: skip
    conditional: dict[str, Any] = {
        "kernel": kernel,
        "ridge": loss.ridge,
        "solver": loss.solver,
        "weights": loss.weights,
        **common,
    }
    match settings.method:
        case "infonce":
            return cclk.InfoNCE(**common)
        case "weaksup-infonce":
            return cclk.WeaklySupInfoNCE(**common)
        case "fair-infonce":
            return cclk.FairInfoNCE(**common)
        case "hardneg-infonce":
            return cclk.HardNegInfoNCE(loss.beta, loss.tau_plus, **common)
        case "weaksup-cclk":
            return cclk.WeaklySupCCLK(**conditional)
        case "fair-cclk":
            return cclk.FairCCLK(**conditional)
    return cclk.HardNegCCLK(**conditional)


def _clusters(settings: Settings, dataset: Dataset, points: Tensor) -> Tensor:
    """K-means clusters of numbers; categories are clusters already, and so are distinct values
    if the settings say so.
    """
    count = settings.loss.clusters
    if dataset.condition_kind == "categorical" or count == "values":
        values, clusters = torch.unique(dataset.train.condition, dim=0, return_inverse=True)
        if len(values) == len(clusters) and settings.method == "fair-infonce":
            raise SettingsError(
                f"loss.clusters is 'values', but no two rows of {dataset.name} have the same: give"
                " a number of k-means clusters"
            )
        return clusters  # type: ignore[no-any-return]
    from cclk.data.kmeans import kmeans

    return kmeans(points, count, settings.seed)


def _sampler(
    settings: Settings, dataset: Dataset, points: Tensor, clusters: Tensor | None
) -> BatchSampler:
    rows, size, seed = len(dataset.train), settings.train.batch_size, settings.seed
    if size > rows:
        raise SettingsError(
            f"train.batch_size is {size}, but {dataset.name} has {rows} training rows: choose at"
            f" most {rows}"
        )
    if size + settings.train.queue > rows:
        raise SettingsError(
            f"train.queue is {settings.train.queue}, but {dataset.name} has {rows} training rows: "
            f"beside a batch of {size}, choose at most {rows - size}"
        )
    chosen = settings.train.sampler
    if chosen == "auto":
        chosen = "uniform" if clusters is None else "clusters"
    if chosen == "local":
        if not dataset.columns:
            raise SettingsError(
                f"train.sampler is 'local', but {dataset.name} has no condition: choose 'uniform'"
            )
        if size % settings.train.group:
            raise SettingsError(
                f"train.group is {settings.train.group}: it must divide train.batch_size, {size}"
            )
        return LocalBatches(points, size, seed=seed, group=settings.train.group)
    if chosen == "clusters":
        if clusters is None:
            raise SettingsError(
                f"train.sampler is 'clusters', but {settings.method} has none: use a cluster"
                " baseline, or 'local'"
            )
        return ClusterBatches(
            clusters,
            size,
            seed=seed,
            mode="fair" if settings.method == "fair-infonce" else "weaksup",
        )
    return Uniform(rows, size, seed=seed)
