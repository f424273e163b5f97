"""The linear eraser: features that no linear predictor can read the condition from."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import (  # type: ignore[import-untyped]
    BaseEstimator,
    OneToOneFeatureMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted, validate_data  # type: ignore[import-untyped]
from torch import Tensor, nn

from cclk.condition import Condition, column_slices, infer_condition
from cclk.errors import DataError, warn
from cclk.removal.targets import linear_targets

RANK_TOLERANCE = 1e-10
"""Eigenvalues of the correlation matrix below this share of the largest count as 0."""
CORRELATION_TOLERANCE = 1e-9


class LinearEraser(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""The smallest linear change of features after which no linear predictor of the condition is
    better than a constant.

    .. math:: h' = M (h - \mu) + \mu, \quad M = I - \Sigma^{1/2} U U^\top \Sigma^{-1/2}, \quad
              U = \text{left singular vectors of } \Sigma^{-1/2}\, \mathrm{Cov}(h, \psi)

    psi are the numbers of the condition as they are and an indicator of each category, all columns
    together. Non-linear predictors may still read the condition; `LeakagePenalty` is against these.
    New samples need no condition, and `fold` puts the change in the last layer of a network.

    A step of scikit-learn's pipelines: `make_pipeline(LinearEraser(), LogisticRegression()).fit(X,
    y, lineareraser__sensitive_features=age)`.

    Fitted attributes: `mean_` (d,), `projection_` (d, d), which is M, `rank_`, the number of erased
    directions, `n_features_in_`, and for data frames `feature_names_in_`.

    Shape:
        X: (n, d), a NumPy array, a tensor or a data frame. The result is a tensor for a tensor,
            else an array, or what `set_output` asks for, of the same dtype.
        sensitive_features: (n,), (n, k), a data frame or a mapping of columns.

    Example:
        >>> import numpy as np
        >>> random = np.random.default_rng(0)
        >>> features, age = random.normal(size=(100, 4)), random.uniform(20, 80, 100)
        >>> features[:, 0] += age
        >>> erased = LinearEraser().fit_transform(features, sensitive_features=age)
        >>> bool(abs(np.cov(erased.T, age)[-1, :-1]).max() < 1e-9)
        True

    Reference:
        Belrose et al., LEACE: Perfect Linear Concept Erasure in Closed Form, NeurIPS 2023.
    """

    mean_: npt.NDArray[np.float64]
    projection_: npt.NDArray[np.float64]
    rank_: int
    n_features_in_: int
    # Metadata routing passes these to `fit`.
    __metadata_request__fit: ClassVar = {"sensitive_features": True}

    def fit(
        self,
        X: Any,  # noqa: N803
        y: object = None,
        *,
        sensitive_features: object = None,
    ) -> Self:
        """Fit the mean and the projection, and return the eraser.

        Args:
            X: Features of the training split, (n, d).
            y: Ignored: pipelines pass the label to each step.
            sensitive_features: The condition to erase, n rows; kinds of columns are inferred as in
                `cclk.columns`.
        """
        if sensitive_features is None:
            raise DataError(
                "there is nothing to erase: pass the condition as sensitive_features; y is the"
                " label, which is kept"
            )
        h = _as_matrix(X)
        validate_data(self, X, skip_check_array=True)
        table = infer_condition(sensitive_features, name="sensitive_features")
        if len(table) != len(h):
            raise DataError(
                f"sensitive_features has {len(table)} rows but features has {len(h)}: every sample"
                " needs one row"
            )
        if len(h) < 2:
            raise DataError(f"features has {len(h)} rows: the eraser needs at least 2 samples")
        targets = linear_targets(table).cpu()
        mean = h.mean(dim=0)
        centered = h - mean
        std = centered.square().mean(dim=0).sqrt()
        # In units of standard deviations, so that a feature of small scale is not taken for a
        # numerical zero. The rounding error of a constant feature is no feature.
        std = std.where(std > 1e-12 * h.abs().amax(dim=0), 0.0)
        unit = torch.where(std > 0, centered / std.where(std > 0, 1.0), 0.0)
        variances, axes = torch.linalg.eigh(unit.T @ unit / len(h))
        kept = variances > RANK_TOLERANCE * variances[-1].clamp_min(1e-300)
        axes, roots = axes[:, kept], variances[kept].sqrt()
        white = unit @ (axes / roots)
        left, values, _ = torch.linalg.svd(white.T @ targets / len(h), full_matrices=False)
        left = left[:, values > CORRELATION_TOLERANCE]
        erased = (axes * roots) @ left @ left.T @ (axes / roots).T
        scale = std.where(std > 0, 1.0)
        projection = torch.eye(h.shape[1], dtype=h.dtype) - scale[:, None] * erased / scale
        self.mean_, self.projection_ = mean.numpy(), projection.numpy()
        self.rank_ = left.shape[1]
        if 0 < self.rank_ == len(roots):
            warn(
                f"the condition has at least as many functions as features has directions"
                f" ({len(roots)}): erasing it leaves only constants. Merge rare categories, erase"
                " fewer columns, or use wider features."
            )
        return self

    def transform(self, X: Any) -> Any:  # noqa: N803
        """Return the features without the condition, (n, d).

        Args:
            X: Features of any samples, (n, d).
        """
        matrix, _ = self.matrix_and_bias()
        h = _as_matrix(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        mean = torch.from_numpy(self.mean_)
        erased = (h - mean) @ matrix.T + mean
        if isinstance(X, Tensor):
            kind = X.dtype if X.is_floating_point() else torch.float64
            return erased.to(device=X.device, dtype=kind)
        dtype = np.asarray(X).dtype
        return erased.numpy().astype(dtype if dtype.kind == "f" else np.float64)

    def matrix_and_bias(self) -> tuple[Tensor, Tensor]:
        """Return M (d, d) and mu - M mu (d,) in float64: h' = M h + bias."""
        check_is_fitted(self, "projection_")
        matrix, mean = torch.from_numpy(self.projection_), torch.from_numpy(self.mean_)
        return matrix, mean - matrix @ mean

    @torch.no_grad()
    def fold(self, linear: nn.Linear) -> nn.Linear:
        """Return a copy of the last layer of an encoder with the eraser in its weights.

        Args:
            linear: The layer that computes the features.
        """
        matrix, bias = self.matrix_and_bias()
        if linear.out_features != len(bias):
            raise DataError(
                f"the layer has {linear.out_features} outputs but the eraser was fitted on"
                f" {len(bias)} features: pass the layer that computes the features"
            )
        weight = linear.weight.detach().double().cpu()
        if linear.bias is not None:
            bias = bias + matrix @ linear.bias.detach().double().cpu()
        return _linear(matrix @ weight, bias, linear.weight)

    def as_linear(self) -> nn.Linear:
        """Return the eraser as a layer of float32 without gradients, (n, d) to (n, d)."""
        matrix, bias = self.matrix_and_bias()
        return _linear(matrix, bias, torch.empty(0)).requires_grad_(False)


def linear_r2(features: Tensor, condition: Condition) -> dict[str, float]:
    """Return the largest R² of least squares on the same samples for each column of a condition.

    Args:
        features: (n, d).
        condition: n rows, with named columns.
    """
    h = _as_matrix(features)
    centered = h - h.mean(dim=0)
    scaled = centered / centered.square().mean(dim=0).sqrt().clamp_min(1e-300)
    left, values, _ = torch.linalg.svd(scaled, full_matrices=False)
    basis = left[:, values > 1e-5 * values[:1].clamp_min(1e-300)]
    result = {}
    for column, part in column_slices(condition.columns):
        targets = linear_targets(Condition(condition.values[:, part].double(), (column,)))
        shares = (basis.T @ targets).square().sum(dim=0) / targets.square().sum(dim=0)
        result[column.name] = float(shares.max()) if len(shares) else 0.0
    return result


@torch.no_grad()
def _linear(weight: Tensor, bias: Tensor, like: Tensor) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], device=like.device, dtype=like.dtype)
    layer.weight.copy_(weight)
    layer.bias.copy_(bias)
    return layer


def _as_matrix(features: Any) -> Tensor:
    if hasattr(features, "toarray"):
        raise DataError("features is a sparse matrix: pass features.toarray()")
    try:
        values = features.detach().cpu() if isinstance(features, Tensor) else np.asarray(features)
        if "complex" in str(values.dtype):
            raise DataError("it has complex numbers")
        matrix = (
            values.double()
            if isinstance(values, Tensor)
            else torch.from_numpy(values.astype(np.float64))
        )
    except (TypeError, ValueError) as error:
        raise DataError(f"features is not a table of numbers: {error}") from error
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise DataError(
            f"features has shape {tuple(matrix.shape)}: features must have shape (n, d)"
        )
    if not matrix.isfinite().all():
        raise DataError("features has values that are NaN or infinite: drop or impute their rows")
    return matrix
