"""The library API of the command line: `train` and `check`, and a `Run` with its verbs.

run = cclk.train(data="people.csv", image="path", condition=["age", "site"], label="smiling")
print(run.evaluate())
run.report("report.html")
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, overload

import numpy as np
import numpy.typing as npt
import torch
from rich.progress import track

from cclk._files import make_parent
from cclk._notebook import Shown
from cclk._terminal import Console
from cclk.condition import Condition
from cclk.errors import RunError, SettingsError
from cclk.evaluation import Evaluation, Leakage, leakage, read_evaluation
from cclk.evaluation.run_evaluation import evaluate_run, predict_removal
from cclk.report import view_run, write_report
from cclk.training import check as checking
from cclk.training import loop as training
from cclk.training.check import Finding
from cclk.training.embeddings import write_embeddings
from cclk.training.encoder import TrainedEncoder
from cclk.training.export import Erase, Format, export
from cclk.training.methods import find
from cclk.training.run_folder import ENCODER, RunFolder
from cclk.training.samples import read_samples
from cclk.training.settings import Missing, Settings, load

PathLike = str | os.PathLike[str]
P = ParamSpec("P")
R = TypeVar("R")


class Run(Shown, RunFolder):
    """A run and what can be done with it.

    Args:
        folder: The folder of a run, as `cclk.train` and `cclk train` write it.
        trust_code: The import paths that its settings may name, `package.module:thing`, or True for
            all.

    Attributes:
        folder: The folder.
        settings: All settings of the run.
        metadata: Version, command, content hash of the data, and number of threads.

    Example:
        run = cclk.Run("runs/people")
        run.evaluate().leakage["age"].worst
    """

    @cached_property
    def encoder(self) -> TrainedEncoder:
        """The trained encoder, in evaluation mode; see `cclk.load`."""
        return TrainedEncoder(self)

    def __str__(self) -> str:
        state: object = "not evaluated" if (self.folder / ENCODER).exists() else "not finished"
        try:
            state = read_evaluation(self.folder) or state
        except RunError as error:
            state = error
        method, data = self.settings.method, Path(self.settings.source).name
        return f"{self.folder}: {method} on {data}\n{state}"

    @property
    def evaluation(self) -> Evaluation | None:
        """The last evaluation; None if the run has not been evaluated."""
        return read_evaluation(self.folder)

    def resume(self, *, quiet: bool = False) -> Run:
        """Continue training from the newest checkpoint and return the finished run.

        Args:
            quiet: Whether to show no progress.
        """
        resumed = training.resume(self.folder, quiet=quiet, trust_code=True)  # it is open already
        return Run(resumed.folder, trust_code=True)

    def evaluate(
        self, *, bootstrap: int = 1000, quiet: bool = False, baselines: bool = True
    ) -> Evaluation:
        """Evaluate on the test split: accuracy of the label and leakage of the condition.

        Leakage is measured as by `cclk.leakage`. Also writes RUN/evaluation.json.

        Args:
            bootstrap: Resamples of the test split for the intervals.
            quiet: Whether to show no progress.
            baselines: Whether to evaluate the untrained encoder and the inputs too, which tells
                whether training removed the condition and what that cost in accuracy. If not, those
                of an earlier evaluation are kept.
        """
        if bootstrap < 1:
            raise RunError(f"bootstrap is {bootstrap}: it must be at least 1")
        return evaluate_run(self, bootstrap, quiet, baselines)

    def leakage(self) -> Leakage:
        """Measure the leakage of the condition from the encoder's features, by a panel of probes.

        Probes are fitted on the training split, tuned on the validation split and scored on the
        test split; see `cclk.leakage`.
        """
        if not self.dataset.columns:
            raise RunError(f"{self.folder} has no condition: train it with one")
        splits = (self.dataset.train, self.dataset.validation, self.dataset.test)
        features = torch.cat([self.embed_split(split)[0] for split in splits])
        condition = torch.cat([split.condition for split in splits])
        names = np.repeat(["train", "validation", "test"], [len(split) for split in splits])
        table = Condition(condition, self.dataset.columns)
        return leakage(features, table, names, self.settings.seed)

    @overload
    def embed(
        self,
        data: PathLike,
        out: None = None,
        *,
        data_dir: PathLike | None = None,
        row_id: str | None = None,
        batch_size: int = 256,
        quiet: bool = False,
    ) -> npt.NDArray[np.float32]: ...

    @overload
    def embed(
        self,
        data: PathLike,
        out: PathLike,
        *,
        data_dir: PathLike | None = None,
        row_id: str | None = None,
        batch_size: int = 256,
        quiet: bool = False,
    ) -> Path: ...

    def embed(
        self,
        data: PathLike,
        out: PathLike | None = None,
        *,
        data_dir: PathLike | None = None,
        row_id: str | None = None,
        batch_size: int = 256,
        quiet: bool = False,
    ) -> npt.NDArray[np.float32] | Path:
        """Embed the samples of a file or dataset; neither label nor condition is needed.

        Args:
            data: A .csv or .parquet table with the input columns of the run, an .npz file with an
                array x, or the name of a dataset. `Run.encoder.embed` takes images and arrays.
            out: The file to write: .parquet, .csv or .npz. By default nothing is written.
            data_dir: The folder of dataset files.
            row_id: The column that names each row; by default that of the run, else its number.
            batch_size: Samples at a time.
            quiet: Whether to show no progress.

        Returns:
            float32 (n, width), or the path of the file if one is written.
        """
        if batch_size < 1:
            raise RunError(f"batch_size is {batch_size}: it must be at least 1")
        folder = None if data_dir is None else Path(data_dir)
        x, ids = read_samples(self, os.fspath(data), folder, row_id)
        if tuple(x.shape[1:]) != self.shape:
            raise RunError(
                f"samples of {data} have the shape {tuple(x.shape[1:])}, but {self.folder} was"
                f" trained on {self.shape}"
            )
        console = Console(stderr=True, quiet=quiet)
        batches: Iterable[npt.NDArray[np.float32]] = track(
            self.encoder.batches(x, batch_size),
            "embedding",
            -(-len(x) // batch_size),
            console=console,
            disable=quiet or not console.is_terminal,
        )
        width = self.encoder.width
        if out is None:
            return np.concatenate([np.empty((0, width), np.float32), *batches])
        write_embeddings(Path(out), ids, width, batches)
        return Path(out)

    def export(
        self,
        format: Format = "onnx",  # noqa: A002
        out: PathLike | None = None,
        *,
        erase: Erase | None = None,
    ) -> Path:
        """Write the encoder in the format of other tools, verified to give the same features.

        Args:
            format: "onnx", "safetensors" or "torch" (a program of `torch.export`).
            out: The file to write; by default RUN/export.onnx, .safetensors or .pt2.
            erase: "linear" erases every linear trace of the condition in the last layer; see
                `cclk.LinearEraser`. Needs the training data.
        """
        return export(self.encoder, format, None if out is None else Path(out), erase)

    def report(self, out: PathLike = "report.html", *, beside: Sequence[Run] = ()) -> Path:
        """Write an HTML page that needs no network, and return its path.

        Args:
            out: The page to write.
            beside: Other runs to show on the same page.
        """
        make_parent(Path(out))  # fails before the work, not after
        return write_report([view_run(run) for run in (self, *beside)], Path(out))


_OF_THE_FOLDER = ("out", "command", "quiet")
"""The arguments of `train` that are not settings."""


def train(
    data: PathLike | None = None,
    *,
    image: str | None = None,
    features: Sequence[str] | str | None = None,
    condition: Sequence[str] | str | None = None,
    label: str | None = None,
    split: str | None = None,
    split_by: str | None = None,
    row_id: str | None = None,
    missing: Missing | None = None,
    image_size: int | None = None,
    gray: bool | None = None,
    method: str | None = None,
    remove: str | None = None,
    dataset: str | None = None,
    seed: int | None = None,
    encoder: str | None = None,
    kernel: str | None = None,
    temperature: float | None = None,
    optimizer: str | None = None,
    lr: float | None = None,
    batch_size: int | None = None,
    epochs: float | None = None,
    steps: int | None = None,
    preset: str | None = None,
    settings: Settings | PathLike | None = None,
    overrides: Mapping[str, object] | None = None,
    trust_code: bool | Collection[str] = False,
    out: PathLike | None = None,
    command: str = "",
    quiet: bool = False,
) -> Run:
    """Train an encoder into a run folder: `cclk train` in Python, with the same defaults.

    Args:
        data: A .csv or .parquet table.
        image: The column with paths of images, relative to the table.
        features: Or columns of numbers, by name or by a pattern such as 'sensor_*'.
        condition: Columns to use, ignore or find hard; a kind or a kernel may follow, such as
            'site:categorical' or 'age:laplacian'.
        label: The column that probes predict.
        split: The column with train, validation or test; by default rows are drawn, 70 : 15 : 15.
        split_by: The column that names persons or the like, whose rows are all in one split.
        row_id: The column that names each row; by default its number.
        missing: What to do with rows that lack a value: "error" (the default), "drop" or "impute".
        image_size: Pixels, by default 32; images are cropped to a square and resized.
        gray: Whether to read images in gray.
        method: What to learn from the condition, such as "fair-cclk".
        remove: How much of the condition to remove with a fair method: "none", "light", "medium" or
            "strong"; by default "medium" for a table, else "none".
        dataset: A dataset by name, instead of `data`.
        seed: Of weights, batches and views.
        encoder: An encoder by name, such as "resnet18", or `package.module:factory`.
        kernel: The kernel of all condition columns; by default selected for each by its kind.
        temperature: Cosine similarities are divided by it.
        optimizer: An optimizer by name, such as "sgd".
        lr: The base learning rate.
        batch_size: Samples per step.
        epochs: Passes over the training split, instead of `steps`.
        steps: Batches to train on.
        preset: Settings that come with cclk, such as "digits-fair".
        settings: All settings, or the path of a TOML file with settings.
        overrides: Any other settings by name, such as {"weights": "nw"}; docs/reference/settings.md
            lists them.
        trust_code: The import paths that a file of settings may name, or True for all.
        out: The folder of the run; by default runs/METHOD-DATASET-seedSEED.
        command: The command to record in settings.json.
        quiet: Whether to show no progress.

    Example:
        run = cclk.train("people.csv", image="path", condition=["age", "site"], label="smiling")
    """
    complete = complete_settings(**_of_settings(locals()))
    folder = default_folder(complete) if out is None else Path(out)
    trained = training.train(complete, folder, command=command, quiet=quiet)
    return Run(trained.folder, trust_code=True)


def _of_settings(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `train` that determine its settings."""
    return {name: value for name, value in arguments.items() if name not in _OF_THE_FOLDER}


