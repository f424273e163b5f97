"""Other penalties: each equals a loop written from its equation."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from cclk_paper.rivals import GradientReversal, HSICPenalty, InverseContrast, _hsic, _rbf
from torch import Tensor

from cclk.columns import Column
from cclk.condition import Condition
from cclk.registry import PENALTIES


def test_hsic_is_the_mean_over_distinct_quadruples() -> None:
    """HSIC = E k l - 2 E k_ij l_ik + E k_ij l_mn, each over distinct indices."""
    generator = torch.Generator().manual_seed(0)
    first, second = (
        _rbf(torch.randn(7, 2, generator=generator, dtype=torch.float64)) for _ in range(2)
    )
    sums = [0.0, 0.0, 0.0]
    for i, j, m, n in itertools.permutations(range(7), 4):
        sums[0] += float(first[i, j] * second[i, j])
        sums[1] += float(first[i, j] * second[i, m])
        sums[2] += float(first[i, j] * second[m, n])
    count = math.perm(7, 4)
    expected = (sums[0] - 2 * sums[1] + sums[2]) / count
    assert float(_hsic(first, second)) == pytest.approx(expected, rel=1e-9)


def test_inverse_contrast_is_the_mean_over_pairs() -> None:
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(8, 3, generator=generator, dtype=torch.float64)
    z = torch.arange(8.0)
    found = float(InverseContrast()(features, z))
    unit = (features - features.mean(0)) / (features.var(0, correction=0) + 1e-5).sqrt()
    from cclk.condition import as_condition
    from cclk.removal.targets import condition_functions

    similar = _rbf(condition_functions(as_condition(z), None)[0].values)
    losses = []
    for i, j in itertools.permutations(range(8), 2):
        distance = float((unit[i] - unit[j]).norm()) / math.sqrt(6)
        same = float(similar[i, j])
        losses.append(same * max(0.0, 1 - distance) ** 2 + (1 - same) * distance**2)
    assert found == pytest.approx(sum(losses) / len(losses), rel=1e-5)


def condition(size: int) -> Condition:
    values = torch.stack([torch.randn(size), torch.randint(3, (size,)).float()], dim=1)
    return Condition(values, (Column("age"), Column("site", "categorical")), torch.float32)


def test_the_adversary_learns_what_the_features_unlearn() -> None:
    torch.manual_seed(0)
    z = condition(200)
    features = torch.cat([z.values, torch.randn(200, 2)], dim=1).requires_grad_()
    penalty = GradientReversal(4, z)
    optimizer = torch.optim.Adam(penalty.parameters(), lr=1e-2)
    values = []
    for _ in range(60):
        value: Tensor = penalty(features, z)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        values.append(float(value.detach()))
    assert values[-1] > 0.8 > values[0]
    features.grad = None
    value = penalty(features, z)
    value.backward()
    assert features.grad is not None
    moved = (features - 1e-1 * features.grad / features.grad.norm()).detach()
    with torch.no_grad():
        assert float(penalty(moved, z)) < float(value)


@pytest.mark.parametrize("name", ["reader", "adversary", "hsic", "icl"])
def test_a_penalty_is_the_sum_over_columns(name: str) -> None:
    """Training divides it by their number: a penalty that is a mean would be divided twice."""
    torch.manual_seed(0)
    features = torch.randn(64, 4, dtype=torch.float64)
    values = features[:, :1] + 0.1 * torch.randn(64, 1, dtype=torch.float64)
    found = []
    for count in (1, 3):
        z = Condition(
            values.repeat(1, count), tuple(Column(f"z{n}") for n in range(count)), torch.float64
        )
        torch.manual_seed(1)
        penalty = PENALTIES.create(name, {"width": 4, "condition": z})
        assert isinstance(penalty, torch.nn.Module)
        if isinstance(penalty, GradientReversal):  # of which all outputs are the same
            last = penalty.double().adversary[-1]
            assert isinstance(last, torch.nn.Linear)
            with torch.no_grad():
                last.weight.copy_(torch.linspace(-1, 1, last.in_features))
                last.bias.fill_(0.5)
        found.append(float(penalty(features, z).detach()))
    assert found[1] == pytest.approx(3 * found[0], rel=1e-6)


def test_a_column_that_is_constant_in_a_batch_has_nothing_to_read() -> None:
    torch.manual_seed(0)
    z = condition(200)
    same = z.rows(torch.nonzero(z.values[:, 1] == 1)[:, 0])
    value = GradientReversal(4, z)(torch.randn(len(same), 4), same)
    assert abs(float(value.detach())) < 5


def test_hsic_sees_dependence_and_not_independence() -> None:
    torch.manual_seed(1)
    features = torch.randn(256, 4)
    assert float(HSICPenalty()(features, features[:, 0])) > 0.1
    assert abs(float(HSICPenalty()(features, torch.randn(256)))) < 0.03
