"""Every loss with every kernel and every option equals the loops of `oracles`, and has the
gradient it should have.
"""

from __future__ import annotations

import itertools
import warnings
from functools import partial

import oracles
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import cclk
from cclk.losses import core

CONDITIONAL = {
    "WeaklySupCCLK": cclk.WeaklySupCCLK,
    "WeaklySupCCLK, outer": partial(
        cclk.WeaklySupCCLK, positives="outer", own_share=oracles.OWN_SHARE
    ),
    "FairCCLK": cclk.FairCCLK,
    "HardNegCCLK": cclk.HardNegCCLK,
    "HardNegCCLK, corrected": partial(
        cclk.HardNegCCLK, uniform_share=oracles.UNIFORM_SHARE, tau_plus=oracles.TAU_PLUS
    ),
}
PLAIN = {
    "InfoNCE": cclk.InfoNCE,
    "HardNegInfoNCE": cclk.HardNegInfoNCE,
    "WeaklySupInfoNCE": cclk.WeaklySupInfoNCE,
    "FairInfoNCE": cclk.FairInfoNCE,
}
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}


def embeddings(
    size: int, width: int, seed: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, width, generator=generator)
    y = x + 0.7 * torch.randn(size, width, generator=generator)
    return x.to(dtype), y.to(dtype), torch.randn(4, width, generator=generator).to(dtype)


def check_conditional(
    name: str,
    kernel_name: str,
    mode: str,
    views: str,
    symmetric: bool,
    supported: bool,
    size: int,
    seed: int,
    dtype: torch.dtype,
    ridge: float = 0.1,
    temperature: float = 0.3,
    solver: object = "auto",
) -> None:
    make, formula = oracles.KERNELS[kernel_name]
    x, y, extra = embeddings(size, 5, seed, dtype)
    z = oracles.condition(size + 4, seed)
    everyone = z if supported else z[:size]
    matrix = oracles.gram(formula, everyone)
    expected = oracles.loss(
        name,
        x,
        y,
        temperature=temperature,
        matrices=(matrix, matrix),
        clipped=kernel_name == "similarity",
        ridge=ridge,
        mode=mode,
        views=views,
        symmetric=symmetric,
        extra=extra if supported else None,
    )
    fast = CONDITIONAL[name](
        make(),
        ridge=ridge,
        temperature=temperature,
        weights=mode,
        views=views,
        symmetric=symmetric,
        reduction="none",
        solver=solver,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cclk.CclkWarning)
        found = fast(
            x, y, z[:size].to(dtype), support=(extra, z[size:].to(dtype)) if supported else None
        )
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(
        found.double(), torch.tensor(expected, dtype=torch.float64), rtol=tolerance, atol=tolerance
    )


OPTIONS = list(
    itertools.product(
        ("loo", "paper", "authors", "nw"), ("cross", "all"), (False, True), (False, True)
    )
)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("kernel_name", oracles.KERNELS)
@pytest.mark.parametrize("name", CONDITIONAL)
def test_conditional_losses(name: str, kernel_name: str, dtype: torch.dtype) -> None:
    for mode, views, symmetric, supported in OPTIONS:
        check_conditional(
            name, kernel_name, mode, views, symmetric, supported, size=7, seed=3, dtype=dtype
        )


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(2, 64),
    seed=st.integers(0, 999),
    name=st.sampled_from(list(CONDITIONAL)),
    kernel_name=st.sampled_from(list(oracles.KERNELS)),
    option=st.sampled_from(OPTIONS),
    ridge=st.sampled_from([1.0, 0.1, 0.01]),
    temperature=st.sampled_from([1.0, 0.3, 0.1]),
    dtype=st.sampled_from(list(TOLERANCE)),
)
def test_conditional_losses_at_any_size(
    size: int,
    seed: int,
    name: str,
    kernel_name: str,
    option: tuple[str, str, bool, bool],
    ridge: float,
    temperature: float,
    dtype: torch.dtype,
) -> None:
    check_conditional(name, kernel_name, *option, size, seed, dtype, ridge, temperature)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("size", [2, 3, 17, 64])
