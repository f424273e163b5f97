"""Pictures that come with labels and no condition of their own: the label is the condition until another one is given."""

from __future__ import annotations

import numpy as np
import torch

from cclk.data.dataset import Dataset, Split
from cclk.data.files import Bytes
from cclk.data.splits import hold_out, stratified_order

Labelled = tuple[Bytes, Bytes]
"""Pictures (n, c, h, w) and their labels (n,)."""


def labelled_dataset(name: str, train: Labelled, test: Labelled, *, classes: tuple[str, ...], holdout: int, seed: int) -> Dataset:
    """A dataset whose condition is the label, one categorical column."""
    pictures, labels = train
    rows, held_out = hold_out(stratified_order(labels, seed), holdout)
    channels, height, width = pictures.shape[1:]
    return Dataset(
        name=name,
        train=_split(pictures[rows], labels[rows]),
        validation=_split(pictures[held_out], labels[held_out]),
        test=_split(*test),
        classes=classes,
        condition_names=("label",),
        condition_kind="categorical",
        description=f"{name}: pictures of {len(classes)} kinds, {height} x {width}, {'colour' if channels == 3 else 'grey'}",
    )


def _split(pictures: Bytes, labels: Bytes) -> Split:
    y = torch.from_numpy(labels.astype(np.int64))
    return Split(torch.from_numpy(np.ascontiguousarray(pictures)), y, y[:, None].float())
