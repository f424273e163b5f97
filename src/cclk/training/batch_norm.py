"""Batch normalization over the joined batch of several processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from cclk.losses import distributed


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
        others = [0, *range(2, x.dim())]
        shape = [1, -1, *[1] * (x.dim() - 2)]
        count = x.new_tensor([x.numel() / x.shape[1]])
        sums = distributed.summed(torch.cat([x.sum(dim=others), count]))
        total = sums[-1].detach()
        mean = sums[:-1] / total
        centered = x - mean.view(shape)
        variance = distributed.summed(centered.square().sum(dim=others)) / total
        self._track(mean.detach(), variance.detach() * (total / (total - 1).clamp_min(1)))
        result = centered * (variance + self.eps).rsqrt().view(shape)
        if self.weight is not None:
            result = result * self.weight.view(shape) + self.bias.view(shape)
        return result.to(samples.dtype)

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
