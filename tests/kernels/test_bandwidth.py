"""Length scales fitted to the data."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cclk import CclkWarning, diagnose
from cclk.condition import as_condition
from cclk.kernels import RBF, Delta, Laplacian
from cclk.kernels.bandwidth import effective_neighbors


def neighbors_of(kernel: RBF | Laplacian, values: torch.Tensor, batch: int) -> float:
    matrix = kernel(values[:batch])
    sizes = []
    for i in range(batch):
        weights = [float(matrix[j, i]) for j in range(batch) if j != i]
        total = sum(weights)
        sizes.append(1 / sum((w / total) ** 2 for w in weights) if total > 0 else 0.0)
    return float(np.median(sizes))


@pytest.mark.parametrize("kind", [RBF, Laplacian])
@pytest.mark.parametrize("neighbors", [3, 10])
def test_auto_leaves_the_median_anchor_its_neighbors(kind: type[RBF], neighbors: int) -> None:
    values = torch.rand(3000, 3, generator=torch.Generator().manual_seed(0)).double() * 255
    kernel = kind(neighbors=neighbors).fit(values, batch_size=200)
    assert neighbors_of(kernel, values, 200) == pytest.approx(neighbors, rel=0.25)


@settings(max_examples=20, deadline=None)
@given(
    exponent=st.integers(-6, 6),
    kind=st.sampled_from([RBF, Laplacian]),
    rule=st.sampled_from(["auto", "median"]),
)
def test_scale_follows_the_units(exponent: int, kind: type[RBF], rule: str) -> None:
    values = torch.randn(300, 2, generator=torch.Generator().manual_seed(1)).double()
    for table in (lambda unit: values * unit, lambda unit: {"vector": values * unit}):
        plain, rescaled = (
            np.array(kind(length_scale=rule).fit(table(unit), 64).length_scale_)
            for unit in (1.0, 10.0**exponent)
        )
        np.testing.assert_allclose(rescaled, plain * 10.0**exponent, rtol=1e-6)


UNITS = torch.rand(2000, 2, generator=torch.Generator().manual_seed(3)).double()


@pytest.mark.parametrize("rule", ["auto", "median"])
@pytest.mark.parametrize("kind", [RBF, Laplacian])
def test_columns_of_unlike_units_all_count(kind: type[RBF], rule: str) -> None:
    """An income of 0 to 100,000 beside a rate of 0 to 1: the kernel is the one of columns of the
    same unit.
    """
    unlike = UNITS * torch.tensor([1e5, 1.0])
    expected = kind(length_scale=rule).fit(UNITS, 128)(UNITS[:50])
    as_tensor = kind(length_scale=rule).fit(unlike, 128)
    torch.testing.assert_close(as_tensor(unlike[:50]), expected)
    table = {"income": unlike[:, 0], "rate": unlike[:, 1]}
    named = kind(["income", "rate"], length_scale=rule).fit(table, 128)
    torch.testing.assert_close(
        named({name: column[:50] for name, column in table.items()}), expected
    )
    assert as_tensor.length_scale_ == named.length_scale_
    assert repr(as_tensor).endswith(
        f"({as_tensor.length_scale_[0]:.4g}, {as_tensor.length_scale_[1]:.4g}))"
    )  # type: ignore[index]


def test_a_vector_has_one_scale() -> None:
    """The coordinates of an embedding share a unit, and the small ones are meant to be small."""
    coordinates = UNITS * torch.tensor([10.0, 1.0])
    for kernel, table in (
        (RBF(), {"embedding": coordinates}),
        (RBF(slice(0, 2)), coordinates),
        (RBF(), torch.cat([coordinates] * 20, dim=1)),
    ):
        assert isinstance(kernel.fit(table, 128).length_scale_, float)
    assert isinstance(
        RBF().fit({"embedding": coordinates, "age": UNITS[:, 0]}, 128).length_scale_, tuple
    )


def test_length_scales_by_column() -> None:
    values = torch.tensor([[0.0, 0.0], [2.0, 30.0]])
    assert float(RBF(length_scale=[2.0, 10.0])(values)[0, 1]) == pytest.approx(np.exp(-(1 + 9) / 2))
    assert repr(RBF(length_scale=[2.0, 10.0])) == "RBF(length_scale=(2, 10))"
    with pytest.raises(
        ValueError, match="length_scale has 2 numbers, but the kernel is on 1 columns"
    ):
        RBF(length_scale=[2.0, 10.0])(torch.randn(5))
    for wrong in ([], [1.0, -1.0], [0.0], -1.0):
        with pytest.raises(ValueError, match="length_scale is"):
            RBF(length_scale=wrong)


def test_large_offsets_do_not_cost_digits() -> None:
    """A time stamp in milliseconds: the differences are small, the values are not."""
    stamps = torch.tensor([0.0, 1.0, 3.0, 7.0]).double()
    for kernel in (RBF(length_scale=3.0), Laplacian(length_scale=3.0)):
        torch.testing.assert_close(kernel(stamps + 2.0**52), kernel(stamps), rtol=1e-12, atol=0)


def test_median_is_the_median_distance() -> None:
    values = torch.tensor([0.0, 1.0, 3.0])
    assert RBF(length_scale="median").fit(values).length_scale_ == 2.0


def test_a_product_shares_its_neighbors() -> None:
    """Beside a category that already leaves few neighbors, the number's own scale must be wider."""
    generator = torch.Generator().manual_seed(2)
    table = {
        "age": torch.rand(2000, generator=generator),
        "site": torch.randint(0, 5, (2000,), generator=generator),
    }
    alone, together = RBF("age").fit(table, 128), (Delta("site") * RBF("age")).fit(table, 128)
    assert together.leaves
    assert list(together.leaves())[1].length_scale_ > 3 * alone.length_scale_  # type: ignore[attr-defined]
    first = {name: column[:128] for name, column in table.items()}
    assert float(
        diagnose(together, first, weights="nw").effective_sample_size.median()
    ) == pytest.approx(3, rel=0.35)


