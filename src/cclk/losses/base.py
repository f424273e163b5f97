"""The base class of all losses: options and `repr`."""

from __future__ import annotations

from dataclasses import fields, replace

from torch import Tensor, nn

from cclk.losses.options import Options, Reduction, Temperature, Views


class ContrastiveLoss(nn.Module):
    """A contrastive loss of two views of a batch; `InfoNCE` documents the options."""

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
