"""The leakage penalty against a reader that really leaves samples out, and at its limits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import cclk
from cclk import kernels
from cclk.condition import as_condition, infer_condition
from cclk.errors import CclkError, DataError
from cclk.removal import penalty as module
from cclk.removal import reader
from cclk.removal.penalty import explained, whitened
from cclk.removal.targets import condition_functions


def leakage_penalty(
    features: Tensor, condition: object, *, rows: Any = None, **options: Any
) -> Tensor:
    value: Tensor = cclk.LeakagePenalty(**options)(features, condition, rows)
    return value


def normalized(features: Tensor) -> Tensor:
    h = features.double() - features.double().mean(dim=0)
    return h / h.square().mean(dim=0).sqrt()


def white(features: Tensor) -> Tensor:
    h = normalized(features)
    values, vectors = torch.linalg.eigh(h.T @ h / len(h) + 1e-4 * torch.eye(h.shape[1]).double())
    return h @ vectors / values.sqrt()


def kernel_matrix(x: Tensor, bandwidths: tuple[float, ...] = (0.1, 0.3, 1.0)) -> Tensor:
    size = len(x)
    squares = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist").square()
    pairs = sorted(float(squares[i, j]) for i in range(size) for j in range(i))
    median = pairs[(len(pairs) - 1) // 2]
    return sum((-squares / (s * median)).exp() for s in bandwidths) / len(bandwidths)


def left_out(kernel: Tensor, psi: Tensor, ridge: float) -> Tensor:
    """Residual of each sample in kernel ridge regression, with a free intercept, on the others."""
    size, rows = len(kernel), []
    for i in range(size):
        others = [j for j in range(size) if j != i]
        system = torch.ones(size, size, dtype=torch.float64)
        system[:-1, :-1] = kernel[others][:, others] + ridge * torch.eye(size - 1).double()
        system[-1, -1] = 0
        right = torch.cat([psi[others], torch.zeros(1, psi.shape[1], dtype=torch.float64)])
        solution = torch.linalg.solve(system, right)
        rows.append(psi[i] - (kernel[i, others] @ solution[:-1] + solution[-1]))
    return torch.stack(rows)


def oracle(features: Tensor, psi: Tensor, ridge: float = 0.3, batch: int | None = None) -> float:
    """The leak of one column by loops over samples, functions and factors."""
    batch = len(psi) if batch is None else batch
    residuals = left_out(kernel_matrix(white(features)), psi, ridge)
    leaks = []
    for k in range(psi.shape[1]):
        targets = [psi[i, k] - (psi[:, k].sum() - psi[i, k]) / (len(psi) - 1) for i in range(batch)]
        predictions = [t - residuals[i, k] for i, t in enumerate(targets)]
        total = sum(t**2 for t in targets)
        along = sum(t * p for t, p in zip(targets, predictions, strict=True))
        factor = min(max(float(along / sum(p**2 for p in predictions)), 0.0), 1.0)
        rest = sum((t - factor * p) ** 2 for t, p in zip(targets, predictions, strict=True))
        leaks.append(1 - float(rest / total))
    return sum(leaks) / len(leaks)


def cosines(z: Tensor) -> Tensor:
    ranks = [
        (sum(float(other < each) for other in z) + 0.5 * sum(float(other == each) for other in z))
        / len(z)
        for each in z
    ]
    psi = torch.tensor(
        [[math.cos(math.pi * k * u) for k in (1, 2, 3, 4)] for u in ranks], dtype=torch.float64
    )
    return normalized(psi)


def signal(size: int, width: int = 3, seed: int = 0) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    z = torch.randn(size, generator=random, dtype=torch.float64)
    h = torch.randn(size, width, generator=random, dtype=torch.float64)
    h[:, 0] += z
    return h, z


def test_residuals_are_those_of_a_reader_that_never_saw_the_sample() -> None:
    h, z = signal(30)
    x, psi = normalized(h), cosines(z)
    kernel = reader.Bandwidths((0.1, 0.3, 1.0), reader.median_distance(x))
    residuals = reader.Residuals.apply(x, psi, kernel, 0.3, None)
    assert (residuals - left_out(kernel_matrix(x), psi, 0.3)).abs().max() < 1e-13


@pytest.mark.parametrize("ridge", [1e-3, 0.3, 10.0])
@pytest.mark.parametrize("ties", [False, True])
def test_number(ridge: float, ties: bool) -> None:
    h, z = signal(25)
    z = (2 * z).round() if ties else z
    leak = leakage_penalty(h, torch.cat([z]), ridge=ridge)
    assert leak.dtype == torch.float64
    assert float(leak) == pytest.approx(oracle(h, cosines(z), ridge), abs=1e-12)


def test_categories_leave_out_values_that_occur_once() -> None:
    h, _ = signal(20)
    site = ["a"] * 8 + ["b"] * 7 + ["c"] * 4 + ["alone"]
    psi = normalized(torch.tensor([[each == s for s in "abc"] for each in site]).double())
    for z in (site, pd.Series(site, dtype="category"), np.array(site)):
        leak = leakage_penalty(h, {"site": z})
        assert float(leak) == pytest.approx(oracle(h, psi), abs=1e-12)


def test_class_numbers_are_categories() -> None:
    h, _ = signal(24)
    labels = torch.arange(24) % 5
    expected = leakage_penalty(h, {"label": [f"class {i}" for i in labels.tolist()]})
    assert float(leakage_penalty(h, labels)) == pytest.approx(float(expected), abs=1e-12)


def test_every_column_counts_as_if_it_were_alone() -> None:
    h, age = signal(40)
    site = ["a", "b"] * 20
    other = torch.randn(40, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    penalty = cclk.LeakagePenalty()
    together = penalty(h, pd.DataFrame({"age": age.numpy(), "site": site, "other": other.numpy()}))
    alone = [float(penalty(h, {name: z})) for name, z in (("a", age), ("s", site), ("o", other))]
    assert float(together) == pytest.approx(sum(alone), abs=1e-12)
    unnamed = penalty(h, torch.stack([age, other], dim=1))
    assert float(unnamed) == pytest.approx(alone[0] + alone[2], abs=1e-12)
    assert list(penalty.leaks) == ["column 0", "column 1"]
    assert sum(penalty.leaks.values()) == pytest.approx(float(unnamed))


def test_vectors_and_attributes() -> None:
    random = torch.Generator().manual_seed(0)
    h = torch.randn(200, 8, generator=random)
    vector = torch.randn(200, 40, generator=random) * 0.1
    vector[:, 3] += h[:, 0]
    assert leakage_penalty(h, vector) > leakage_penalty(
        torch.randn(200, 8, generator=random), vector
    ) + 0.02  # fmt: skip
    assert leakage_penalty(h, torch.ones(200, 40)) == 0
    assert leakage_penalty(h, vector.repeat(1, 6)) > 0.02  # wider than the batch
    flags = (h[:, :3] > 0).float()
    table = infer_condition({"tags": flags.numpy()})
    assert table.columns[0].kind == "attributes"
    assert leakage_penalty(h, table) > 0.2


def test_further_rows_teach_the_reader_but_are_not_measured() -> None:
    h, z = signal(30)
    features = h.clone().requires_grad_()
    further = h[18:].clone().requires_grad_()
    leak = leakage_penalty(features[:18], z[:18], rows=(further, z[18:]))
    expected = oracle(h, cosines(z), batch=18)
    assert float(leak.detach()) == pytest.approx(expected, abs=1e-12)
    leak.backward()
    assert further.grad is None
    assert features.grad is not None
    assert features.grad[:18].abs().sum() > 0


@pytest.mark.parametrize("landmarks", [None, 9])
@pytest.mark.parametrize("batch", [20, 12])
def test_gradient(landmarks: int | None, batch: int) -> None:
    h, z = signal(20)
    psi = condition_functions(as_condition(z), None)[0].values
    kernel = reader.Bandwidths((0.1, 0.3, 1.0), 5.0)
    rows = None if landmarks is None else torch.randperm(20)[:landmarks]

    targets = psi[:batch] * (20 / 19)

    def residuals(features: Tensor) -> Tensor:
        found: Tensor = reader.Residuals.apply(whitened(features), psi, kernel, 0.3, rows)
        return found[:batch]

    def unshrunk(features: Tensor) -> Tensor:
        return 1 - residuals(features).square().sum(dim=0) / targets.square().sum(dim=0)

    assert torch.autograd.gradcheck(unshrunk, (h.requires_grad_(),), atol=1e-7)
    (found,) = torch.autograd.grad(explained(targets, residuals(h)).sum(), h)
    leaks = unshrunk(h)
    slopes = torch.where(leaks > 0, 1.0, (4 * leaks).exp()).detach()
    (expected,) = torch.autograd.grad((leaks * slopes).sum(), h)
    torch.testing.assert_close(found, expected)


def test_landmarks_are_near_the_exact_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    h, z = signal(1100, width=8)
    h = h.requires_grad_()
    near = leakage_penalty(h, z)
    (slope,) = torch.autograd.grad(near, h)
    assert leakage_penalty(h, z) == near
    assert leakage_penalty(h, z, seed=1) != near
    monkeypatch.setattr(module, "EXACT_UP_TO", 2000)
    exact = leakage_penalty(h, z)
    (exact_slope,) = torch.autograd.grad(exact, h)
    assert near.item() == pytest.approx(exact.item(), abs=0.02)
    assert torch.cosine_similarity(slope.flatten(), exact_slope.flatten(), dim=0) > 0.65


def test_all_rows_as_landmarks_are_the_exact_reader() -> None:
    h, z = signal(40)
    x, psi = normalized(h), cosines(z)
    kernel = reader.Bandwidths((0.1, 0.3, 1.0), reader.median_distance(x))
    exact = reader.Residuals.apply(x, psi, kernel, 0.3, None)
    same = reader.Residuals.apply(x, psi, kernel, 0.3, torch.randperm(40))
    assert (exact - same).abs().max() < 1e-6


@pytest.mark.parametrize("width", [16, 128])
def test_independence_is_zero_and_a_weak_direction_is_not(width: int) -> None:
    torch.manual_seed(0)
    null, weak = [], []
    for _ in range(60):
        h, z = torch.randn(256, width), torch.randn(256)
        null.append(leakage_penalty(h, z))
        if len(weak) < 20:
            h[:, 0] = 0.1 * z
            weak.append(leakage_penalty(h, z))
    assert abs(torch.stack(null).mean()) < 0.01
    assert torch.stack(weak).min() > 0.05


EXTREMES: dict[str, tuple[Any, Any]] = {
    "collapsed": (torch.ones(16, 4), torch.randn(16)),
    "zeros": (torch.zeros(16, 4), torch.randn(16)),
    "collapsed but for rounding": (1e3 + 1e-5 * torch.randn(16, 4), torch.randn(16)),
    "constant condition": (torch.randn(16, 4), torch.ones(16)),
    "constant text": (torch.randn(16, 4), ["a"] * 16),
    "text without repetition": (torch.randn(16, 4), [str(i) for i in range(16)]),
    "two samples": (torch.randn(2, 4), torch.tensor([0.0, 1.0])),
    "duplicates": (torch.randn(4, 4).repeat(4, 1), torch.randn(16)),
    "two points": (torch.randn(2, 4).repeat(8, 1), torch.arange(16.0)),
    "one outlier": (torch.cat([torch.zeros(15, 4), torch.ones(1, 4)]), torch.randn(16)),
    "huge": (1e38 * torch.rand(16, 4), 1e38 * torch.rand(16)),
    "huge float64": (1e300 * torch.rand(16, 4).double(), 1e149 * torch.rand(16).double()),
    "tiny": (1e-38 * torch.randn(16, 4), 1e-38 * torch.randn(16)),
    "scales": (torch.randn(16, 4) * torch.tensor([1e-9, 1e9, 1.0, 0.0]), torch.randn(16)),
    "half": (torch.randn(16, 4).half(), torch.randn(16)),
    "bfloat16": (torch.randn(16, 4).bfloat16(), torch.randn(16)),
    "one feature": (torch.randn(16, 1), torch.randn(16)),
    "many rows collapsed": (torch.ones(1025, 4), torch.randn(1025)),
    "many duplicates": (torch.randn(5, 4).repeat(205, 1), torch.randn(1025)),
}


@pytest.mark.parametrize("case", EXTREMES)
@pytest.mark.parametrize("kernel", [None, kernels.Constant(2.0), kernels.Delta()])
def test_extremes(case: str, kernel: kernels.Kernel | None) -> None:
    h, z = EXTREMES[case]
    h = h.clone().requires_grad_()
    leak = leakage_penalty(h, z, kernel=kernel)
    assert -1e-9 <= leak.item() <= 1
    assert leak.dtype == (torch.float64 if h.dtype == torch.float64 else torch.float32)
    leak.backward()
    assert h.grad is not None
    assert h.grad.isfinite().all()
    nothing = ("collapsed", "constant", "two samples", "tiny", "repetition")
    if any(each in case for each in nothing[: 5 if kernel is None else 4]):
        assert leak.item() == pytest.approx(0, abs=1e-9)
        assert h.grad.abs().max() < 1e-6


@settings(max_examples=40, deadline=None)
@given(
    st.integers(2, 30), st.integers(1, 6), st.integers(0, 10**6), st.floats(-8, 8), st.booleans()
)
def test_properties(size: int, width: int, seed: int, power: float, coarse: bool) -> None:
    """From 0 to 1, and unchanged by the features' units and order, and monotone changes of z."""
    h, z = signal(size, width, seed)
    z = z.round() if coarse else z
    h = (h.round() if coarse else h).requires_grad_()
    leak = leakage_penalty(h, z)
    (slope,) = torch.autograd.grad(leak, h)
    assert -1e-9 <= leak.item() <= 1
    assert slope.isfinite().all()
    assert slope.sum(dim=0).abs().max() <= 1e-8 * (1 + slope.abs().max())
    order = torch.randperm(size)
    moved = (h * 10**power + 3 * 10**power)[order]
    again = leakage_penalty(moved, (z / 3).exp()[order])
    # The factor is bounded by 1, where predictions vanish it is decided by rounding errors.
    assert again.item() == pytest.approx(leak.item(), abs=1e-6)


