"""The losses of anchors as one differentiable function of the embeddings."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from cclk.losses import core, sparse
from cclk.losses.core import Gradients, Objective
from cclk.losses.objectives import WeightedNegatives


class Contrast(torch.autograd.Function):
    """Losses of unit anchors (n, d) against unit neighbors (columns, d): `share` times their sum,
    or one by one if it is None.

    Scores are cosines times `factor`. If the temperature is learned, the anchors are already
    divided by it, the factor is 1, and `floor` is -1 / temperature; otherwise `floor` is None.
    """

    @staticmethod
    def forward(
        ctx: Any,
        anchors: Tensor,
        neighbors: Tensor,
        floor: Tensor | None,
        objective: Objective,
        factor: float,
        share: float | None,
        grad: bool,
    ) -> Tensor:
        ctx.objective, ctx.factor, ctx.share = objective, factor, share
        ctx.learns_floor = floor is not None
        with_gradients = grad and share is not None
        losses, gradients = run(anchors, neighbors, objective, factor, None, with_gradients)
        if share is None:
            if grad:
                ctx.save_for_backward(anchors, neighbors)
            return losses
        if gradients is not None:
            ctx.save_for_backward(*(each.mul_(share) for each in gradients))
        return losses.sum() * share

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, incoming: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.share is None:
            anchors, neighbors = ctx.saved_tensors
            _, gradients = run(anchors, neighbors, ctx.objective, ctx.factor, incoming, True)
            assert gradients is not None
        else:
            gradients = ctx.saved_tensors
            if not _is_one(incoming):  # `loss.backward()` passes 1: no copies of the gradients then
                gradients = tuple(saved * incoming for saved in gradients)
        of_anchors, of_neighbors, of_floor = gradients
        return of_anchors, of_neighbors, of_floor if ctx.learns_floor else None, *[None] * 4


def _is_one(incoming: Tensor) -> bool:
    """Whether a number is 1; False on a GPU, which would have to wait."""
    try:
        return incoming.device.type == "cpu" and float(incoming) == 1.0
    except RuntimeError:  # `is_grads_batched`: several numbers
        return False


def run(
    anchors: Tensor,
    neighbors: Tensor,
    objective: Objective,
    factor: float,
    incoming: Tensor | None,
    grad: bool,
) -> tuple[Tensor, Gradients | None]:
    """The losses of all anchors, and, if `grad`, the gradients of their sum (weighted by
    `incoming`).
    """
    if isinstance(objective, WeightedNegatives) and objective.neighborhoods is not None:
        return sparse.run(
            anchors, neighbors, objective, objective.neighborhoods, factor, incoming, grad
        )
    return core.run(anchors, neighbors, objective, factor, incoming, grad)
