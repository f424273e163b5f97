"""What all loss modules share."""

from __future__ import annotations

from dataclasses import fields, replace

from torch import Tensor, nn

from cclk.losses.options import Options, Reduction, Temperature, Views


class ContrastiveLoss(nn.Module):
    """A loss of two views of a batch.

    Args:
        temperature: Scores are cosine similarities divided by it. A number, or an `nn.Parameter` to
            learn it: it is then among the `parameters()` of the loss and has to be passed to the
            optimizer.
        views: "cross" compares an anchor with the other view's samples, as the paper's equations
            do; "all" also with its own view's, as SimCLR does.
        symmetric: Average the loss with x as anchors and the loss with y as anchors.
        gather_distributed: Join the batches of all processes of `torch.distributed`. Every process
            returns the loss of the joined batch, and gradients averaged over processes (as
            DistributedDataParallel does) are those of the joined batch.
        reduction: "mean", "sum" or "none" over anchors.
    """

    def __init__(
        self,
        *,
        temperature: Temperature = 0.1,
        views: Views = "cross",
        symmetric: bool = False,
        gather_distributed: bool = False,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__()
        self._options = Options(temperature, views, symmetric, gather_distributed, reduction)
        self.temperature = temperature

    @property
    def options(self) -> Options:
        """The options, with the temperature as it is now."""
        return replace(self._options, temperature=self.temperature)

    def settings(self) -> dict[str, object]:
        """What `repr` shows before the common options."""
        return {}

    def extra_repr(self) -> str:
        options = self.options
        shown = {field.name: getattr(options, field.name) for field in fields(options)}
        changed = {
            name: value
            for name, value in shown.items()
            if name != "temperature" and value != getattr(Options, name)
        }
        temperature = {
            "temperature": (
                f"{options.scale:.4g} (learned)"
                if isinstance(self.temperature, Tensor)
                else options.scale
            )
        }
        # A learned temperature is no expression, so it is shown without quotes.
        pairs = {
            key: value if key == "temperature" else repr(value)
            for key, value in (self.settings() | temperature | changed).items()
        }
        return ", ".join(f"{key}={value}" for key, value in pairs.items())
