"""Checks of data before training: their content, problems in them, and the training time."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from cclk.condition import column_slices
from cclk.data.dataset import CONSTANT, UNLABELED, Dataset, Split
from cclk.data.streamed import StreamedImages, describe_faults
from cclk.errors import CclkWarning, DataError
from cclk.training import methods
from cclk.training.resolve import resolve
from cclk.training.run_folder import load_dataset
from cclk.training.settings import Settings
from cclk.training.trainer import Trainer
from cclk.weights.diagnose import judge
from cclk.weights.variants import weigh

_BATCH = 256
_SECONDS = 30
"""Time for reading images; training reads all of them."""
_LONG = 600
"""Seconds of training from which faster settings are proposed."""
_MEASURED = 5
"""Seconds after which no further step is measured."""
_LENET = 32
_FEW_NEIGHBORS = 1.5
_UNIQUE = 0.5
"""A categorical column with a larger share of distinct values names rows, not groups."""


@dataclass(frozen=True)
class Finding:
    """One result of a check.

    Attributes:
        level: How serious it is.
        text: One sentence.
    """

    level: Literal["fine", "warning", "problem"]
    text: str


def read(settings: Settings) -> tuple[Settings, Dataset, list[Finding]]:
    """Load the data, and return all settings of a run on them and the first findings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CclkWarning)
        dataset = load_dataset(settings)
        settings = resolve(settings, dataset)
    sizes = ", ".join(f"{len(split):,} {name}" for name, split in _splits(dataset).items())
    findings = [Finding("fine", dataset.description), Finding("fine", f"rows: {sizes}")]
    findings += [
        Finding("warning", str(warning.message))
        for warning in caught
        if issubclass(warning.category, CclkWarning)
    ]
    return settings, dataset, findings


def check(settings: Settings, dataset: Dataset) -> Iterator[Finding]:
    """Read all data once and yield findings, as they are made."""
    try:
        yield from _findings(settings, dataset)
    except DataError as error:  # such as a damaged image that `_images` did not sample
        yield Finding("problem", str(error))


def _findings(settings: Settings, dataset: Dataset) -> Iterator[Finding]:
    unreadable = False
    for finding in _images(dataset):
        unreadable = unreadable or finding.level == "problem"
        yield finding
    constant = not unreadable and dataset.train.is_constant()
    if constant:
        yield Finding("problem", CONSTANT)
    else:
        yield from _inputs(dataset.train)
    yield from _labels(dataset)
    yield from _columns(dataset)
    if settings.train.batch_size > len(dataset.train):
        yield Finding(
            "problem",
            f"a batch of {settings.train.batch_size} is larger than the training split:"
            f" batch_size must be at most {len(dataset.train)}",
        )
        return
    yield from _neighbors(settings, dataset)
    if not unreadable and not constant:
        yield _duration(settings, dataset)


def _splits(dataset: Dataset) -> dict[str, Split]:
    return {
        "to train on": dataset.train,
        "to validate on": dataset.validation,
        "to test on": dataset.test,
    }


def _images(dataset: Dataset) -> Iterator[Finding]:
    faults, total, tried = _faults(dataset, _SECONDS)
    if faults:
        yield Finding("problem", describe_faults(faults, total))
    elif total:
        some = (
            f"all {total:,} images can be read"
            if tried == total
            else f"{tried:,} of {total:,} images were read, within {_SECONDS} seconds, without a"
            " fault; training reads all of them first"
        )
        yield Finding("fine", some)
        sample = dataset.train.x[torch.arange(min(_BATCH, len(dataset.train)))]
        if sample.shape[1] == 3 and bool((sample == sample[:, :1]).all()):
            yield Finding(
                "warning",
                "the images seem to be gray: gray=True reads one channel instead of three",
            )


def require_readable(dataset: Dataset) -> None:
    """Read all images of a dataset, and raise one error for those that cannot be read."""
    faults, total, _ = _faults(dataset)
    if faults:
        raise DataError(describe_faults(faults, total))


def _faults(dataset: Dataset, seconds: float = math.inf) -> tuple[dict[str, str], int, int]:
    """The path and fault of images that cannot be read, the number of images, and of those read."""
    faults: dict[str, str] = {}
    splits = [split.x for split in _splits(dataset).values() if isinstance(split.x, StreamedImages)]
    total, tried = sum(map(len, splits)), 0
    for x in splits:
        more, count = x.faults(seconds * len(x) / max(total, 1))
        faults, tried = faults | more, tried + count
    return faults, total, tried


def _inputs(split: Split) -> Iterator[Finding]:
    if isinstance(split.x, Tensor) and split.x.dtype != torch.uint8:
        constant = int((split.x == split.x[:1]).all(dim=0).sum())
        if constant:
            yield Finding(
                "warning", f"{constant} of {split.x.shape[1]} inputs never change: leave them out"
            )


