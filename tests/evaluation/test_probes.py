"""The probes find what is there, and nothing where there is nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from cclk.evaluation.nonlinear import fit_mlp
from cclk.evaluation.probes import (
    FeatureScaler,
    LinearProbe,
    fit_classifier,
    fit_ridge,
    predict_neighbors,
)


def normal(n: int, d: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


def r2(prediction: np.ndarray, truth: np.ndarray) -> float:
    return float(1 - ((prediction - truth) ** 2).sum() / ((truth - truth.mean(axis=0)) ** 2).sum())


def test_scale_standardizes_and_leaves_constant_columns_alone() -> None:
    features = np.concatenate(
        [5 + 3 * normal(500, 2, 0), np.full((500, 1), 7.1, np.float32)], axis=1
    )
    scaled = FeatureScaler.fit(features)(features)
    np.testing.assert_allclose(scaled[:, :2].std(axis=0), 1, atol=1e-5)
    np.testing.assert_allclose(scaled[:, :2].mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(scaled[:, 2], 0, atol=1e-5)


@pytest.mark.parametrize(
    ("mean", "spread", "varies"),
    [(0, 0, False), (1e4, 1e-3, False), (1e4, 1, True), (1e-3, 1e-4, True), (0, 1e-9, True)],
)
def test_scale_tells_a_small_spread_from_rounding(mean: float, spread: float, varies: bool) -> None:
    column = (mean + spread * np.where(np.arange(100) % 2, 1.0, -1.0)).astype(np.float32)[:, None]
    assert FeatureScaler.fit(column).std == pytest.approx(spread if varies else 1.0, rel=1e-3)


def test_ridge_is_the_closed_form_at_the_alpha_that_validation_prefers() -> None:
    """Without noise the weakest ridge is best, with noise one in the middle: each column has its
    own.
    """
    truth, noise = normal(6, 2, 9), np.array([3.0, 0.01], np.float32)
    x, held = normal(60, 6, 0), normal(40, 6, 1)
    t, held_t = x @ truth + noise * normal(60, 2, 2) + 3, held @ truth + 3
    fitted = fit_ridge(x, t, held, held_t)

    def direct(alpha: float) -> np.ndarray:
        return np.linalg.solve(x.T @ x / 60 + alpha * np.eye(6), x.T @ (t - t.mean(axis=0)) / 60)

    np.testing.assert_allclose(fitted.bias, t.mean(axis=0))
    for column in range(2):
        errors = {
            alpha: ((held @ direct(alpha) + t.mean(axis=0) - held_t)[:, column] ** 2).mean()
            for alpha in np.logspace(1, -6, 15)
        }
        best = min(errors, key=errors.__getitem__)
        assert fitted.strength[column] == pytest.approx(best)
        np.testing.assert_allclose(
            fitted.weight[:, column], direct(best)[:, column], rtol=1e-4, atol=1e-6
        )
    assert fitted.strength[1] < 1e-4 < fitted.strength[0] < 1


def test_ridge_finds_nothing_in_noise() -> None:
    x, held = normal(300, 50, 0), normal(200, 50, 1)
    fitted = fit_ridge(x, normal(300, 1, 2), held, normal(200, 1, 3))
    assert np.abs(fitted(held)).max() < 0.5, "the validation split must have chosen a strong ridge"


@pytest.mark.parametrize("classes", [1, 2, 4])
def test_linear_classifier_is_the_maximum_likelihood_one(classes: int) -> None:
    x, held = normal(600, 5, 0), normal(400, 5, 1)
    weight = 3 * normal(5, classes, 2)
    y, held_y = (x @ weight).argmax(axis=1), (held @ weight).argmax(axis=1)
    fitted = fit_classifier(x, y, classes, held, held_y)
    assert fitted.weight.shape == (5, classes)
    assert (fitted(held).argmax(axis=1) == held_y).mean() > 0.95


def test_one_class_is_the_answer_to_everything() -> None:
    fitted = fit_classifier(
        normal(9, 5, 0), np.zeros(9, np.int64), 1, normal(4, 5, 1), np.zeros(4, np.int64)
    )
    assert fitted.strength == 1e-3
    np.testing.assert_array_equal(fitted(normal(4, 5, 1)), np.zeros((4, 1)))


def test_linear_classifier_tries_six_strengths_for_500_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried, fit = [], LogisticRegression.fit
    monkeypatch.setattr(
        LogisticRegression,
        "fit",
        lambda model, *data: [tried.append((model.C, model.max_iter)), fit(model, *data)][1],
    )
    x, y = separable(50, 0)
    fit_classifier(x, y, 2, x, y)
    assert tried == [(strength, 500) for strength in (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)]


def test_linear_classifier_does_not_warn_when_it_has_not_converged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cclk.evaluation.probes._LBFGS_STEPS", 1)
    x, y = separable(50, 0)
    filters = list(warnings.filters)
    fit_classifier(x, y, 2, x, y)
    assert warnings.filters == filters, "and others may warn as before"


def overlapping(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two wide clouds close together: with few samples, weak regularization overfits."""
    y = np.arange(n) % 2
    return normal(n, 30, seed) + np.float32(2 / 30**0.5) * y[:, None].astype(np.float32), y


