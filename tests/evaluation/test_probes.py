"""The probes find what is there, and nothing where there is nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from cclk.evaluation.probes import (
    FeatureScaler,
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
    found = predict_neighbors(x, y, queries, **options)  # type: ignore[arg-type]
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
    assert predict_neighbors(x, y, query).tolist() == [1]
    assert [predict_neighbors(x, y, query, neighbors=k).tolist() for k in (19, 20, 21)] == [
        [0],
        [1],
        [0],
    ]


def test_neighbors_when_there_are_fewer_than_twenty() -> None:
    x = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
    assert predict_neighbors(x, np.array([0, 1]), np.array([[0.2, 3.0]], np.float32)).tolist() == [
        1
    ]
