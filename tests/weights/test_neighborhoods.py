"""Which samples matter to which anchors: what is dropped is really as little as promised."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cclk import kernels
from cclk.condition import as_condition
from cclk.weights import neighborhoods
from cclk.weights.neighborhoods import Neighborhoods, find, kd_order


def drawn(size: int, width: int, seed: int) -> Tensor:
    """Clusters of different density, an outlier and equal rows."""
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(size, width, generator=generator).double()
    z[: size // 3] = 0.01 * z[: size // 3] + 3
    z[0] = 1e4
    z[-5:] = z[-1].clone()
    return z


@settings(max_examples=40, deadline=None)
@given(
    size=st.integers(1, 300), width=st.integers(1, 8), leaf=st.sampled_from([1, 7, 64]),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_an_order_has_every_point_once(size: int, width: int, leaf: int, seed: int) -> None:
    points = drawn(size, width, seed)
    assert torch.equal(kd_order(points, leaf).sort().values, torch.arange(size))


def test_neighbors_are_close_in_the_order() -> None:
    points = torch.rand(1024, 2, generator=torch.Generator().manual_seed(0)).double()
    blocks = points[kd_order(points, 16)].view(64, 16, 2)
    extent = (blocks.amax(dim=1) - blocks.amin(dim=1)).amax()
    assert extent < 0.35  # 64 squares would have 1/8


@settings(max_examples=40, deadline=None)
@given(
    width=st.integers(1, 4), seed=st.integers(0, 99), share=st.sampled_from([0.0, 1e-12, 1e-3]),
    kernel=st.sampled_from([
        kernels.RBF(length_scale=0.3), kernels.Laplacian(length_scale=0.05),
        kernels.RBF([0], length_scale=0.1) * kernels.Delta([0]),
        0.5 * kernels.RBF(length_scale=0.1) + kernels.Delta(),
    ]),
)  # fmt: skip
def test_what_is_dropped_is_within_its_bound(
    width: int, seed: int, share: float, kernel: kernels.Kernel
) -> None:
    table = as_condition(drawn(400, width, seed))
    found = Neighborhoods(kernel, table, range(50, 350))
    assert torch.equal(torch.cat(found.tiles).sort().values, torch.arange(50, 350))
    all_totals = found.totals.split(found.tile_size)
    for tile, totals, blocks, dropped in zip(
        found.tiles, all_totals, *found.candidates(share), strict=True
    ):
        samples = found.samples(blocks)
        assert set(tile.tolist()) <= set(samples.tolist()), "an anchor is its own neighbor"
        assert len(set(samples.tolist())) == len(samples)
        values = kernel.evaluate(table.rows(tile), table)
        values[torch.arange(len(tile)), tile] = 0.0
        assert (totals <= values.sum(dim=1) * (1 + 1e-9) + 1e-300).all(), "a lower bound"
        others = torch.ones(400, dtype=torch.bool)
        others[samples] = False
        if not others.any():
            continue
        left_out = kernel.evaluate(table.rows(tile), table.rows(others)).sum(dim=1)
        assert (left_out <= dropped + 1e-300).all()
        assert (dropped <= share * totals * (1 + 1e-9)).all()


@pytest.mark.parametrize(
    ("kernel", "condition", "reason"),
    [
        (kernels.Cosine(), drawn(2000, 3, 0), "the kernel has no bounds"),
        (kernels.RBF(length_scale=1.0) + 1, drawn(2000, 1, 0), "too many for this batch"),
        (kernels.RBF(length_scale=1e-4), drawn(800, 3, 0), "too many for this batch"),
        (kernels.RBF(length_scale=1e-4), drawn(2000, 9, 0), "more than 8 columns"),
        (kernels.RBF(length_scale=1.0) * kernels.Cosine(), drawn(2000, 3, 0), "no bounds"),
    ],
)
def test_reasons_to_compute_all_pairs(
    kernel: kernels.Kernel, condition: Tensor, reason: str
) -> None:
    table = as_condition(condition)
    found, told = find(kernel, table, range(len(table)), 1e-12)
    assert found is None
    assert "all pairs are computed" in told
    assert reason in told


def test_few_pairs_matter_to_a_narrow_kernel() -> None:
    table = as_condition(torch.linspace(0, 1, 4096).double())
    found, told = find(kernels.RBF(length_scale=3 / 4096), table, range(4096), 1e-12)
    assert found is not None
    assert told == "7.7% of the pairs are computed: the others do not matter"
    assert neighborhoods.LINE_TILE * len(found.tiles) == 4096


@pytest.mark.parametrize("outlier", [0.5, 1e3])
@pytest.mark.parametrize("bounds", [2**19, 2**10])
def test_what_is_dropped_on_a_line_is_bounded_for_every_anchor(
    outlier: float, bounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one bound for each anchor, and with one for several of them."""
    monkeypatch.setattr(neighborhoods, "BOUNDS", bounds)
    values = torch.rand(600, generator=torch.Generator().manual_seed(0)).double()
    values[0] = outlier
    table, kernel = as_condition(values), kernels.RBF(length_scale=0.005)
    lines = neighborhoods.Neighborhoods(kernel, table, range(600))
    for tile, blocks, dropped in zip(lines.tiles, *lines.candidates(1e-9), strict=True):
        kept = lines.samples(blocks)
        assert len(kept) < 400, "blocks are dropped"
        exact = kernel.evaluate(table.rows(tile), table)
        exact[:, kept] = 0.0
        assert dropped.shape == tile.shape
        assert (exact.sum(dim=1) <= dropped * (1 + 1e-12)).all()
