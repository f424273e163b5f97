"""The losses as targets of `benchmarks.fuzz`: random and extreme inputs and options."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

import cclk
from cclk import kernels

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
FACTORS = (0.0, 1e-45, 1e-38, 1e-20, 1e-6, 1e6, 1e19, 1e30, 3e38)


def losses() -> dict[str, Callable[[], Case]]:
    """The losses by name."""
    targets: dict[str, Callable[[], Case]] = {}
    for name, kind in CONDITIONAL.items():
        targets[f"loss:{name}"] = lambda kind=kind: lambda source: _case(kind, True, source)  # type: ignore[misc]
    for name, other in OTHERS.items():
        targets[f"loss:{name}"] = lambda kind=other: lambda source: _case(kind, False, source)  # type: ignore[misc]
    return targets


def _case(kind: Any, conditional: bool, source: random.Random) -> str:
    torch.manual_seed(source.randrange(2**32))
    odd = source.random() < 0.5
    rows = source.choice((1, 2, 2, 3, 5, 8)) if odd else source.choice((2, 4, 8))
    width = source.choice((1, 2, 4))
    dtype = source.choice((torch.float32, torch.float64, torch.float32, torch.bfloat16))
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
            "weights": source.choice(("loo", "paper", "release", "nw")),
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
