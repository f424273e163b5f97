"""The linear eraser against its definition: nothing linear is left, and nothing else is lost."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import sklearn
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from torch import nn

import cclk
from cclk.errors import DataError
from cclk.removal.eraser import LinearEraser

Array = npt.NDArray[Any]


def linear_r2(features: Array, targets: Array, smallest: float = 1e-9) -> float:
    """The largest share of a target's variance that least squares explains."""
    x = np.column_stack([features, np.ones(len(features))])
    x = x / np.maximum(np.abs(x).max(axis=0), 1e-300)
    targets = targets.reshape(len(features), -1).astype(float)
    rest = targets - x @ np.linalg.lstsq(x, targets, rcond=smallest)[0]
    return float((1 - rest.var(axis=0) / targets.var(axis=0)).max())


def made_up(size: int = 300, width: int = 6, seed: int = 0) -> tuple[Array, Array, Array]:
    random = np.random.default_rng(seed)
    age, site = random.uniform(20, 80, size), random.choice(["Bonn", "Oslo", "Rome"], size)
    features = random.normal(size=(size, width)) @ random.normal(size=(width, width))
    features[:, 0] += age / 20
    features[:, -1] += site == "Oslo"
    return features, age, site


def indicators(site: Array) -> Array:
    return np.stack([site == each for each in np.unique(site)], axis=1)


def test_against_the_textbook_formula_in_loops() -> None:
    features, age, _ = made_up()
    mean, size = features.mean(axis=0), len(features)
    covariance = sum(np.outer(h - mean, h - mean) for h in features) / size
    cross = sum((h - mean) * (z - age.mean()) for h, z in zip(features, age, strict=True)) / size
    values, vectors = np.linalg.eigh(covariance)
    root, inverse = (vectors * values**0.5) @ vectors.T, (vectors * values**-0.5) @ vectors.T
    direction = inverse @ cross
    direction /= np.linalg.norm(direction)
    projection = np.eye(6) - root @ np.outer(direction, direction) @ inverse
    eraser = LinearEraser().fit(features, sensitive_features=age)
    np.testing.assert_allclose(eraser.projection_, projection, atol=1e-10)
    np.testing.assert_allclose(
        eraser.transform(features), [projection @ (h - mean) + mean for h in features], atol=1e-9
    )
    assert (eraser.rank_, eraser.n_features_in_) == (1, 6)


def test_all_columns_of_all_kinds() -> None:
    features, age, site = made_up()
    targets = np.column_stack([age, indicators(site)])
    assert linear_r2(features, targets) > 0.1
    erased = LinearEraser().fit_transform(
        features, sensitive_features=pd.DataFrame({"age": age, "site": site})
    )
    assert linear_r2(erased, targets) < 1e-9
    vector = np.random.default_rng(1).normal(size=(300, 3)) + features[:, :3]
    eraser = LinearEraser().fit(features, sensitive_features={"vector": vector, "flag": age > 50})
    assert eraser.rank_ == 4
    assert linear_r2(eraser.transform(features), np.column_stack([vector, age > 50])) < 1e-9


@settings(max_examples=30, deadline=None)
@given(st.integers(5, 60), st.integers(1, 8), st.integers(0, 10**6), st.booleans())
def test_properties(size: int, width: int, seed: int, deficient: bool) -> None:
    """Nothing linear is left; erasing twice is erasing once; units do not matter."""
    random = np.random.default_rng(seed)
    features, z = random.normal(size=(size, width)), random.normal(size=size)
    features[:, 0] += z
    if deficient:
        features = np.column_stack([features, features @ random.normal(size=(width, 2)), z * 0 + 3])
    features = np.column_stack([features, random.normal(size=(size, 2))])
    if size <= features.shape[1] + 1:
        features = features[:, -3:]
    scales = 10.0 ** random.integers(-6, 7, features.shape[1])
    eraser = LinearEraser().fit(features, sensitive_features=z)
    erased = eraser.transform(features)
    assert linear_r2(erased, z) < 1e-8
    np.testing.assert_allclose(eraser.transform(erased), erased, atol=1e-7)
    np.testing.assert_allclose(erased.mean(axis=0), features.mean(axis=0), atol=1e-9)
    scaled = (
        LinearEraser().fit(features * scales, sensitive_features=z).transform(features * scales)
        / scales
    )
    np.testing.assert_allclose(scaled, erased, atol=1e-5)


