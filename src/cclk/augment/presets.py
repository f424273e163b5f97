"""Augmentations by name or import path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from cclk.augment.base import Augmentation
from cclk.augment.images import Images
from cclk.errors import SettingsError
from cclk.registry import AUGMENTATIONS, call


def preset(name: str, size: int, channels: int, **options: Any) -> Augmentation:
    """Build an augmentation.

    - "simclr": crops of 8-100 % of the area, flip, color jitter of strength 0.5 (p 0.8), gray (p
      0.2); gray and the jitter of hue and saturation only with three channels. For large images,
      add `blur=0.5`.
    - "digits": crops of 40-100 %; no flip and no change of color.
    - "none": float32 in 0..1.
    - "vectors": Gaussian noise and masked features, for vectors.
    - "package.module:factory": a function or class that returns an `Augmentation`. It is called
      with the options, and with `size` and `channels` if it has parameters of these names.

    Args:
        name: Name or import path of the augmentation.
        size: Height and width of the images in pixels.
        channels: Number of channels of the images, or length of the vectors.
        options: Options of the augmentation, instead of those of the preset.

    Example:
        >>> preset("digits", size=32, channels=3, crop=(0.6, 1.0)).crop
        (0.6, 1.0)
    """
    return for_samples(name, (channels, size), options)


def for_samples(name: str, shape: Sequence[int], options: Mapping[str, object]) -> Augmentation:
    """The augmentation of samples of a shape, channels first; views may have the option `size`."""
    # A TOML file has lists only.
    tuples = {
        key: tuple(value) if isinstance(value, list) else value for key, value in options.items()
    }
    sizes = {"size": shape[-1], "channels": shape[0]}
    arguments = {key: value for key, value in sizes.items() if key not in options}
    augmentation = AUGMENTATIONS.create(name, arguments, tuples)
    if not isinstance(augmentation, Augmentation):
        raise SettingsError(
            f"the augmentation {name!r} is a {type(augmentation).__name__}: it must be a"
            " cclk.augment.Augmentation"
        )
    return augmentation


digits = partial(Images, crop=(0.4, 1.0))
_simclr = partial(Images, crop=(0.08, 1.0), flip=0.5, jitter=0.8, brightness=0.4, contrast=0.4)
_simclr_color = partial(_simclr, saturation=0.4, hue=0.1, gray=0.2)


def simclr(size: int, channels: int, **options: Any) -> Any:
    factory = _simclr_color if channels == 3 else _simclr
    return call(factory, {"size": size}, options, what="the augmentation 'simclr'")
