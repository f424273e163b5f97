"""ColorMNIST, as constructed in the paper: MNIST digits, padded to 32 x 32, in black on colored
backgrounds.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cclk.data.dataset import Dataset
from cclk.datasets.colored_background import COLOR, Colors, draw_colors, paint
from cclk_paper.datasets.download import ensure
from cclk_paper.datasets.formats import read_labeled_idx
from cclk_paper.datasets.labeled import Floats, Labeled, labeled_dataset

_MARGIN = ((0, 0), (2, 2), (2, 2))


def load(
    *, data_dir: Path | None = None, seed: int = 0, colors: Colors = "palette", holdout: int = 5_000
) -> Dataset:
    """Return 60,000 training images, `holdout` of them for validation, and 10,000 test images.

    Args:
        data_dir: the data folder; None: CCLK_DATA, else ~/.cache/cclk.
        seed: seed of the colors and of the rows held out.
        colors: "palette" for ten noisy colors, "uniform" for colors uniform in the RGB cube.
        holdout: number of training images held out for validation.
    """
    folder = ensure("mnist", data_dir)

    def part(file: str, stream: str) -> tuple[Labeled, Floats]:
        digits, labels = read_labeled_idx(folder, file)
        condition = draw_colors(len(digits), colors, seed, "colormnist", stream)
        images = paint(np.pad(digits, _MARGIN), condition)
        return (images.numpy(), labels), condition.numpy()

    train, train_colors = part("train", "train")
    test, test_colors = part("t10k", "test")
    return labeled_dataset(
        "colormnist",
        train,
        test,
        classes=tuple("0123456789"),
        holdout=holdout,
        seed=seed,
        condition=(train_colors, test_colors, COLOR),
        description=f"MNIST digits in black on {colors} colors, 32 x 32",
    )
