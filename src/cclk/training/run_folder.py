"""A run folder: what it contains, and the trained network in it.

RUN/settings.json         all settings, the command, the version and the content hash of the data
RUN/metrics.jsonl         one line for each logged step
RUN/checkpoints/          step-000000500.safetensors ...: network, optimizer and kernel
RUN/encoder.safetensors   the trained encoder and head; settings and kernel state as metadata
RUN/evaluation.json       written by `Run.evaluate`
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path

from pydantic import TypeAdapter
from torch import Tensor

from cclk import datasets
from cclk._files import replace_text
from cclk._reading import check_json, read_json, reason
from cclk.data.dataset import Dataset, Split
from cclk.data.fingerprint import fingerprint
from cclk.data.folder import reading_only
from cclk.data.table_file import TableFile
from cclk.errors import CclkError, RunError, SettingsError
from cclk.kernels import Kernel
from cclk.registry import METHODS, require_trust
from cclk.training import methods
from cclk.training.checkpoints import changed_settings
from cclk.training.metrics import read_metrics
from cclk.training.network import ContrastiveNetwork, EncoderFile, embed
from cclk.training.settings import Settings, import_paths, parse
from cclk.training.trainer import Trainer

SETTINGS, ENCODER = "settings.json", "encoder.safetensors"


def load_dataset(settings: Settings) -> Dataset:
    """The dataset that these settings name."""
    options = settings.source_options
    if settings.data.holdout is not None:
        options["holdout"] = settings.data.holdout
    # The data do not depend on the run's seed: runs with several seeds have the same splits.
    dataset = datasets.load(settings.source, data_dir=settings.data.data_dir, seed=0, **options)
    if not dataset.columns and methods.find(settings.method).needs_condition:
        path = Path(settings.source).expanduser()
        columns = "an array `condition`"
        if path.suffix in (".csv", ".parquet"):
            columns = f"a condition among {', '.join(TableFile(path).names[:20])}"
        others = ", ".join(name for name in METHODS if not methods.find(name).needs_condition)
        raise SettingsError(
            f"{settings.method} needs a condition: add {columns}, or choose a method that needs"
            f" none ({others})"
        )
    return dataset


@dataclass(frozen=True)
class RunMetadata:
    """What settings.json holds beside the settings.

    Attributes:
        version: Of cclk.
        command: The command that started the run; empty if it was started from Python.
        data_fingerprint: Content hash of the dataset.
        threads: The number of threads that the run computes with.
    """

    version: str | None = None
    command: str | None = None
    data_fingerprint: str | None = None
    threads: int | None = None


_METADATA = TypeAdapter(RunMetadata)


def write_settings(folder: Path, settings: Settings, metadata: RunMetadata) -> None:
    """Write RUN/settings.json."""
    content = settings.model_dump(mode="json") | asdict(metadata)
    replace_text(folder / SETTINGS, json.dumps(content, indent=2) + "\n")


def write_encoder(folder: Path, trainer: Trainer) -> None:
    """Write RUN/encoder.safetensors."""
    kernel = trainer.method.kernel
    file = EncoderFile(
        trainer.settings.without_paths().model_dump(mode="json"),
        tuple(trainer.dataset.train.x.shape[1:]),
        list(trainer.dataset.inputs),
        {} if kernel is None else kernel.state_dict(),
    )
    file.write(folder / ENCODER, trainer.network.state_dict())


class RunFolder:
    """A run in its folder.

    Args:
        folder: The folder of a run that has been started.
        trust_code: The import paths that its settings may name, or True for all.

    Attributes:
        folder: The folder.
        settings: All settings of the run.
        metadata: Version, command, content hash of the data, and number of threads.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, trust_code: bool | Collection[str] = False
    ) -> None:
        self.folder = Path(folder)
        path = self.folder / SETTINGS
        try:
            content = read_json(path)
            if not isinstance(content, dict):
                raise CclkError("it must contain settings by name")
            names = [field.name for field in fields(RunMetadata)]
            self.metadata = check_json(
                _METADATA, {name: content.pop(name) for name in names if name in content}
            )
        except (FileNotFoundError, NotADirectoryError):
            raise RunError(
                f"{self.folder} contains no {SETTINGS}: is it the folder of a run?"
            ) from None
        except (OSError, CclkError) as error:
            raise RunError(f"{path} cannot be read: {reason(error)}") from error
        require_trust(import_paths(content), str(path), trust_code)
        self.settings = parse(content, str(path))
        data = self.settings.data
        if data.data_dir is not None and not _is_folder(data.data_dir):
            # On another machine. That the data are the same is verified by their content.
            data = data.model_copy(update={"data_dir": None})
            self.settings = self.settings.model_copy(update={"data": data})

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.folder.resolve().name

    @cached_property
    def dataset(self) -> Dataset:
        """The dataset of the run.

        If it has changed since training, this is an error: rows would be split in another way, and
        training rows evaluated as test rows.
        """
        with reading_only():
            dataset = load_dataset(self.settings)
        if self.metadata.data_fingerprint not in (None, fingerprint(dataset)):
            raise RunError(
                f"{self.settings.source} has changed since {self.folder} was started:"
                " training rows would be evaluated as test rows; restore the data or train"
                " again (embedding works with any data)"
            )
        return dataset

    @cached_property
    def _stored(self) -> tuple[EncoderFile, dict[str, Tensor]]:
        path = self.folder / ENCODER
        if not path.exists():
            raise RunError(f"{self.folder} contains no {ENCODER}: it is not finished; resume it")
        try:
            file, weights = EncoderFile.read(path)
        except (OSError, CclkError) as error:
            raise RunError(f"{path} is damaged: {reason(error)}") from error
        current = self.settings.without_paths().model_dump(mode="json")
        if changed := changed_settings(file.settings, current):
            raise RunError(
                f"{path} was trained with other settings than those in {SETTINGS}:"
                f" {'; '.join(changed)}. Restore the file that was changed"
            )
        return file, weights

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a sample: (c, h, w) or (k,)."""
        return self._stored[0].shape

    @property
    def inputs(self) -> list[str]:
        """The names of the input columns, in their order; empty for images and unnamed vectors."""
        return self._stored[0].inputs

    @cached_property
    def network(self) -> ContrastiveNetwork:
        """The trained network, in evaluation mode."""
        file, weights = self._stored
        try:
            return file.network(self.settings, weights)
        except CclkError as error:
            raise RunError(
                f"{self.folder / ENCODER} does not fit its settings: {reason(error)}"
            ) from error

    @cached_property
    def method(self) -> methods.Method:
        """Loss, sampler and condition of the run, with the kernel as it was fitted."""
        return methods.build(self.settings, self.dataset, self._stored[0].kernel)

    @property
    def kernel(self) -> Kernel | None:
        """The kernel of the run, fitted in training; None if the loss has none."""
        return self.method.kernel

    def metrics(self) -> list[dict[str, float]]:
        """The logged metrics, one dict for each logged step."""
        return read_metrics(self.folder)

    def embed_split(self, split: Split) -> tuple[Tensor, Tensor]:
        """Features (n, width) and projections (n, d) of the samples of a split."""
        return embed(self.network, split)


def _is_folder(path: Path) -> bool:
    try:
        return path.expanduser().is_dir()
    except (RuntimeError, ValueError):  # an unknown home, a null character
        return False


def make_folder(path: Path) -> None:
    """Create a folder that can be written to."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(
            f"{path} cannot be created: {error.strerror}; choose another folder"
        ) from error
    if not os.access(path, os.W_OK):
        raise RunError(f"{path} cannot be written to: choose another folder")
