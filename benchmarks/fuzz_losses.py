"""The losses as targets of `benchmarks.fuzz`: random and extreme inputs and options."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor

import cclk
from cclk import kernels
from cclk.weights import neighborhoods

Case = Callable[[random.Random], str]
CONDITIONAL = {
    "fair-cclk": cclk.FairCCLK,
    "weaksup-cclk": cclk.WeaklySupCCLK,
    "hardneg-cclk": cclk.HardNegCCLK,
}
OTHERS = {
    "infonce": cclk.InfoNCE,
    "fair-infonce": cclk.FairInfoNCE,
    "weaksup-infonce": cclk.WeaklySupInfoNCE,
    "hardneg-infonce": cclk.HardNegInfoNCE,
}
KERNELS: tuple[Callable[[], Any], ...] = (
    kernels.RBF,
    lambda: kernels.RBF(length_scale="auto"),
    lambda: kernels.RBF(length_scale="median"),
    lambda: kernels.RBF(length_scale=1e-12),
    lambda: kernels.RBF(length_scale=1e12),
    lambda: kernels.Laplacian(length_scale="auto"),
    kernels.Linear,
    kernels.Cosine,
    kernels.Polynomial,
    lambda: kernels.Polynomial(degree=7, offset=1.0),
    kernels.Delta,
    lambda: kernels.RBF(length_scale=0.5) * kernels.Cosine() + 0.1,
    lambda: 1e-30 * kernels.Linear() + kernels.Delta(),
)
TEMPERATURES: tuple[Any, ...] = (
    0.1, 0.5, 1.0, 0.01, 1e-3, 1e-6, 1e-30, 1e6, 1e30, 1e-320, 0.0, -1.0, float("nan"),
    float("inf"), "warm", None, torch.tensor(0.2), torch.tensor([0.1, 0.2]),
)  # fmt: skip
FACTORS = (0.0, 1e-320, 1e-45, 1e-38, 1e-30, 1e-20, 1e-6, 1e6, 1e19, 1e30, 3e38, 1e155, 1e307)
DTYPES = (torch.float32, torch.float64, torch.float32, torch.bfloat16, torch.float16)
SMALL_TILES: dict[str, Any] = {
    "SMALLEST": 64, "BLOCK": 8, "TILE": 16, "LINE_TILE": 16, "SMALLEST_TILE": 4,
    "MOST_SCORED": 1.0, "TILE_PAIRS": 0, "BOUND_PAIRS": 0, "LINE_PAIRS": 0, "TREE_PAIRS": 0,
}  # fmt: skip
"""Constants of `neighborhoods` with which a small batch has many tiles."""
LOCAL: tuple[Callable[[int], Any], ...] = (
    lambda width: kernels.RBF(length_scale=1.0),
    lambda width: kernels.RBF(),
    lambda width: kernels.Laplacian(length_scale=1.0),
    lambda width: kernels.Delta(),
    lambda width: kernels.RBF([0], length_scale=1.0) * kernels.Delta([width - 1]),
    lambda width: kernels.RBF([0], length_scale=1.0) * kernels.Laplacian([width - 1]),
    lambda width: kernels.RBF(length_scale=1e-3) + 0.1 * kernels.Delta([0]),
)
"""Kernels of a number of columns with which most pairs do not matter."""


def losses() -> dict[str, Callable[[], Case]]:
    """The losses by name."""
    targets: dict[str, Callable[[], Case]] = {}
    for name, kind in CONDITIONAL.items():
        targets[f"loss:{name}"] = lambda kind=kind: lambda source: _case(kind, True, source)  # type: ignore[misc]
    for name, other in OTHERS.items():
        targets[f"loss:{name}"] = lambda kind=other: lambda source: _case(kind, False, source)  # type: ignore[misc]
    targets["loss:pairs"] = lambda: _pairs
    targets["loss:penalty"] = lambda: _penalty
    return targets


def _pairs(source: random.Random) -> str:
    """Only the pairs that matter, against all pairs in float64."""
    torch.manual_seed(source.randrange(2**32))
    rows, width = source.randint(64, 160), source.randint(2, 8)
    temperature = source.choice((0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.5))
    dtype = source.choice((torch.float32, torch.float64))
    scale = torch.tensor([10 ** source.uniform(-9, 9) for _ in range(width)], dtype=torch.float64)
    condition = torch.rand(rows, width, dtype=torch.float64) * scale
    if source.random() < 0.3:
        condition = condition.round()
    if source.random() < 0.3:
        condition[: source.randint(1, rows)] = condition[0].clone()
    x, y = torch.randn(2, rows, 6, dtype=torch.float64).to(dtype)
    if source.random() < 0.3:
        y = 0.1 * y - x
    kernel = source.choice(LOCAL)(width).fit(condition, batch_size=rows)
    kind = source.choice((cclk.FairCCLK, cclk.HardNegCCLK))
    loss = kind(
        kernel,
        weights=source.choice(("nw", "loo", "authors")),
        temperature=temperature,
        views=source.choice(("cross", "all")),
        symmetric=source.random() < 0.5,
        reduction=source.choice(("mean", "none")),
    )
    with mock.patch.multiple(neighborhoods, **SMALL_TILES):
        found = _with_gradients(loss, x, y, condition)
    expected = _with_gradients(loss, x.double(), y.double(), condition)
    precision = {torch.float32: 1e-6 / temperature, torch.float64: 1e-10}[dtype]
    for name, one, other in zip(("loss", "x", "y"), found, expected, strict=True):
        error = (one - other).abs().max() / (1 + other.abs().max())
        if not error <= precision:
            raise AssertionError(f"{name} differs by {float(error):.1e} for {loss!r}")
    return "accepted"


def _with_gradients(loss: Any, x: Tensor, y: Tensor, condition: Tensor) -> list[Tensor]:
    leaves = [view.detach().clone().requires_grad_() for view in (x, y)]
    value = loss(*leaves, condition)
    weights = torch.linspace(0.5, 1.5, value.numel(), dtype=value.dtype).view(value.shape)
    gradients = torch.autograd.grad((value * weights).sum(), leaves)
    return [each.detach().double() for each in (value, *gradients)]


def _penalty(source: random.Random) -> str:
    """Features and conditions of all sizes: a leak per column from 0 to 1."""
    torch.manual_seed(source.randrange(2**32))
    rows, width = source.choice((1, 2, 3, 4, 8)), source.choice((1, 2, 9, 30))
    features = torch.randn(rows, width, dtype=torch.float64)
    match source.randrange(5):
        case 0:
            features = features[:, :1] * torch.randn(1, width, dtype=torch.float64)
        case 1:
            features[1:] = features[:1].clone()
        case 2:
            features[:, 0] *= source.choice(FACTORS)
        case 3:
            features += 1e4
    features = (features * source.choice((1.0, 1.0, *FACTORS))).to(source.choice(DTYPES))
    features.requires_grad_()
    kernel = source.choice((None, None, None, *KERNELS))
    penalty = cclk.LeakagePenalty(
        None if kernel is None else kernel(), ridge=source.choice((0.3, 1e-6, 1e6))
    )
    value = penalty(features, _condition(rows, source, True, True))
    value.backward()
    leaks = list(penalty.leaks.values())
    if not all(-1e-6 <= leak <= 1 + 1e-6 for leak in leaks):
        raise AssertionError(f"leaks are {leaks}")
    finite = features.grad is not None and bool(features.grad.isfinite().all())
    return "accepted" if finite else "silent"


def _case(kind: Any, conditional: bool, source: random.Random) -> str:
    torch.manual_seed(source.randrange(2**32))
    odd = source.random() < 0.5
    rows = source.choice((1, 2, 2, 3, 5, 8)) if odd else source.choice((2, 4, 8))
    width = source.choice((1, 2, 4))
    dtype = source.choice(DTYPES)
    leaves = [_embeddings(rows, width, dtype, source, odd) for _ in range(2)]
    x: Tensor = leaves[0]
    y: Any = leaves[1]
    if odd and source.random() < 0.15:
        y = source.choice((x, y[:-1], y[:, :0], y.double(), y.long(), y[0], y[None], y.tolist()))
    options: dict[str, Any] = {
        "temperature": source.choice(TEMPERATURES) if odd else source.choice(TEMPERATURES[:4]),
        "views": source.choice(("cross", "all")),
        "symmetric": source.random() < 0.5,
        "reduction": source.choice(("mean", "sum", "none")),
    }
    if conditional:
        options |= {
            "kernel": source.choice(KERNELS)(),
            "ridge": source.choice((0.01, 1.0, 1e-6, 100.0, *((1e-30, 1e30, 0.0) if odd else ()))),
            "weights": source.choice(("loo", "paper", "authors", "nw")),
            "solver": source.choice(("auto", "exact", "features", "nystrom")),
        }
    elif kind is cclk.HardNegInfoNCE:
        options |= {
            "beta": source.choice((0.0, 1.0, 5.0, 1e3, 1e30, -1.0)),
            "tau_plus": source.choice((0.0, 0.1, 0.999, 1.0, -0.1)),
        }
    condition = _condition(rows, source, odd, conditional)
    support = None
    if source.random() < 0.2:
        extra = source.choice((0, 1, 4))
        support = (
            _embeddings(extra, width, dtype, source, odd).detach(),
            _condition(extra, source, odd, conditional),
        )
    arguments: dict[str, Any] = {} if support is None else {"support": support}
    loss = kind(**options)
    value = loss(x, y, condition, **arguments)
    if not bool(value.isfinite().all()):
        return "silent"
    if value.requires_grad:
        value.sum().backward()
    gradients = [each.grad for each in leaves]
    finite = all(bool(each.isfinite().all()) for each in gradients if each is not None)
    return "accepted" if finite else "silent"


def _embeddings(
    rows: int, width: int, dtype: torch.dtype, source: random.Random, odd: bool
) -> Tensor:
    values = torch.randn(rows, width, dtype=torch.float64)
    if odd:
        match source.randrange(8):
            case 0:
                values *= source.choice(FACTORS)
            case 1 if rows:
                values[source.randrange(rows)] *= source.choice(FACTORS)
            case 2 if rows:
                values[source.randrange(rows), 0] = source.choice(
                    (float("nan"), float("inf"), float("-inf"))
                )
            case 3:
                values[:] = values[:1]
            case 4:
                values = values.sign()
            case 5 if rows:
                values[source.randrange(rows)] = 0
    values = values.to(dtype)
    return values.requires_grad_(source.random() < 0.9)


def _condition(rows: int, source: random.Random, odd: bool, conditional: bool) -> Any:
    if not conditional:
        codes: Any = torch.randint(0, source.choice((1, 2, 5)), (rows,))
        if odd and source.random() < 0.3:
            return source.choice((None, codes.float(), codes.tolist(), codes[:-1], ["a"] * rows))
        return codes
    width = source.choice((1, 1, 2, 3))
    values = torch.randn(rows, width, dtype=source.choice((torch.float32, torch.float64)))
    if not odd:
        return values
    match source.randrange(14):
        case 0:
            return torch.full((rows,), source.choice((0.0, 3.0, 1e30)))
        case 1:
            return values * source.choice(FACTORS)
        case 2:
            values[:1] *= source.choice(FACTORS)
            return values
        case 3:
            values[:1] = source.choice((float("nan"), float("inf")))
            return values
        case 4:
            return values[:-1]
        case 5:
            return values[:, :0]
        case 6:
            return torch.randint(0, 2, (rows,), dtype=source.choice((torch.int64, torch.uint8)))
        case 7:
            return source.choice((None, "age", [], {}, 3, values[None], values.to(torch.complex64)))
        case 8:
            return {"age": values[:, 0], "site": [source.choice("ab") for _ in range(rows)]}
        case 9:
            return [source.choice(("a", "b", "é", "")) for _ in range(rows)]
        case 10:
            return values.round()
        case 11:
            return np.array([2 ** source.choice((52, 53, 63)) - 1] * rows, dtype=np.uint64)
        case 12:
            return values > 0
    return values.repeat(1, 20)
