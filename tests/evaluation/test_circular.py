"""Conditions on a circle: hours, weekdays, months, angles and hues are also read as an angle."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import cclk
from cclk.cli.main import main
from cclk.columns import Column, period_of
from cclk.data import manifest
from cclk.errors import DataError
from cclk.evaluation import intervals

Floats = npt.NDArray[np.float64]
N = 240


def bright(hour: Floats, seed: int = 0) -> Floats:
    """Brightness, which follows the hour, among features that do not."""
    random = np.random.default_rng(seed)
    daylight = -np.cos(2 * np.pi * hour / 24) + 0.05 * random.normal(size=len(hour))
    return np.column_stack([daylight, random.normal(size=(len(hour), 2))])


@pytest.fixture(scope="module")
def hour() -> Floats:
    return np.random.default_rng(1).uniform(0, 24, N)


def worst(features: Floats, condition: object) -> float:
    return float(cclk.leakage(features, condition).worst)  # type: ignore[arg-type]


def test_an_hour_is_read_as_its_cosine_for_every_origin(hour: Floats) -> None:
    features = bright(hour)
    cosine = worst(features, np.cos(2 * np.pi * hour / 24))
    assert cosine > 0.98
    for shift in (0.0, 6.0):
        measured = cclk.leakage(features, {"hour": (hour + shift) % 24})
        assert float(measured["hour"]) == pytest.approx(cosine, abs=0.02)
        assert measured["hour"].reading == "cosine and sine, period 24"
        assert "read as" in str(measured)
        assert cclk.Leakage.from_json(measured.to_json()) == measured


def test_the_number_counts_where_it_is_the_worse_reading() -> None:
    angle = np.random.default_rng(0).uniform(0, 360, N)
    fast = cclk.leakage(np.floor(angle[:, None] / 45) % 2 * 1.0, {"angle": angle})
    assert fast["angle"].reading == "number"


def test_a_weekday_and_a_column_of_any_name(hour: Floats) -> None:
    day = np.floor(hour / 24 * 7)
    measured = cclk.leakage(bright(day * 24 / 7), {"weekday": day.astype(int)})["weekday"]
    assert measured.majority is not None
    assert measured.reading == "cosine and sine, period 7"
    assert float(measured) > 0.95
    named = cclk.leakage(bright(hour), {"tide:circular": hour / 24})
    assert named["tide"].reading == "cosine and sine, period 1"
    with pytest.raises(DataError, match=r"'tide:circular'.*must be single numbers"):
        cclk.leakage(bright(hour), {"tide:circular": ["low"] * N})


@pytest.mark.parametrize(
    ("name", "numbers", "period"),
    [
        ("hour", np.arange(24), 24),
        ("local_hours", np.arange(25), 24),
        ("recordingHour", np.arange(24), 24),
        ("hours-per-week", np.arange(60), 0),
        ("hour", np.arange(9, 18), 0),
        ("day_of_week", np.arange(1, 8), 7),
        ("month", np.arange(1, 13), 12),
        ("angle", np.linspace(-np.pi, np.pi, 50, dtype=np.float32), 2 * np.pi),
        ("wind direction", np.arange(0, 361, 10), 360),
        ("angle", np.arange(-60, 61), 0),
        ("hue", np.linspace(0, 1), 1),
        ("hue", np.arange(360), 360),
        ("hue", np.arange(180), 180),
        ("hue", np.arange(256), 256),
        ("shour", np.arange(24), 0),
        ("age", np.arange(24), 0),
    ],
)
def test_what_looks_circular(name: str, numbers: Floats, period: float) -> None:
    assert period_of(name, numbers) == pytest.approx(period)


@pytest.mark.parametrize(
    ("cells", "period"),
    [
        (range(24), 24), (range(1, 8), 7), (range(59), 60), (range(366), 366), (range(100), 100),
        (np.linspace(0, 0.99, 40), 1), (np.linspace(0, 6.2, 40), 2 * np.pi),
    ],
)  # fmt: skip
def test_requested_in_a_table(tmp_path: Path, cells: object, period: float) -> None:
    path = tmp_path / "t.csv"
    path.write_text("z,x\n" + "".join(f"{z},{n}\n" for n, z in enumerate(cells)))  # type: ignore[var-annotated,arg-type]
    dataset = manifest.load(path, features="x", condition="z:circular")
    assert dataset.columns[0].period == pytest.approx(period)
    assert f"on a circle of {period:.4g}" in dataset.description


def test_a_circle_that_cannot_be(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("z,s,x\n" + "".join(f"{1.5 * n},{'ab'[n % 2]},{n}\n" for n in range(500)))
    for column, words in (("z", "ranges over 748.5: convert"), ("s", "'s' is 'a'")):
        with pytest.raises(DataError, match=words):
            manifest.load(path, features="x", condition=f"{column}:circular")
    with pytest.raises(DataError, match=r"neither a kind .*circular.* nor a kernel"):
        manifest.load(path, features="x", condition="z:round")
    assert Column("z").period == 0


def test_the_best_direction_of_two_columns() -> None:
    """Against all directions, one by one."""
    random = np.random.default_rng(0)
    truth = random.normal(size=(60, 2)) @ np.array([[1.0, 0.3], [0.0, 0.5]])
    prediction = truth @ np.array([[0.9, 0.1], [0.0, 0.2]]) + 0.1 * random.normal(size=(60, 2))
    statistic = {"": intervals.explained_direction(prediction, truth)}
    found = intervals.bootstrap(statistic, 20, 0)[""]
    angles = np.linspace(0, np.pi, 20_000)
    directions = np.stack([np.cos(angles), np.sin(angles)])
    error = ((prediction - truth) @ directions) ** 2
    centered = ((truth - truth.mean(axis=0)) @ directions) ** 2
    assert found.value == pytest.approx((1 - error.sum(axis=0) / centered.sum(axis=0)).max())
    assert found.low < found.value < found.high or found.low <= found.high
    exact = intervals.bootstrap({"": intervals.explained_direction(truth, truth)}, 5, 0)[""]
    assert exact.value == 1


def test_check_and_evaluate_read_the_hour(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sky.csv"
    hour = np.random.default_rng(1).uniform(0, 24, 400)
    rows = zip(bright(hour), (hour + 5) % 24, strict=True)
    path.write_text("a,b,c,hour\n" + "".join(f"{x[0]},{x[1]},{x[2]},{z}\n" for x, z in rows))
    options = ["--data", str(path), "--features", "a", "b", "c", "--condition", "hour"]
    options += ["--steps", "3", "--batch-size", "64", "--encoder-options", "{ hidden = [8] }"]
    assert main(["check", *options]) == 0
    told = capsys.readouterr().out
    found = re.search(r"condition hour: probes read R\^2 (\S+) from the inputs", told)
    assert found, told
    assert float(found[1]) > 0.95
    assert "cosine and sine, period 24" in told
    out = str(tmp_path / "run")
    assert main(["train", *options, "--out", out, "--quiet"]) == 0
    assert main(["evaluate", out, "--bootstrap", "5"]) == 0
    told = capsys.readouterr().out
    assert re.search(r"hour \(cosine and sine, period 24\): .* inputs (0.9[6-9]|1.00)", told), told


def test_two_positions_on_a_circle_are_a_line() -> None:
    angle = 2 * np.pi * np.random.default_rng(0).choice([3, 7], 200) / 24
    truth = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    mean = np.tile(truth.mean(axis=0), (200, 1))
    for prediction, expected in ((mean, 0.0), (truth, 1.0)):
        statistic = intervals.explained_direction(prediction, truth)
        (value,) = statistic.finish(statistic.contributions.mean(axis=0, keepdims=True))
        assert value == pytest.approx(expected, abs=1e-6)