def separable(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A rare class behind a sharp boundary: with strong regularization, it is never predicted."""
    x = normal(n, 5, seed)
    return x, (x[:, 0] > 0.8).astype(np.int64)


@pytest.mark.parametrize(("data", "n", "best"), [(overlapping, 60, 1e-3), (separable, 150, 10.0)])
def test_linear_classifier_has_the_strength_that_validation_prefers(
    data: Callable[[int, int], tuple[np.ndarray, np.ndarray]], n: int, best: float
) -> None:
    (x, y), (held, held_y) = data(n, 0), data(400, 1)
    models = {
        strength: LogisticRegression(C=strength, max_iter=500).fit(x, y)
        for strength in (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
    }
    right = {strength: model.score(held, held_y) for strength, model in models.items()}
    assert max(right.values()) - min(right.values()) > 0.1, "the choice matters"
    assert best == max(right, key=right.__getitem__), (
        "among equals, the strongest regularization, which comes first"
    )
    fitted = fit_classifier(x, y, 2, held, held_y)
    assert fitted.strength == best
    assert (fitted(held).argmax(axis=1) == held_y).mean() == pytest.approx(right[best])
    np.testing.assert_allclose(fitted.weight[:, 1], models[best].coef_[0], rtol=0.02, atol=0.02)


@pytest.mark.parametrize(
    ("options", "neighbors", "temperature"),
    [
        ({}, 20, 0.07),
        ({"neighbors": 5, "temperature": 0.2}, 5, 0.2),
        ({"temperature": 1e-3}, 1, 1.0),
    ],
)
def test_neighbors_by_brute_force(
    options: dict[str, float], neighbors: int, temperature: float
) -> None:
    """Twenty neighbors at temperature 0.07 by default; at a very low temperature, the nearest
    one alone decides.
    """
    x, queries = normal(80, 3, 0), normal(1100, 3, 1)
    y = np.random.default_rng(2).integers(0, 3, 80)
    found = predict_neighbors(x, y, 3, queries, **options)  # type: ignore[arg-type]
    unit, other = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (x, queries))
    for row in range(len(queries)):
        similarity = unit @ other[row]
        nearest = np.argsort(-similarity)[:neighbors]
        votes = [np.exp(similarity[nearest] / temperature)[y[nearest] == c].sum() for c in range(3)]
        assert found[row] == np.argmax(votes)


def test_twenty_neighbors_vote_by_default() -> None:
    """The twentieth neighbor decides for class 1; with nineteen or twenty-one of them, class 0
    would win.
    """
    y = np.array([1] * 9 + [0] * 10 + [1] + [0])
    angle = np.array([0.0] * 9 + [0.02] * 10 + [0.03] + [0.04])
    x, query = (
        np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32),
        np.array([[2.0, 0.0]], np.float32),
    )
    assert predict_neighbors(x, y, 2, query).tolist() == [1]
    assert [predict_neighbors(x, y, 2, query, neighbors=k).tolist() for k in (19, 20, 21)] == [
        [0],
        [1],
        [0],
    ]


def test_neighbors_when_there_are_fewer_than_twenty() -> None:
    x = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
    assert predict_neighbors(
        x, np.array([0, 1]), 2, np.array([[0.2, 3.0]], np.float32)
    ).tolist() == [1]


def test_network_reads_what_a_linear_probe_cannot() -> None:
    direction = normal(20, 1, 9)
    x, held, test = normal(2000, 20, 0), normal(300, 20, 1), normal(500, 20, 2)
    target = [np.abs(part @ direction) for part in (x, held, test)]
    mean, spread = target[0].mean(), target[0].std()
    t, held_t, test_t = ((part - mean) / spread for part in target)
    linear = fit_ridge(x, t, held, held_t)
    network = fit_mlp(x, t, held, held_t, linear, 0)
    assert abs(r2(linear(test), test_t)) < 0.1
    assert r2(network(test), test_t) > 0.95


def test_network_starts_as_the_linear_probe_and_keeps_it_where_nothing_is_better() -> None:
    x, held, test = normal(300, 10, 0), normal(100, 10, 1), normal(50, 10, 2)
    weight = normal(10, 2, 3)
    exact = LinearProbe(weight, np.zeros(2, np.float32), 0.0)
    network = fit_mlp(x, exact(x), held, exact(held), exact, 0)
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
    monkeypatch.setattr("cclk.evaluation.nonlinear._WIDTH", WIDTH)
    steps, step = [], torch.optim.AdamW.step
    monkeypatch.setattr(
        torch.optim.AdamW, "step", lambda optimizer: [steps.append(1), step(optimizer)][1]
    )
    network = fit_mlp(x, t, held, held_t, start, 7)
    made = len(steps)
    expected, last, best = train_by_the_recipe(
        *(torch.from_numpy(part) for part in (x, t, held, held_t)), start, 7
    )
    assert made == last
    assert 0 < best < last
    np.testing.assert_allclose(network(held), expected.numpy(), rtol=1e-5, atol=1e-5)


def test_network_depends_on_the_seed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cclk.evaluation.nonlinear._WIDTH", 16)
    x, held = normal(300, 10, 0), normal(100, 10, 1)
    t, held_t = np.abs(x[:, :1]), np.abs(held[:, :1])
    start = fit_ridge(x, t, held, held_t)

    def fit(seed: int, noise: int) -> np.ndarray:
        torch.manual_seed(noise)
        return fit_mlp(x, t, held, held_t, start, seed)(held)

    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    first = fit(3, 1)
    np.testing.assert_array_equal(first, fit(3, 2))
    assert not np.array_equal(first, fit(4, 1))
    assert torch.get_num_threads() == threads
    torch.random.set_rng_state(before)