def test_nothing_is_hidden_by_an_invertible_map() -> None:
    h, z = signal(80, width=4)
    mixed = h @ torch.randn(4, 4, generator=torch.Generator().manual_seed(3)).double()
    mixed[:, 2] *= 1e-2
    leak = leakage_penalty(h, z).item()
    assert leakage_penalty(mixed, z).item() == pytest.approx(leak, rel=0.05)


def test_a_gradient_step_hides_the_condition() -> None:
    h, z = signal(100, width=4)
    h[:, 1] -= h[:, 0]
    # Three of four directions: nothing is hidden by an invertible map.
    weights = torch.eye(4, dtype=torch.float64)[:, :3].clone().requires_grad_()
    before = leakage_penalty(h @ weights, z)
    optimizer = torch.optim.Adam([weights], lr=0.05)
    for _ in range(60):
        optimizer.zero_grad()
        loss = leakage_penalty(h @ weights, z)
        loss.backward()
        optimizer.step()
    assert before.item() > 0.05
    assert loss.item() < 0.2 * before.item()


def test_kernels_read_combinations_of_columns() -> None:
    """Old in one site or young in the other: neither column can be read alone."""
    random = torch.Generator().manual_seed(0)
    age = torch.rand(256, generator=random, dtype=torch.float64)
    site = torch.randint(2, (256,), generator=random)
    people = {"age": age, "site": site.bool()}
    h = torch.randn(256, 8, generator=random, dtype=torch.float64)
    kernel = kernels.Delta("site") * kernels.RBF("age", length_scale=0.3)
    nothing = leakage_penalty(h, people, kernel=kernel)
    h[:, 0] = (age - 0.5).sign() * (2 * site - 1)
    assert float(nothing) < 0.02
    assert float(leakage_penalty(h, people, kernel=kernel)) > 0.1
    assert float(leakage_penalty(h, people)) < 0.05


