"""More neighbors than a batch has: a queue of past keys, embedded by a network that slowly
follows the trained one (He et al. 2020).

What is compared with what, where the settings ask for a queue:

- Anchors are the trained network's embeddings of the batch (queries). Their positives and neighbors
  are keys: the other view of the batch, embedded by the follower, and the queue, which the losses
  take as `support`. No gradient reaches a key. Positives are as old as the newest negatives, so an
  anchor gains nothing by fleeing from what the network used to say.
- With symmetric, the mean of both ways: queries of the first view against keys of the second, and
  the other way round.
- With views="all" the batch's other queries of the anchor's own view are neighbors too, with
  gradient on both sides.
- The queue holds one key per sample, of its second view, oldest first out. It begins empty. Keys of
  samples that are in the batch are left out of the step: a sample's condition is nearest to its
  own, so its past self would be its foremost negative.
- The condition of a key is that of its sample; where embeddings are the condition (hardneg-cclk),
  it is the key itself.
- The follower's parameters are an exponential moving average of the trained ones. It normalizes by
  batch, as the trained network does: with averaged running statistics, which lag behind the
  weights, features all but collapsed. So its buffers are its own and play no part.
- Several processes gather their keys in the order of rows, so that all have the same queue.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

from cclk.condition import Condition
from cclk.errors import CclkWarning
from cclk.losses import distributed
from cclk.training.methods import Method
from cclk.training.network import Network
from cclk.training.settings import Settings


class Momentum:
    """The follower and its queue."""

    def __init__(
        self, network: Network, method: Method, settings: Settings, device: torch.device
    ) -> None:
        self.follower = copy.deepcopy(network).requires_grad_(False).to(device)
        self.method, self.size, self.ema, self.symmetric = (
            method,
            settings.train.queue,
            settings.train.ema,
            settings.loss.symmetric,
        )
        self.keys = torch.empty(0, 0)
        self.rows = torch.empty(0, dtype=torch.int64)
        self.used = self.rows
        """Rows of the keys that were support in the last step."""

    def loss(
        self,
        queries: Tensor,
        views: Tensor,
        condition: Condition | None,
        rows: Tensor,
        counts: list[int],
    ) -> Tensor:
        """The loss of a step, after which its keys are in the queue.

        Args:
            queries: trained embeddings of the local rows, both views, (2 n, d).
            views: what was embedded, (2 n, ...).
            condition: of the local rows.
            rows: of the joined batch.
            counts: how many of them each process has.
        """
        first, second = queries.chunk(2)
        support = self._support(rows, queries.device)
        with torch.no_grad():
            if self.symmetric:
                other, keys = self.follower(views).chunk(2)
            else:
                keys = self.follower(views.chunk(2)[1])
        with _no_judgement() if support is None else nullcontext():
            loss: Tensor = self.method.loss(first, keys, condition, support=support)
        if self.symmetric:
            loss = (loss + self.method.loss(second, other, condition, support=support)) / 2
        self._push(distributed.gather(keys, counts) if len(counts) > 1 else keys, rows)
        return loss

    @torch.no_grad()
    def follow(self, network: Network) -> None:
        """A small step toward the trained weights."""
        torch._foreach_lerp_(
            list(self.follower.parameters()), list(network.parameters()), 1 - self.ema
        )

    def state_dict(self) -> dict[str, Any]:
        return {"follower": self.follower.state_dict(), "keys": self.keys, "rows": self.rows}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.follower.load_state_dict(state["follower"])
        self.keys, self.rows = (
            state["keys"].to(next(self.follower.parameters()).device),
            state["rows"],
        )

    def _support(
        self, batch: Tensor, device: torch.device
    ) -> tuple[Tensor, Condition | None] | None:
        others = ~torch.isin(self.rows, batch)
        self.used = self.rows[others]
        if len(self.used) == 0:
            return None
        condition = self.method.condition
        return self.keys[others.to(device)], (
            None if condition is None else condition.rows(self.used).to(device)
        )

    def _push(self, keys: Tensor, rows: Tensor) -> None:
        self.keys = (
            torch.cat([self.keys, keys])[-self.size :].clone()
            if len(self.keys)
            else keys[-self.size :].clone()
        )
        self.rows = torch.cat([self.rows, rows])[-self.size :].clone()


@contextmanager
def _no_judgement() -> Iterator[None]:
    """A loss judges its kernel by its first batch, but a kernel fitted for a full queue is too
    narrow for an empty one.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CclkWarning)
        yield
