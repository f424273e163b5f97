"""The probes of committed experiments find what is there, and nothing where there is nothing."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from cclk_paper.probes import fit_network, two_probes
from torch import Tensor

from cclk.evaluation import Samples
from cclk.evaluation.probes import FeatureScaler, LinearProbe, fit_ridge


def make(
    n: int, seed: int, *, leak: float = 1.0, classes: int = 4, kind: str = "continuous"
) -> Samples:
    """Features = label one-hot + leak * condition, mixed by a fixed matrix; colors in 0..255."""
    random = np.random.default_rng(seed)
    y, color = random.integers(0, classes, n), random.uniform(0, 255, (n, 3))
    parts = np.concatenate(
        [2 * np.eye(classes)[y], leak * (color - 127) / 74, random.normal(size=(n, 3))], axis=1
    )
    mixed = parts @ np.random.default_rng(99).normal(
        size=(parts.shape[1], 24)
    ) + 0.1 * random.normal(size=(n, 24))
    condition = color if kind == "continuous" else np.floor(color[:, :1] / 128)
    return Samples(mixed, y, condition)


def splits(**options: object) -> tuple[Samples, Samples, Samples]:
    return make(500, 1, **options), make(150, 2, **options), make(300, 3, **options)  # type: ignore[arg-type]


def test_two_probes_of_a_leak() -> None:
    found = two_probes(*splits())
    assert set(found) == {
        "linear_r2", "nonlinear_r2", "linear_mse", "nonlinear_mse", "baseline_mse",
    }  # fmt: skip
    assert found["linear_r2"] > 0.98
    assert found["nonlinear_r2"] > 0.98
    assert found["baseline_mse"] == pytest.approx(255**2 / 12, rel=0.1), (
        "in the condition's own units"
    )
    assert found["linear_mse"] == pytest.approx((1 - found["linear_r2"]) * 255**2 / 12, rel=0.1)


class Recorder:
    """Stands in for the training of the nonlinear probe: keeps what it is given, and answers
    twice the linear probe.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, largest: int = 20_000) -> None:
        self.given: dict[str, Any] = {}
        module = importlib.import_module("cclk_paper.probes")
        assert module.LARGEST_TRAINING_SET == 20_000
        monkeypatch.setattr(module, "LARGEST_TRAINING_SET", largest)
        monkeypatch.setattr(module, "fit_network", self.fit)

    def fit(self, *given: Any) -> Callable[[np.ndarray], np.ndarray]:
        names = ("features", "target", "validation", "validation_target", "start", "seed")
        self.given = dict(zip(names, given, strict=True))
        return lambda features: 2 * self.given["start"](features)


