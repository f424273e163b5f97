"""Checks before a grid starts: whether its data exist, and how long it takes without a GPU.

The time is that of the network alone: forward and backward passes on random images, times two views
of every image of every step. Loading, augmentation and probes are small next to a ResNet.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from cclk.data.folder import data_folder
from cclk.errors import DataError
from cclk.training.network import ContrastiveNetwork
from cclk.training.run_folder import load_dataset
from cclk.training.settings import Settings, load
from cclk.training.trainer import total_steps
from cclk_paper.datasets.feature_files import read_features
from cclk_paper.experiments.job import Job

LIMIT_HOURS = 24.0
"""A grid that takes longer without a GPU must be confirmed."""
_BATCHES = (4, 32, 256)
_ENOUGH = 0.5  # seconds of a batch that is large enough to be timed


@dataclass(frozen=True)
class Extent:
    """The size of a dataset."""

    train: int
    validation: int
    shape: tuple[int, ...]
    """Of a sample."""


def check_data(jobs: Iterable[Job]) -> dict[str, Extent]:
    """Load each dataset of these jobs once.

    Raises:
        DataError: if a dataset is missing; an `ExceptionGroup` if several are.
    """
    extents: dict[str, Extent] = {}
    missing: dict[str, DataError] = {}
    every = (load(overrides=job.settings) for job in jobs)
    for name, settings in {_name(settings): settings for settings in every}.items():
        try:
            _check_features(settings)
        except DataError as error:
            missing[str(error)] = error
        try:
            dataset = load_dataset(settings)
        except DataError as error:
            missing[str(error)] = error
            continue
        shape = tuple(dataset.train.x.shape[1:])
        extents[name] = Extent(len(dataset.train), len(dataset.validation), shape)
    errors = list(missing.values())
    if len(errors) > 1:
        raise ExceptionGroup(
            f"{len(errors)} datasets or feature files are missing, and nothing was started:", errors
        )
    if errors:
        raise errors[0]
    return extents


def hours_without_gpu(jobs: Iterable[Job], extents: Mapping[str, Extent]) -> float:
    """Estimate how long these jobs take on this machine's CPU."""
    seconds: dict[str, float] = {}
    total = 0.0
    for job in jobs:
        settings = load(overrides=job.settings)
        extent, batch = extents[_name(settings)], settings.train.batch_size
        network = json.dumps(
            [_name(settings), settings.model.model_dump(mode="json"), settings.train.precision]
        )
        if network not in seconds:
            seconds[network] = _seconds_per_image(settings, extent.shape)
        rows = extent.train + (extent.validation if settings.data.holdout == 0 else 0)
        total += 2 * batch * total_steps(settings, max(1, rows // batch)) * seconds[network]
    return total / 3600


def _name(settings: Settings) -> str:
    """Identify a dataset, regardless of how many rows are held out."""
    return json.dumps(
        [settings.source, str(settings.data.data_dir), settings.source_options],
        sort_keys=True,
        default=str,
    )


def _check_features(settings: Settings) -> None:
    """Report a missing feature file even if the images, which are loaded first, are missing too."""
    features = settings.source_options.get("features")
    if isinstance(features, str):
        path = data_folder(settings.data.data_dir) / features
        if not path.is_file() and not Path(features).expanduser().is_file():
            read_features(path, settings.source)


def _seconds_per_image(settings: Settings, shape: tuple[int, ...]) -> float:
    network = ContrastiveNetwork(settings, shape)
    for size in _BATCHES:
        batch = torch.rand(size, *shape)
        began = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=settings.train.precision == "bfloat16"):
            network(batch).sum().backward()
        elapsed = time.perf_counter() - began
        if elapsed > _ENOUGH:
            break
    return elapsed / size