def complete_settings(
    *,
    preset: str | None = None,
    settings: Settings | PathLike | None = None,
    overrides: Mapping[str, object] | None = None,
    trust_code: bool | Collection[str] = False,
    **named: object,
) -> Settings:
    """The settings that the arguments of `train` stand for; None in `named` means the default."""
    passed = {name: value for name, value in named.items() if value is not None}
    changes = {**(overrides or {}), **passed}
    if {"epochs", "steps"} <= changes.keys():
        raise SettingsError("epochs and steps both set the length of training: pass one")
    if not changes and settings is None and preset is None:
        raise RunError(
            "there is nothing to train: pass data=FILE, dataset=NAME, preset=NAME or a settings"
            " file"
        )
    if isinstance(settings, Settings):
        if preset is not None or changes:
            raise RunError("pass settings or other arguments that change settings, not both")
        return settings
    source = None if settings is None else Path(settings)
    return load(source, preset, changes, trust_code=trust_code)


def _with_arguments_of(
    trains: Callable[P, Run],
) -> Callable[[Callable[[Settings], R]], Callable[P, R]]:
    """Let a function of settings take the arguments of `train`, except those of its folder."""
    signature = inspect.signature(trains)
    own = signature.replace(parameters=list(_of_settings(signature.parameters).values()))

    def decorate(function: Callable[[Settings], R]) -> Callable[P, R]:
        @functools.wraps(function)
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
            return function(complete_settings(**own.bind(*args, **kwargs).arguments))

        result = inspect.signature(function).return_annotation
        vars(wrapped)["__signature__"] = own.replace(return_annotation=result)
        return wrapped

    return decorate


