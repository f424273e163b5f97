"""Labeled images, in memory or in files, with training rows held out for validation. The label is
the condition unless the dataset has another one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from cclk.columns import Column
from cclk.data.dataset import Dataset, Split
from cclk.data.splits import Rows, hold_out, stratified_order
from cclk.data.streamed import StreamedImages
from cclk_paper.datasets.formats import Bytes

Labeled = tuple[Bytes, Bytes]
"""Images (n, c, h, w) and their labels (n,)."""
Floats = npt.NDArray[np.float32]


def labeled_split(
    images: Bytes | StreamedImages, labels: npt.NDArray[np.integer[Any]], condition: Floats | None
) -> Split:
    """Return images with labels (n,) and a condition (n, k), which is the label if it is None."""
    y = torch.from_numpy(labels.astype(np.int64))
    return Split(
        torch.from_numpy(np.ascontiguousarray(images))
        if isinstance(images, np.ndarray)
        else images,
        y,
        y[:, None].float() if condition is None else torch.from_numpy(condition),
    )


def held_out_dataset(
    name: str,
    samples: Split,
    train: Rows,
    test: Split,
    *,
    classes: tuple[str, ...],
    column: Column | None,
    holdout: int,
    seed: int,
    description: str,
) -> Dataset:
    """Return a dataset with the rows `train` of the samples, `holdout` of which are its validation
    split; without a column, the condition is the label.
    """
    kept, held_out = hold_out(stratified_order(samples.y.numpy()[train], seed), holdout)
    return Dataset(
        name=name,
        train=samples.subset(train[kept]),
        validation=samples.subset(train[held_out]),
        test=test,
        classes=classes,
        columns=(column or Column("label", "categorical", 1, classes),),
        description=description,
    )


def labeled_dataset(
    name: str,
    train: Labeled,
    test: Labeled,
    *,
    classes: tuple[str, ...],
    holdout: int,
    seed: int,
    condition: tuple[Floats, Floats, Column] | None = None,
    description: str = "",
) -> Dataset:
    """Return a dataset of images in memory.

    Args:
        name: the name of the dataset.
        train: training images and labels, before any are held out.
        test: test images and labels.
        classes: the names of the labels.
        holdout: the number of training rows held out for validation.
        seed: seed of the rows held out.
        condition: the condition of the training and the test samples, and its column; None: the
            label.
        description: one-line summary of the contents; by default it is derived from the images.
    """
    first, second, column = condition or (None, None, None)
    channels, height, width = train[0].shape[1:]
    color = "color" if channels == 3 else "gray"
    return held_out_dataset(
        name,
        labeled_split(*train, first),
        np.arange(len(train[1])),
        labeled_split(*test, second),
        classes=classes,
        column=column,
        holdout=holdout,
        seed=seed,
        description=description
        or f"{name}: images of {len(classes)} kinds, {height} x {width}, {color}",
    )
