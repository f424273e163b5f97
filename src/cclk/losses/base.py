"""What all loss modules share."""

from __future__ import annotations

from typing import Unpack

from torch import Tensor, nn

from cclk.losses.batch import CommonOptions, Options

Support = tuple[Tensor, object]


class ContrastiveLoss(nn.Module):
    """A loss of two views of a batch.

    Args:
        temperature: scores are cosine similarities divided by it.
        views: "cross" compares an anchor with the other view's samples, as the paper's equations do; "all" also with
            its own view's, as SimCLR does.
        symmetric: average the loss with x as anchors and the loss with y as anchors.
        gather_distributed: join the batches of all processes of `torch.distributed`. Every process returns the loss of the joined
            batch, and gradients averaged over processes (as DistributedDataParallel does) are those of the joined batch.
        reduction: "mean", "sum" or "none" over anchors.
    """

    def __init__(self, **options: Unpack[CommonOptions]) -> None:
        super().__init__()
        self.options = Options(**options)

    def settings(self) -> dict[str, object]:
        """What `repr` shows before the common options."""
        return {}

    def extra_repr(self) -> str:
        default = Options()
        options = {k: v for k, v in vars(self.options).items() if k == "temperature" or v != getattr(default, k)}
        return ", ".join(f"{key}={value!r}" for key, value in (self.settings() | options).items())


def split_support(support: Support | None) -> tuple[Tensor | None, object]:
    """The embeddings and the condition of the extra partners."""
    if support is None:
        return None, None
    if not isinstance(support, tuple) or len(support) != 2:
        raise ValueError("support must be a pair (y_extra, condition_extra): embeddings (q, d) and their condition, q rows")
    return support
