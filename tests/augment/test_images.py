"""The augmentation of images as a whole: neutral settings, ranges, independence, determinism."""

from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor

from cclk.augment import Images, preset
from cclk.augment import color as colors
from cclk.augment import images as module

SIMCLR = preset("simclr", 32, 3, blur=0.5)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def images() -> Tensor:
    return torch.rand(48, 3, 32, 32, generator=generator(1))


@pytest.mark.parametrize("crop", [None, (1.0, 1.0)])
def test_neutral_settings_change_nothing(images: Tensor, crop: tuple[float, float] | None) -> None:
    neutral = Images(32, crop=crop, ratio=(1.0, 1.0), jitter=1.0)
    kept = images.clone()
    assert torch.equal(neutral(images, generator()), images)
    SIMCLR(images, generator())
    assert torch.equal(images, kept), "the input is not written to"


def test_views_are_float_in_range_and_differ(images: Tensor) -> None:
    views = SIMCLR(images, generator())
    assert views.dtype == torch.float32
    assert views.shape == images.shape
    assert views.min() >= -1e-6
    assert views.max() <= 1 + 1e-6
    same = SIMCLR(images[:1].expand(48, -1, -1, -1), generator())
    assert len({tuple(view.flatten().tolist()) for view in same}) == 48, (
        "each image has its own draw"
    )


def test_a_view_depends_on_its_own_image_only(images: Tensor) -> None:
    before = SIMCLR(images, generator())
    changed = images.clone()
    changed[5] = 1 - changed[5]
    after = SIMCLR(changed, generator())
    others = torch.arange(48) != 5
    assert torch.equal(before[others], after[others])
    assert not torch.equal(before[5], after[5])


def test_the_generator_decides_everything(images: Tensor) -> None:
    state = generator(3)
    first, second = SIMCLR(images, state), SIMCLR(images, state)
    assert not torch.equal(first, second)
    torch.manual_seed(99)
    again = generator(3)
    assert torch.equal(SIMCLR(images, again), first)
    assert torch.equal(SIMCLR(images, again), second)


def test_a_part_of_a_batch_gets_its_rows(images: Tensor) -> None:
    whole = SIMCLR(images, generator())
    parts = [
        SIMCLR(images[first : first + 12], generator(), first=first, of=48)
        for first in range(0, 48, 12)
    ]
    torch.testing.assert_close(torch.cat(parts), whole, rtol=0, atol=1e-6)
    with pytest.raises(
        ValueError, match=re.escape("first=40, of=48: a part of 12 rows does not fit there")
    ):
        SIMCLR(images[:12], generator(), first=40, of=48)


def test_working_in_parts_changes_nothing(images: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = SIMCLR(images, generator())
    monkeypatch.setattr(module, "_PART", 5 * 3 * 32 * 32)
    torch.testing.assert_close(SIMCLR(images, generator()), whole, rtol=0, atol=1e-6)


def test_an_empty_batch_gives_no_views() -> None:
    assert SIMCLR(torch.zeros(0, 3, 32, 32), generator()).shape == (0, 3, 32, 32)


@pytest.mark.parametrize("crop", [None, (1.0, 1.0)])
def test_flips_are_exact_and_as_often_as_asked(
    images: Tensor, crop: tuple[float, float] | None
) -> None:
    many = images.repeat(20, 1, 1, 1)
    views = Images(32, crop=crop, ratio=(1.0, 1.0), flip=0.3)(many, generator())
    flipped = (views == many.flip(-1)).flatten(1).all(1)
    kept = (views == many).flatten(1).all(1)
    assert torch.equal(flipped, ~kept)
    assert 0.24 < flipped.float().mean() < 0.36
    odd = torch.rand(4, 1, 27, 27)
    assert torch.equal(Images(27, flip=1.0)(odd, generator()), odd.flip(-1))


def test_jitter_strikes_as_often_as_asked_with_factors_in_range() -> None:
    flat = torch.full((4000, 3, 4, 4), 0.5)
    factor = Images(4, jitter=0.8, brightness=0.4)(flat, generator())[:, 0, 0, 0] / 0.5
    touched = factor != 1
    assert 0.77 < touched.float().mean() < 0.83
    quartiles = factor[touched].quantile(torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0]))
    torch.testing.assert_close(
        quartiles, torch.tensor([0.6, 0.8, 1.0, 1.2, 1.4]), rtol=0, atol=0.02
    )


