"""Training methods: from settings and data to a loss, its batches and its condition."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cclk
from cclk.columns import Column
from cclk.condition import Condition, column_slices
from cclk.data.dataset import Dataset
from cclk.data.samplers import BatchSampler, ClusterBatches, LocalBatches, Uniform
from cclk.errors import SettingsError
from cclk.kernels import Kernel
from cclk.kernels.bandwidth import Scale
from cclk.registry import KERNELS, METHODS, call
from cclk.training.settings import OPTIONS, Settings
from cclk.weights.variants import Conditioning

__all__ = ["Method", "MethodSpec", "build", "find"]


@dataclass(frozen=True)
class MethodSpec:
    """A training method, as settings select it by name or import path.

    Args:
        loss: Class or function that returns the loss, a module called as `loss(x, y, condition)`.
            It is called with `temperature`, `weights` and those of the `loss_options`
            that its signature has, with the fitted `kernel` and with `gather_distributed=True`
            likewise. A loss that has no `gather_distributed` sees the rows of its own process only.
        conditions_on: What the loss gets as condition: the "condition" of the data, its k-means
            "clusters", or None, if it conditions on the "embedding" or on "nothing". A kernel for
            the "embedding" is built, but not fitted.
        batches: How batches are drawn with `sampler = "auto"`: "uniform"; "fair", each from one
            cluster; "weaksup", groups of rows of the same cluster; or "neighbors", groups of rows
            with similar conditions, unless the condition is categorical.
        removes: Whether the features should not reveal the condition.

    Example:
        >>> spec = MethodSpec(cclk.FairCCLK)
        >>> spec.needs_condition, spec.takes("kernel"), spec.takes("beta")
        (True, True, False)
    """

    loss: Callable[..., nn.Module]
    conditions_on: Literal["condition", "clusters", "embedding", "nothing"] = "condition"
    batches: Literal["uniform", "fair", "weaksup", "neighbors"] = "uniform"
    removes: bool = False

    @property
    def needs_condition(self) -> bool:
        """Whether the data must have a condition."""
        return self.conditions_on in ("condition", "clusters") or self.batches != "uniform"

    @property
    def needs_clusters(self) -> bool:
        """Whether the condition is divided into clusters."""
        return self.conditions_on == "clusters" or self.batches in ("fair", "weaksup")

    def takes(self, argument: str) -> bool:
        """Return whether the loss is built with an argument.

        Args:
            argument: Name of the argument, such as "kernel" or "ridge".
        """
        return argument in inspect.signature(self.loss).parameters


INFONCE = MethodSpec(cclk.InfoNCE, "nothing")
WEAKSUP_INFONCE = MethodSpec(cclk.WeaklySupInfoNCE, "clusters", "weaksup")
WEAKSUP_CCLK = MethodSpec(cclk.WeaklySupCCLK, batches="neighbors")
FAIR_INFONCE = MethodSpec(cclk.FairInfoNCE, "clusters", "fair", removes=True)
FAIR_CCLK = MethodSpec(cclk.FairCCLK, removes=True)
HARDNEG_INFONCE = MethodSpec(cclk.HardNegInfoNCE, "nothing")
HARDNEG_CCLK = MethodSpec(cclk.HardNegCCLK, "embedding")


def find(name: str) -> MethodSpec:
    """Return the specification of a method.

    Args:
        name: Name or import path of the method.
    """
    spec = METHODS[name]
    if not isinstance(spec, MethodSpec):
        raise SettingsError(
            f"the method {name!r} is a {type(spec).__name__}: it must be a"
            " cclk.training.methods.MethodSpec"
        )
    return spec


@dataclass(frozen=True)
class Method:
    """A loss and its inputs beside the embeddings.

    Args:
        loss: The loss.
        sampler: Draws the rows of each batch.
        condition: What the loss conditions on, for each training row; None if the loss conditions
            on the embedding or on nothing.
        kernel: The kernel of the loss, if it has one; fitted if there is a condition.
    """

    loss: nn.Module
    sampler: BatchSampler
    condition: Condition | None
    kernel: Kernel | None


def build(
    settings: Settings, dataset: Dataset, fitted: Mapping[str, Scale] | None = None
) -> Method:
    """Build a method on a dataset.

    Args:
        settings: The settings of the run, resolved.
        dataset: The data to train on.
        fitted: The state of the kernel; by default it is fitted on the training split.
    """
    spec, train = find(settings.method), settings.train
    if spec.needs_condition and not dataset.columns:
        raise SettingsError(
            f"{settings.method} needs a condition, but {dataset.name} has none: choose a method"
            " without one, such as infonce"
        )
    table = standardized(settings, dataset)
    points = as_points(table)
    clusters = None
    if spec.needs_clusters:
        clusters = _clusters(settings, dataset, points, spec)
    sampler = _sampler(settings, dataset, points, clusters, spec)
    kernels = _kernels(settings, dataset, spec) if spec.takes("kernel") else []
    condition = None
    if spec.conditions_on == "condition":
        named = zip(dataset.columns, kernels, strict=False)
        raw = [column.name for column, each in named if not _standardizes(each)]
        condition = standardized(settings, dataset, raw) if raw else table
    if spec.conditions_on == "clusters" and clusters is not None:
        condition = Condition(clusters[:, None], (Column("cluster", "categorical"),))
    # Samples are similar if they are in all columns.
    kernel = functools.reduce(operator.mul, kernels) if kernels else None
    if kernel is not None and fitted is not None:
        kernel.load_state_dict(fitted)
    elif kernel is not None and condition is not None:
        kernel.fit(condition, batch_size=train.batch_size + train.queue)
    return Method(_loss(settings, spec, kernel), sampler, condition, kernel)


def conditioning(method: Method, settings: Settings) -> Conditioning:
    """Return how the loss of a method weights samples.

    A loss that is not of this package is taken to use the weights of `FairCCLK`.

    Args:
        method: A method with a kernel.
        settings: The settings of the run.
    """
    own = getattr(method.loss, "conditioning", None)
    if isinstance(own, Conditioning):
        return own
    assert method.kernel is not None
    options = settings.loss.loss_options
    known: Any = {name: options[name] for name in ("ridge", "solver") if name in options}
    return Conditioning(method.kernel, **known)


def standardized(settings: Settings, dataset: Dataset, raw: Sequence[str] = ()) -> Condition:
    """Return the training condition in the units of the kernel.

    Args:
        settings: The settings of the run.
        dataset: The data to train on.
        raw: Names of columns whose kernel refuses standardization.
    """
    return dataset.condition(dataset.train).standardized(
        settings.data.condition_scale, unit_variance=settings.data.standardize, raw=raw
    )


def _standardizes(kernel: Kernel) -> bool:
    return all(leaf.standardize for leaf in kernel.leaves())


def as_points(condition: Condition) -> Tensor:
    """Return the condition as points with meaningful distances, (n, k).

    Several columns have their categories one-hot encoded, so that all categories are equally far
    from each other.

    Args:
        condition: The condition, n rows.
    """
    parts = [condition.values[:, :0]]
    for column, position in column_slices(condition.columns):
        values = condition.values[:, position]
        parts.append(
            F.one_hot(values[:, 0].long()).float()
            if column.kind == "categorical" and len(condition.columns) > 1
            else values
        )
    return torch.cat(parts, dim=1)


def _kernels(settings: Settings, dataset: Dataset, spec: MethodSpec) -> list[Kernel]:
    """A kernel for each column of what the loss conditions on."""
    columns = dataset.columns
    if spec.conditions_on == "embedding":
        named = (columns[0].kernel if columns else "") or settings.loss.kernel
        # Embeddings move during training: a length scale fitted beforehand would soon be wrong.
        columns = (Column("", "embedding", kernel="cosine" if named == "auto" else named),)
    elif spec.conditions_on == "clusters":
        columns = (Column("cluster", "categorical"),)
    return [_column_kernel(settings, each) for each in columns]


def _column_kernel(settings: Settings, column: Column) -> Kernel:
    name = column.kernel or settings.loss.kernel
    # Columns may have different kernels, which take different ones of the known options.
    known, own = _divided("kernel_options", settings.loss.kernel_options)
    arguments = {"column": column, "columns": column.name or None, **known}
    kernel = KERNELS.create(name, arguments, own)
    if not isinstance(kernel, Kernel):
        raise SettingsError(
            f"the kernel {name!r} is a {type(kernel).__name__}: it must be a cclk.kernels.Kernel"
        )
    if column.nominal and not all(getattr(leaf, "takes_text", True) for leaf in kernel.leaves()):
        raise SettingsError(
            f"the kernel {name} needs numbers, but condition {column.name} holds categories: choose"
            " delta, or auto, which selects a kernel for each column"
        )
    return kernel


def _divided(
    setting: str, options: Mapping[str, object]
) -> tuple[dict[str, object], dict[str, object]]:
    """Options that something in this package has, and others."""
    known = {name: value for name, value in options.items() if name in OPTIONS[setting]}
    return known, {name: value for name, value in options.items() if name not in known}


def _loss(settings: Settings, spec: MethodSpec, kernel: Kernel | None) -> nn.Module:
    # Settings that several methods share may name options that this loss does not have.
    known, own = _divided("loss_options", settings.loss.loss_options)
    arguments = known | {
        "temperature": settings.loss.temperature,
        "gather_distributed": True,
        "kernel": kernel,
    }
    if settings.loss.weights != "auto":  # the choice of the loss, by its kernel
        arguments["weights"] = settings.loss.weights
    if settings.train.queue:  # `Momentum` calls the loss once for each direction
        arguments["symmetric"] = False
    loss = call(spec.loss, arguments, own, what=f"the loss of {settings.method}")
    if not isinstance(loss, nn.Module):
        raise SettingsError(
            f"the loss of {settings.method} is a {type(loss).__name__}: it must be a"
            " torch.nn.Module"
        )
    if trained := [name for name, value in loss.named_parameters() if value.requires_grad]:
        raise SettingsError(
            f"the loss of {settings.method} learns {trained[0]}, but training optimizes the network"
            " only: use this loss in your own loop"
        )
    if settings.train.queue and "support" not in inspect.signature(loss.forward).parameters:
        raise SettingsError(
            f"train.queue is {settings.train.queue}, but the loss of {settings.method} takes no"
            " `support`: set the queue to 0"
        )
    return loss


def _clusters(settings: Settings, dataset: Dataset, points: Tensor, spec: MethodSpec) -> Tensor:
    """A cluster for each row: k-means clusters of numbers, or distinct values of the condition."""
    count = settings.loss.clusters
    if dataset.condition_kind == "categorical" or count == "values":
        values, clusters = torch.unique(dataset.train.condition, dim=0, return_inverse=True)
        if len(values) == len(clusters) and spec.batches == "fair":
            raise SettingsError(
                f"loss.clusters is 'values', but no two rows of {dataset.name} have the same: set"
                " a number of k-means clusters"
            )
        return clusters  # type: ignore[no-any-return]
    from cclk.data.kmeans import kmeans

    return kmeans(points, count, settings.seed)


def _sampler(
    settings: Settings,
    dataset: Dataset,
    points: Tensor,
    clusters: Tensor | None,
    spec: MethodSpec,
) -> BatchSampler:
    train, rows, seed = settings.train, len(dataset.train), settings.seed
    size = train.batch_size
    if size > rows:
        raise SettingsError(
            f"train.batch_size is {size}, but {dataset.name} has {rows} training rows: choose at"
            f" most {rows}"
        )
    if size + train.queue > rows:
        raise SettingsError(
            f"train.queue is {train.queue}, but {dataset.name} has {rows} training rows: beside a"
            f" batch of {size}, choose at most {rows - size}"
        )
    sampler, group = train.sampler, train.sampler_options
    if group and (sampler == "uniform" or (sampler == "clusters" and spec.batches == "fair")):
        drawn = "from one cluster each" if sampler == "clusters" else "uniformly"
        raise SettingsError(
            f"train.sampler_options is {group}, but {settings.method} draws its batches {drawn}:"
            " omit it, or choose the sampler local"
        )
    if sampler == "local":
        if not dataset.columns:
            raise SettingsError(
                f"train.sampler is 'local', but {dataset.name} has no condition: choose 'uniform'"
            )
        local: LocalBatches = call(
            LocalBatches,
            {"condition": points, "batch_size": size, "seed": seed},
            group,
            what="the sampler local",
        )
        return local
    if sampler == "clusters":
        if clusters is None:
            raise SettingsError(
                f"train.sampler is 'clusters', but {settings.method} has none: use a cluster"
                " baseline, or 'local'"
            )
        mode: Literal["fair", "weaksup"] = "fair" if spec.batches == "fair" else "weaksup"
        batches: ClusterBatches = call(
            ClusterBatches,
            {"clusters": clusters, "batch_size": size, "seed": seed, "mode": mode},
            group,
            what="the sampler clusters",
        )
        return batches
    return Uniform(rows, size, seed=seed)
