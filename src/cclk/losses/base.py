"""The base class of all losses: options and `repr`."""

from __future__ import annotations

from dataclasses import fields, replace

from torch import Tensor, nn

from cclk.losses.options import Options, Reduction, Temperature, Views


class ContrastiveLoss(nn.Module):
    """A contrastive loss of two views of a batch.

    Args:
        temperature: Scores are cosine similarities divided by the temperature. A number, or an
            `nn.Parameter` to learn it; pass `loss.parameters()` to the optimizer in that case.
        views: "cross" compares an anchor with the samples of the other view, as the paper's
            equations do; "all" also with those of its own view, as SimCLR does.
        symmetric: Average the loss with x as anchors and the loss with y as anchors.
        gather_distributed: Compute the loss of the joined batch of all `torch.distributed`
            processes. Gradients averaged over processes, as by DistributedDataParallel, are those
            of the joined batch.
        reduction: "mean", "sum" or "none" over anchors.
    """

    def __init__(
        self,
        temperature: Temperature = 0.1,
        *,
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
        """The options, with the current temperature."""
        return replace(self._options, temperature=self.temperature)

    def settings(self) -> dict[str, object]:
        """The settings that `repr` shows before the common options."""
        return {}

    def extra_repr(self) -> str:
        options = self.options
        learned = isinstance(self.temperature, Tensor)
        shown = {name: repr(value) for name, value in self.settings().items()}
        shown["temperature"] = f"{options.scale:.4g} (learned)" if learned else repr(options.scale)
        for each in fields(options):
            value = getattr(options, each.name)
            if each.name != "temperature" and value != each.default:
                shown[each.name] = repr(value)
        return ", ".join(f"{name}={value}" for name, value in shown.items())
