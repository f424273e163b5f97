"""The panel of probes that leakage is measured with.

All probes predict the same target by least squares: standardized numbers, or the indicators of
categories. They are fitted on the training split and tuned on the validation split.

    linear       ridge regression
    squares      ridge regression on features and the squares of features or components
    bins         additive regression on quantile bins of the columns that depend on z most, among
                 features, components and the principal components of unscaled features
    neighbors    the mean of the nearest training samples
    directions   kernel ridge regression on a few directions of strong curvature
    boosting     gradient-boosted trees on features, components and these directions
    components   a network, two hidden layers of 256 units, on components and these directions
    network      the same network on features, for at least 500 training samples
    combined     the sum of all of them, with weights fitted on validation

A probe is a function in `PROBES`, from views of the samples to predictions. Components are
whitened, so a condition in a direction of small variance is as visible as any other. Directions are
the leading eigenvectors of E[t x x^T] (principal Hessian directions): they contain products of two
directions, which neither a linear probe nor a tree finds among many features.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from cclk._extras import needed_for
from cclk.evaluation.probes import FeatureScaler, fit_ridge, one_thread
from cclk.evaluation.samples import Floats, Integers

Array = NDArray[np.float64]

LARGEST_TRAINING_SET = 20_000
"""Probes other than ridge regression are fitted on a random part of more samples."""
WIDEST = 512
"""Of more features, probes use this number of principal components."""
_FEW = 500  # training samples below which trees are small and there is one network
_NEIGHBORS = (5, 10, 20, 50, 100, 200)
_DIRECTIONS = (2, 4, 8)  # the last one is also used for boosting
_LANDMARKS = 256
_LENGTH_SCALES = (0.5, 1.0, 2.0)
_TREES = 400  # over all columns of a target
_BOOSTED = 256  # columns of trees: those with the largest variance between bins
_TARGETS = 8  # components of a wide target that trees are fitted to
_BINS = (16, 64)
_BINNED = (1, 4, 8)  # columns that bins are formed of
_TILE = 512

# The networks.
_WIDTH = 256
_DECAY = 1e-2  # AdamW
_WARMUP = 50  # steps
_MOMENTUM = 0.99  # of the running average of the parameters, which is evaluated and kept
_EPOCHS = 40
_STEPS = (160, 1_600)  # at least and at most
_EVALUATIONS = 40  # on the validation split
_PATIENCE = 8  # evaluations without improvement before stopping


@dataclass(frozen=True)
class Splits:
    """An array for each of the training, validation and test split."""

    train: Floats
    validation: Floats
    test: Floats

    def __iter__(self) -> Iterator[Floats]:
        return iter((self.train, self.validation, self.test))

    def scaled(self) -> Splits:
        """Return these columns with mean 0 and variance 1 in the training split."""
        scaler = FeatureScaler.fit(self.train)
        return Splits(*map(scaler, self))

    def beside(self, *others: Splits) -> Splits:
        """Return the columns of all splits, side by side."""
        joined = zip(self, *others, strict=True)
        return Splits(*(np.concatenate(each, axis=1) for each in joined))

    def times(self, matrix: Floats) -> Splits:
        """Return each split times a matrix, as float32."""
        return Splits(*((each @ matrix).astype(np.float32) for each in self))


@dataclass(frozen=True)
class Views:
    """The samples as probes see them."""

    features: Splits
    """Of variance 1; of many features, the leading principal components."""
    components: Splits
    """The principal components of these, with variance 1."""
    principal: Splits
    """The principal components of unscaled features, with variance 1."""
    target: Splits
    """(n, k), with mean 0 in the training split."""
    seed: int

    @classmethod
    def of(cls, features: Splits, target: Splits, seed: int) -> Views:
        """Scale and rotate features."""
        x = _narrow(features.scaled(), seed)
        narrow = features.train.shape[1] <= WIDEST
        return cls(x, _whitened(x), _whitened(_centered(features)) if narrow else x, target, seed)

    @cached_property
    def directions(self) -> Splits:
        """Components along the leading eigenvectors of E[t x x^T], for each column t."""
        return _directions(self.components, self.target.train)

    @cached_property
    def everything(self) -> Splits:
        """Features, components and directions."""
        return self.features.beside(self.components, self.directions)

    def at_most(self, rows: int) -> Views:
        """Return a random part of the training split."""
        count = len(self.features.train)
        if count <= rows:
            return self
        sample = np.sort(np.random.default_rng((self.seed, 3)).permutation(count)[:rows])
        features, components, principal, target = (
            Splits(each.train[sample], each.validation, each.test)
            for each in (self.features, self.components, self.principal, self.target)
        )
        return Views(features, components, principal, target, self.seed)


@dataclass(frozen=True)
class Prediction:
    """What a probe predicts for the validation and for the test split."""

    validation: Array
    test: Array


class Probe(NamedTuple):
    """A probe of the panel."""

    predict: Callable[[Views], Prediction]
    every_row: bool = False
    """Whether it is fitted on all training samples, however many there are."""
    slow: bool = False
    """Whether a quick panel leaves it out."""
    least: int = 0
    """The smallest training split that it is fitted on."""


def predict_by_panel(
    features: Splits, target: Splits, seed: int, quick: bool = False
) -> dict[str, Array]:
    """Fit and tune every probe, and return its predictions for the test split.

    Args:
        features: (n, d) for each split.
        target: (n, k) for each split, with mean 0 in the training split.
        seed: seed of landmarks, trees, networks and the sample of a large training split.
        quick: whether to leave out the slow probes.
    """
    with one_thread():
        every = Views.of(features, target, seed)
        part = every.at_most(LARGEST_TRAINING_SET)
        predictions = {
            name: _shrunk(probe.predict(every if probe.every_row else part), target.validation)
            for name, probe in PROBES.items()
            if not (quick and probe.slow) and len(features.train) >= probe.least
        }
    combined = _combined(list(predictions.values()), target.validation)
    return {name: each.test for name, each in predictions.items()} | {"combined": combined}


def _narrow(x: Splits, seed: int) -> Splits:
    """Replace many features by their leading principal components."""
    if x.train.shape[1] <= WIDEST:
        return x
    with needed_for("leakage"):
        from sklearn.utils.extmath import randomized_svd  # type: ignore[import-untyped]
    count = min(WIDEST, len(x.train))
    _, sizes, axes = randomized_svd(x.train, count, n_iter=2, random_state=seed)
    # Scaled to variance 1, rounding errors would be noise as large as the features.
    return x.times(axes[sizes >= 1e-5 * sizes[0]].T).scaled()


def _centered(x: Splits) -> Splits:
    mean = x.train.astype(np.float64).mean(axis=0)
    return Splits(*((each - mean).astype(np.float32) for each in x))


def _whitened(x: Splits) -> Splits:
    """Return the principal components with variance 1, without those that are rounding errors."""
    train = x.train.astype(np.float64)
    values, vectors = np.linalg.eigh(train.T @ train / len(train))
    kept = values >= 1e-6 * values[-1]
    return x.times(vectors[:, kept] / np.sqrt(np.maximum(values[kept], 1e-30)))


def _directions(whitened: Splits, target: Floats) -> Splits:
    x = whitened.train.astype(np.float64)
    values, vectors = [], []
    for column in _leading(target).T:
        spectrum, basis = np.linalg.eigh((x * column[:, None]).T @ x / len(x))
        values.append(np.abs(spectrum))
        vectors.append(basis)
    order = np.argsort(-np.concatenate(values), kind="stable")[: _DIRECTIONS[-1]]
    return whitened.times(np.concatenate(vectors, axis=1)[:, order])


def _leading(target: Floats) -> Array:
    """Return the leading principal components of a target, at most `_TARGETS`, (n, m)."""
    return np.asarray(target @ _rotation(target), dtype=np.float64)


def _rotation(target: Floats) -> Array:
    values, vectors = np.linalg.eigh(target.T.astype(np.float64) @ target / len(target))
    kept = values[::-1] > 1e-9 * max(values[-1], 1e-300)
    return np.asarray(vectors[:, ::-1][:, kept][:, :_TARGETS])


def _ridge(x: Splits, target: Splits) -> Prediction:
    probe = fit_ridge(x.train, target.train, x.validation, target.validation)
    return Prediction(*(probe(each).astype(np.float64) for each in (x.validation, x.test)))


def _linear(views: Views) -> Prediction:
    return _ridge(views.features, views.target)


def _squares(views: Views) -> Prediction:
    x, target = views.features, views.target
    squared = (Splits(*(each**2 for each in part)) for part in (x, views.components))
    return _closest(target, [_ridge(x.beside(each).scaled(), target) for each in squared])


def _bins(views: Views) -> Prediction:
    """Ridge regression on indicators of bins of the columns with the largest variance between bins.

    It finds a function of any shape of one column, such as a fast oscillation.
    """
    x, target, candidates = views.everything.beside(views.principal), views.target, []
    for bins in _BINS:
        if bins * 8 > len(x.train):
            continue
        numbers = _binned(x, bins)
        order = np.argsort(-_between(numbers[0], target.train, bins), kind="stable")
        for count in _BINNED:
            indicators = Splits(*(_indicators(each[:, order[:count]], bins) for each in numbers))
            candidates.append(_ridge(indicators, target))
    return _closest(target, candidates) if candidates else _ridge(x, target)


def _binned(x: Splits, bins: int) -> list[Integers]:
    """Return the numbers of bins in each split; bins are quantiles of the training split."""
    edges = np.quantile(x.train, np.arange(1, bins) / bins, axis=0).T
    return [
        np.stack([np.searchsorted(*pair) for pair in zip(edges, each.T, strict=True)], axis=1)
        for each in x
    ]


def _between(numbers: Integers, target: Floats, bins: int) -> Array:
    """Return the sum of squares of the target between the bins of each column."""
    scores = []
    for column in numbers.T:
        counts = np.bincount(column, minlength=bins)
        sums = [np.bincount(column, each, minlength=bins) for each in target.T]
        scores.append(sum((each**2 / np.maximum(counts, 1)).sum() for each in sums))
    return np.array(scores)


def _indicators(numbers: Integers, bins: int) -> Floats:
    flat = np.eye(bins, dtype=np.float32)[numbers].reshape(len(numbers), -1)
    return np.asarray(flat * np.sqrt(bins))


def _neighbors(views: Views) -> Prediction:
    """Predict the mean of the nearest samples; their number is selected on validation."""
    # Brute force by torch is 7 times faster than scikit-learn's.
    target, values = views.target, torch.from_numpy(views.target.train).double()
    counts = [count for count in _NEIGHBORS if count <= len(values)] or [len(values)]
    candidates = []
    for x in (views.features, views.components):
        keys, means = torch.from_numpy(x.train), []
        for queries in (x.validation, x.test):
            tiles = []
            for tile in torch.split(torch.from_numpy(queries), _TILE):
                rows = torch.cdist(tile, keys).topk(counts[-1], dim=1, largest=False).indices
                sums = values[rows].cumsum(dim=1)
                tiles.append(torch.stack([sums[:, count - 1] / count for count in counts]))
            means.append(torch.cat(tiles, dim=1).numpy())
        candidates += [Prediction(*pair) for pair in zip(*means, strict=True)]
    return _closest(target, candidates)


def _kernel_ridge(views: Views) -> Prediction:
    """Kernel ridge regression with random landmarks, on the first 2, 4 or 8 directions."""
    rows = np.random.default_rng((views.seed, 4)).permutation(len(views.target.train))
    rows = rows[: min(_LANDMARKS, len(rows) // 4 + 1)]
    candidates = []
    for count in _DIRECTIONS:
        x = Splits(*(each[:, :count] for each in views.directions))
        for scale in _LENGTH_SCALES:
            kernel = Splits(*(_gaussian(each, x.train[rows], scale) for each in x))
            candidates.append(_ridge(x.beside(kernel).scaled(), views.target))
    return _closest(views.target, candidates)


def _gaussian(x: Floats, landmarks: Floats, scale: float) -> Floats:
    distance = torch.cdist(torch.from_numpy(x), torch.from_numpy(landmarks)).square()
    kernel: Floats = (distance / (-2 * x.shape[1] * scale**2)).exp().numpy()
    return kernel


def _boosting(views: Views) -> Prediction:
    """Fit trees to each leading component of the target until the validation error rises."""
    with needed_for("leakage"):
        from sklearn.ensemble import (  # type: ignore[import-untyped]
            HistGradientBoostingRegressor,
        )
    x, target = views.everything, views.target
    if x.train.shape[1] > _BOOSTED:
        bins = _BINS[0]
        order = np.argsort(-_between(_binned(x, bins)[0], target.train, bins), kind="stable")
        x = Splits(*(each[:, np.sort(order[:_BOOSTED])] for each in x))
    rotation = _rotation(target.train)
    train, held = target.train @ rotation, target.validation @ rotation
    predictions = []
    for column in range(rotation.shape[1]):
        trees = HistGradientBoostingRegressor(
            learning_rate=0.1,
            max_iter=max(20, _TREES // rotation.shape[1]),
            max_leaf_nodes=31 if len(x.train) >= _FEW else 7,
            max_features=0.3,
            early_stopping=True,
            n_iter_no_change=20,
            random_state=views.seed,
        )
        trees.fit(x.train, train[:, column], X_val=x.validation, y_val=held[:, column])
        predictions.append([trees.predict(each) for each in (x.validation, x.test)])
    validation, test = (np.stack(each, axis=1) for each in zip(*predictions, strict=True))
    return Prediction(validation @ rotation.T, test @ rotation.T)


def _network_on_components(views: Views) -> Prediction:
    larger = Splits(*(2 * each for each in views.directions))  # learned first
    return _network(views.components.beside(larger), views.target, 1e-2, views.seed)


def _network_on_features(views: Views) -> Prediction:
    return _network(views.features, views.target, 3e-3, views.seed)


@torch.inference_mode(False)
@torch.enable_grad()  # features are often computed and measured in one block without gradients
def _network(inputs: Splits, target: Splits, rate: float, seed: int) -> Prediction:
    """Minimize the squared error of two hidden layers with AdamW and a cosine schedule."""
    x, held, query = (torch.from_numpy(each) for each in inputs)
    t, held_t = (torch.from_numpy(each).float() for each in (target.train, target.validation))
    random = torch.Generator().manual_seed(seed)
    batch = min(256, max(16, len(x) // 8))
    steps = min(_STEPS[1], max(_STEPS[0], _EPOCHS * len(x) // batch))
    widths = (x.shape[1], _WIDTH, _WIDTH, t.shape[1])
    with torch.random.fork_rng(devices=[]):
        layers = [nn.Linear(*pair) for pair in itertools.pairwise(widths)]
    with torch.no_grad():
        for layer in layers:
            rows, columns = layer.in_features, layer.out_features
            noise = torch.randn(rows, columns, generator=random)
            layer.weight.copy_(noise.T * math.sqrt(2.0 / rows))
            layer.bias.zero_()
    network = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
    groups = [
        {"params": [layer.weight for layer in layers], "weight_decay": _DECAY},
        {"params": [layer.bias for layer in layers], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=rate, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min(1, (step + 1) / _WARMUP) * 0.5 * (1 + math.cos(math.pi * step / steps)),
    )
    average = copy.deepcopy(network).requires_grad_(False)
    averages: list[Tensor] = list(average.parameters())
    parameters: list[Tensor] = list(network.parameters())
    best, best_error, stale = average, math.inf, 0
    for step in range(1, steps + 1):
        drawn = torch.randint(len(x), (min(batch, len(x)),), generator=random)
        optimizer.zero_grad()
        F.mse_loss(network(x[drawn]), t[drawn]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            torch._foreach_lerp_(averages, parameters, 1.0 - _MOMENTUM)
        if step % (steps // _EVALUATIONS) == 0:
            error = float(F.mse_loss(average(held), held_t))
            stale = 0 if error < best_error else stale + 1
            if error < best_error:
                best, best_error = copy.deepcopy(average), error
            if stale >= _PATIENCE:
                break
    return Prediction(*(best(each).numpy().astype(np.float64) for each in (held, query)))


PROBES = {
    "linear": Probe(_linear, every_row=True),
    "squares": Probe(_squares, every_row=True),
    "bins": Probe(_bins),
    "neighbors": Probe(_neighbors),
    "directions": Probe(_kernel_ridge),
    "boosting": Probe(_boosting, slow=True),
    "components": Probe(_network_on_components, slow=True),
    "network": Probe(_network_on_features, least=_FEW),
}


def _closest(target: Splits, candidates: list[Prediction]) -> Prediction:
    """Return the prediction with the smallest validation error."""
    return min(candidates, key=lambda each: ((each.validation - target.validation) ** 2).sum())


def _shrunk(prediction: Prediction, truth: Floats) -> Prediction:
    """Multiply a prediction by the factor between 0 and 1 that suits the validation split best."""
    square = float((prediction.validation**2).sum())
    factor = float((prediction.validation * truth).sum()) / square if square > 0 else 0.0
    factor = min(1.0, max(0.0, factor)) if math.isfinite(factor) else 0.0
    return Prediction(factor * prediction.validation, factor * prediction.test)


def _combined(predictions: list[Prediction], truth: Floats) -> Array:
    """Return the sum of all predictions, with weights of at least 0 fitted on validation."""
    with needed_for("leakage"):
        from scipy.optimize import nnls  # type: ignore[import-untyped]
    columns = np.stack([each.validation.ravel() for each in predictions], axis=1)
    weights, _ = nnls(columns, truth.ravel().astype(np.float64))
    return np.asarray(sum(w * each.test for w, each in zip(weights, predictions, strict=True)))
