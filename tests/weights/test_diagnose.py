"""The diagnosis and its plain words."""

from __future__ import annotations

import copy
import functools
import warnings

import pytest
import torch

import cclk
from cclk import kernels

diagnose = functools.partial(cclk.diagnose, weights="loo")
COLORS = torch.rand(256, 3, generator=torch.Generator().manual_seed(0)) * 255


def test_too_narrow() -> None:
    """The command in the release's README: temp_z = 1 on colors from 0 to 255."""
    found = diagnose(kernels.RBF(length_scale=0.5**0.5), COLORS)
    assert not found.healthy
    assert found.dead_share > 0.95
    assert found.verdict.startswith("The length scale is too small: ")
    advised = float(found.verdict.split("above ")[1].split(",")[0])
    assert diagnose(kernels.RBF(length_scale=advised), COLORS).healthy


def test_too_narrow_in_a_product() -> None:
    kernel = kernels.RBF([0], length_scale=0.01) * kernels.RBF([1], length_scale=0.01)
    assert "Raise the length_scale of [0] above" in diagnose(kernel, COLORS).verdict


def test_too_wide() -> None:
    found = diagnose(kernels.RBF(length_scale=1e4), COLORS, weights="nw")
    assert not found.healthy
    assert (
        "Nearly unconditional. Median effective number of neighbors: 255 of 255." in found.verdict
    )
    assert float(found.effective_sample_size.median()) == pytest.approx(255, rel=1e-3)


def test_constant() -> None:
    found = diagnose(kernels.RBF(length_scale=1.0), torch.ones(20))
    assert "constant" in found.verdict
    assert found.effective_rank == pytest.approx(20 / 20.01)


def test_lonely_categories() -> None:
    assert (
        "no other sample in the batch has their value"
        in diagnose(kernels.Delta(), torch.arange(20)).verdict
    )


def test_good() -> None:
    found = diagnose(kernels.RBF().fit(COLORS, 256), COLORS)
    assert found.healthy
    assert 1 < float(found.effective_sample_size.median()) < 10
    assert found.negative_share is not None
    assert 0 < found.negative_share < 1
    text = str(found)
    for word in (
        "Good",
        "(10% quantile), ",
        "dead anchors: ",
        "effective rank",
        "solver: exact",
    ):
        assert word in text


def test_numbers_are_those_of_the_weights() -> None:
    kernel = kernels.RBF(length_scale=20.0)
    found = diagnose(kernel, COLORS[:50], ridge=0.1)
    weights = cclk.conditional_weights(kernel, COLORS[:50].double(), 0.1, weights="loo")
    raw = cclk.conditional_weights(kernel, COLORS[:50].double(), 0.1, weights="paper")
    torch.testing.assert_close(found.mass, weights.sum(dim=0))
    torch.testing.assert_close(
        found.effective_sample_size[~found.dead],
        (weights.sum(0) ** 2 / (weights**2).sum(0))[~found.dead],
    )
    assert found.effective_rank == pytest.approx(float(raw.trace()))
    assert found.negative_share == pytest.approx(float((raw < -1e-12).double().mean()), abs=0.01)


def test_few_dead_anchors_are_no_problem() -> None:
    """4 of 40 samples have a value that no other has."""
    values = torch.tensor([0] * 18 + [1] * 18 + [2, 3, 4, 5])
    found = diagnose(kernels.Delta(), values)
    assert found.dead_share == 0.1
    assert found.healthy
    assert found.verdict == (
        "Good. Median effective number of neighbors: 17.0 of 39; anchors without neighbors: 10%."
    )


def test_dead_anchors_have_no_effective_neighbors() -> None:
    """Their weights are tiny, but not 0, and would count as one neighbor or more."""
    values = torch.cat([torch.linspace(0, 1, 30), torch.tensor([6.0])])
    found = diagnose(kernels.RBF(length_scale=1.0), values)
    assert found.dead.tolist() == [False] * 30 + [True]
    assert float(found.mass[-1]) > 0
    assert float(found.effective_sample_size[-1]) == 0
    assert float(found.effective_sample_size[:-1].min()) > 1


@pytest.mark.parametrize(("between", "healthy"), [(0.06, True), (0.095, False)])
def test_neighbors_are_compared_with_the_samples_of_equal_value(
    between: float, healthy: bool
) -> None:
    """The median anchor shares its value with 20 others, and may have 1.1 times as many neighbors:
    21.4 are fine, 22.2 are not.
    """
    values = torch.tensor([0.0] * 21 + [1.0] * 12)
    kernel = kernels.Similarity(lambda a, b: torch.where(a == b.T, 1.0, between))
    found = diagnose(kernel, values, weights="nw")
    assert 20.9 < float(found.effective_sample_size.median()) < 23.1
    assert found.healthy == healthy


def test_needs_two_samples() -> None:
    with pytest.raises(ValueError, match="condition has 1 rows"):
        diagnose(kernels.Delta(), [1])


BINARY = torch.arange(256) % 2


