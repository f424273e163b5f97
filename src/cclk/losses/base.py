"""The base class of all losses: options and `repr`."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import torch
from torch import Tensor, nn

from cclk.errors import SettingsError
from cclk.losses.options import SMALLEST_LEARNED, Options, Reduction, Views


class ContrastiveLoss(nn.Module):
    """A contrastive loss of two views of a batch; `InfoNCE` documents the options."""

    def __init__(
        self,
        temperature: float = 0.1,
        *,
        views: Views = "cross",
        symmetric: bool = False,
        gather_distributed: bool = False,
        reduction: Reduction = "mean",
        learn_temperature: bool = False,
    ) -> None:
        super().__init__()
        self._options = Options(temperature, views, symmetric, gather_distributed, reduction)
        if learn_temperature and temperature < SMALLEST_LEARNED:
            raise SettingsError(
                f"temperature is {temperature:g}: a learned one is at least {SMALLEST_LEARNED:g}"
            )
        self.log_temperature = (
            nn.Parameter(torch.tensor(math.log(temperature))) if learn_temperature else None
        )
        """The logarithm of the temperature, if it is learned."""

    @property
    def temperature(self) -> float | Tensor:
        """The current temperature: a number, or a tensor with a gradient if it is learned."""
        options = self.options
        return options.scale if options.learned is None else options.learned

    @property
    def options(self) -> Options:
        """The options, with the current temperature."""
        if self.log_temperature is None:
            return self._options
        least = math.log(SMALLEST_LEARNED)
        if float(self.log_temperature.detach()) < least:
            # Of the parameter, not of its exponential, which would have no gradient from then on.
            with torch.no_grad():
                self.log_temperature.clamp_(min=least)
        learned = self.log_temperature.exp()
        return replace(self._options, temperature=float(learned.detach()), learned=learned)

    def settings(self) -> dict[str, object]:
        """The settings that `repr` shows before the common options."""
        return {}

    def extra_repr(self) -> str:
        options = self.options
        learned = self.log_temperature is not None
        shown = {name: repr(value) for name, value in self.settings().items()}
        shown["temperature"] = f"{options.scale:.4g} (learned)" if learned else repr(options.scale)
        for each in fields(options):
            value = getattr(options, each.name)
            if each.name not in ("temperature", "learned") and value != each.default:
                shown[each.name] = repr(value)
        return ", ".join(f"{name}={value}" for name, value in shown.items())
