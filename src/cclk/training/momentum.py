"""A momentum encoder and a queue of its past keys, as further neighbors (He et al. 2020).

- Anchors (queries) are the trained network's embeddings of the batch. Positives and neighbors are
  keys of the momentum network: the other view of the batch, and the queue, which losses take as
  `support`. Keys have no gradient. Positives come from the same network as the newest negatives, so
  an anchor gains nothing by moving away from past embeddings.
- With `symmetric`, the loss is the mean over both directions: queries of the first view against
  keys of the second, and the reverse.
- With `views="all"`, queries of the anchor's own view are also neighbors, with gradient.
- The queue holds one key per sample, of its second view, and drops the oldest first. It starts
  empty. Keys of samples in the current batch are excluded: a sample's condition is nearest to its
  own, so its own past key would be its strongest negative.
- A key has the condition of its sample; for hardneg-cclk, where embeddings are the condition, the
  key itself.
- The momentum network's parameters are an exponential moving average of the trained ones. It uses
  batch statistics, as the trained network does: averaged running statistics lag behind the weights
  and nearly collapsed the features. Its buffers are therefore unused.
- Processes gather their keys in the order of rows, so all have the same queue.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

from cclk import _distributed as distributed
from cclk.condition import Condition
from cclk.errors import CclkWarning
from cclk.training.methods import Method
from cclk.training.network import ContrastiveNetwork
from cclk.training.settings import Settings


class Momentum:
    """The momentum network and its queue.

    Args:
        network: the trained network, which is copied.
        method: loss and condition of the run.
        settings: size of the queue, decay of the average, and whether the loss is symmetric.
        device: device of the momentum network.
    """

    def __init__(
        self, network: ContrastiveNetwork, method: Method, settings: Settings, device: torch.device
    ) -> None:
        self.follower = copy.deepcopy(network).requires_grad_(False).to(device)
        self.method, self.symmetric = (
            method,
            bool(settings.loss.loss_options.get("symmetric", True)),
        )
        self.size, self.ema = settings.train.queue, settings.train.ema
        self.keys = torch.empty(0, 0)
        self.rows = torch.empty(0, dtype=torch.int64)
        self.used = self.rows
        """Rows of the keys that were the support of the last step."""

    def loss(
        self,
        queries: Tensor,
        views: Tensor,
        condition: Condition | None,
        rows: Tensor,
        counts: list[int],
    ) -> Tensor:
        """Return the loss of a step, and add its keys to the queue.

        Args:
            queries: the trained network's embeddings of both views of the local rows, (2 n, d).
            views: the augmented samples of the local rows.
            condition: condition of the rows of the queries.
            rows: row numbers of the joined batch.
            counts: number of these rows per process.
        """
        first, second = queries.chunk(2)
        support = self._support(rows, queries.device)
        with torch.no_grad():
            if self.symmetric:
                other, keys = self.follower(views).chunk(2)
            else:
                keys = self.follower(views.chunk(2)[1])
        with _no_kernel_warning() if support is None else nullcontext():
            loss: Tensor = self.method.loss(first, keys, condition, support=support)
        if self.symmetric:
            loss = (loss + self.method.loss(second, other, condition, support=support)) / 2
        self._push(distributed.gather(keys, counts) if len(counts) > 1 else keys, rows)
        return loss

    @torch.no_grad()
    def follow(self, network: ContrastiveNetwork) -> None:
        """Move the momentum parameters toward the trained ones by a factor of 1 - ema."""
        torch._foreach_lerp_(
            list(self.follower.parameters()), list(network.parameters()), 1 - self.ema
        )

    def state_dict(self) -> dict[str, Any]:
        return {"follower": self.follower.state_dict(), "keys": self.keys, "rows": self.rows}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.follower.load_state_dict(state["follower"])
        self.rows, keys = state["rows"], state["keys"]
        if self.rows.dtype != torch.int64 or self.rows.ndim != 1 or len(keys) != len(self.rows):
            raise ValueError("the queue needs one row number for each of its keys")
        self.keys = keys.to(next(self.follower.parameters()).device)

    def _support(
        self, batch: Tensor, device: torch.device
    ) -> tuple[Tensor, Condition | None] | None:
        """Return the keys of rows outside the batch, and their condition."""
        others = ~torch.isin(self.rows, batch)
        self.used = self.rows[others]
        if len(self.used) == 0:
            return None
        condition = self.method.condition
        return self.keys[others.to(device)], (
            None if condition is None else condition.rows(self.used).to(device)
        )

    def _push(self, keys: Tensor, rows: Tensor) -> None:
        joined = torch.cat([self.keys, keys]) if len(self.keys) else keys
        self.keys = joined[-self.size :].clone()
        self.rows = torch.cat([self.rows, rows])[-self.size :].clone()


@contextmanager
def _no_kernel_warning() -> Iterator[None]:
    """Silence a loss's check of its kernel on the first batch: a kernel fitted for a full queue is
    too narrow for an empty one.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CclkWarning)
        yield
