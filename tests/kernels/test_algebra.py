"""How kernels are written, printed and pointed at columns."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch

from cclk import CclkWarning
from cclk.condition import as_condition
from cclk.kernels import (
    RBF,
    Cosine,
    Delta,
    Kernel,
    Laplacian,
    Linear,
    Polynomial,
    Precomputed,
    Similarity,
)

AGE = np.array([30.0, 31.0, 60.0, 61.0])
SITE = np.array([0, 1, 0, 0])
TABLE = {"age": AGE, "site": SITE, "face": np.arange(8.0).reshape(4, 2)}


def test_prints_like_algebra() -> None:
    kernel = Delta("site") * (RBF("age", length_scale=2) + 0.5 * Linear(["dose", 3]))
    assert (
        repr(kernel) == "Delta('site') * (RBF('age', length_scale=2) + 0.5 * Linear(['dose', 3]))"
    )
    assert repr(2 * (Cosine() + Delta())) == "2 * (Cosine() + Delta())"
    assert repr(Cosine() + (Delta() + Linear())) == "Cosine() + Delta() + Linear()"
    assert repr(Polynomial(degree=2)) == "Polynomial(degree=2, offset=1)"
    assert repr(Similarity(abs)) == "Similarity(fn=abs)"
    assert repr(Precomputed(np.eye(3))) == "Precomputed(matrix=<3 x 3>)"
    assert repr(Laplacian(neighbors=5)) == "Laplacian(length_scale='auto', neighbors=5)"


def test_columns_by_name_and_by_number() -> None:
    by_name = (Delta("site") * RBF("age", length_scale=1.0))(TABLE)
    plain = np.stack([AGE, SITE], axis=1)
    torch.testing.assert_close((Delta([1]) * RBF([0], length_scale=1.0))(plain), by_name)
    torch.testing.assert_close(
        (Delta() * RBF(length_scale=1.0)).on("age")(TABLE),
        (Delta("age") * RBF("age", length_scale=1.0))(TABLE),
    )
    torch.testing.assert_close(
        RBF(length_scale=1.0).on("age")(TABLE), RBF("age", length_scale=1.0)(TABLE)
    )
    torch.testing.assert_close(Linear("face")(TABLE), Linear()(TABLE["face"]))
    torch.testing.assert_close(Linear(slice(0, 1))(plain), Linear([0])(plain))
    torch.testing.assert_close(Linear([-1])(plain), Linear([1])(plain))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: RBF(0.5),
            r"^RBF\(0.5\): a bare number .*; write RBF\(length_scale=0.5 or columns=\[0\]\)$",
        ),
        (lambda: RBF(1), r"length_scale=1 or columns=\[1\]"),
        (
            lambda: Delta(3),
            r"^Delta\(3\): a bare number is ambiguous; write Delta\(columns=\[3\]\)$",
        ),
        (lambda: RBF() + -1, "added to a positive number, not -1"),
        (lambda: RBF(length_scale=0), "length_scale is 0"),
        (lambda: RBF(length_scale="mean"), "'auto' or 'median'"),
        (lambda: RBF(neighbors=0.5), "neighbors is 0.5"),
        (lambda: Polynomial(degree=0), "degree is 0"),
        (lambda: Polynomial(offset=-1), "offset is -1"),
        (lambda: Polynomial(degree=2.5), "degree is 2.5"),
        (lambda: Polynomial(offset=float("inf")), "offset is inf"),
        (lambda: RBF(length_scale=float("inf")), "length_scale is inf"),
        (lambda: RBF(neighbors=float("nan")), "neighbors is nan"),
        (lambda: -1 * RBF(), "positive number"),
        (lambda: 0 * RBF(), "positive number, not 0"),
        (lambda: RBF() * float("inf"), "positive number, not inf"),
        (lambda: Precomputed(np.diag([1.0, np.nan])), "matrix has values that are NaN"),
        (lambda: Precomputed(np.ones((2, 2, 2))), "matrix has shape .*square matrix"),
        (lambda: Precomputed(np.ones(2)), "matrix has shape .*square matrix"),
        (lambda: Precomputed(np.eye(3))(np.array([-1, 0])), "row numbers from 0 to 2"),
        (lambda: Precomputed(np.eye(3))(np.zeros((2, 2))), "condition has 2 columns"),
        (lambda: Precomputed(np.array([[1.0, 1e-3], [0.0, 1.0]])), "not symmetric"),
        (lambda: RBF("age").on("site"), "already has columns"),
        (lambda: Similarity(3), "function of two tensors"),
        (lambda: Precomputed(np.ones((2, 3))), "square matrix"),
        (lambda: Precomputed(np.array([[1.0, 2.0], [0.0, 1.0]])), "not symmetric"),
        (lambda: Precomputed()(np.ones((2, 3))), "condition has shape .*square matrix"),
        (
            lambda: Similarity(lambda a, b: torch.tensor([[1.0, torch.nan], [1.0, 1.0]]))([1, 2]),
            "NaN or infinite",
        ),
        (lambda: Precomputed(np.eye(3))(np.array([0, 3])), "row numbers from 0 to 2"),
        (lambda: Precomputed(np.eye(3))(np.array([0.5, 1])), "row numbers"),
        (lambda: Delta("age")(AGE), "no column 'age'"),
        (lambda: Delta("sex")(TABLE), "no column 'sex'.*'age', 'site', 'face'"),
        (lambda: Delta([7])(AGE), "no column 7"),
        (
            lambda: Linear()(np.array(["a", "b", "c"])),
            r"Linear\(\) needs numbers, but condition holds categories: use Delta\(\)",
        ),
        (lambda: Delta()({"a": [1, 2], "b": [1]}), "differ in length"),
        (lambda: Delta()({}), "empty mapping"),
        (lambda: Delta()(np.ones((2, 2, 2))), r"\(n,\) or \(n, k\)"),
        (lambda: Delta()([1.0], [float("nan")]), "b has 1 values"),
        (lambda: Delta()({"age": [1.0, float("nan")]}), r"a\['age'\] has 1 values.*row 1"),
        (lambda: Delta()(torch.tensor([[0.0, 1.0], [float("inf"), 0.0]])), "row 1, column 0"),
        (lambda: Similarity(lambda a, b: a)(AGE), "returned shape"),
        (lambda: RBF([]), "at least one column"),
        (lambda: Delta(slice(5, 9))(AGE), "none of them in"),
        (lambda: Delta()(torch.tensor([2**60, 2**60 + 1])), "beyond 2.53"),
        (lambda: Similarity(lambda a, b: a @ b.T * float("nan"))(AGE), "NaN"),
    ],
)
def test_mistakes_are_named(make: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()  # type: ignore[operator]


def test_two_tables_are_compared_column_by_column() -> None:
    reordered = dict(reversed(TABLE.items()))
    kernel = RBF(length_scale=3.0)
    torch.testing.assert_close(kernel(TABLE, reordered), kernel(TABLE))
    with pytest.raises(ValueError, match="1 wide in one table and 2 wide"):
        Delta()(np.zeros((3, 1)), np.zeros((3, 2)))
    with pytest.raises(ValueError, match="columns differ"):
        Delta()(TABLE, {"age": AGE})


def test_only_kernels_and_numbers_combine() -> None:
    with pytest.raises(TypeError):
        RBF() * "age"  # type: ignore[operator]


def test_precomputed_takes_the_batchs_own_matrix_or_a_tables_rows() -> None:
    matrix = torch.tensor([[1.0, 0.3, 0.2], [0.3, 1.0, 0.4], [0.2, 0.4, 1.0]], dtype=torch.float64)
    torch.testing.assert_close(Precomputed()(matrix), matrix)
    torch.testing.assert_close(Precomputed(matrix)([2, 0]), matrix[[2, 0]][:, [2, 0]])
    torch.testing.assert_close(Precomputed(matrix)([1, 1]), torch.ones(2, 2, dtype=torch.float64))
    assert Precomputed(matrix)(np.zeros(0)).shape == (0, 0)
    assert repr(Precomputed()) == "Precomputed()"


def test_delta_compares_every_column() -> None:
    """Three columns of two values: each of them can make the difference."""
    values = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)] * 2)
    expected = np.array([[float((a == b).all()) for b in values] for a in values])
    np.testing.assert_array_equal(Delta()(values).numpy(), expected)
    np.testing.assert_array_equal(
        Delta([0, 2])(values).numpy(), (Delta([0]) * Delta([2]))(values).numpy()
    )
    np.testing.assert_array_equal(Delta()(values[:3], values).numpy(), expected[:3])
    assert Delta().feature_count(as_condition(values)) == 8


@pytest.mark.parametrize("width", [32, 33, 200])
def test_rbf_is_its_formula_at_any_width_and_offset(width: int) -> None:
    """Wide conditions go through a matrix product, which a common offset or a coarse center must
    not make inexact.
    """
    random = np.random.default_rng(0)
    values = random.normal(size=(30, width)) + 2.0**20 * (-1.0) ** np.arange(width)
    values[1] = values[0]
    for a, b in ((values, values), (values[:7], values[7:])):
        squares = ((a[:, None] - b[None]) ** 2).sum(axis=2)
        np.testing.assert_allclose(
            RBF(length_scale=9.0)(a, b).numpy(), np.exp(-squares / 162), rtol=1e-8
        )
    assert float(RBF(length_scale=9.0)(values).max()) <= 1


@pytest.mark.parametrize("kernel", [RBF(length_scale=1e-3), Laplacian(length_scale=1e-3)])
def test_neighbors_far_from_the_mean_are_told_apart(kernel: Kernel) -> None:
    """Distances are taken by differences, not from expanded squares, which would cancel."""
    expected = {RBF: np.exp(-0.5), Laplacian: np.exp(-1.0)}[type(kernel)]
    assert float(kernel([0.0, 1e6, 1e6 + 1e-3])[1, 2]) == pytest.approx(expected, rel=1e-6)


def test_diagonals_of_more_rows_than_a_block() -> None:
    values = torch.randn(600, 2, generator=torch.Generator().manual_seed(0)).double()
    for kernel in (Linear(), Cosine(), Polynomial()):
        torch.testing.assert_close(kernel.diagonal(as_condition(values)), kernel(values).diagonal())


def test_cosine_of_zeros_and_of_tiny_rows() -> None:
    """A row of zeros is similar to nothing; one whose squares underflow is like any other."""
    values = torch.tensor(
        [[0.0, 0.0], [1e-200, 0.0], [1e-140, 0.0], [3.0, 3.0]], dtype=torch.float64
    )
    half = 0.5**0.5
    expected = torch.tensor(
        [[0, 0, 0, 0], [0, 1, 1, half], [0, 1, 1, half], [0, half, half, 1]], dtype=torch.float64
    )
    torch.testing.assert_close(Cosine()(values), expected)


def test_defaults_of_kernels() -> None:
    assert repr(Polynomial()) == "Polynomial(degree=3, offset=1)"
    assert repr(Polynomial(degree=2.0, offset=0)) == "Polynomial(degree=2, offset=0)"  # type: ignore[arg-type]
    assert repr(RBF()) == repr(RBF(neighbors=3)) == "RBF(length_scale='auto')"
    assert repr(RBF(length_scale="median", neighbors=7)) == "RBF(length_scale='median')"
    assert repr(RBF(neighbors=1)) == "RBF(length_scale='auto', neighbors=1)"
    assert (
        repr(RBF(length_scale="median").fit([0.0, 1.0, 3.0])) == "RBF(length_scale='median' -> 2)"
    )
    assert repr(Polynomial([0], degree=1) * 2) == "2 * Polynomial([0], degree=1, offset=1)"


def test_a_kernel_warns_once_per_topic() -> None:
    kernel = RBF()
    with pytest.warns(CclkWarning, match="first"):
        kernel.warn_once("one", "first")
    kernel.warn_once("one", "again, which would be an error here")
    with pytest.warns(CclkWarning, match="second"):
        kernel.warn_once("two", "second")


def test_precomputed_matrix_of_a_part_of_the_batch() -> None:
    matrix = torch.tensor([[1.0, 0.3, 0.2], [0.3, 1.0, 0.4], [0.2, 0.4, 1.0]], dtype=torch.float64)
    table = as_condition(matrix)
    torch.testing.assert_close(Precomputed().evaluate(table.rows(slice(0, 2)), table), matrix[:2])
    torch.testing.assert_close(
        Precomputed().evaluate(table.rows(slice(0, 2)), table.rows(slice(1, 3))), matrix[:2, 1:]
    )
    torch.testing.assert_close(Precomputed()(table.rows(slice(0, 2)), table), matrix[:2])
    nearly = matrix + 1e-7 * torch.triu(torch.ones(3, 3))
    torch.testing.assert_close(Precomputed()(100 * nearly), 100 * nearly)
    assert Precomputed()(np.zeros((2, 2))).shape == (2, 2)


def test_precomputed_keeps_float64_without_gradient_and_forgives_rounding() -> None:
    matrix = torch.eye(3, requires_grad=True)
    found = Precomputed(matrix).evaluate(as_condition([0, 1]), as_condition([0, 1]))
    assert (found.dtype, found.requires_grad) == (torch.float64, False)
    for sign in (1, -1):
        Precomputed(
            sign * np.array([[1e6, 0.0], [1.0, 1e6]])
        )  # symmetric to a millionth of its largest entry
    assert repr(Precomputed(np.zeros((0, 0)))) == "Precomputed(matrix=<0 x 0>)"


def test_similarity_is_made_symmetric() -> None:
    values = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64)
    matrix = Similarity(lambda a, b: a + 3 * b.T)(values)
    torch.testing.assert_close(matrix, 2 * (values[:, None] + values))
    learned = torch.ones(1, requires_grad=True)
    assert not Similarity(lambda a, b: learned * (a @ b.T))(values).requires_grad
    assert repr(Similarity(functools.partial(max))) == "Similarity(fn=partial)"


def test_only_what_is_made_of_kernels_alone_is_one() -> None:
    similarity = Similarity(lambda a, b: a + b.T)
    for combined in (RBF() + similarity, similarity * RBF(), 2 * (RBF() + similarity)):
        assert not combined.positive_definite
    assert (RBF() + 2 * Delta() * Linear()).positive_definite


def test_only_products_of_categories_have_groups_and_only_feature_maps_combine() -> None:
    table = as_condition(np.array([[0, 0, 0.3], [0, 1, 0.2], [1, 0, 0.1], [0, 1, 0.9]]))
    groups = (Delta([0]) * Delta([1])).groups(table)
    assert groups is not None
    assert (groups[:, None] == groups).tolist() == Delta([0, 1])(table).bool().tolist()
    for kernel in (
        Delta([0]) * Linear([2]),
        Linear([2]) * Delta([0]),
        Delta([0]) + Delta([1]),
        2 * Delta([0]),
    ):
        assert kernel.groups(table) is None
        assert kernel.feature_count(table) == kernel.features(table).shape[1]
    for kernel in (
        Delta([0]) * RBF([2]),
        RBF([2]) * Delta([0]),
        Delta([0]) + RBF([2]),
        RBF([2]) + Delta([0]),
    ):
        assert kernel.feature_count(table) is None


def test_is_a_kernel_everywhere() -> None:
    assert isinstance(RBF() + Delta(), Kernel)


def test_numbers_have_no_columns_and_no_state() -> None:
    kernel = (RBF([0]) + 1) * (2 * RBF([1]))
    assert repr(list(kernel.leaves())) == repr([RBF([0]), RBF([1])])
    assert list(kernel.fit(torch.randn(30, 2)).state_dict()) == ["0", "1"]


def test_numbers_and_sums() -> None:
    """`sum` begins with 0, and a number is a constant kernel."""
    values = torch.randn(6, 2, generator=torch.Generator().manual_seed(0))
    first, second = RBF([0], length_scale=1.0), Linear([1])
    torch.testing.assert_close(sum([first, second])(values), (first + second)(values))
    assert repr(sum([first, second])) == repr(first + second)
    for kernel in (first + 1.5, 1.5 + first):
        torch.testing.assert_close(kernel(values), first(values) + 1.5)
        assert repr(kernel) == f"{first!r} + 1.5"
    assert first + 0 is first
    table = as_condition(values)
    shifted = second + 2
    torch.testing.assert_close(
        shifted.features(table) @ shifted.features(table).T, shifted.evaluate(table, table)
    )
    torch.testing.assert_close(shifted.diagonal(table), shifted.evaluate(table, table).diagonal())
    torch.testing.assert_close((Linear() + 1).on([0])(values), Linear([0])(values) + 1)
    with pytest.raises(TypeError):
        first + "age"  # type: ignore[operator]


def test_a_product_is_local_if_one_factor_is_and_a_sum_if_all_are() -> None:
    near, far = RBF(length_scale=1.0), Linear()
    assert (near * far).local
    assert (2 * near).local
    assert (near + Delta()).local
    assert not (near + far).local
    assert not (near + 1).local
    assert not far.local
