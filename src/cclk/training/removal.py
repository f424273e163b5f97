"""Removal while training: the leakage penalty on features, and the label to keep."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cclk import _distributed as distributed
from cclk.data.dataset import Dataset
from cclk.errors import SettingsError
from cclk.registry import PENALTIES
from cclk.training.methods import find
from cclk.training.network import ContrastiveNetwork
from cclk.training.settings import Settings


def describe_removal(settings: Settings, dataset: Dataset) -> str:
    """Return what a run removes and how, as text; "" if it does not remove anything."""
    removal, width = settings.removal, settings.model.feature_width
    names = ", ".join(column.name for column in dataset.columns)
    fair = find(settings.method).removes
    if not names or not (fair or removal.leakage_penalty or removal.feature_noise):
        return ""
    penalty = removal.penalty if removal.penalty != "reader" else "penalty"
    means = [
        f"{penalty} {removal.leakage_penalty:g}" if removal.leakage_penalty else "no penalty",
        f"{width} features" if width else "all features",
        f"noise {removal.feature_noise:g}" if removal.feature_noise else "no noise",
    ]
    return f"removes {names} (remove {removal.remove}: {', '.join(means)})"


class PenalizedNetwork(nn.Module):
    """A network under training, with the features of unaugmented samples beside its projections.

    Both come from one forward pass, as `DistributedDataParallel` requires.

    Attributes:
        penalty: The penalty on the features; its parameters, if it has any, are trained too.
        classifier: A linear layer that predicts the label to keep from the features, or None.
    """

    def __init__(self, network: ContrastiveNetwork, settings: Settings, dataset: Dataset) -> None:
        super().__init__()
        self.network, width = network, network.encoder.width
        self.classifier: nn.Linear | None = None
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            if settings.removal.keep:
                self.classifier = nn.Linear(width, len(dataset.classes))
            self.penalty = _penalty(settings.removal.penalty, width, dataset)

    def forward(self, views: Tensor, samples: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return projections of the views, and features and label scores of the samples."""
        features = self.network.encoder.encode(samples)
        scores = None if self.classifier is None else self.classifier(features)
        return self.network(views), features, scores


def _penalty(name: str, width: int, dataset: Dataset) -> nn.Module:
    condition = dataset.condition(dataset.train)
    penalty = PENALTIES.create(name, {"width": width, "condition": condition})
    if not isinstance(penalty, nn.Module):
        raise SettingsError(
            f"the penalty {name!r} is a {type(penalty).__name__}: it must be a torch.nn.Module"
        )
    return penalty


class Removal:
    """The additional terms of the loss.

    Attributes:
        contrast: Factor of the contrastive loss.
        last: The penalty of the last step, before it is multiplied by its strength: the mean over
            the columns of the condition. None before the first step and without a penalty.
    """

    def __init__(
        self, settings: Settings, dataset: Dataset, total: int, penalty: nn.Module
    ) -> None:
        removal, label = settings.removal, settings.source_options.get("label", "label")
        if removal.leakage_penalty and not dataset.columns:
            raise SettingsError(
                f"removal.leakage_penalty is {removal.leakage_penalty:g}, but {dataset.name} has no"
                " condition to remove: add a condition, or set it to 0"
            )
        if removal.keep and removal.keep != label:
            raise SettingsError(
                f"removal.keep is {removal.keep!r}, but the label of {dataset.name} is {label!r}:"
                " keep the label, or nothing"
            )
        labeled = len(dataset.classes) > 1
        if not labeled and (removal.keep or removal.independence == "odds"):
            raise SettingsError(
                f"{dataset.name} has no label to keep or to condition on: add a label, or set"
                " removal.keep to '' and removal.independence to 'parity'"
            )
        self.strength = removal.leakage_penalty
        self.contrast = 1 / removal.keep_strength if removal.keep else 1.0
        self.per_label = removal.independence == "odds"
        self.ramp = max(1.0, removal.penalty_ramp * total)
        self.classes, self.columns = len(dataset.classes), max(1, len(dataset.columns))
        self.seed, self.train = settings.seed, dataset.train
        self.further = min(removal.penalty_rows, len(dataset.train) - settings.train.batch_size)
        self.condition = dataset.condition(dataset.train)
        self.penalty = penalty
        self.last: Tensor | None = None

    @staticmethod
    def wanted(settings: Settings) -> bool:
        """Whether the settings add a term to the loss."""
        return bool(settings.removal.leakage_penalty or settings.removal.keep)

    def further_rows(self, step: int, batch: Tensor) -> Tensor:
        """Return training rows outside the batch, from which the penalty learns to read."""
        if self.further <= 0 or not self.strength:
            return batch[:0]
        key = np.random.SeedSequence(self.seed, spawn_key=(step, 2))
        random = np.random.default_rng(key)
        rows = random.permutation(len(self.train))[: self.further + len(batch)]
        others = torch.from_numpy(rows[~np.isin(rows, batch.numpy())])
        return others[: self.further]

    def loss(
        self,
        step: int,
        features: Tensor,
        scores: Tensor | None,
        rows: Tensor,
        own: slice,
        counts: list[int],
        further: tuple[Tensor, Tensor] | None,
    ) -> Tensor:
        """The additional loss of a step, from features (n, width) and label scores (n, classes) of
        the `own` part of the batch `rows`, and features and rows of further samples.
        """
        loss = features.new_zeros(())
        if self.strength:
            joined = distributed.gather(features, counts) if len(counts) > 1 else features
            leakage = self._leakage(joined, rows, further)
            self.last = leakage.detach()
            loss = loss + self.strength * min(1.0, (step + 1) / self.ramp) * leakage
        if scores is not None:
            labels = self.train.y[rows[own]].to(scores.device)
            share = len(labels) / len(rows)
            # Averaged over processes, the terms are those of the joined batch.
            loss = loss + F.cross_entropy(scores, labels) * share * len(counts)
        return loss

    def _leakage(
        self, features: Tensor, rows: Tensor, further: tuple[Tensor, Tensor] | None
    ) -> Tensor:
        """The penalty; for odds, the mean over labels of the penalty among their samples."""
        if not self.per_label:
            return self._penalty(features, rows, further)
        leakage = features.new_zeros(())
        for label in range(self.classes):
            part, numbers = self._of_label(label, features, rows)
            if len(numbers) > 1:
                same = None if further is None else self._of_label(label, *further)
                share = len(numbers) / len(rows)
                leakage = leakage + self._penalty(part, numbers, same) * share
        return leakage

    def _of_label(self, label: int, features: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        same = self.train.y[rows] == label
        return features[same.to(features.device)], rows[same]

    def _penalty(
        self, features: Tensor, rows: Tensor, others: tuple[Tensor, Tensor] | None
    ) -> Tensor:
        further = None
        if others is not None and len(others[1]):
            further = (others[0], self.condition.rows(others[1]))
        leakage: Tensor = self.penalty(features, self.condition.rows(rows), rows=further)
        return leakage / self.columns  # or every further column would weaken all other terms
