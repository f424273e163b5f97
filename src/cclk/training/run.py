"""A run folder: what is in it, and how to get the trained encoder back out of it.

RUN/settings.json         everything the run depends on, the command, the version and the fingerprint of the data
RUN/metrics.jsonl         one line per logged step
RUN/tensorboard/          the same for TensorBoard
RUN/checkpoints/          step-000500.ckpt ...: model, optimizer and kernel; training goes on from the newest
RUN/encoder.safetensors   the trained encoder and head, with the settings and the kernel's fitted state as metadata
RUN/evaluation.json       written by `cclk evaluate`
"""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from cclk import datasets
from cclk.data.dataset import Dataset, Split
from cclk.data.fingerprint import fingerprint
from cclk.data.table_file import Table
from cclk.errors import RunError, SettingsError
from cclk.files import read_tensors
from cclk.training import files
from cclk.training.network import Network, embed
from cclk.training.settings import CONDITIONAL, METHODS, Settings, parse

SETTINGS, METRICS, ENCODER, CHECKPOINTS = (
    "settings.json",
    "metrics.jsonl",
    "encoder.safetensors",
    "checkpoints",
)
TENSORBOARD = "tensorboard"
ABOUT = ("version", "command", "data_fingerprint", "threads")
"""What is kept in settings.json beside the settings."""


def load_dataset(settings: Settings) -> Dataset:
    """The dataset of these settings."""
    options = dict(settings.data.dataset_options)
    if settings.data.holdout is not None:
        options["holdout"] = settings.data.holdout
    found = datasets.load(settings.data.dataset, data_dir=settings.data.data_dir, seed=0, **options)
    if not found.columns and settings.method in CONDITIONAL:
        path = Path(settings.data.dataset).expanduser()
        columns = (
            "an array `condition`"
            if path.suffix == ".npz"
            else f"at least one --condition of {', '.join(Table(path).names[:20])}"
        )
        others = ", ".join(method for method in METHODS if method not in CONDITIONAL)
        raise SettingsError(
            f"{settings.method} needs a condition: add {columns}, or choose a method that needs"
            f" none ({others})"
        )
    return found


class Run:
    """A run that has been started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        content = files.read_json(folder / SETTINGS)
        self.about: dict[str, Any] = {key: content.pop(key, None) for key in ABOUT}
        self.settings = parse(content, str(folder / SETTINGS))

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @cached_property
    def dataset(self) -> Dataset:
        """What the run learns from; an error if it is no longer the same, for then training rows
        could be taken for test rows.
        """
        found = load_dataset(self.settings)
        if self.about["data_fingerprint"] not in (None, fingerprint(found)):
            raise RunError(
                f"{self.settings.data.dataset} has changed since {self.folder} was begun: its rows"
                " would be split another way and training rows measured as new ones; bring the old"
                " data back or train anew (cclk embed takes any data)"
            )
        return found

    @cached_property
    def _stored(self) -> tuple[dict[str, Tensor], dict[str, str]]:
        path = self.folder / ENCODER
        if not path.exists():
            raise RunError(
                f"{self.folder} has no {ENCODER}: its training has not ended; go on with cclk train"
                f" --resume --out {self.folder}"
            )
        try:
            return read_tensors(path)
        except OSError as error:
            raise RunError(f"{path} is damaged: {error}") from error

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a sample: (c, h, w) or (k,)."""
        return tuple(json.loads(self._stored[1]["shape"]))

    @property
    def inputs(self) -> list[str]:
        """The names of the columns that the encoder takes, in their order, where they have names."""
        names: list[str] = json.loads(self._stored[1]["inputs"])
        return names

    @cached_property
    def network(self) -> Network:
        """The trained network, ready to embed."""
        network = Network(self.settings, self.shape)
        try:
            network.load_state_dict(self._stored[0])
        except RuntimeError as error:
            raise RunError(
                f"{self.folder / ENCODER} does not fit its settings: {str(error).splitlines()[0]}"
            ) from error
        return network.eval()

    @property
    def kernel_state(self) -> dict[str, float]:
        """The fitted length scales of the kernel."""
        state: dict[str, float] = json.loads(self._stored[1]["kernel"])
        return state

    def metrics(self) -> list[dict[str, Any]]:
        """What was logged."""
        return read_metrics(self.folder / METRICS)

    def embed(self, split: Split) -> tuple[Tensor, Tensor]:
        """Features of the encoder (n, width) and their projections (n, d), of the samples as
        they are.
        """
        return embed(self.network, split)


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of a metrics file; a last line cut off by a crash is left out."""
    if not path.exists():
        return []
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line.replace("effective_partners", "effective_neighbors")))
        except ValueError:
            break
    return found