@pytest.mark.parametrize("name", PLAIN)
def test_plain_losses(name: str, size: int, dtype: torch.dtype) -> None:
    x, y, extra = embeddings(size, 5, size, dtype)
    groups = (oracles.condition(size + 4, size)[:, 3] * 8).long()
    for views, symmetric, supported, hardness, temperature in itertools.product(
        ("cross", "all"),
        (False, True),
        (False, True),
        ((1.0, 0.1), (0.0, 0.0), (2.5, 0.02)),
        (0.5, 0.1),
    ):
        if name != "HardNegInfoNCE" and hardness != (1.0, 0.1):
            continue
        chosen = {"beta": hardness[0], "tau_plus": hardness[1]} if name == "HardNegInfoNCE" else {}
        expected = oracles.loss(
            name,
            x,
            y,
            temperature=temperature,
            groups=groups.tolist(),
            views=views,
            symmetric=symmetric,
            extra=extra if supported else None,
            **chosen,
        )
        loss = PLAIN[name](
            temperature=temperature, views=views, symmetric=symmetric, reduction="none", **chosen
        )
        found = loss(x, y, groups[:size], support=(extra, groups[size:]) if supported else None)
        tolerance = TOLERANCE[dtype]
        torch.testing.assert_close(
            found.double(),
            torch.tensor(expected, dtype=torch.float64),
            rtol=tolerance,
            atol=tolerance,
        )


def test_hard_negatives_condition_on_the_anchor() -> None:
    """Without a condition, x's own embedding is it where x is the anchor, y's where y is."""
    x, y, extra = embeddings(9, 5, 0, torch.float64)
    make, formula = oracles.KERNELS["rbf"]
    matrices = tuple(oracles.gram(formula, torch.cat([view, extra])) for view in (x, y))
    expected = oracles.loss(
        "HardNegCCLK",
        x,
        y,
        temperature=0.2,
        matrices=matrices,
        views="all",
        symmetric=True,
        extra=extra,
    )
    loss = cclk.HardNegCCLK(make(), temperature=0.2, views="all", symmetric=True, reduction="none")
    torch.testing.assert_close(
        loss(x, y, support=(extra, None)),
        torch.tensor(expected, dtype=torch.float64),
        rtol=1e-10,
        atol=1e-10,
    )


def test_the_support_of_hard_negatives_may_have_a_condition() -> None:
    """Embeddings of another encoder, for example; with a name or without."""
    x, y, extra = embeddings(9, 5, 0, torch.float64)
    loss = cclk.HardNegCCLK(oracles.KERNELS["rbf"][0](), reduction="none")
    expected = loss(x, y, x, support=(extra, extra.flip(0)))
    assert not torch.allclose(loss(x, y, support=(extra, None)), expected)
    for condition in (extra.flip(0), {"embedding": extra.flip(0)}):
        torch.testing.assert_close(loss(x, y, support=(extra, condition)), expected)


@pytest.mark.parametrize("option", OPTIONS, ids=str)
@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("name", CONDITIONAL)
def test_gradients_of_conditional_losses(
    name: str, reduction: str, option: tuple[str, str, bool, bool]
) -> None:
    mode, views, symmetric, supported = option
    x, y, extra = embeddings(6, 3, 1, torch.float64)
    z = oracles.condition(10, 1)
    loss = CONDITIONAL[name](
        oracles.KERNELS["sum"][0](),
        ridge=0.1,
        temperature=0.4,
        weights=mode,
        views=views,
        symmetric=symmetric,
        reduction=reduction,
    )

    def call(x: Tensor, y: Tensor, extra: Tensor) -> Tensor:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cclk.CclkWarning)
            return loss(x, y, z[:6], support=(extra, z[6:]) if supported else None)

    inputs = [t.requires_grad_() for t in (x, y, extra)]
    assert torch.autograd.gradcheck(call, inputs)


@pytest.mark.parametrize("kernel_name", oracles.KERNELS)
@pytest.mark.parametrize("name", CONDITIONAL)
def test_gradients_with_every_kernel(name: str, kernel_name: str) -> None:
    x, y, _ = embeddings(8, 3, 2, torch.float64)
    z = oracles.condition(8, 2)
    loss = CONDITIONAL[name](oracles.KERNELS[kernel_name][0](), temperature=0.4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cclk.CclkWarning)
        assert torch.autograd.gradcheck(
            lambda x, y: loss(x, y, z), [x.requires_grad_(), y.requires_grad_()]
        )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("views", ["cross", "all"])
