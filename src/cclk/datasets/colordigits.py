"""ColorDigits: the 1,797 handwritten digits of scikit-learn, on colored backgrounds. Nothing is
downloaded.

The 8 x 8 digits are enlarged smoothly to 32 x 32, the input size of LeNet-5. The split is fixed and
stratified: 1,400 training digits, of which 200 are held out for validation, and 397 test digits.
The seed determines the colors only. The condition is the color or, as auxiliary information, the
segments that show the digit on a calculator.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from cclk._extras import needed_for
from cclk.columns import Column
from cclk.data.dataset import Dataset, Split
from cclk.data.randomness import generator
from cclk.data.splits import hold_out, stratified_order
from cclk.datasets.colored_background import COLOR, Colors, draw_colors, paint

_TEST = 397
_LIT = ("abcdef", "bc", "abdeg", "abcdg", "bcfg", "acdfg", "acdefg", "abc", "abcdefg", "abcdfg")
"""The segments of each digit on a calculator's display."""
_SEGMENT_NOISE = 0.1


def load(
    *,
    data_dir: Path | None = None,
    seed: int = 0,
    colors: Colors = "palette",
    holdout: int = 200,
    segments: bool = False,
) -> Dataset:
    """Return the dataset.

    Args:
        data_dir: not used; all datasets accept it.
        seed: seed of the colors and of the noise of the segments.
        colors: "palette" for ten noisy colors, "uniform" for colors uniform in the RGB cube.
        holdout: number of training images held out for validation.
        segments: use as condition which of the display's seven segments show the digit, each wrong
            with probability 0.1, instead of the color.
    """
    with needed_for("colordigits"):
        from sklearn.datasets import load_digits  # type: ignore[import-untyped]
    digits = load_digits()
    order = stratified_order(digits.target, seed=0)
    train, validation = hold_out(order[:-_TEST], holdout)
    condition = draw_colors(len(order), colors, seed, "colordigits")
    # In float64 all steps are exact: the same pixels on every processor.
    small = torch.from_numpy(digits.images).double()[:, None] * (255 / 16)
    large = F.interpolate(small, scale_factor=4, mode="bicubic", align_corners=False)
    strokes = large[:, 0].clamp(0, 255).round().to(torch.uint8).numpy()
    images = paint(strokes, condition)
    if segments:
        condition = _segments(digits.target, seed)
    samples = Split(images, torch.from_numpy(digits.target.astype(np.int64)), condition)
    return Dataset(
        name="colordigits",
        train=samples.subset(train),
        validation=samples.subset(validation),
        test=samples.subset(np.sort(order[-_TEST:])),
        classes=tuple("0123456789"),
        columns=(Column("segments", width=7, categories=tuple("abcdefg")) if segments else COLOR,),
        description=f"1,797 handwritten digits (scikit-learn) in black on {colors} colors, 32 x 32",
    )


def _segments(digits: npt.NDArray[np.integer[Any]], seed: int) -> torch.Tensor:
    lit = np.array([[segment in shown for segment in "abcdefg"] for shown in _LIT])
    draws = generator(seed, "colordigits", "segments").random((len(digits), lit.shape[1]))
    return torch.from_numpy((lit[digits] ^ (draws < _SEGMENT_NOISE)).astype(np.float32))
