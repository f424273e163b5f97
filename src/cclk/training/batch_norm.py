"""Batch normalization over the joined batch of several processes."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from cclk import _distributed as distributed

_USUAL = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


class SynchronizedBatchNorm(_BatchNorm):
    """Batch norm with the statistics of the samples of all processes.

    Unlike `torch.nn.SyncBatchNorm`, it also works on the CPU. With one process and in evaluation
    mode it is the usual batch norm, and all names in the state dict are the usual ones.
    """

    def forward(self, samples: Tensor) -> Tensor:
        if not (self.training and distributed.active()):
            return super().forward(samples)
        # The statistics of bfloat16 would be too coarse.
        x = samples.to(torch.promote_types(samples.dtype, torch.float32))
        along, shape = [0, *range(2, x.dim())], [1, -1, *[1] * (x.dim() - 2)]
        wide = x.double()
        count = wide.new_tensor([x.numel() // x.shape[1]])
        own = torch.cat([wide.sum(along), wide.square().sum(along), count])[None]
        joined = distributed.gather(own, [1] * torch.distributed.get_world_size()).sum(dim=0)
        total = joined[-1].detach()
        mean, square = (joined[:-1] / total).chunk(2)
        variance = square - mean.square()
        self._track(mean.detach(), variance.detach() * total / (total - 1).clamp_min(1))
        scale = (variance + self.eps).rsqrt()
        if self.weight is not None:
            scale = scale * self.weight
        shift = -mean * scale if self.bias is None else self.bias - mean * scale
        result: Tensor = x * scale.to(x).view(shape) + shift.to(x).view(shape)
        return result.to(samples.dtype)

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


def synchronize(network: nn.Module) -> None:
    """Turn the batch norms of a network into synchronized ones, in place."""
    for module in network.modules():
        if type(module) in _USUAL:
            module.__class__ = SynchronizedBatchNorm
