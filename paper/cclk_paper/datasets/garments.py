"""Binary attributes of the garments of Fashion-MNIST, as several unreliable annotators would note
them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cclk.data.randomness import generator
from cclk.errors import DataError
from cclk_paper.datasets.formats import Bytes

CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip

_HAVE: dict[str, tuple[str, ...]] = {
    "sleeves": ("T-shirt/top", "Pullover", "Coat", "Shirt"),
    "footwear": ("Sandal", "Sneaker", "Ankle boot"),
    "long sleeves": ("Pullover", "Coat", "Shirt"),
    "covers the legs": ("Trouser", "Dress"),
    "opens in front": ("Coat", "Shirt"),
    "covers the ankle": ("Trouser", "Ankle boot"),
    "handle": ("Bag",),
    "open toes": ("Sandal",),
    "for the cold": ("Pullover", "Coat", "Ankle boot"),
    "skirt": ("Dress",),
    "laces": ("Sneaker",),
    "upper body": ("T-shirt/top", "Pullover", "Dress", "Coat", "Shirt"),
}
"""The attributes and the garments that have them. No two garments have the same attributes."""
PROPERTIES = tuple(_HAVE)
_TABLE = np.array([[kind in kinds for kinds in _HAVE.values()] for kind in CLASSES])


def attribute_names(attributes: int) -> tuple[str, ...]:
    """Return the names of the columns: each attribute, then the second annotation of each, ...

    >>> attribute_names(13)[-2:]
    ('upper body', 'sleeves 2')
    """
    return tuple(
        PROPERTIES[column % len(PROPERTIES)]
        + (f" {column // len(PROPERTIES) + 1}" if column >= len(PROPERTIES) else "")
        for column in range(attributes)
    )


def draw_attributes(
    labels: Bytes, attributes: int, noise: float, seed: int, part: str
) -> npt.NDArray[np.float32]:
    """Return attributes (n, attributes), 0 or 1. An entry is a function of the seed, the part, its
    row and its column, so more columns do not change the first ones.

    Entries are wrong with probability `noise`.
    """
    if isinstance(attributes, bool) or not isinstance(attributes, int) or attributes < 1:
        raise DataError(
            f"attributes is {attributes!r}: it must be an integer, 0 for the label as condition"
        )
    if isinstance(noise, bool) or not isinstance(noise, int | float) or not 0 <= noise <= 0.5:
        raise DataError(
            f"noise is {noise!r}: it must be a probability from 0 to 0.5, where attributes carry no"
            " information"
        )
    drawn = np.empty((len(labels), attributes), np.float32)
    for column in range(attributes):
        wrong = generator(seed, "garment attributes", part, column).random(len(labels)) < noise
        drawn[:, column] = _TABLE[labels, column % len(PROPERTIES)] ^ wrong
    return drawn