@pytest.mark.parametrize("kernel", [kernels.Delta(), kernels.RBF(), kernels.Laplacian()], ids=repr)
@pytest.mark.parametrize(
    "values",
    [BINARY, (torch.arange(256) % 10 == 0).long(), torch.stack([BINARY, torch.zeros(256)], 1)],
)
def test_a_binary_attribute_is_judged_by_what_it_can_give(
    kernel: kernels.Kernel, values: torch.Tensor
) -> None:
    """Half of the batch shares the anchor's value: no kernel can see fewer."""
    kernel = copy.deepcopy(kernel).fit(values, 256)
    found = diagnose(kernel, values)
    assert found.healthy
    assert found.verdict.startswith("Good")
    loss = cclk.FairCCLK(kernel)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss(*torch.randn(2, 256, 4), values)


def test_too_wide_for_a_binary_attribute() -> None:
    assert (
        "Nearly unconditional"
        in diagnose(kernels.RBF(length_scale=100.0), BINARY, weights="nw").verdict
    )


def test_advice_is_not_what_is_in_use_already() -> None:
    wide = kernels.RBF(neighbors=250).fit(COLORS, 256)
    assert "Lower neighbors below 250" in diagnose(wide, COLORS, weights="nw").verdict
    assert "use 'auto'" in diagnose(kernels.RBF(length_scale=1e4), COLORS, weights="nw").verdict
    assert (
        "Use a sharper kernel"
        in diagnose(
            kernels.Similarity(lambda a, b: torch.ones(len(a), len(b))), COLORS, weights="nw"
        ).verdict
    )


def test_a_column_the_kernel_cannot_see() -> None:
    generator = torch.Generator().manual_seed(0)
    table = {
        "income": torch.rand(256, generator=generator) * 1e5,
        "rate": torch.rand(256, generator=generator),
    }
    found = diagnose(kernels.RBF(length_scale=500.0), table)
    assert not found.healthy
    assert found.verdict.startswith(
        "The kernel ignores column 'rate', which varies by only 0.002 length scales"
    )
    numbered = torch.stack(list(table.values()), dim=1)
    assert "ignores column 1" in diagnose(kernels.RBF(length_scale=500.0), numbered).verdict
    for fitted in (
        kernels.RBF(),
        kernels.RBF(length_scale="median"),
        kernels.RBF(length_scale=[500.0, 0.05]),
    ):
        assert "ignores" not in diagnose(fitted.fit(table, 256), table).verdict


LOSSES = {"FairCCLK": "nw", "WeaklySupCCLK": "loo", "HardNegCCLK": "loo"}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_is_diagnosed_by_its_own_weights(name: str) -> None:
    """The weights, the ridge and the solver that its last call used."""
    kernel = kernels.RBF(length_scale=20.0)
    x, y = torch.randn(2, 256, 4)
    for options in ({}, {"weights": "authors", "ridge": 0.5, "solver": "exact"}):
        loss = getattr(cclk, name)(kernel, **options)
        loss(x, y, COLORS)
        found = cclk.diagnose(loss, COLORS)
        assert found.weights == options.get("weights", LOSSES[name])
        assert (found.solver, found.reason) == (loss.report.solver, loss.report.reason)
        settings = {"ridge": 0.01, "weights": LOSSES[name], **options}
        weights = cclk.conditional_weights(kernel, COLORS.double(), **settings)
        torch.testing.assert_close(cclk.conditional_weights(loss, COLORS.double()), weights)
        torch.testing.assert_close(found.mass, weights.sum(dim=0))


def test_a_kernel_is_diagnosed_as_fair_cclk_uses_it() -> None:
    for kernel in (kernels.RBF(length_scale=20.0), kernels.Linear()):
        found, expected = (cclk.diagnose(each, COLORS) for each in (kernel, cclk.FairCCLK(kernel)))
        assert str(found) == str(expected)
        assert found.weights == ("loo" if isinstance(kernel, kernels.Linear) else "nw")


def test_a_kernel_average_has_no_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is solved that the loss does not solve."""
    monkeypatch.setattr(torch.linalg, "cholesky_ex", None)
    found = cclk.diagnose(cclk.FairCCLK(kernels.RBF(length_scale=20.0)), COLORS)
    assert found.negative_share is None
    assert found.effective_rank is None
    assert "rank" not in str(found)
    assert "weights: nw; solver: none" in str(found)


def test_options_of_a_loss_are_not_passed_again() -> None:
    loss = cclk.FairCCLK(kernels.RBF(length_scale=20.0))
    with pytest.raises(cclk.CclkError, match="a loss has its own ridge, solver and weights"):
        cclk.diagnose(loss, COLORS, weights="loo")
    with pytest.raises(cclk.CclkError, match="loss is a InfoNCE: pass a loss with a kernel"):
        cclk.diagnose(cclk.InfoNCE(), COLORS)


def test_an_average_over_distant_samples_is_not_good() -> None:
    """The weights "nw" sum to 1 however far the nearest sample is."""
    colors = torch.rand(256, 3, generator=torch.Generator().manual_seed(0)) * 255
    found = cclk.diagnose(cclk.FairCCLK(kernels.RBF(length_scale=3.0)), colors)
    assert found.weights == "nw"
    assert found.dead_share > 0.5
    assert found.verdict.startswith("The length scale is too small")