def test_jitter_is_a_sequence_of_its_changes_in_drawn_order(
    images: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recording every change with its factors and doing them again one image at a time gives the
    same views.
    """
    plain = images
    calls: list[tuple[str, Tensor]] = []
    changes = {
        name: getattr(colors, name) for name in ("brightness_", "contrast_", "saturation_", "hue_")
    }
    for name in changes:

        def recorded(view: Tensor, factor: Tensor, name: str = name) -> Tensor:
            calls.append((name, factor.clone()))
            changed: Tensor = changes[name](view, factor)
            return changed

        monkeypatch.setattr(colors, name, recorded)
    jitter = Images(32, jitter=0.8, brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1)
    orders = set()
    for seed in range(6):
        calls.clear()
        views = jitter(plain, generator(seed))
        order = tuple(name for name, _ in calls)
        assert sorted(order) == sorted(changes)
        orders.add(order)
        if seed == 0:
            for row in range(len(plain)):
                one = plain[row : row + 1].clone()
                for name, factor in calls:
                    changes[name](one, factor[row : row + 1])
                torch.testing.assert_close(views[row : row + 1], one, rtol=0, atol=1e-6)
    assert len(orders) > 2, "the order is drawn"


def test_gray_and_blur_strike_as_often_as_asked(images: Tensor) -> None:
    plain = images.repeat(20, 1, 1, 1)
    gray = Images(32, gray=0.2)(plain, generator())
    share = (gray[:, 0] == gray[:, 2]).flatten(1).all(1).float().mean()
    assert 0.15 < share < 0.25
    blurred = Images(32, blur=0.5, sigma=(1.0, 2.0))(plain, generator())
    share = (blurred != plain).flatten(1).any(1).float().mean()
    assert 0.44 < share < 0.56
    assert (blurred.std((2, 3)) <= plain.std((2, 3)) + 1e-6).all()


def test_what_strikes_a_image_strikes_it_independently() -> None:
    """The draws do not depend on the settings, so what each setting does alone, from one seed,
    is what it does beside the others.
    """
    plain = torch.rand(2000, 3, 8, 8)
    alone = (
        Images(8, flip=0.5),
        Images(8, jitter=0.5, brightness=0.4),
        Images(8, gray=0.5),
        Images(8, blur=0.5, sigma=(1.0, 2.0)),
    )
    struck = torch.stack(
        [(one(plain, generator()) != plain).flatten(1).any(1) for one in alone]
    ).float()
    torch.testing.assert_close(struck.corrcoef(), torch.eye(4), rtol=0, atol=0.1)


def test_other_sizes_and_channels() -> None:
    pair = torch.rand(2, 1, 20, 40)
    assert Images(16)(pair, generator()).shape == (2, 1, 16, 16)
    assert preset("simclr", 24, 1)(pair, generator()).shape == (2, 1, 24, 24)
    with pytest.raises(
        ValueError, match="the images have 1 channels, but saturation, hue and gray need 3"
    ):
        SIMCLR(torch.rand(2, 1, 32, 32), generator())
    with pytest.raises(
        ValueError,
        match=re.escape("images must be (b, channels, height, width), not (4, 7); vectors take"),
    ):
        SIMCLR(torch.rand(4, 7), generator())
    with pytest.raises(ValueError, match=r"samples are torch.uint8: scale them first"):
        SIMCLR(torch.zeros(4, 3, 32, 32, dtype=torch.uint8), generator())
