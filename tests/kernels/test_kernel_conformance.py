"""What every kernel must do, whatever it is: each entry of `oracles.KERNELS` passes all of this."""

from __future__ import annotations

import copy

import numpy as np
import oracles
import pytest
import torch

from cclk import kernels
from cclk.condition import as_condition
from cclk.kernels.base import Box

pytestmark = pytest.mark.parametrize("name", oracles.KERNELS)


@pytest.fixture
def outcomes() -> torch.Tensor:
    return oracles.condition(23, seed=5)


def test_equals_its_formula(name: str, outcomes: torch.Tensor) -> None:
    make, formula = oracles.KERNELS[name]
    np.testing.assert_allclose(
        make()(outcomes).numpy(), oracles.gram(formula, outcomes), rtol=1e-12, atol=1e-12
    )


def test_cross_matrix_is_a_part_of_the_whole(name: str, outcomes: torch.Tensor) -> None:
    kernel = oracles.KERNELS[name][0]()
    whole = kernel(outcomes)
    torch.testing.assert_close(
        kernel(outcomes[:9], outcomes[9:]), whole[:9, 9:], rtol=1e-12, atol=1e-12
    )


def test_is_symmetric(name: str, outcomes: torch.Tensor) -> None:
    matrix = oracles.KERNELS[name][0]()(outcomes)
    torch.testing.assert_close(matrix, matrix.T, rtol=1e-12, atol=1e-12)


def test_has_no_negative_eigenvalues_unless_it_says_so(name: str, outcomes: torch.Tensor) -> None:
    kernel = oracles.KERNELS[name][0]()
    values = torch.linalg.eigvalsh(kernel(outcomes))
    assert kernel.positive_definite == bool(values[0] > -1e-10 * values[-1])


def test_diagonal(name: str, outcomes: torch.Tensor) -> None:
    kernel = oracles.KERNELS[name][0]()
    torch.testing.assert_close(
        kernel.diagonal(as_condition(outcomes)), kernel(outcomes).diagonal(), rtol=1e-12, atol=1e-12
    )


def test_pairs_of_rows(name: str, outcomes: torch.Tensor) -> None:
    kernel, table = oracles.KERNELS[name][0](), as_condition(outcomes)
    flipped = table.rows(torch.arange(len(table) - 1, -1, -1))
    torch.testing.assert_close(
        kernel.pairs(table, flipped),
        kernel.evaluate(table, flipped).diagonal(),
        rtol=1e-12,
        atol=1e-12,
    )


def test_feature_map(name: str, outcomes: torch.Tensor) -> None:
    kernel, table = oracles.KERNELS[name][0](), as_condition(outcomes)
    count = kernel.feature_count(table)
    if count is None:
        with pytest.raises(ValueError, match="no explicit feature map"):
            kernel.features(table)
        return
    features = kernel.features(table)
    assert features.shape == (23, count)
    torch.testing.assert_close(features @ features.T, kernel(outcomes), rtol=1e-10, atol=1e-10)


def test_groups(name: str, outcomes: torch.Tensor) -> None:
    kernel = oracles.KERNELS[name][0]()
    groups = kernel.groups(as_condition(outcomes))
    if groups is not None:
        torch.testing.assert_close((groups[:, None] == groups).double(), kernel(outcomes))


def test_bounds_between_boxes(name: str, outcomes: torch.Tensor) -> None:
    """No value of a box exceeds the bound of its box, and points are boxes of their own."""
    kernel, table = oracles.KERNELS[name][0](), as_condition(outcomes)
    parts = outcomes[:20].view(5, 4, -1)
    low, high = (as_condition(edge) for edge in (parts.amin(dim=1), parts.amax(dim=1)))
    bounds = kernel.upper_bound(Box(low, high), Box(low, high))
    coordinates = kernel.coordinates(table)
    assert (bounds is None) == (coordinates is None)
    if bounds is None or coordinates is None:
        return
    assert len(coordinates) == len(table)
    largest = kernel(outcomes[:20]).view(5, 4, 5, 4).amax(dim=(1, 3))
    assert (bounds >= largest - 1e-12).all()
    points = Box(table, table)
    own = kernel.upper_bound(points, points)
    assert own is not None
    torch.testing.assert_close(own, kernel(outcomes), rtol=1e-12, atol=1e-12)


def test_keeps_the_callers_dtype_and_takes_arrays(name: str, outcomes: torch.Tensor) -> None:
    kernel = oracles.KERNELS[name][0]()
    assert kernel(outcomes.float()).dtype == torch.float32
    torch.testing.assert_close(kernel(outcomes.numpy()), kernel(outcomes))


def test_lets_no_gradient_through(name: str, outcomes: torch.Tensor) -> None:
    assert not oracles.KERNELS[name][0]()(outcomes.requires_grad_()).requires_grad


def test_sums_products_and_multiples_are_those_of_the_matrices(
    name: str, outcomes: torch.Tensor
) -> None:
    kernel, other = oracles.KERNELS[name][0](), kernels.RBF([0], length_scale=0.7)
    a, b = kernel(outcomes), other(outcomes)
    for combined, expected in (
        (kernel + other, a + b),
        (kernel * other, a * b),
        (3 * kernel, 3 * a),
        (kernel * 0.5, a / 2),
    ):
        torch.testing.assert_close(combined(outcomes), expected, rtol=1e-12, atol=1e-12)
        assert combined.positive_definite == kernel.positive_definite


def test_copies_and_prints(name: str, outcomes: torch.Tensor) -> None:
    kernel = oracles.KERNELS[name][0]()
    twin = copy.deepcopy(kernel)
    assert repr(twin) == repr(kernel)
    torch.testing.assert_close(twin(outcomes), kernel(outcomes))
