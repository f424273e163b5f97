"""Augmentations by name, and those of vectors."""

from __future__ import annotations

import re

import pytest
import torch

from cclk.augment import Images, Plain, Vectors, for_samples, preset
from cclk.registry import AUGMENTATIONS


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_presets_are_as_documented() -> None:
    simclr = preset("simclr", 32, 3)
    assert simclr == Images(
        32,
        crop=(0.08, 1.0),
        flip=0.5,
        jitter=0.8,
        brightness=0.4,
        contrast=0.4,
        saturation=0.4,
        hue=0.1,
        gray=0.2,
        blur=0.0,
    )
    assert preset("simclr", 32, 1) == Images(
        32, crop=(0.08, 1.0), flip=0.5, jitter=0.8, brightness=0.4, contrast=0.4
    )
    assert preset("digits", 28, 3) == Images(28, crop=(0.4, 1.0), ratio=(3 / 4, 4 / 3))
    assert isinstance(preset("none", 32, 3), Plain)
    assert preset("vectors", 0, 9, mask=0.5) == Vectors(noise=0.1, mask=0.5)
    assert all(preset(name, 32, 3) for name in AUGMENTATIONS)


def test_settings_can_be_overridden() -> None:
    assert preset("digits", 32, 3, crop=[0.2, 0.5], flip=0.5) == Images(
        32, crop=(0.2, 0.5), flip=0.5
    )
    assert preset("simclr", 32, 3, crop=None).crop is None  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "channels", "overrides", "message"),
    [
        (
            "simcrl",
            3,
            {},
            "unknown augmentation 'simcrl' (did you mean 'simclr'?): choose simclr, digits, none,"
            " vectors, or an import path",
        ),
        (
            "simclr",
            3,
            {"crops": 1},
            "the augmentation 'simclr' has no option 'crops': it takes crop, ratio, flip",
        ),
        ("none", 3, {"flip": 1}, "the augmentation 'none' has no option 'flip': it takes none"),
        (
            "torch.nn:Identity",
            3,
            {},
            "the augmentation 'torch.nn:Identity' is a Identity: it must be",
        ),
        (
            "simclr",
            3,
            {"crop": (0.5, 0.1)},
            "crop is (0.5, 0.1): it must be (low, high), positive, in order and at most 1",
        ),
        (
            "simclr",
            3,
            {"ratio": (0.0, 1.0)},
            "ratio is (0.0, 1.0): it must be (low, high), positive, in order and finite",
        ),
        ("simclr", 3, {"sigma": (1.0,)}, "sigma is (1.0,): it must be (low, high)"),
        ("simclr", 3, {"crop": 0.5}, "crop is 0.5: it must be (low, high)"),
        ("simclr", 3, {"flip": "often"}, "flip is 'often': it must be a number, between 0 and 1"),
        ("simclr", 3, {"flip": 1.5}, "flip is 1.5: it must be a number, between 0 and 1"),
        ("simclr", 3, {"hue": 0.6}, "hue is 0.6: it must be a number, between 0 and 0.5"),
        ("simclr", 3, {"contrast": -1}, "contrast is -1: it must be a number, between 0 and 1"),
        ("vectors", 3, {"noise": -1.0}, "noise is -1.0: it must be a number, 0 or more"),
        ("vectors", 3, {"mask": 2.0}, "mask is 2.0: it must be a number, between 0 and 1"),
    ],
)
def test_mistakes_are_named(
    name: str, channels: int, overrides: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        preset(name, 32, channels, **overrides)


def test_an_image_has_a_size() -> None:
    with pytest.raises(ValueError, match="size is 0: it must be a number of pixels, 1 or more"):
        preset("digits", 0, 3)


def test_the_size_of_views_is_an_option() -> None:
    assert for_samples("simclr", (3, 32, 32), {"size": 24}) == preset("simclr", 24, 3)
    assert for_samples("simclr", (1, 32, 32), {}) == preset("simclr", 32, 1)
    assert for_samples("vectors", (7,), {"mask": 0.5}) == Vectors(mask=0.5)
    with pytest.raises(ValueError, match="has no option 'size'"):
        for_samples("vectors", (7,), {"size": 24})
    with pytest.raises(ValueError, match="size is 'small': it must be a number of pixels"):
        for_samples("simclr", (3, 32, 32), {"size": "small"})


def test_none_changes_nothing() -> None:
    nothing = preset("none", 32, 3)
    for samples in (torch.rand(2, 1, 16, 16), torch.randn(3, 5)):
        assert torch.equal(nothing(samples, generator()), samples)


def test_vectors_get_noise_and_lose_features() -> None:
    batch = torch.full((500, 40), 3.0)
    views = Vectors(noise=0.1, mask=0.2)(batch, generator())
    hidden = views == 0
    assert 0.19 < hidden.float().mean() < 0.21
    noise = views[~hidden] - 3
    assert noise.mean().abs() < 0.005
    assert 0.098 < noise.std() < 0.102
    assert torch.equal(batch, torch.full((500, 40), 3.0))
    assert torch.equal(Vectors(noise=0.0, mask=0.0)(batch, generator()), batch)
    assert torch.equal(
        Vectors()(batch[100:200], generator(), first=100, of=500),
        Vectors()(batch, generator())[100:200],
    )
    with pytest.raises(ValueError, match=re.escape("takes vectors (b, k), not (1, 1, 2, 2)")):
        Vectors()(torch.zeros(1, 1, 2, 2), generator())
