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
    """Losses of anchors (n, d), divided by the temperature, against unit neighbors (columns, d):
    their weighted sum, or one by one.

    `floor` is -1 / temperature where the temperature is learned, else None.
    """

    @staticmethod
    def forward(
        ctx: Any,
        anchors: Tensor,
        neighbors: Tensor,
        floor: Tensor | None,
        objective: Objective,
        reduce: bool,
        grad: bool,
    ) -> Tensor:
        ctx.objective, ctx.reduce, ctx.learns_floor = objective, reduce, floor is not None
        losses, gradients = run(anchors, neighbors, objective, None, grad and reduce)
        if grad:
            ctx.save_for_backward(*(gradients if gradients is not None else (anchors, neighbors)))
        return losses.sum() if reduce else losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, incoming: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.reduce:
            of_anchors, of_neighbors, of_floor = (saved * incoming for saved in ctx.saved_tensors)
        else:
            anchors, neighbors = ctx.saved_tensors
            _, gradients = run(anchors, neighbors, ctx.objective, incoming, True)
            assert gradients is not None
            of_anchors, of_neighbors, of_floor = gradients
        return of_anchors, of_neighbors, of_floor if ctx.learns_floor else None, None, None, None


def run(
    anchors: Tensor, neighbors: Tensor, objective: Objective, incoming: Tensor | None, grad: bool
) -> tuple[Tensor, Gradients | None]:
    """The losses of all anchors, and, if `grad`, the gradients of their sum (weighted by
    `incoming`).
    """
    if isinstance(objective, WeightedNegatives) and objective.neighborhoods is not None:
        return sparse.run(anchors, neighbors, objective, objective.neighborhoods, incoming, grad)
    return core.run(anchors, neighbors, objective, incoming, grad)