def _labels(dataset: Dataset) -> Iterator[Finding]:
    if len(dataset.classes) == 1:
        what = (
            "only leaks can be measured"
            if dataset.columns
            else "without a condition either, nothing can be measured"
        )
        lack = (
            "there is no label"
            if dataset.classes == (UNLABELED,)
            else f"the label has only one class ({dataset.classes[0]})"
        )
        yield Finding("warning", f"{lack}: the encoder can be trained, but {what}")
        return
    counts = torch.bincount(dataset.train.y, minlength=len(dataset.classes))
    least, most = int(counts.argmin()), int(counts.argmax())
    shares = (
        f"from {int(counts[least]):,} rows ({dataset.classes[least]}) to {int(counts[most]):,}"
        f" ({dataset.classes[most]})"
    )
    text = f"label: {len(counts)} classes, {shares}"
    rare = int(counts[least]) < 10 or int(counts[most]) > 20 * int(counts[least])
    yield Finding(
        "warning" if rare else "fine",
        text + (": rare classes will hardly be learned" if rare else ""),
    )


def _columns(dataset: Dataset) -> Iterator[Finding]:
    for column, part in column_slices(dataset.columns):
        values = dataset.train.condition[:, part]
        distinct = len(torch.unique(values, dim=0))
        if distinct == 1:
            yield Finding("problem", f"condition {column.name} never changes: leave it out")
        elif column.kind == "categorical" and distinct > _UNIQUE * len(values):
            yield Finding(
                "problem",
                f"condition {column.name} has {distinct:,} categories in {len(values):,} rows, too"
                " many to share one: is it a number, or an id?",
            )
        elif (
            column.kind == "categorical"
            and int(torch.unique(values, return_counts=True)[1].min()) < 2
        ):
            yield Finding(
                "warning",
                f"condition {column.name} has categories with one row, which have no neighbors",
            )


def _neighbors(settings: Settings, dataset: Dataset) -> Iterator[Finding]:
    """Check the number of neighbors in a batch and the kernel; suggest what adds neighbors."""
    examined = _examined(settings, dataset)
    if examined is None:
        return
    size = settings.train.batch_size
    effective, wrong = examined
    text = f"in a batch of {size} the median anchor has {effective:.1f} effective neighbors"
    if effective >= _FEW_NEIGHBORS:
        # The same judgment as in `cclk.diagnose` and in the first step of training.
        yield Finding("fine", text) if wrong is None else Finding("warning", wrong)
        return
    for larger in (2 * size, 4 * size, 8 * size):
        if larger + settings.train.queue <= len(dataset.train):
            more = settings.model_copy(
                update={"train": settings.train.model_copy(update={"batch_size": larger})}
            )
            better = _examined(more, dataset)
            if better is not None and better[0] >= _FEW_NEIGHBORS:
                yield Finding(
                    "warning",
                    f"{text}: use batch_size={larger}, or queue={larger - size} with ema=0.5",
                )
                return
    yield Finding("warning", f"{text}: use fewer condition columns, or the sampler local")


def _examined(settings: Settings, dataset: Dataset) -> tuple[float, str | None] | None:
    """Effective neighbors of the median anchor, and a problem of the kernel, if any."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CclkWarning)
        built = methods.build(settings, dataset)
        if built.kernel is None or built.condition is None:
            return None
        rows = built.sampler.batch(0)
        others = torch.arange(len(dataset.train))
        queue = others[~torch.isin(others, rows)][: settings.train.queue]
        seen = built.condition.rows(torch.cat([rows, queue]))
        how = methods.conditioning(built, settings)
        how.kernel.ensure_fitted(seen)
        found = judge(how, weigh(how, seen, torch.float64), anchors=len(rows))
        return float(found.effective_sample_size.median()), found.problem


def _duration(settings: Settings, dataset: Dataset) -> Finding:
    """The training time, measured by a few steps, and settings that shorten a long one."""
    seconds, steps = _step_time(settings, dataset)
    width = settings.model.encoder_options.get("width")
    network = settings.model.encoder + (f" of width {width}" if width else "")
    text = (
        f"training {network} will take about {_time(seconds * steps)}: {steps:,} steps of"
        f" {seconds * 1000:.0f} ms"
    )
    if seconds * steps <= _LONG:
        return Finding("fine", text)
    few = int(_LONG / seconds)
    faster = [f"steps={few} takes {_time(few * seconds)}"] if few else []
    shape, stem = dataset.train.x.shape[1:], settings.model.encoder_options.get("stem")
    if len(shape) == 3 and max(shape[1:]) == _LENET and settings.model.encoder != "lenet5":
        model = settings.model.model_copy(update={"encoder": "lenet5", "encoder_options": {}})
        small, _ = _step_time(settings.model_copy(update={"model": model}), dataset)
        if small < seconds / 2:
            faster.insert(0, f"encoder='lenet5' takes {_time(small * steps)}")
    elif len(shape) == 3 and max(shape[1:]) > _LENET and stem == "cifar":
        less = seconds * (_LENET / max(shape[1:])) ** 2  # as the number of pixels
        faster.insert(0, f"image_size={_LENET} takes {_time(less * steps)}")
    return Finding("warning", "; ".join([text, *faster]))


def _step_time(settings: Settings, dataset: Dataset) -> tuple[float, int]:
    """The seconds of a step, and the number of steps."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CclkWarning)
        with closing(Trainer(settings, dataset)) as trainer:
            times: list[float] = []
            while len(times) < 4 and sum(times) < _MEASURED:
                began = time.perf_counter()
                trainer.step(len(times) % trainer.total)
                times.append(time.perf_counter() - began)
    later = times[1:] or times  # the first step is slower
    return sum(later) / len(later), trainer.total


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"
