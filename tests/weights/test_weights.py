"""The operator by every solver, and the weights made of it."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import oracles
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cclk
from cclk import kernels
from cclk.condition import as_condition
from cclk.errors import CclkError
from cclk.weights.solvers import solve
from cclk.weights.variants import Conditioning, weigh

conditional_weights = functools.partial(cclk.conditional_weights, weights="paper")


def textbook(matrix: np.ndarray, ridge: float) -> np.ndarray:
    return np.linalg.inv(matrix + ridge * np.eye(len(matrix))) @ matrix


@pytest.mark.parametrize("ridge", [1.0, 0.1])
@pytest.mark.parametrize("name", oracles.KERNELS)
def test_is_the_papers_operator(name: str, ridge: float) -> None:
    make, formula = oracles.KERNELS[name]
    z = oracles.condition(40, seed=1)
    matrix = oracles.gram(formula, z)
    if name == "similarity":
        matrix = oracles.nearest_kernel(matrix)
    expected = textbook(matrix, ridge)
    solvers: list[object] = ["auto", "exact", cclk.Nystrom(40)]
    if make().feature_count(as_condition(z)) is not None:
        solvers.append("features")
    for solver in solvers:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cclk.CclkWarning)
            found = conditional_weights(make(), z, ridge, solver)
        np.testing.assert_allclose(
            found.numpy(), expected, rtol=1e-8, atol=1e-8, err_msg=f"{solver}"
        )


@settings(max_examples=40, deadline=None)
@given(groups=st.lists(st.integers(0, 4), min_size=2, max_size=40), ridge=st.floats(1e-6, 10))
def test_delta_has_a_closed_form(groups: list[int], ridge: float) -> None:
    z = torch.tensor(groups)
    for solver in ("auto", "exact", "features"):
        found = conditional_weights(kernels.Delta(), z, ridge, solver)
        for i, j in np.ndindex(len(groups), len(groups)):
            expected = (groups[i] == groups[j]) / (groups.count(groups[i]) + ridge)
            assert float(found[j, i]) == pytest.approx(expected, rel=1e-7, abs=1e-9)


def test_products_of_categories_are_categories() -> None:
    z = {"site": torch.tensor([0, 0, 1, 1, 0]), "sex": torch.tensor([0, 1, 0, 0, 0])}
    kernel = kernels.Delta("site") * kernels.Delta("sex")
    torch.testing.assert_close(
        conditional_weights(kernel, z, 0.1), conditional_weights(kernel, z, 0.1, "exact")
    )
    assert solve(kernel, as_condition(z), 0.1).reason == "groups of equal values have a closed form"


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 99),
    mode=st.sampled_from(["loo", "paper", "authors", "nw"]),
    name=st.sampled_from(["rbf", "cosine", "delta", "product"]),
)
def test_permuting_samples_permutes_weights(seed: int, mode: str, name: str) -> None:
    z = oracles.condition(20, seed)
    order = torch.randperm(20, generator=torch.Generator().manual_seed(seed))
    kernel = oracles.KERNELS[name][0]()
    direct = conditional_weights(kernel, z, 0.05, weights=mode)
    torch.testing.assert_close(
        conditional_weights(kernel, z[order], 0.05, weights=mode),
        direct[order][:, order],
        rtol=1e-7,
        atol=1e-8,
    )


@pytest.mark.parametrize("mode", ["loo", "authors", "nw"])
@pytest.mark.parametrize(
    ("name", "solver"),
    [
        ("rbf", "exact"),
        ("rbf", "nystrom"),
        ("delta", "auto"),
        ("cosine", "auto"),
        ("linear", "auto"),
    ],
)
def test_modes_equal_their_definitions(name: str, solver: str, mode: str) -> None:
    """For every form of the operator: held whole, in factors, and by groups."""
    make, formula = oracles.KERNELS[name]
    z = oracles.condition(30, seed=4)
    expected = oracles.weights(oracles.gram(formula, z), 0.01, mode)
    np.testing.assert_allclose(
        conditional_weights(make(), z, 0.01, solver, weights=mode).numpy(),
        expected,
        rtol=1e-7,
        atol=1e-9,
    )


@pytest.mark.parametrize("name", ["linear", "polynomial", "similarity"])
def test_the_authors_code_sets_every_diagonal_to_one(name: str) -> None:
    make, formula = oracles.KERNELS[name]
    z = oracles.condition(12, seed=4)
    expected = oracles.weights(
        oracles.gram(formula, z), 0.3, "authors", clipped=name == "similarity"
    )
    for solver in ("auto", "exact"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cclk.CclkWarning)
            found = conditional_weights(make(), z, 0.3, solver, weights="authors")
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-8, atol=1e-10)
    with pytest.raises(ValueError, match="singular once its diagonal is set to 1"):
        conditional_weights(kernels.Linear(), [1.0, 1.5], 0.5, weights="authors")


def test_the_authors_code_leaves_the_callers_matrix_alone_and_clips_it() -> None:
    matrix = torch.tensor(
        [[2.0, 0.9, -0.9], [0.9, 3.0, 0.9], [-0.9, 0.9, 2.0]], dtype=torch.float64
    )
    before = matrix.clone()
    for kernel, z in (
        (kernels.Precomputed(), matrix),
        (kernels.Precomputed(matrix), torch.arange(3)),
    ):
        with pytest.warns(cclk.CclkWarning, match="clipped to zero"):
            found = conditional_weights(kernel, z, 0.3, weights="authors")
        np.testing.assert_allclose(
            found.numpy(), oracles.weights(before.numpy(), 0.3, "authors", clipped=True), atol=1e-10
        )
        assert torch.equal(matrix, before)
    solution = solve(kernels.Linear(), as_condition([1.0, 2.0]), 0.3, unit_diagonal=True)
    assert (solution.solver, solution.reason) == (
        "exact",
        "the authors' unit diagonal has no feature map",
    )


def test_kernel_averages_leave_the_callers_matrix_alone() -> None:
    matrix = kernels.RBF(length_scale=1.0)(torch.arange(4).double())
    before = matrix.clone()
    conditional_weights(kernels.Precomputed(), matrix, weights="nw")
    x, y = torch.randn(2, 4, 3, dtype=torch.float64)
    cclk.FairCCLK(kernels.Precomputed(), weights="nw", symmetric=True)(x, y, matrix)
    assert torch.equal(matrix, before)


def test_an_unfitted_kernel_is_fitted() -> None:
    kernel = kernels.RBF()
    with pytest.warns(cclk.CclkWarning, match="was not fitted"):
        conditional_weights(kernel, torch.arange(9.0))
    assert kernel.is_fitted


def test_the_authors_code_cuts_weights_below_a_millionth() -> None:
    """Two samples of similarity e have a weight of about e / 4 at ridge 1."""
    for similarity, weight in ((6e-6, 1.5e-6), (2e-6, 0.0)):
        matrix = torch.tensor([[1.0, similarity], [similarity, 1.0]], dtype=torch.float64)
        assert float(
            conditional_weights(kernels.Precomputed(), matrix, 1.0, weights="authors")[0, 1]
        ) == pytest.approx(weight, abs=1e-10)
        assert float(
            conditional_weights(kernels.Precomputed(), matrix, 1.0, weights="loo")[0, 1]
        ) == pytest.approx(similarity / 2)


def test_an_indefinite_matrix_becomes_the_nearest_kernel() -> None:
    matrix = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    with pytest.warns(cclk.CclkWarning, match=r"smallest eigenvalue -0\.8.*17\.4% of the total"):
        found = conditional_weights(kernels.Precomputed(), matrix, 0.1)
    np.testing.assert_allclose(
        found.numpy(), textbook(oracles.nearest_kernel(matrix), 0.1), atol=1e-12
    )


def test_limits_of_the_ridge() -> None:
    """No ridge: everyone explains himself alone. A huge one: W is K / ridge."""
    z = torch.linspace(0, 10, 12).double()
    kernel = kernels.RBF(length_scale=0.5)
    torch.testing.assert_close(
        conditional_weights(kernel, z, 1e-10), torch.eye(12).double(), atol=1e-6, rtol=0
    )
    torch.testing.assert_close(
        conditional_weights(kernel, z, 1e8) * 1e8, kernel(z), atol=1e-6, rtol=1e-6
    )


def test_kernel_average_is_the_wide_kernels_marginal() -> None:
    weights = conditional_weights(
        kernels.RBF(length_scale=1e6), torch.randn(9).double(), weights="nw"
    )
    expected = (torch.ones(9, 9) - torch.eye(9)).double() / 8
    torch.testing.assert_close(weights, expected, atol=1e-9, rtol=0)


def reason(kernel: kernels.Kernel, size: int, width: int = 3) -> tuple[str, str]:
    solution = solve(
        kernel,
        as_condition(torch.randn(size, width, generator=torch.Generator().manual_seed(0))),
        0.01,
    )
    return solution.solver, solution.reason


def test_auto_tells_why() -> None:
    assert reason(kernels.Cosine(), 100) == ("features", "3 explicit features for 100 samples")
    assert reason(kernels.RBF(length_scale=1), 100) == (
        "exact",
        "no explicit feature map, and 100 samples are few enough",
    )
    assert reason(kernels.Polynomial(), 60, 12)[0] == "exact"
    assert reason(kernels.Delta(), 60)[1] == "groups of equal values have a closed form"
    # Features pay while they are at most a quarter of the samples, or few.
    assert [reason(kernels.Linear(), *size)[0] for size in ((10, 32), (132, 33), (131, 33))] == [
        "features",
        "features",
        "exact",
    ]
    assert (
        reason(kernels.Linear(), 131, 33)[1]
        == "33 explicit features, too many, and 131 samples are few enough"
    )
    z = as_condition(torch.randn(20))
    for solver in ("features", "exact"):
        assert (
            solve(kernels.Linear(), z, 0.1, solver).solver,
            solve(kernels.Linear(), z, 0.1, solver).reason,
        ) == (solver, "as requested")
    assert solve(kernels.Linear(), z, 0.1, "nystrom").solver == "nystrom"
    assert solve(kernels.Delta(), z, 0.1).solver == "features"
    assert (
        solve(kernels.Linear(), z, 0.1, "nystrom").reason
        == "as requested: 256 landmarks keep 100% of the kernel's trace"
    )
    assert (
        solve(kernels.Linear(), z, 0.1, cclk.Nystrom(1)).reason
        == "as requested: 1 landmarks keep 100% of the kernel's trace"
    )


def test_auto_trusts_landmarks_only_where_they_keep_the_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cclk.weights.solvers, "EXACT_UP_TO", 100)
    monkeypatch.setattr(cclk.weights.solvers, "LANDMARKS", 30)
    assert [reason(kernels.RBF(length_scale=5), size)[0] for size in (100, 101)] == [
        "exact",
        "nystrom",
    ]
    solver, why = reason(kernels.RBF(length_scale=5), 400)
    assert (solver, "30 landmarks keep 100% of the kernel's trace" in why) == ("nystrom", True)
    solver, why = reason(kernels.RBF(length_scale=0.05), 400)
    assert (solver, "too little" in why) == ("exact", True)
    monkeypatch.setattr(cclk.weights.solvers, "FALL_BACK_UP_TO", 200)
    assert reason(kernels.RBF(length_scale=0.05), 200)[0] == "exact"
    with pytest.warns(cclk.CclkWarning, match="weights='nw'"):
        assert reason(kernels.RBF(length_scale=0.05), 400)[0] == "nystrom"


def test_landmarks_approach_the_exact_operator() -> None:
    z = oracles.condition(200, seed=2)[:, :2]
    kernel = kernels.RBF(length_scale=1.0)
    exact = conditional_weights(kernel, z, 0.1, "exact")
    errors = [
        float((conditional_weights(kernel, z, 0.1, cclk.Nystrom(m)) - exact).norm())
        for m in (10, 40, 160)
    ]
    assert errors[0] > 3 * errors[1] > 9 * errors[2]


def test_what_is_not_positive_definite_is_said() -> None:
    kernel = oracles.KERNELS["similarity"][0]()
    with pytest.warns(cclk.CclkWarning, match="not positive definite here.*clipped to zero"):
        conditional_weights(kernel, oracles.condition(20), 0.1)
    with pytest.warns(cclk.CclkWarning, match="clipped to zero"):
        conditional_weights(
            oracles.KERNELS["similarity"][0](), oracles.condition(20), 0.1, "nystrom"
        )


def test_too_small_a_ridge_is_raised_and_said() -> None:
    z = torch.cat([torch.full((30, 4), 1e3), torch.full((30, 4), -1e3)]) + torch.randn(60, 4) * 1e-7
    kernel = kernels.Polynomial(degree=6)
    with pytest.warns(cclk.CclkWarning, match="ill-conditioned for ridge 1e-06"):
        weights = conditional_weights(kernel, z.double(), 1e-6, "exact")
    assert weights.isfinite().all()


def test_what_no_ridge_can_help_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"values that overflow: .*Standardize its columns"):
        conditional_weights(
            kernels.Polynomial(degree=9), torch.tensor([1e30, 1.0, -1e30]).double(), 1e-6, "exact"
        )


def test_landmarks_are_spread_over_the_batch() -> None:
    """With as many landmarks as there are distinct values, spread evenly, nothing is lost."""
    z = torch.arange(4.0).double().repeat_interleave(5)
    kernel = kernels.RBF(length_scale=1.0)
    exact = conditional_weights(kernel, z, 0.1, "exact")
    torch.testing.assert_close(
        conditional_weights(kernel, z, 0.1, cclk.Nystrom(4)), exact, rtol=1e-9, atol=1e-9
    )


def test_landmarks_tell_how_much_they_keep() -> None:
    for scale in (1.0, 1e-3):
        z = as_condition(scale * torch.eye(2).double().repeat(5, 1))
        assert "keep 50% of" in solve(kernels.Linear(), z, 0.1, cclk.Nystrom(1)).reason


@pytest.mark.parametrize(("z", "kept"), [([0.0] * 6, "keep 100% of"), ([0.0, 1.0], "keep 0% of")])
def test_landmarks_that_are_similar_to_nothing_give_no_weights(z: list[float], kept: str) -> None:
    solution = solve(kernels.Linear(), as_condition(z), 0.1, cclk.Nystrom(1))
    assert kept in solution.reason
    assert not solution.operator.with_rows_scaled(None, torch.float64)(0, len(z)).any()


def test_rounding_is_not_called_indefinite() -> None:
    values = torch.randn(40, 2, generator=torch.Generator().manual_seed(0)).double()
    conditional_weights(kernels.Precomputed(), 1e6 * values @ values.T, 0.1)


def test_weights_have_the_dtype_of_the_condition() -> None:
    kernel = kernels.RBF(length_scale=1.0)
    assert conditional_weights(kernel, torch.randn(4)).dtype == torch.float32
    assert conditional_weights(kernel, [1, 2, 3]).dtype == torch.float64
    torch.testing.assert_close(
        conditional_weights(kernel, [1, 2, 3]),
        conditional_weights(kernel, [1, 2, 3], 0.01, "auto", weights="paper"),
    )


@pytest.mark.parametrize(
    ("mode", "counts_own", "dead_below"),
    [("loo", False, 1e-3), ("paper", True, 1e-6), ("authors", False, 1e-6), ("nw", False, 1e-3)],
)
def test_what_is_said_of_the_weights(mode: str, counts_own: bool, dead_below: float) -> None:
    found = weigh(
        Conditioning(kernels.RBF(length_scale=1.0), weights=mode),
        as_condition([1.0, 2.0, 9.0]),
        torch.float32,
    )
    assert (found.counts_own, found.dead_below, found.rows(0, 2).dtype) == (
        counts_own,
        dead_below,
        torch.float32,
    )
    assert found.solver == ("none" if mode == "nw" else "exact")
    assert (found.operator is None) == (mode == "nw")


@pytest.mark.parametrize("mode", ["loo", "paper", "authors", "nw"])
@pytest.mark.parametrize(
    "kernel", [kernels.Delta(), kernels.Linear(), kernels.RBF(length_scale=1.0)]
)
def test_tiles_are_rows_of_the_whole_and_may_be_overwritten(
    kernel: kernels.Kernel, mode: str
) -> None:
    z = as_condition(torch.tensor([0.0, 1.0, 1.0, 2.0, 0.0, 3.0, 1.0]))
    rows = weigh(Conditioning(kernel, 0.1, weights=mode), z, torch.float64).rows
    whole = rows(0, 7).clone()
    for start, stop in ((0, 3), (3, 6), (6, 7)):
        torch.testing.assert_close(rows(start, stop), whole[start:stop])
        rows(start, stop).fill_(9.0)
        torch.testing.assert_close(rows(start, stop), whole[start:stop])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"ridge": 0}, "ridge is 0"),
        ({"ridge": float("nan")}, "ridge is nan"),
        ({"ridge": float("inf")}, "ridge is inf"),
        ({"solver": "cg"}, "solver is 'cg'"),
        ({"weights": "raw"}, "weights is 'raw'"),
        ({"solver": "features"}, "no explicit feature map"),
        ({"condition": torch.zeros(0)}, "condition has no rows"),
        ({"condition": None}, "condition is missing"),
    ],
)
def test_mistakes_are_named(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        conditional_weights(
            **({"loss": kernels.RBF(length_scale=1), "condition": torch.randn(5)} | arguments)
        )  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="landmarks is 0"):
        cclk.Nystrom(0)
    with pytest.raises(ValueError, match="needs solver='exact'"):
        conditional_weights(kernels.Linear(), torch.randn(5), solver="features", weights="authors")


@pytest.mark.parametrize("solver", ["exact", "features", "nystrom"])
@pytest.mark.parametrize("weights", ["loo", "paper", "nw"])
def test_values_that_overflow_are_refused(weights: str, solver: str) -> None:
    kernel = kernels.Polynomial(degree=7, offset=1.0)
    with pytest.raises(CclkError, match="too far apart"):
        cclk.conditional_weights(kernel, torch.full((8,), 1e30), 1.0, solver, weights=weights)


def test_too_many_explicit_features_are_refused() -> None:
    kernel = kernels.Polynomial(degree=7, offset=1.0)
    with pytest.raises(CclkError, match="888,030 explicit features here, too many"):
        cclk.conditional_weights(kernel, torch.randn(4, 20), solver="features")


def test_options_of_a_solve_are_not_ignored() -> None:
    with pytest.raises(CclkError, match="no ridge and no solver"):
        cclk.conditional_weights(kernels.RBF(length_scale=1.0), torch.randn(5), ridge=10.0)
