"""Write the features of a pretrained encoder, for every image of a dataset, to a file.

A dataset loaded with `features=FILE` has these features as its condition, for example CLIP's.

    from cclk import backbones, datasets
    from cclk_paper import features

    images = features.load_all_rows("cifar10")
    extractor = backbones.build_extractor("mobilenetv2", channels=3, pixels=32)
    features.extract(images, extractor, Path("mobilenet.npz"))
    weak = datasets.load("cifar10", features="mobilenet.npz")
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import cclk
from cclk import datasets
from cclk.backbones.extractor import Extractor
from cclk.data import Dataset, Split
from cclk.data.streamed import StreamedImages
from cclk.errors import DataError, FeatureError
from cclk_paper._files import replace_file, writing
from cclk_paper.datasets.feature_files import row_ids

_BLOCK = 4096
"""Rows of features that are in memory in float64."""


def load_all_rows(
    name: str, *, data_dir: Path | None = None, options: Mapping[str, object] | None = None
) -> Dataset:
    """Load a dataset without a holdout, so that its features fit any later holdout.

    Args:
        name: name of the dataset, or an .npz file.
        data_dir: folder of dataset files.
        options: options of the dataset, without `holdout`.
    """
    every: dict[str, Any] = dict(options or {})
    if "holdout" in every:
        raise DataError("features are extracted for all samples: leave out the option holdout")
    if not name.endswith(".npz"):  # an .npz file marks its validation rows itself
        every["holdout"] = 0
    return datasets.load(name, data_dir=data_dir, **every)


def extract(
    dataset: Dataset,
    extractor: Extractor,
    out: Path,
    *,
    components: int = 0,
    batch_size: int = 64,
    quiet: bool = False,
) -> Path:
    """Write the features of every image to a file, in order, and return its path.

    The file is described in `cclk_paper.datasets.feature_files`. Only one batch of features
    is in memory.

    Args:
        dataset: the images.
        extractor: their encoder.
        out: the .npz file to write.
        components: number of leading principal components of the training images to write instead
            of the features; 0: the features. They keep most of the distances between samples, and
            a kernel or k-means on them costs less.
        batch_size: number of images per batch.
        quiet: show no progress.
    """
    if batch_size < 1:
        raise FeatureError(f"batch_size is {batch_size}: it must be at least 1")
    if components < 0:
        raise FeatureError(f"components is {components}: it must be at least 0")
    if out.suffix != ".npz":
        raise FeatureError(f"out is {out}: it must be an .npz file")
    if dataset.train.x.ndim != 4:
        raise FeatureError(
            f"{dataset.name} contains vectors, but features are extracted from images"
        )
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
    splits = {name: getattr(dataset, name) for name in ("train", "validation", "test")}
    ids = _ids(splits)
    metadata: dict[str, object] = {
        "dataset": dataset.name,
        "encoder": re.sub("^~?/.*/", "", extractor.name),
        **extractor.metadata,
        "version": cclk.__version__,
    }
    with tempfile.TemporaryFile(dir=out.parent, buffering=0) as raw:

        def keep(content: bytes) -> None:
            with writing(out):
                raw.write(content)

        def check(width: int) -> None:
            most = min(width, len(dataset.train) - 1)
            if components > most:
                raise FeatureError(
                    f"components is {components}, but {len(dataset.train)} training images with"
                    f" {width} features have at most {most}"
                )

        width = _fill(keep, check, extractor, splits.values(), ids, batch_size, quiet)
        features: npt.NDArray[np.float32] = np.memmap(raw, np.float32, "r", shape=(len(ids), width))
        if components:
            features = _principal(features, len(dataset.train), components)
            metadata["components"] = components
        text = np.array(json.dumps(metadata))
        replace_file(out, lambda file: np.savez(file, features=features, ids=ids, metadata=text))
    return out


def _fill(
    keep: Callable[[bytes], None],
    check: Callable[[int], None],
    extractor: Extractor,
    splits: Iterable[Split],
    ids: npt.NDArray[np.str_],
    batch_size: int,
    quiet: bool,
) -> int:
    """Pass the features of each batch to `keep`, and return their number per image, which `check`
    gets before the rest is computed.

    They are not written through a memory map, which would end the process on a full disk.
    """
    from rich.progress import MofNCompleteColumn, Progress

    from cclk._terminal import Console

    width, done = 0, 0
    columns = (*Progress.get_default_columns(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), disable=quiet) as progress:
        task = progress.add_task(f"{extractor.name} features", total=len(ids))
        for split in splits:
            for start in range(0, len(split), batch_size):
                batch = extractor(split.x[start : start + batch_size])
                bad = ~torch.isfinite(batch).all(dim=1)
                if bad.any():
                    row = int(bad.nonzero()[0])
                    raise FeatureError(
                        f"the encoder {extractor.name} returns NaN or infinite features for"
                        f" {ids[done + row]}: check its weights"
                    )
                if not done:
                    check(batch.shape[1])
                keep(batch.numpy().astype(np.float32, copy=False).tobytes())
                width, done = batch.shape[1], done + len(batch)
                progress.advance(task, len(batch))
    if not done:
        raise FeatureError("the dataset contains no images")
    return width


def _principal(
    features: npt.NDArray[np.float32], train: int, components: int
) -> npt.NDArray[np.float32]:
    """Return the leading principal components of the first `train` rows, for all rows."""
    width = features.shape[1]
    starts = range(0, len(features), _BLOCK)
    mean = features[:train].mean(axis=0, dtype=np.float64)
    covariance = np.zeros((width, width))
    for start in range(0, train, _BLOCK):
        centered = features[start : min(start + _BLOCK, train)] - mean
        covariance += centered.T @ centered
    directions = np.linalg.eigh(covariance)[1][:, ::-1][:, :components]
    # The sign of an eigenvector is arbitrary: the largest entry becomes positive.
    largest = np.take_along_axis(directions, np.abs(directions).argmax(axis=0)[None], axis=0)
    directions *= np.sign(largest)
    projected = [(features[start : start + _BLOCK] - mean) @ directions for start in starts]
    return np.concatenate(projected).astype(np.float32)


def _ids(splits: Mapping[str, Split]) -> npt.NDArray[np.str_]:
    """Return the id of each row: its position in its split, or the path of its file below the
    common folder of all files.
    """
    folders = {
        os.path.dirname(path)  # noqa: PTH120 (fast, for millions of paths)
        for split in splits.values()
        if isinstance(split.x, StreamedImages)
        for path in split.x.paths
    }
    root = os.path.commonpath(folders) if folders else ""
    parts = []
    for name, split in splits.items():
        if isinstance(split.x, StreamedImages):
            paths = [Path(os.path.relpath(path, root)).as_posix() for path in split.x.paths]
            parts.append(np.array(paths, dtype=np.str_))
        else:
            parts.append(row_ids(name, len(split)))
    return np.concatenate(parts)
