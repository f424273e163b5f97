"""Settings: where they come from, and what is said when they are wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cclk_paper.experiments.registry.removal import RECIPES

from cclk import augment, datasets
from cclk.errors import SettingsError
from cclk.registry import METHODS
from cclk.training.resolve import resolve
from cclk.training.settings import (
    load,
    presets,
    setting_fields,
)

ROOT = Path(__file__).parents[2]


def test_presets_are_valid_and_named_after_their_data() -> None:
    assert {"digits-infonce", "digits-fair", "colormnist-infonce", "colormnist-fair"} <= set(
        presets()
    )
    for name in presets():
        load(preset=name)


def test_the_penalty_of_a_preset_was_measured() -> None:
    """The preset is the row of the benchmark of removal, except that it trains on all images."""
    measured = load(
        overrides={
            **RECIPES["colormnist"].settings,
            "dataset": "colormnist",
            "method": "fair-cclk",
            "leakage_penalty": 1,
            "log_every": 20,
        }
    )
    preset = load(preset="colormnist-fair", overrides={"log_every": 20})
    digits = datasets.load("colordigits")
    own, expected = (
        resolve(settings, digits).model_dump(exclude={"data"}) for settings in (preset, measured)
    )
    assert own == expected


@pytest.mark.parametrize(
    ("preset", "row"), [("colormnist-infonce", "InfoNCE"), ("colormnist-fair", "Fair-CCLK")]
)
def test_presets_are_what_the_experiment_chose(preset: str, row: str) -> None:
    result = json.loads((ROOT / "results" / "fair.json").read_text())
    cell = next(
        cell for cell in result["cells"] if (cell["row"], cell["column"]) == (row, "our recipe")
    )
    overrides = result["common"] | cell["settings"] | cell["choices"][cell["selected"]]
    digits = datasets.load("colordigits")
    own, chosen = (
        resolve(settings, digits) for settings in (load(preset=preset), load(overrides=overrides))
    )
    assert (own.method, own.model, own.train.steps) == (
        chosen.method,
        chosen.model,
        chosen.train.steps,
    )
    assert own.loss.temperature == chosen.loss.temperature
    names = (
        "lr",
        "scale_lr",
        "weight_decay",
        "warmup",
    )  # without decay, Adam and AdamW are the same
    assert [getattr(own.optim, name) for name in names] == [
        getattr(chosen.optim, name) for name in names
    ]
    assert own.optim.optimizer == chosen.optim.optimizer or own.optim.weight_decay == 0
    first, second = (
        augment.preset(
            one.augment.augmentation, size=32, channels=3, **one.augment.augmentation_options
        )
        for one in (own, chosen)
    )
    assert first == second


def test_overrides_by_name(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('method = "infonce"\n[train]\nepochs = 3\n[loss]\ntemperature = 0.2\n')
    settings = load(
        path,
        overrides={
            "lr": "0.5",
            "loss.ridge": 1.0,
            "batch-size": "64",
            "steps": "9",
            "encoder_options": "{ width = 4 }",
        },
    )
    assert (
        settings.method,
        settings.loss.temperature,
        settings.optim.lr,
        settings.loss.loss_options,
    ) == (
        "infonce",
        0.2,
        0.5,
        {"ridge": 1.0},
    )
    assert (settings.train.batch_size, settings.train.steps, settings.train.epochs) == (64, 9, None)
    assert settings.model.encoder_options == {"width": 4}
    for method in METHODS:
        assert load(overrides={"method": method}).method == method


def test_setting_names_are_unique() -> None:
    names = [name for name, _, _ in setting_fields()]
    assert len(names) == len(set(names))
    assert all(field.description for _, _, field in setting_fields())


@pytest.mark.parametrize(
    ("text", "overrides", "words"),
    [
        (
            "[loss]\ntemprature = 1",
            {},
            (
                r"run.toml: unknown setting 'loss.temprature' \(did you mean"
                r" 'loss.temperature'\?\)"
            ),
        ),
        ("[los]\nridge = 1", {}, r"unknown setting 'los' \(did you mean 'loss'"),
        ("[loss]\nlr = 1", {}, r"unknown setting 'loss.lr' \(did you mean 'optim.lr'\?\)"),
        (
            "[optim]\nlearning_rate = 1",
            {},
            r"unknown setting 'optim.learning_rate' \(did you mean 'optim.lr'\?\)",
        ),
        (
            "[loss]\nkernel = 'gaussian'",
            {},
            r"loss.kernel: unknown kernel 'gaussian' \(did you mean 'rbf'\?\): choose auto, rbf",
        ),
        (
            "[loss]\ntemperature = -1",
            {},
            "loss.temperature: input should be greater than 0, not -1",
        ),
        ("[loss]\ntemperature = 'warm'", {}, "loss.temperature: input should be a valid number"),
        (
            "method = 'simclr'",
            {},
            r"method: unknown method 'simclr' \(did you mean 'infonce'\?\): choose infonce, .*, or"
            " an import path package.module:thing$",
        ),
        ("method = 3", {}, "method: input should be a valid string, not 3"),
        ("[data]\ndataset = 'minst'", {}, r"data.dataset: unknown dataset 'minst': .*\.csv"),
        (
            "[model]\nhead = 'lin'",
            {},
            r"model.head: unknown head 'lin' \(did you mean 'linear'",
        ),
        ("[train]\nsteps = 3\nepochs = 2", {}, "train: set epochs or steps, not both"),
        ("[loss", {}, "not valid TOML"),
        ("train = 5", {"batch_size": "4"}, "train is 5: it must be a section"),
        ("", {"ridg": "1"}, "unknown setting 'ridg' .*did you mean 'ridge'"),
        ("", {"train.ridge": "1"}, "unknown setting 'train.ridge'"),
        ("", {"lr": "fast"}, "optim.lr: input should be a valid number.*not 'fast'"),
        (
            "",
            {"clusters": "0"},
            (
                "loss.clusters: input should be greater than or equal to 1, or input should be"
                " 'values', not '0'"
            ),
        ),
        ("[loss]\ntemperature = nan", {}, "loss.temperature"),
        ("", {"lr": "1e30"}, r"optim.lr: input should be at most 1e\+18, not 1e\+30$"),
        ("", {"holdout": "9" * 30}, r"data.holdout: input should be at most 1e\+18, not 1e\+30$"),
        (
            "",
            {"projection": "1000000000"},
            "projection: .* equal to 16384, not '1000000000'$",
        ),
        ("", {"feature_width": "20000"}, "model.feature_width: .* equal to 16384, not '20000'$"),
        ("", {"threads": "2000"}, "train.threads: .* equal to 1024, not '2000'$"),
        ("", {"devices": "1000"}, "train.devices: .* equal to 64, not '1000'$"),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path, text: str, overrides: dict[str, str], words: str
) -> None:
    path = tmp_path / "run.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=words) as caught:
        load(path, overrides=overrides)
    assert "\n" not in str(caught.value)


def test_missing_sources(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.toml does not exist"):
        load(tmp_path / "none.toml")
    with pytest.raises(
        SettingsError, match=r"unknown preset 'digit-fair' \(did you mean 'digits-fair'\?\)"
    ):
        load(preset="digit-fair")
    with pytest.raises(SettingsError, match="not both"):
        load(tmp_path / "a.toml", preset="digits-fair")


def test_a_name_that_begins_with_a_tilde_is_no_path() -> None:
    options = {"label": "~score", "features": ["x"]}
    settings = load(overrides={"dataset": "~/t.csv", "dataset_options": options})
    assert settings.without_paths().data.dataset_options == options
    assert settings.without_paths().data.dataset == "t.csv"
