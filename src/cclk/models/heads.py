"""Projection heads, used in training only."""

from __future__ import annotations

from torch import nn

from cclk.errors import SettingsError
from cclk.models.mlp import hidden_layer
from cclk.registry import HEADS


def build_head(name: str, width: int, out: int = 128, hidden: int | None = None) -> nn.Module:
    """Build a projection head.

    - "linear-bn": linear to `hidden`, batch norm, ReLU, linear, batch norm without affine
      parameters; the authors' release.
    - "mlp": two hidden layers of 2048 with batch norm and ReLU, then linear (the paper's
      2048-2048-128).
    - "linear": two linear layers without an activation (as the paper describes it for ColorMNIST).
    - "none": the features themselves; `out` is ignored.
    - "package.module:factory": a function or class that returns an `nn.Module`. It is called with
      `width`, `out` and `hidden` if it has parameters of these names.

    Args:
        name: Name or import path of the head.
        width: Number of features of the encoder.
        out: Number of dimensions of the projection.
        hidden: Width of the hidden layer of "linear-bn"; by default `width`. Training passes the
            width of the network, which is larger than that of narrow features.

    Example:
        >>> build_head("linear", width=84)
        Sequential(
          (0): Linear(in_features=84, out_features=84, bias=True)
          (1): Linear(in_features=84, out_features=128, bias=True)
        )
    """
    if out < 1:
        raise SettingsError(f"out is {out}: a projection has at least 1 dimension")
    head = HEADS.create(name, {"width": width, "out": out, "hidden": hidden or width})
    if not isinstance(head, nn.Module):
        raise SettingsError(
            f"the head {name!r} is a {type(head).__name__}: it must be a torch.nn.Module"
        )
    return head


def linear_bn(width: int, out: int, hidden: int) -> nn.Module:
    # The order of construction is the order of the random draws.
    first = hidden_layer(width, hidden)
    last = nn.Linear(hidden, out, bias=False), nn.BatchNorm1d(out, affine=False)
    return nn.Sequential(*first, *last)


def mlp(width: int, out: int) -> nn.Module:
    layers = (*hidden_layer(width, 2048), *hidden_layer(2048, 2048))
    return nn.Sequential(*layers, nn.Linear(2048, out))


def linear(width: int, out: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, width), nn.Linear(width, out))
