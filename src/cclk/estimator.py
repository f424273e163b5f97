"""An encoder with scikit-learn's manners: fit, transform, in a pipeline or a grid search.

encoder = ConditionalEncoder(steps=500).fit(X, sensitive_features=age)
features = encoder.transform(X)            # what is in X, without what tells the age
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted, validate_data  # type: ignore[import-untyped]
from torch import Tensor

from cclk.columns import Column
from cclk.condition import Condition, infer_condition
from cclk.data.dataset import Dataset, Split
from cclk.errors import CclkWarning
from cclk.files import read_tensors, write_tensors
from cclk.training.network import Network
from cclk.training.settings import Settings, load, parse
from cclk.training.trainer import Trainer

Array = npt.NDArray[Any]
_METHODS = {
    "fair": "fair-cclk",
    "weaksup": "weaksup-cclk",
    "hardneg": "hardneg-cclk",
    "infonce": "infonce",
}


class ConditionalEncoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Learns features of X by contrast, told what to ignore (`sensitive_features`) or what to
    use (`condition`).

    Args:
        method: "fair", "weaksup", "hardneg" or "infonce"; "auto" is fair for sensitive features,
            weaksup for a condition, else infonce.
        kernel: "rbf", "laplacian", "linear", "cosine", "polynomial" or "delta"; "auto" goes by the
            kind of each column.
        encoder: "mlp" for tables; "lenet5", "resnet18", ... for images, or an import path
            package.module:factory.
        encoder_options: its settings, such as {"hidden": [128, 64]}.
        augmentation: "auto": noise and hidden columns for tables, crops for images; or a name that
            `cclk train` knows.
        steps, batch_size, lr, weight_decay, temperature, weights, neighbors, sampler: as for `cclk
            train`.
        random_state: of all randomness, a whole number.

    Attributes:
        network_: the trained network; settings_: all settings; n_features_in_ and feature_names_in_
            as everywhere in scikit-learn.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(60, 5))
    >>> ConditionalEncoder(steps=2, encoder_options={"hidden": [8]}).fit_transform(X, sensitive_features=X[:, 0]).shape
    (60, 8)
    """

    def __init__(
        self,
        method: Literal["auto", "fair", "weaksup", "hardneg", "infonce"] = "auto",
        kernel: str = "auto",
        encoder: str = "mlp",
        *,
        encoder_options: Mapping[str, Any] | None = None,
        augmentation: str = "auto",
        steps: int = 500,
        batch_size: int = 256,
        lr: float = 3e-3,
        weight_decay: float = 0.01,
        temperature: float = 0.2,
        weights: str = "nw",
        neighbors: float = 3.0,
        sampler: str = "auto",
        random_state: int = 0,
    ) -> None:
        self.method = method
        self.kernel = kernel
        self.encoder = encoder
        self.encoder_options = encoder_options
        self.augmentation = augmentation
        self.steps = steps
        self.batch_size = batch_size
        self.lr = lr
        self.weight_decay = weight_decay
        self.temperature = temperature
        self.weights = weights
        self.neighbors = neighbors
        self.sampler = sampler
        self.random_state = random_state

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any = None,
        *,
        sensitive_features: Any = None,
        condition: Any = None,
    ) -> Self:
        """Train the encoder.

        Args:
            X: a table (n, k) of numbers, or uint8 images (n, c, h, w).
            y: not used; it is here so that pipelines can pass it.
            sensitive_features: what to ignore: numbers, dates (as days) or categories, one or
                several columns, as an array or a data frame; kinds are inferred by the rule of
                `cclk.columns`.
            condition: what to use, in the same forms. Give one of the two.
        """
        if sensitive_features is not None and condition is not None:
            raise ValueError("give sensitive_features (to ignore) or condition (to use), not both")
        x = self._samples(X, reset=True)
        given = sensitive_features if sensitive_features is not None else condition
        method = self._method(given is not None, sensitive_features is not None)
        if len(x) < 2:
            raise ValueError(
                f"n_samples={len(x)}: at least 2 samples are needed to compare anything"
            )
        table = _condition(given, len(x))
        split = Split(x, torch.zeros(len(x), dtype=torch.int64), table.values)
        dataset = Dataset("X", split, split, split, ("unlabeled",), table.columns, "")
        self.settings_ = self._settings(method, x)
        with warnings.catch_warnings():
            if given is None:
                warnings.simplefilter("ignore", CclkWarning)
            trainer = Trainer(self.settings_, dataset)
            for step in range(trainer.total):
                trainer.step(step)
        self.network_ = trainer.network.cpu().eval().requires_grad_(False)
        self._n_features_out = int(self.network_.encoder.width)
        return self

    def transform(self, X: Any) -> Array:  # noqa: N803
        """Features (n, width) of samples, in the precision of X."""
        check_is_fitted(self, "network_")
        samples = self._samples(X, reset=False, keep=True)
        network = (
            self.network_.double() if samples.dtype == torch.float64 else self.network_.float()
        )
        with torch.inference_mode():
            tables = samples.dtype != torch.uint8  # in their own precision
            inputs = (
                (samples - network.inputs.mean) / network.inputs.spread
                if tables
                else network.inputs(samples)
            )
            parts = [network.encoder(part) for part in torch.split(inputs, 1024)]
        features: Array = torch.cat(parts).numpy()
        return features

    def save(self, path: str | Path) -> None:
        """Keep a fitted encoder in a .safetensors file: weights, settings and parameters;
        nothing in it is code.
        """
        check_is_fitted(self, "network_")
        path = Path(path)
        if path.suffix != ".safetensors":
            raise ValueError(f"path is {path}: it must end in .safetensors")
        shape = (
            [int(self.n_features_in_)]
            if not hasattr(self, "image_shape_")
            else list(self.image_shape_)
        )
        about = {
            "parameters": json.dumps(
                self.get_params(), default=lambda value: value.item()
            ),  # numbers of numpy, from a search
            "settings": json.dumps(self.settings_.model_dump(mode="json")),
            "shape": json.dumps(shape),
            "names": json.dumps(list(getattr(self, "feature_names_in_", []))),
        }
        write_tensors(path, self.network_.float().state_dict(), about)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """A fitted encoder from a file written by `save`."""
        try:
            tensors, about = read_tensors(Path(path))
            parameters, shape, names = (
                json.loads(about[key]) for key in ("parameters", "shape", "names")
            )
            settings = parse(json.loads(about["settings"]), str(path))
        except (OSError, KeyError) as error:
            raise ValueError(
                f"{path} holds no ConditionalEncoder ({error}): write one with save"
            ) from error
        self = cls(**parameters)
        self.settings_ = settings
        self.network_ = Network(settings, shape).eval().requires_grad_(False)
        self.network_.load_state_dict(tensors)
        self.n_features_in_ = int(np.prod(shape))
        if len(shape) == 3:
            self.image_shape_ = tuple(shape)
        if names:
            self.feature_names_in_ = np.array(names, dtype=object)
        self._n_features_out = int(self.network_.encoder.width)
        return self

    def _method(self, given: bool, sensitive: bool) -> str:
        if self.method == "auto":
            return ("fair-cclk" if sensitive else "weaksup-cclk") if given else "infonce"
        if self.method not in _METHODS:
            raise ValueError(f"method is {self.method!r}: choose auto, {', '.join(_METHODS)}")
        if self.method in ("fair", "weaksup") and not given:
            raise ValueError(
                f"method is {self.method!r}: fit needs sensitive_features (to ignore) or condition"
                " (to use)"
            )
        return _METHODS[self.method]

    def _settings(self, method: str, x: Tensor) -> Settings:
        images = x.dtype == torch.uint8
        augmentation = (
            self.augmentation
            if self.augmentation != "auto"
            else ("digits" if images else "vectors")
        )
        return load(
            overrides={
                "method": method,
                "kernel": self.kernel,
                "encoder": self.encoder,
                "encoder_options": dict(self.encoder_options or {}),
                "augmentation": augmentation,
                "steps": self.steps,
                "batch_size": min(self.batch_size, len(x)),
                "lr": self.lr,
                "weight_decay": self.weight_decay,
                "optimizer": "adamw",
                "temperature": self.temperature,
                "weights": self.weights,
                "neighbors": self.neighbors,
                "sampler": self.sampler,
                "seed": self.random_state,
            }
        )

    def _samples(self, X: Any, reset: bool, keep: bool = False) -> Tensor:  # noqa: N803
        """X as a tensor: images as they are, tables checked and as float32, or in their own
        precision.
        """
        if isinstance(X, Tensor):
            X = X.detach().cpu().numpy()  # noqa: N806
        if reset:
            for name in ("image_shape_", "feature_names_in_"):
                self.__dict__.pop(name, None)
        if isinstance(X, np.ndarray) and X.ndim == 4:
            if X.dtype != np.uint8:
                raise ValueError(f"images X are {X.dtype}: they must be uint8 (n, c, h, w)")
            if reset:
                self.image_shape_, self.n_features_in_ = X.shape[1:], int(np.prod(X.shape[1:]))
            elif X.shape[1:] != getattr(self, "image_shape_", None):
                raise ValueError(
                    f"images X have the shape {X.shape[1:]}, but those of fit had"
                    f" {getattr(self, 'image_shape_', None)}"
                )
            return torch.from_numpy(np.ascontiguousarray(X))
        table = validate_data(
            self, X, reset=reset, dtype=[np.float64, np.float32], ensure_min_samples=1
        )
        return torch.from_numpy(np.ascontiguousarray(table if keep else table.astype(np.float32)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _condition(data: Any, rows: int) -> Condition:
    """The condition of the samples as float32; without one, a column that never changes."""
    if data is None:
        return Condition(torch.zeros(rows, 1), (Column("none"),), torch.float32)
    found = infer_condition(data)
    if len(found) != rows:
        raise ValueError(
            f"the condition has {len(found)} rows and X has {rows}: every sample needs its own"
        )
    values = found.values.float()
    if not values.isfinite().all():
        raise ValueError("the condition has values beyond 3e38: rescale them")
    return Condition(values, found.columns, torch.float32)
