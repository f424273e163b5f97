"""ColorMNIST, the paper's construction: MNIST digits, padded to 32 x 32, their strokes in black
on colored backgrounds.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from cclk.data.dataset import Dataset, Split
from cclk.data.splits import Rows, hold_out, stratified_order
from cclk.datasets.colored_background import COLOR, Colors, draw_colors, paint
from cclk.datasets.download import ensure
from cclk.datasets.formats import Bytes, read_labeled_idx

_MARGIN = ((0, 0), (2, 2), (2, 2))


def load(
    *, data_dir: Path | None = None, seed: int = 0, colors: Colors = "palette", holdout: int = 5_000
) -> Dataset:
    """60,000 images to train on, `holdout` of them kept for validation, and 10,000 to test on."""
    folder = ensure("mnist", data_dir)
    digits, labels = read_labeled_idx(folder, "train")
    train, validation = hold_out(stratified_order(labels, seed), holdout)
    condition = draw_colors(len(digits), colors, seed, "colormnist", "train")
    test_digits, test_labels = read_labeled_idx(folder, "t10k")
    test_condition = draw_colors(len(test_digits), colors, seed, "colormnist", "test")

    def split(rows: Rows) -> Split:
        return _split(digits[rows], labels[rows], condition[torch.from_numpy(rows)])

    return Dataset(
        name="colormnist",
        train=split(train),
        validation=split(validation),
        test=_split(test_digits, test_labels, test_condition),
        classes=tuple("0123456789"),
        columns=(COLOR,),
        description=f"MNIST digits in black on {colors} colors, 32 x 32",
    )


def _split(digits: Bytes, labels: Bytes, condition: torch.Tensor) -> Split:
    return Split(
        paint(np.pad(digits, _MARGIN), condition),
        torch.from_numpy(labels.astype(np.int64)),
        condition,
    )