def test_repeated_outcomes_still_let_rare_ones_see_their_neighbor() -> None:
    ages = torch.cat([torch.arange(20, 60).repeat_interleave(10), torch.tensor([88])]).double()
    kernel = RBF().fit(ages, batch_size=len(ages))
    assert 0.2 < kernel.length_scale_ < 2


@pytest.mark.parametrize(
    "values",
    [torch.zeros(50), torch.cat([torch.randn(99), torch.tensor([1e6])]), torch.arange(2.0)],
)
def test_odd_conditions_have_a_finite_scale(values: torch.Tensor) -> None:
    kernel = RBF().fit(values)
    assert 0 < kernel.length_scale_ < 1e7
    assert kernel(values).isfinite().all()


def test_auto_aims_for_at_most_nine_tenths_of_the_others() -> None:
    values = torch.rand(20, 1, generator=torch.Generator().manual_seed(0)).double()
    kernel = RBF(neighbors=1000).fit(values, batch_size=20)
    assert neighbors_of(kernel, values, 20) == pytest.approx(0.9 * 19, rel=0.03)


def test_a_constant_column_has_no_lower_bound_and_does_not_change_the_others() -> None:
    varied = torch.rand(256, generator=torch.Generator().manual_seed(0)).double()
    kernel = (RBF("constant") * RBF("varied")).fit(
        {"constant": torch.full((256,), 5.0), "varied": varied}
    )
    constant, other = (leaf.length_scale_ for leaf in kernel.leaves())  # type: ignore[attr-defined]
    assert other == RBF().fit(varied).length_scale_
    median = RBF(length_scale="median").fit(varied).length_scale_
    assert constant == pytest.approx(other / median)
    assert constant < 0.3
    assert RBF().fit(torch.zeros(50)).length_scale_ == pytest.approx(1e-9)


def test_fitted_state_travels() -> None:
    values = {"a": torch.randn(100), "b": torch.randn(100)}
    kernel = RBF("a") * (Laplacian("b") + Delta("a"))
    assert not kernel.is_fitted
    assert kernel.state_dict() == {}
    kernel.fit(values)
    assert (
        RBF().load_state_dict(RBF().fit(UNITS).state_dict()).length_scale_
        == RBF().fit(UNITS).length_scale_
    )
    twin = (RBF("a") * (Laplacian("b") + Delta("a"))).load_state_dict(kernel.state_dict())
    assert twin.is_fitted
    assert repr(twin) == repr(kernel)
    assert "-> " in repr(twin)
    with pytest.raises(ValueError, match="belongs to another kernel"):
        Delta("a").load_state_dict(kernel.state_dict())
    for position in ("1", "2"):
        with pytest.raises(
            ValueError, match=f"no length scale to be fitted at position {position}"
        ):
            RBF("a").load_state_dict({"0": 1.0, position: 1.0})


def test_only_fitted_scales_are_state() -> None:
    assert RBF(length_scale=2.0).state_dict() == {}
    with pytest.raises(ValueError, match="belongs to another kernel"):
        RBF(length_scale=1.0).load_state_dict({"0": 5.0})
    assert not RBF().fit(torch.randn(50, 2)).on(1).is_fitted


def test_an_unfitted_kernel_fits_itself_and_says_so() -> None:
    kernel = RBF()
    with pytest.warns(
        CclkWarning, match="was not fitted: fitted on the first batch of 30"
    ) as caught:
        kernel(torch.randn(30))
    assert caught[0].filename == __file__
    assert kernel.is_fitted
    with pytest.raises(ValueError, match="not fitted"):
        RBF().evaluate(as_condition([1.0, 2.0]), as_condition([1.0, 2.0]))
    with pytest.raises(ValueError, match="condition has 1 rows"):
        RBF().fit([1.0])
    with pytest.raises(ValueError, match="batch_size is 1"):
        RBF().fit([1.0, 2.0], batch_size=1)


def test_batch_size_of_a_fit() -> None:
    """256 unless said otherwise; a kernel that fits itself takes the size of the batch it meets."""
    values = torch.randn(600, 2, generator=torch.Generator().manual_seed(0))
    assert (
        RBF().fit(values).length_scale_
        == RBF().fit(values, 256).length_scale_
        != RBF().fit(values, 257).length_scale_
    )
    kernel = RBF()
    with pytest.warns(CclkWarning, match="was not fitted"):
        kernel(values)
    assert (
        kernel.length_scale_
        == RBF().fit(values, 600).length_scale_
        != RBF().fit(values).length_scale_
    )


def test_fitting_is_repeatable() -> None:
    values = torch.randn(5000, 3)
    torch.manual_seed(1)
    first = RBF().fit(values).length_scale_
    torch.manual_seed(2)
    assert RBF().fit(values).length_scale_ == first


def test_effective_neighbors() -> None:
    weights = torch.tensor(
        [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1e-200, 1e-200, 1e-200], [3.0, 1.0, 0.0]],
        dtype=torch.float64,
    )
    torch.testing.assert_close(
        effective_neighbors(weights), torch.tensor([2.0, 0.0, 3.0, 1.6], dtype=torch.float64)
    )