def test_delta_reads_groups() -> None:
    h, _ = signal(60)
    labels = torch.arange(60) % 4
    h[:, 1] = labels
    penalty = cclk.LeakagePenalty(kernels.Delta())
    assert float(penalty(h, labels)) > 0.7
    assert list(penalty.leaks) == ["Delta()"]


def test_an_unfitted_kernel_is_fitted_and_saved() -> None:
    h, z = signal(40)
    penalty = cclk.LeakagePenalty(kernels.RBF())
    with pytest.warns(cclk.CclkWarning, match="was not fitted"):
        expected = penalty(h, z)
    restored = cclk.LeakagePenalty(kernels.RBF())
    restored.load_state_dict(penalty.state_dict())
    assert restored(h, z) == expected
    assert "RBF" in repr(penalty)
    plain = cclk.LeakagePenalty()
    plain.load_state_dict(cclk.LeakagePenalty().state_dict())


def test_autocast_changes_nothing() -> None:
    h, z = signal(40)
    h = h.float()
    with torch.autocast("cpu", torch.bfloat16):
        assert leakage_penalty(h, z) == leakage_penalty(h, z)
        inside = leakage_penalty(h, z)
    assert inside == leakage_penalty(h, z)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.full((4, 2), math.nan), torch.arange(4.0)), "NaN or infinite, the first in row 0"),
        ((torch.randn(4, 2), torch.tensor([0, 1, math.nan, 2])), "condition"),
        ((torch.randn(4, 2), torch.arange(5.0)), "condition has 5 rows but features has 4"),
        ((torch.randn(1, 2), torch.arange(1.0)), "at least 2 samples"),
        ((torch.randn(4), torch.arange(4.0)), "must be floating point, of shape"),
        ((torch.ones(4, 2).long(), torch.arange(4.0)), "must be floating point"),
        ((np.ones((4, 2)), torch.arange(4.0)), "must be a torch tensor"),
        ((torch.randn(4, 2), None), "condition is missing"),
        ((torch.randn(4, 2), torch.arange(4.0), torch.randn(3, 2)), "rows must be a pair"),
        ((torch.randn(4, 2), torch.arange(4.0), (torch.randn(3, 1), torch.ones(3))), "width 1"),
        ((torch.randn(4, 2), torch.arange(4.0), (torch.randn(3, 2), torch.ones(2))), r"rows\[1\]"),
        ((torch.randn(4, 2), torch.arange(4.0), (torch.full((3, 2), math.inf), torch.ones(3))),
         r"rows\[0\] has 6 values"),
    ],
)  # fmt: skip
def test_input_errors(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        cclk.LeakagePenalty()(*arguments)


@pytest.mark.parametrize(
    "options", [{"ridge": 0.0}, {"bandwidths": ()}, {"bandwidths": (0.1, -1.0)}, {"landmarks": 0}]
)
def test_option_errors(options: dict[str, Any]) -> None:
    with pytest.raises(CclkError, match=next(iter(options))):
        cclk.LeakagePenalty(**options)