@_with_arguments_of(train)
def check(settings: Settings) -> list[Finding]:
    """Check data as `train` would read them: `cclk check` in Python, with the same findings.

    They are what the data contain, what is wrong with them, the training time, and, if a condition
    is to be removed and there is no problem, how much of it inputs, untrained encoder and label
    reveal.

    Takes the arguments of `train`, except those of the folder.

    Returns:
        Findings with a `level` ("fine", "warning" or "problem") and a `text`.
    """
    return list(findings(settings))


def findings(settings: Settings) -> Iterator[Finding]:
    """Yield the findings of `check` as they are made."""
    settings, dataset, first = checking.read(settings)
    problems = False
    for finding in (*first, *checking.check(settings, dataset)):
        problems = problems or finding.level == "problem"
        yield finding
    removes = find(settings.method).removes or settings.removal.leakage_penalty
    if removes and not problems:
        yield from predict_removal(settings, dataset)


def default_folder(settings: Settings) -> Path:
    """The folder of a run if none is passed: runs/METHOD-DATASET-seedSEED."""
    names = (settings.method, Path(settings.source).stem)
    method, dataset = (
        name.rpartition(":")[2] for name in names
    )  # of an import path, the last part
    return Path("runs") / f"{method}-{dataset}-seed{settings.seed}"
