"""Augmentations by name."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from cclk.augment.base import Augmentation
from cclk.augment.images import Images
from cclk.augment.plain import Plain
from cclk.augment.vectors import Vectors

PRESETS = ("simclr", "digits", "none", "vectors")

_SIMCLR = {
    "crop": (0.08, 1.0),
    "flip": 0.5,
    "jitter": 0.8,
    "brightness": 0.4,
    "contrast": 0.4,
    "saturation": 0.4,
    "hue": 0.1,
    "gray": 0.2,
}
_COLOR = {"saturation": 0.0, "hue": 0.0, "gray": 0.0}


def preset(name: str, size: int, channels: int, **overrides: Any) -> Augmentation:
    """The augmentation of that name for images of `size` pixels (vectors ignore it), with some
    settings overridden.

    - "simclr": crops of 8-100 % of the area, flip, color jitter of strength 0.5 (p 0.8), gray (p
      0.2), the last and the jitter of hue and saturation only with three channels; for large images
      add `blur=0.5`.
    - "digits": crops of 40-100 %; no flip and no change of color.
    - "none": float32 in 0..1.
    - "vectors": Gaussian noise and hidden features, for vectors.

    >>> preset("digits", size=32, channels=3, crop=(0.6, 1.0)).crop
    (0.6, 1.0)
    """
    kind: type[Images] | type[Plain] | type[Vectors]
    settings: dict[str, Any]
    match name:
        case "simclr":
            kind, settings = Images, {"size": size} | _SIMCLR | ({} if channels == 3 else _COLOR)
        case "digits":
            kind, settings = Images, {"size": size, "crop": (0.4, 1.0)}
        case "none":
            kind, settings = Plain, {}
        case "vectors":
            kind, settings = Vectors, {}
        case _:
            raise ValueError(f"unknown augmentation {name!r}: choose one of {', '.join(PRESETS)}")
    known = [field.name for field in fields(kind) if field.name != "size"]
    for key, value in overrides.items():
        if key not in known:
            raise ValueError(
                f"the augmentation {name!r} has no setting {key!r}: "
                + (f"it knows {', '.join(known)}" if known else "it has none")
            )
        if key in _COLOR and value and channels != 3:
            raise ValueError(
                f"the setting {key!r} needs images with 3 channels, these have {channels}"
            )
        settings[key] = tuple(value) if isinstance(value, list) else value
    return kind(**settings)