@pytest.mark.parametrize("name", PLAIN)
def test_gradients_of_plain_losses(name: str, views: str, reduction: str) -> None:
    x, y, extra = embeddings(6, 3, 4, torch.float64)
    groups = torch.tensor([0, 1, 0, 2, 1, 0, 1, 1, 0, 2])
    loss = PLAIN[name](temperature=0.4, views=views, symmetric=True, reduction=reduction)
    inputs = [t.requires_grad_() for t in (x, y, extra)]
    assert torch.autograd.gradcheck(
        lambda x, y, extra: loss(x, y, groups[:6], support=(extra, groups[6:])), inputs
    )


@pytest.mark.parametrize("temperature", [0.01, 0.03, 0.2])
@pytest.mark.parametrize("name", CONDITIONAL | PLAIN)
def test_low_temperatures_keep_their_digits(name: str, temperature: float) -> None:
    """Where exponentials leave float32's range, float32 must still agree with float64, value and
    gradient.
    """
    x, y, _ = embeddings(40, 8, 5, torch.float64)
    x[0] = y[7]  # an anchor nearest to somebody else: its neighbors are far below the largest score
    z = oracles.condition(40, 5)[:, 3]
    results = []
    for dtype in (torch.float64, torch.float32):
        arguments = {"temperature": temperature}
        loss = (
            CONDITIONAL[name](cclk.kernels.Delta(), **arguments)
            if name in CONDITIONAL
            else PLAIN[name](**arguments)
        )
        inputs = [t.to(dtype).detach().requires_grad_() for t in (x, y)]
        value = loss(*inputs, z)
        value.backward()
        results.append((value.detach().double(), *(t.grad.double() for t in inputs)))
    for precise, single in zip(*results, strict=True):
        torch.testing.assert_close(
            single, precise, rtol=1e-4, atol=1e-5 * float(precise.abs().max())
        )


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("name", CONDITIONAL | PLAIN)
def test_tiles_do_not_matter(name: str, reduction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, _ = embeddings(150, 8, 6, torch.float64)
    z = oracles.condition(150, 6)
    make = CONDITIONAL | PLAIN
    results = []
    for rows in (1000, 7):
        monkeypatch.setattr(core, "TILE_ROWS", rows)
        options = {"views": "all", "symmetric": True, "reduction": reduction}
        loss = (
            make[name](oracles.KERNELS["rbf"][0](), **options)
            if name in CONDITIONAL
            else make[name](**options)
        )
        inputs = [t.clone().requires_grad_() for t in (x, y)]
        value = loss(*inputs, z if name in CONDITIONAL else z[:, 3])
        (value * torch.linspace(1, 2, value.numel()).reshape(value.shape).double()).sum().backward()
        results.append((value, *(t.grad for t in inputs)))
    for whole, tiled in zip(*results, strict=True):
        torch.testing.assert_close(tiled, whole, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kernel_name", ["linear", "cosine", "polynomial", "delta"])
@pytest.mark.parametrize("name", CONDITIONAL)
def test_exact_solvers_agree(name: str, kernel_name: str) -> None:
    """The feature map, landmarks at every sample and the Cholesky factor are one operator."""
    x, y, _ = embeddings(60, 8, 7, torch.float64)
    z = oracles.condition(60, 7)
    values = []
    for solver in ("exact", "features", cclk.Nystrom(60)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cclk.CclkWarning)
            values.append(
                CONDITIONAL[name](oracles.KERNELS[kernel_name][0](), solver=solver)(x, y, z)
            )
    torch.testing.assert_close(values[1], values[0], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(values[2], values[0], rtol=1e-7, atol=1e-7)


def test_delta_is_conditional_sampling() -> None:
    """With categories and no ridge to speak of, the estimate is the mean over the others of the
    anchor's category.
    """
    x, y, _ = embeddings(30, 6, 8, torch.float64)
    groups = torch.arange(30) % 5
    fair = cclk.FairCCLK(cclk.kernels.Delta(), ridge=1e-12, temperature=0.5, reduction="none")(
        x, y, groups
    )
    unit_x, unit_y = (torch.nn.functional.normalize(t) for t in (x, y))
    scores = (unit_x @ unit_y.T / 0.5).exp()
    for i in range(30):
        mates = [j for j in range(30) if groups[j] == groups[i] and j != i]
        expected = -torch.log(scores[i, i] / (scores[i, i] + 29 * scores[i, mates].mean()))
        torch.testing.assert_close(fair[i], expected, rtol=1e-9, atol=1e-9)
