"""ColorMNIST, the paper's construction: MNIST digits, padded to 32 x 32, their strokes in black on coloured backgrounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from cclk.data.colour import COLOR, Colours, draw_colours, paint
from cclk.data.dataset import Dataset, Split
from cclk.data.download import ensure
from cclk.data.files import Bytes, read_labelled_idx
from cclk.data.splits import Rows, hold_out, stratified_order

_MARGIN = ((0, 0), (2, 2), (2, 2))


def load(*, data_dir: Path | None = None, seed: int = 0, colours: Colours = "palette", holdout: int = 5_000) -> Dataset:
    """60,000 pictures to train on, `holdout` of them kept for validation, and 10,000 to test on."""
    folder = ensure("mnist", data_dir)
    digits, labels = read_labelled_idx(folder, "train")
    train, validation = hold_out(stratified_order(labels, seed), holdout)
    condition = draw_colours(len(digits), colours, seed, "colormnist", "train")
    test_digits, test_labels = read_labelled_idx(folder, "t10k")
    test_condition = draw_colours(len(test_digits), colours, seed, "colormnist", "test")

    def split(rows: Rows) -> Split:
        return _split(digits[rows], labels[rows], condition[torch.from_numpy(rows)])

    return Dataset(
        name="colormnist",
        train=split(train),
        validation=split(validation),
        test=_split(test_digits, test_labels, test_condition),
        classes=tuple("0123456789"),
        columns=(COLOR,),
        description=f"MNIST digits in black on {colours} colours, 32 x 32",
    )


def _split(digits: Bytes, labels: Bytes, condition: torch.Tensor) -> Split:
    return Split(paint(np.pad(digits, _MARGIN), condition), torch.from_numpy(labels.astype(np.int64)), condition)