def test_least_change() -> None:
    """Every other linear map without covariance changes the features more."""
    features, age, _ = made_up()
    eraser = LinearEraser().fit(features, sensitive_features=age)
    centered = features - features.mean(axis=0)
    change = np.square(centered @ (eraser.projection_ - np.eye(6)).T).sum()
    cross = centered.T @ (age - age.mean())
    random = np.random.default_rng(0)
    for size in (1e-3, 0.1, 1.0):
        for _ in range(20):
            step = size * random.normal(size=(6, 6))
            step -= np.outer(step @ cross, cross) / (cross @ cross)  # keeps M cross = 0
            other = eraser.projection_ + step
            assert np.abs(other @ cross).max() < 1e-8
            assert np.square(centered @ (other - np.eye(6)).T).sum() > change


def test_a_constant_condition_changes_nothing() -> None:
    features, _, _ = made_up()
    erased = LinearEraser().fit_transform(features, sensitive_features=np.full(300, 7.5))
    np.testing.assert_allclose(erased, features, rtol=1e-12)


def test_types_and_dtypes() -> None:
    features, age, _ = made_up()
    eraser = cclk.LinearEraser().fit(torch.tensor(features), sensitive_features=torch.tensor(age))
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        assert eraser.transform(torch.tensor(features, dtype=dtype)).dtype == dtype
    assert eraser.transform(features.astype(np.float32)).dtype == np.float32
    assert eraser.transform(np.ones((2, 6), dtype=int)).dtype == np.float64
    single = eraser.transform(features.astype(np.float32))
    assert linear_r2(single, age, smallest=1e-5) < 1e-6


@pytest.mark.parametrize("bias", [True, False])
def test_folded_in_the_last_layer(bias: bool) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 6, bias=bias))
    x, z = torch.randn(200, 4), torch.randn(200)
    with torch.no_grad():
        features = network(x + z[:, None])
        eraser = LinearEraser().fit(features, sensitive_features=z)
        folded = nn.Sequential(*network[:2], eraser.fold(network[2]))
        appended = nn.Sequential(network, eraser.as_linear())
        expected = eraser.transform(features)
        for model in (folded, appended):
            torch.testing.assert_close(model(x + z[:, None]), expected, atol=1e-5, rtol=1e-5)
            assert linear_r2(model(x + z[:, None]).numpy(), z.numpy(), smallest=1e-5) < 1e-6
    assert not appended[1].weight.requires_grad


def test_more_categories_than_features() -> None:
    features, _, _ = made_up(width=3)
    names = [f"place {i % 12}" for i in range(300)]
    with pytest.warns(cclk.CclkWarning, match="leaves only constants"):
        erased = LinearEraser().fit_transform(features, sensitive_features={"name": names})
    np.testing.assert_allclose(erased, np.broadcast_to(features.mean(axis=0), (300, 3)), atol=1e-9)


def test_errors() -> None:
    features, age, _ = made_up()
    with pytest.raises(NotFittedError, match="not fitted yet"):
        LinearEraser().transform(features)
    with pytest.raises(DataError, match="sensitive_features has 299 rows but features has 300"):
        LinearEraser().fit(features, sensitive_features=age[1:])
    with pytest.raises(DataError, match="NaN or infinite"):
        LinearEraser().fit(features * np.nan, sensitive_features=age)
    with pytest.raises(DataError, match="shape"):
        LinearEraser().fit(features[0], sensitive_features=age)
    with pytest.raises(DataError, match="at least 2"):
        LinearEraser().fit(features[:1], sensitive_features=age[:1])
    eraser = LinearEraser().fit(features, sensitive_features=age)
    with pytest.raises(ValueError, match="5 features, but LinearEraser is expecting 6"):
        eraser.transform(features[:, 1:])
    with pytest.raises(DataError, match="5 outputs"):
        eraser.fold(nn.Linear(3, 5))


def pipeline() -> Pipeline:
    return make_pipeline(StandardScaler(), LinearEraser(), LogisticRegression())


