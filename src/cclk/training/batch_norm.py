"""Batch normalization over the joined batch of several processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import batch_norm
from torch.nn.modules.batchnorm import _BatchNorm

from cclk import _distributed as distributed


class SynchronizedBatchNorm(_BatchNorm):
    """Batch norm with the statistics of the samples of all processes.

    Each process normalizes its samples as one process would normalize the joined batch. Unlike
    `torch.nn.SyncBatchNorm`, it also works on the CPU. In evaluation mode it is the usual batch
    norm, and all names in the state dict are the usual ones.
    """

    joined = True
    """Whether to use the samples of all processes, or those of this process only."""

    def forward(self, samples: Tensor) -> Tensor:
        if not (self.training and self.joined and distributed.active()):
            return super().forward(samples)
        # The statistics of bfloat16 would be too coarse.
        x = samples.to(torch.promote_types(samples.dtype, torch.float32))
        weight, bias = (None if each is None else each.to(x) for each in (self.weight, self.bias))
        result, mean, variance, total = _Normalize.apply(  # type: ignore[no-untyped-call]
            x, weight, bias, self.eps
        )
        self._track(mean, variance * (total / (total - 1).clamp_min(1)))
        normalized: Tensor = result.to(samples.dtype)
        return normalized

    @torch.no_grad()
    def _track(self, mean: Tensor, variance: Tensor) -> None:
        """Update the running statistics, as the usual batch norm does."""
        if self.running_mean is None or self.running_var is None:
            return
        assert self.num_batches_tracked is not None
        self.num_batches_tracked += 1
        share = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean), share)
        self.running_var.lerp_(variance.to(self.running_var), share)

    def _check_input_dim(self, samples: Tensor) -> None:
        """Inputs of any number of dimensions are accepted."""


class _Normalize(torch.autograd.Function):
    """(x - mean) / std, times weight plus bias, with mean and std over all processes: one message
    forward, and one backward. Also returns mean, variance and number of the joined values.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        ctx.shape = [1, -1, *[1] * (x.dim() - 2)]
        statistics = torch.stack([_statistics(part) for part in torch.split(x, _rows_at_once(x))])
        mean, variance, total = _joined(_gathered(torch.cat(_joined(statistics))))
        ctx.save_for_backward(x, mean.to(x), (variance + eps).rsqrt().to(x), total, weight)
        ctx.mark_non_differentiable(mean, variance, total)
        result = batch_norm(x, mean.to(x), variance.to(x), weight, bias, eps=eps)
        return result, mean, variance, total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, incoming: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x, mean, scale, total, weight = ctx.saved_tensors
        of_bias = of_weight = torch.zeros_like(mean)
        if len(x):
            _, of_weight, of_bias = torch.ops.aten.native_batch_norm_backward(
                incoming, x, weight, None, None, mean, scale, True, 0.0, [False, True, True]
            )
        joined = _gathered(torch.stack([of_bias, of_weight])).sum(dim=0)
        along, along_unit = joined / total.to(joined)
        # Of y = unit weight + bias, with unit = (x - mean) scale, in two passes over the values:
        # weight scale (incoming - along - unit along_unit).
        factor = scale if weight is None else scale * weight
        slope = -factor * scale * along_unit
        offset = -factor * along - slope * mean
        factor, slope, offset = (each.view(ctx.shape) for each in (factor, slope, offset))
        of_x = torch.addcmul(offset, x, slope).addcmul_(incoming, factor)
        return of_x, *((None, None) if weight is None else (of_weight, of_bias)), None


_AT_ONCE = 4096
"""Values of a channel whose statistics are computed in float32: more lose digits."""


def _rows_at_once(x: Tensor) -> int:
    """How many samples have as many values of a channel as are computed at once."""
    return max(1, _AT_ONCE * x.shape[1] * len(x) // max(1, x.numel()))


def _statistics(x: Tensor) -> Tensor:
    """Mean, variance and number of the values of each channel, (2 channels + 1,), float64."""
    result = x.new_zeros(2 * x.shape[1] + 1, dtype=torch.float64)
    if x.numel():
        # Several times faster than torch.var_mean.
        result[:-1] = torch.cat(torch.batch_norm_update_stats(x, None, None, 0.0))
        result[-1] = x.numel() // x.shape[1]
    return result


def _joined(statistics: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, variance and number of all values from those of several parts, (parts, ...)."""
    counts = statistics[:, -1:]
    means, variances = statistics[:, :-1].chunk(2, dim=1)
    total = counts.sum(dim=0)
    mean = (counts * means).sum(dim=0) / total.clamp_min(1)
    variance = (counts * (variances + (means - mean).square())).sum(dim=0) / total.clamp_min(1)
    return mean, variance, total


def _gathered(own: Tensor) -> Tensor:
    """The statistics of all processes; of so few numbers, several times faster than their sum."""
    parts = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, own)
    return torch.stack(parts)


_USUAL = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def synchronize(network: nn.Module) -> None:
    """Replace the batch norms inside a network by synchronized ones with the same parameters.

    Args:
        network: Changed in place.
    """
    for parent in list(network.modules()):
        for name, child in list(parent.named_children()):
            if type(child) in _USUAL:
                setattr(parent, name, _synchronized(child))


def _synchronized(norm: nn.Module) -> SynchronizedBatchNorm:
    assert isinstance(norm, _USUAL)
    new = SynchronizedBatchNorm(
        norm.num_features,
        norm.eps,
        norm.momentum,
        affine=norm.affine,
        track_running_stats=norm.track_running_stats,
    )
    new.weight, new.bias = norm.weight, norm.bias
    for name, buffer in norm.named_buffers(recurse=False):
        new.register_buffer(name, buffer)
    return new.train(norm.training)


@contextmanager
def alone(network: nn.Module) -> Iterator[None]:
    """Let each process use the statistics of its own samples, where all have the same ones.

    Args:
        network: A network, maybe without synchronized batch norms.
    """
    norms = [each for each in network.modules() if isinstance(each, SynchronizedBatchNorm)]
    for norm in norms:
        norm.joined = False
    try:
        yield
    finally:
        for norm in norms:
            norm.joined = True
