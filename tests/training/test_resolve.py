"""The defaults of a run that depend on its data, in one place."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch

import cclk
from cclk.columns import Column
from cclk.data.dataset import Dataset, Split
from cclk.data.streamed import StreamedImages
from cclk.training import resolve as defaults
from cclk.training.resolve import REMOVAL, resolve
from cclk.training.settings import Settings, load

TABLE = Path("people.csv")


def dataset(*shape: int, rows: int = 400) -> Dataset:
    """Samples of this shape with an age."""
    kind = torch.uint8 if len(shape) == 3 else torch.float32
    x = torch.zeros(rows, *shape, dtype=kind)
    split = Split(x, torch.zeros(rows, dtype=torch.int64), torch.rand(rows, 1))
    return Dataset("made up", split, split, split, ("a",), (Column("age"),), "")


def photos(folder: Path, size: int, mode: Literal["L", "RGB"] = "RGB") -> Dataset:
    """The same of images in files, which are not read."""
    loaded = dataset(1)
    (folder / "a.png").touch()
    x = StreamedImages([folder / "a.png"] * len(loaded.train), size, mode=mode, keep=False)
    return replace(loaded, train=replace(loaded.train, x=x))


def resolved(loaded: Dataset, /, **overrides: Any) -> Settings:
    return resolve(load(overrides=overrides), loaded)


def test_network_and_views_suit_the_samples(tmp_path: Path) -> None:
    def networks(data: Dataset, **overrides: Any) -> tuple[str, str]:
        settings = resolved(data, **overrides)
        return settings.model.encoder, settings.augment.augmentation

    assert networks(dataset(7)) == ("mlp", "vectors")
    assert networks(dataset(3, 32, 32)) == ("lenet5", "digits")
    assert networks(photos(tmp_path, 32, "L")) == ("lenet5", "digits")
    assert networks(photos(tmp_path, 64, "L")) == ("resnet18", "digits")
    assert networks(photos(tmp_path, 32)) == ("resnet18", "simclr")
    stems = [resolved(photos(tmp_path, size)).model.encoder_options["stem"] for size in (32, 96)]
    assert stems == ["cifar", "imagenet"]
    assert resolved(photos(tmp_path, 32), encoder="resnet34").model.encoder_options == {}
    assert networks(dataset(7), encoder="resnet18", augmentation="none") == ("resnet18", "none")


def test_a_table_is_cleared_of_its_condition(tmp_path: Path) -> None:
    named = resolved(dataset(7))
    assert (named.removal.remove, named.loss.temperature, named.train.steps) == ("none", 0.1, 1175)
    own = resolved(dataset(7), data=TABLE, features="x")
    assert (own.removal.remove, own.loss.temperature, own.train.steps) == ("medium", 0.2, 400)
    color = resolved(photos(tmp_path, 32), data=TABLE, image="x")
    assert (color.removal.remove, color.train.steps) == ("medium", 1175)
    assert color.model.feature_width == REMOVAL["medium"][0]["feature_width"]
    uses = resolved(dataset(7), data=TABLE, features="x", method="weaksup-cclk")
    assert (uses.removal.remove, uses.loss.temperature, uses.train.steps) == ("none", 0.1, 1175)
    assert resolved(dataset(7), data=TABLE, features="x", epochs=2).train.steps is None


def test_what_is_resolved_stays() -> None:
    for options in ({}, {"remove": "strong"}, {"encoder_options": {"hidden": [8]}}):
        settings = resolved(dataset(7), data=TABLE, features="x", **options)
        assert resolve(settings, dataset(7)) == settings
        assert resolve(Settings.model_validate(settings.model_dump()), dataset(7)) == settings


def test_a_small_split_has_small_batches() -> None:
    with pytest.warns(cclk.CclkWarning, match="batch_size is 64 instead of 256: made up has 100"):
        assert resolved(dataset(7, rows=100)).train.batch_size == 64
    assert resolved(dataset(7, rows=100), batch_size=128).train.batch_size == 128


def test_batches_suit_the_method() -> None:
    def drawn(**overrides: Any) -> tuple[str, object]:
        train = resolved(dataset(7), **overrides).train
        return train.sampler, train.sampler_options.get("group")

    assert drawn() == ("uniform", None)
    assert drawn(sampler="local") == ("local", 16)
    assert drawn(method="weaksup-cclk") == ("local", 4)
    assert drawn(method="weaksup-cclk", batch_size=6) == ("local", 2)
    assert drawn(method="weaksup-infonce") == ("clusters", 2)
    assert drawn(method="fair-infonce") == ("clusters", None)
    assert drawn(method="weaksup-cclk", group=8) == ("local", 8)


def test_a_level_of_removal_sets_what_is_not_set() -> None:
    digits, numbers = dataset(3, 32, 32), dataset(7)
    medium = resolved(digits, remove="medium")
    assert medium.removal.leakage_penalty > 0
    assert medium.model.feature_width == REMOVAL["medium"][0]["feature_width"] == 16
    assert medium.removal.feature_noise == 0
    assert medium.augment.augmentation_options == {}
    table = resolved(numbers, remove="strong", leakage_penalty=7)
    assert table.removal.leakage_penalty == 7
    assert table.removal.feature_noise > 0
    assert table.augment.augmentation_options == {"mask": 0.6}
    options: dict[str, object] = {"mask": 0.1, "noise": 0.3}
    own = resolved(numbers, remove="medium", augmentation_options=options)
    assert own.augment.augmentation_options == options
    assert resolved(numbers, remove="none").augment.augmentation_options == {}
    assert resolved(digits).removal == resolved(digits, remove="none").removal
    levels = ("light", "medium", "strong")
    strengths = [resolved(digits, remove=level).removal.leakage_penalty for level in levels]
    assert strengths == sorted(strengths)


def test_a_default_is_changed_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from cclk.cli.main import main

    monkeypatch.setattr(defaults, "STEPS_OF_NUMBERS", 3)

    x = np.random.default_rng(0).normal(size=(160, 3))
    path = tmp_path / "people.csv"
    path.write_text("\n".join(["a,b,age", *(f"{a:.3f},{b:.3f},{c:.3f}" for a, b, c in x)]))
    run = cclk.train(
        path, features=["a", "b"], condition="age", batch_size=16, out=tmp_path / "a", quiet=True
    )
    columns = ["--data", str(path), "--features", "a", "b", "--condition", "age"]
    command = ["train", *columns, "--batch-size", "16", "--out", str(tmp_path / "b"), "--quiet"]
    assert main(command) == 0
    stored = [json.loads((tmp_path / folder / "settings.json").read_text()) for folder in "ab"]
    assert [settings["train"]["steps"] for settings in stored] == [3, 3]
    assert run.metrics()[-1]["step"] == 3
    findings = cclk.check(path, features=["a", "b"], condition="age", batch_size=16)
    assert any(": 3 steps of" in finding.text for finding in findings)
    encoder = cclk.ConditionalEncoder(steps=None, batch_size=16).fit(
        x[:, :2], sensitive_features=x[:, 2]
    )
    assert encoder.settings_.train.steps == 3