def test_a_pipeline_keeps_the_label_and_erases_the_condition() -> None:
    features, age, site = made_up()
    label = (features[:, 1] > 0).astype(int)
    with pytest.raises(DataError, match="pass the condition as sensitive_features; y is the label"):
        pipeline().fit(features, label)
    with pytest.raises(DataError, match="sensitive_features"):
        LinearEraser().fit(features, age)
    table = pd.DataFrame({"age": age, "site": site})
    fitted = pipeline().fit(features, label, lineareraser__sensitive_features=table)
    assert fitted.score(features, label) > 0.7
    assert linear_r2(fitted[:-1].transform(features), age) < 1e-9
    alone = LinearEraser().fit_transform(features, sensitive_features=age)
    with_label = LinearEraser().fit_transform(features, label, sensitive_features=age)
    np.testing.assert_array_equal(with_label, alone)
    search = GridSearchCV(pipeline(), {"logisticregression__C": [0.1, 1]}, cv=3)
    search.fit(features, label, lineareraser__sensitive_features=age)
    assert search.best_score_ > 0.65
    with sklearn.config_context(enable_metadata_routing=True):
        routed = pipeline().fit(features, label, sensitive_features=table)
        np.testing.assert_array_equal(routed.predict(features), fitted.predict(features))


def test_data_frames_and_their_names() -> None:
    features, age, _ = made_up()
    frame = pd.DataFrame(features, columns=list("abcdef"), index=np.arange(300)[::-1])
    eraser = LinearEraser().fit(frame, sensitive_features=pd.Series(age, index=frame.index))
    expected = LinearEraser().fit_transform(features, sensitive_features=age)
    np.testing.assert_allclose(eraser.transform(frame), expected, atol=1e-9)
    assert list(eraser.feature_names_in_) == list(eraser.get_feature_names_out()) == list("abcdef")
    assert eraser.transform(frame.astype(np.float32)).dtype == np.float32
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        eraser.transform(frame[list("fbcdea")])
    pd.testing.assert_frame_equal(
        eraser.set_output(transform="pandas").transform(frame),
        pd.DataFrame(expected, columns=frame.columns, index=frame.index),
    )
    eraser.fit(features, sensitive_features=age)
    assert not hasattr(eraser, "feature_names_in_")
    assert list(eraser.transform(features)) == [f"x{number}" for number in range(6)]
    steps = pipeline().set_output(transform="pandas")
    steps.fit(frame, age > 50, lineareraser__sensitive_features=age)
    assert list(steps[:-1].transform(frame)) == list("abcdef")


class OfRowNumber(LinearEraser):
    """An eraser that `check_estimator` can fit, which passes X and y only."""

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Any:  # noqa: N803
        rows = X.shape[0] if hasattr(X, "shape") else len(np.asarray(X))
        return super().fit(X, y, sensitive_features=np.arange(rows))


def test_what_scikit_learn_asks_of_a_step() -> None:
    features, age, _ = made_up()
    eraser = LinearEraser().fit(features, sensitive_features=age)
    assert repr(eraser) == "LinearEraser()"
    assert eraser.get_params() == {}
    assert eraser.set_params() is eraser
    assert not hasattr(clone(eraser), "mean_")
    wording = {  # errors that say it in other words, or come from the condition
        "check_complex_data",
        "check_dtype_object",
        "check_estimators_empty_data_messages",
        "check_fit2d_1sample",
        "check_fit2d_predict1d",
        "check_n_features_in_after_fitting",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checks = check_estimator(OfRowNumber(), on_fail=None)
    assert len(checks) > 30
    failed = {check["check_name"] for check in checks if check["status"] == "failed"}
    assert failed <= wording


def test_whole_numbers_are_erased_to_decimals() -> None:
    z = torch.arange(50.0)
    counts = torch.stack([(z / 7).long(), (z * 3 % 5).long()], dim=1)
    erased = LinearEraser().fit_transform(counts, sensitive_features=z)
    assert erased.dtype == torch.float64
    assert (
        float((erased - erased.mean(0)).T.mm((z - z.mean()).double()[:, None]).abs().max()) < 1e-6
    )