def test_the_network_is_fitted_on_a_random_part_of_a_large_training_split(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    train, validation, test = splits()
    scaled, chosen = FeatureScaler.fit(train.features)(train.features).tolist(), []
    for seed, largest, size in ((0, 100, 100), (1, 100, 100), (0, 500, 500)):
        recorder = Recorder(monkeypatch, largest)
        two_probes(train, validation, test, seed)
        rows = [scaled.index(row) for row in recorder.given["features"].tolist()]
        assert rows == sorted(np.random.default_rng((seed, 3)).permutation(500)[:size])
        target = (train.condition - train.condition.mean(axis=0)) / train.condition.std(axis=0)
        np.testing.assert_allclose(recorder.given["target"], target[rows])
        chosen.append(rows)
        monkeypatch.undo()
    assert chosen[0] != chosen[1]
    assert chosen[0][-1] > 400, "not the first of them"


def test_a_column_that_is_constant_in_training_counts_for_nothing_in_r2(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither where the mean of equal numbers is rounded, nor where the column varies in the
    test split.
    """
    Recorder(monkeypatch)
    parts = splits()
    assert np.full((500, 4), 0.3).std(axis=0).all(), "rounding"
    extra = [np.full(500, 0.3), np.full(150, 0.3), np.random.default_rng(0).normal(size=300)]
    more = [
        Samples(s.features, s.y, np.column_stack([s.condition, column]))
        for s, column in zip(parts, extra, strict=True)
    ]
    plain, found = (two_probes(*given)["linear_r2"] for given in (parts, more))
    assert found == pytest.approx(plain)


def test_no_leak_is_no_leak() -> None:
    found = two_probes(*splits(leak=0.0))
    assert abs(found["linear_r2"]) < 0.06
    assert abs(found["nonlinear_r2"]) < 0.1


def test_a_leak_that_only_the_network_sees() -> None:
    def fold(samples: Samples) -> Samples:
        return Samples(samples.features, samples.y, np.abs(samples.condition - 127.5))

    found = two_probes(*(fold(part) for part in splits()))
    assert found["linear_r2"] < 0.1
    assert found["nonlinear_r2"] > 0.8


def test_r2_pools_columns_in_units_of_their_training_spread() -> None:
    """One column is read perfectly and one not at all: half the variance, whatever their units."""
    random = np.random.default_rng(0)

    def part(n: int) -> Samples:
        x = random.normal(size=(n, 4))
        return Samples(
            x,
            x[:, 0] > 0,
            np.stack([1000 * x[:, 0], random.normal(size=n), np.full(n, 3.3)], axis=1),
        )

    found = two_probes(part(2000), part(500), part(2000))
    assert found["linear_r2"] == pytest.approx(0.5, abs=0.03)
    assert found["linear_mse"] == pytest.approx(1 / 3, rel=0.2), "mean over the three columns"


def test_numbers_are_those_of_the_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    train, validation, test = splits(leak=0.2)
    # The means of the splits differ.
    test = Samples(test.features, test.y, test.condition + 50)
    recorder = Recorder(monkeypatch)
    found = two_probes(train, validation, test, 4)
    scale = FeatureScaler.fit(train.features)
    x, held, query = (scale(part.features) for part in (train, validation, test))
    mean, std = train.condition.mean(axis=0), train.condition.std(axis=0)
    target, held_target = ((part.condition - mean) / std for part in (train, validation))
    ridge = fit_ridge(x, target, held, held_target)
    truth = (test.condition - mean) / std
    spread = ((truth - truth.mean(axis=0)) ** 2).sum()
    for name, factor in (("linear", 1), ("nonlinear", 2)):
        error = (factor * ridge(query) - truth) ** 2
        assert found[f"{name}_r2"] == pytest.approx(1 - error.sum() / spread)
        assert found[f"{name}_mse"] == pytest.approx((error * std**2).mean())
    assert found["baseline_mse"] == pytest.approx(((test.condition - mean) ** 2).mean())
    assert recorder.given["seed"] == 4
    np.testing.assert_allclose(recorder.given["validation"], held)
    np.testing.assert_allclose(recorder.given["validation_target"], held_target)


def test_constant_conditions_and_collapsed_features() -> None:
    parts = list(splits())
    flat = [Samples(np.full_like(s.features, 0.3), s.y, s.condition) for s in parts]
    assert abs(two_probes(*flat)["linear_r2"]) < 0.05
    for constant in (0, 2):
        changed = list(parts)
        part = parts[constant]
        changed[constant] = Samples(part.features, part.y, np.full((len(part), 3), 0.1))
        assert two_probes(*changed) == {}


def normal(n: int, d: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


def r2(prediction: np.ndarray, truth: np.ndarray) -> float:
    return float(1 - ((prediction - truth) ** 2).sum() / ((truth - truth.mean(axis=0)) ** 2).sum())


def test_network_reads_what_a_linear_probe_cannot() -> None:
    direction = normal(20, 1, 9)
    x, held, test = normal(2000, 20, 0), normal(300, 20, 1), normal(500, 20, 2)
    target = [np.abs(part @ direction) for part in (x, held, test)]
    mean, spread = target[0].mean(), target[0].std()
    t, held_t, test_t = ((part - mean) / spread for part in target)
    linear = fit_ridge(x, t, held, held_t)
    network = fit_network(x, t, held, held_t, linear, 0)
    assert abs(r2(linear(test), test_t)) < 0.1
    assert r2(network(test), test_t) > 0.95


def test_network_starts_as_the_linear_probe_and_keeps_it_where_nothing_is_better() -> None:
    x, held, test = normal(300, 10, 0), normal(100, 10, 1), normal(50, 10, 2)
    weight = normal(10, 2, 3)
    exact = LinearProbe(weight, np.zeros(2, np.float32), 0.0)
    network = fit_network(x, exact(x), held, exact(held), exact, 0)
    assert [layer.shape for layer in network.parameters[:3]] == [
        (10, 256),
        (256, 256),
        (256, 2),
    ]
    np.testing.assert_allclose(network(test), exact(test), atol=1e-5)


WIDTH = 16


def train_by_the_recipe(
    x: Tensor, t: Tensor, held: Tensor, held_t: Tensor, start: LinearProbe, seed: int
) -> tuple[Tensor, int, int]:
    """The training of the nonlinear probe written out: predictions for `held`, the number of
    steps, and the step that was best.
    """
    loss = F.mse_loss
    random = torch.Generator().manual_seed(seed)
    first = torch.randn(x.shape[1], WIDTH, generator=random) * (2 / x.shape[1]) ** 0.5
    second = torch.randn(WIDTH, WIDTH, generator=random) * (2 / WIDTH) ** 0.5
    skip, bias = (
        torch.tensor(start.weight, dtype=torch.float32),
        torch.tensor(start.bias, dtype=torch.float32),
    )
    parameters = [
        first,
        second,
        torch.zeros(WIDTH, len(bias)),
        skip,
        torch.zeros(WIDTH),
        torch.zeros(WIDTH),
        bias,
    ]

    def score(p: list[Tensor], x: Tensor) -> Tensor:
        hidden = torch.addmm(p[5], torch.addmm(p[4], x, p[0]).relu(), p[1]).relu()
        return torch.addmm(p[6], x, p[3]) + hidden @ p[2]

    average = [p.clone() for p in parameters]
    decay = 3.0 if len(x) <= 4000 else 3.0 * 4000 / len(x)
    batch = 128 if len(x) <= 4000 else 256
    steps = min(max(60 * len(x) // batch, 600), 2000)
    trained = [p.requires_grad_() for p in parameters]
    optimizer = torch.optim.AdamW(
        [
            {"params": trained[:3], "weight_decay": decay},
            {"params": trained[3:], "weight_decay": 0.0},
        ],
        fused=True,
    )
    looks = [(float(loss(score(average, held), held_t)), 0, score(average, held))]
    for step in range(1, steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = 0.004 * min(step / 50, 1) * (1 + np.cos(np.pi * (step - 1) / steps)) / 2
        rows = torch.randint(len(x), (min(batch, len(x)),), generator=random)
        optimizer.zero_grad()
        loss(score(trained, x[rows]), t[rows]).backward()
        optimizer.step()
        average = [a.lerp(p.detach(), 0.02) for a, p in zip(average, trained, strict=True)]
        if step % (steps // 40) == 0:
            looks.append((float(loss(score(average, held), held_t)), step, score(average, held)))
            if step - min(looks, key=lambda look: look[0])[1] == 14 * (steps // 40):
                break
    _, best, prediction = min(looks, key=lambda look: look[0])
    return prediction, step, best


@pytest.mark.parametrize(("n", "signal"), [(1500, 1.0), (4000, 0.0), (9000, 0.0)])
def test_network_is_trained_by_the_recipe(
    n: int, signal: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rates, decay, schedule, averaging, the choice of the best step and the end of the
    training, for splits of several sizes.
    """
    x, held = normal(n, 5, 0), normal(200, 5, 1)
    t, held_t = (signal * np.abs(part[:, :1]) + 0.3 * normal(len(part), 1, 2) for part in (x, held))
    start = LinearProbe(np.float32(0.1) * normal(5, 1, 3), np.zeros(1, np.float32), 0.0)
    monkeypatch.setattr("cclk_paper.probes._WIDTH", WIDTH)
    steps, step = [], torch.optim.AdamW.step
    monkeypatch.setattr(
        torch.optim.AdamW, "step", lambda optimizer: [steps.append(1), step(optimizer)][1]
    )
    network = fit_network(x, t, held, held_t, start, 7)
    made = len(steps)
    expected, last, best = train_by_the_recipe(
        *(torch.from_numpy(part) for part in (x, t, held, held_t)), start, 7
    )
    assert made == last
    assert 0 < best < last
    np.testing.assert_allclose(network(held), expected.numpy(), rtol=1e-5, atol=1e-5)


def test_network_depends_on_the_seed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cclk_paper.probes._WIDTH", 16)
    x, held = normal(300, 10, 0), normal(100, 10, 1)
    t, held_t = np.abs(x[:, :1]), np.abs(held[:, :1])
    start = fit_ridge(x, t, held, held_t)

    def fit(seed: int, noise: int) -> np.ndarray:
        torch.manual_seed(noise)
        return fit_network(x, t, held, held_t, start, seed)(held)

    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    first = fit(3, 1)
    np.testing.assert_array_equal(first, fit(3, 2))
    assert not np.array_equal(first, fit(4, 1))
    assert torch.get_num_threads() == threads
    torch.random.set_rng_state(before)
