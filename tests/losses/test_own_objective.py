"""A loss written as a plain objective: everything else comes from the base class."""

from __future__ import annotations

import itertools
import warnings

import oracles
import pytest
import torch
from torch import Tensor, nn

import cclk
from cclk import kernels
from cclk.losses import ConditionalLoss, TileLayout, core

GENERATOR = torch.Generator().manual_seed(0)
X, Y = torch.randn(2, 20, 5, generator=GENERATOR, dtype=torch.float64)
EXTRA = torch.randn(6, 5, generator=GENERATOR, dtype=torch.float64)
Z = torch.randn(26, 2, generator=GENERATOR, dtype=torch.float64)


class Recorded(ConditionalLoss):
    """Keeps what its objective is called with."""

    def objective(self, scores: Tensor, weights: Tensor, layout: TileLayout) -> Tensor:
        self.seen = scores.detach(), weights, layout
        return scores.sum(dim=1)


def results(loss: nn.Module, supported: bool) -> list[Tensor | None]:
    x, y, extra = (t.clone().requires_grad_() for t in (X, Y, EXTRA))
    value = loss(x, y, Z[:20], support=(extra, Z[20:]) if supported else None)
    factors = torch.linspace(1, 2, value.numel(), dtype=value.dtype).reshape(value.shape)
    (value * factors).sum().backward()
    return [value.detach(), x.grad, y.grad, extra.grad, *(p.grad for p in loss.parameters())]


@pytest.mark.parametrize("weights", ["loo", "nw", "paper"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_fair_cclk_in_ten_lines(
    reduction: str, weights: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same losses and gradients, of the temperature too, with one tile and with several."""
    for views, symmetric, supported, rows in itertools.product(
        ("cross", "all"), (False, True), (False, True), (256, 7)
    ):
        monkeypatch.setattr(core, "TILE_ROWS", rows)
        both = [
            results(
                make(
                    kernels.RBF(length_scale=0.5),
                    weights=weights,
                    views=views,
                    symmetric=symmetric,
                    reduction=reduction,
                    temperature=0.3,
                    learn_temperature=True,
                ).double(),
                supported,
            )
            for make in (oracles.FairByAutograd, cclk.FairCCLK)
        ]
        for own, built_in in zip(*both, strict=True):
            assert (own is None) == (built_in is None)
            if own is not None:
                torch.testing.assert_close(own, built_in, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("temperature", [0.1, 0.01])
def test_single_precision(temperature: float) -> None:
    """Where float32 would overflow, the objective computes in float64."""
    z = Z[:20].float()
    for make in (oracles.FairByAutograd, cclk.FairCCLK):
        x, y = (t.float().requires_grad_() for t in (X, Y))
        kernel = kernels.RBF(length_scale=0.5)
        loss = make(kernel, temperature=temperature, weights="loo")(x, y, z)
        assert loss.dtype == torch.float32
        gradient = torch.autograd.grad(loss, x)[0]
        if make is oracles.FairByAutograd:
            expected = loss, gradient
    torch.testing.assert_close((loss, gradient), expected, rtol=1e-4, atol=1e-4)
    recorded = Recorded(kernels.RBF(length_scale=0.5), temperature=temperature)
    recorded(X.float(), Y.float(), z)
    dtype = torch.float32 if temperature == 0.1 else torch.float64
    assert [t.dtype for t in recorded.seen[:2]] == [dtype, dtype]


@pytest.mark.parametrize("supported", [False, True])
@pytest.mark.parametrize("views", ["cross", "all"])
def test_the_columns(views: str, supported: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other view, the support, the own view without the anchor; the last tile is kept."""
    monkeypatch.setattr(core, "TILE_ROWS", 15)
    kernel = kernels.RBF(length_scale=0.5)
    loss = Recorded(kernel, views=views, temperature=0.5)
    loss(X, Y, Z[:20], support=(EXTRA, Z[20:]) if supported else None)
    scores, weights, layout = loss.seen
    x, y, extra = (nn.functional.normalize(t) for t in (X, Y, EXTRA))
    w = cclk.conditional_weights(kernel, Z if supported else Z[:20], weights="loo").T
    for row, anchor in enumerate(range(15, 20)):
        others = [j for j in range(20) if j != anchor]
        columns = torch.cat([y, extra[: 6 * supported], x[others] if views == "all" else x[:0]])
        torch.testing.assert_close(scores[row], columns @ x[anchor] / 0.5)
        share = w[anchor]
        if views == "all":
            half = share[:20] / 2
            share = torch.cat([half, share[20:], half[others]])
        torch.testing.assert_close(weights[row], share)
        assert layout.positive[row].nonzero().tolist() == [[anchor]]
    assert (layout.batch, layout.support) == (20, 6 * supported)
    assert layout.negatives == scores.shape[1] - 1
    assert not weights.requires_grad


def test_weights_of_the_authors_code_are_summed_over_views() -> None:
    released = Recorded.authors(kernels.RBF(length_scale=0.5))
    released(X, Y, Z[:20])
    expected = cclk.conditional_weights(
        kernels.RBF(length_scale=0.5), Z[:20], weights="authors"
    ).sum(dim=0)
    torch.testing.assert_close(released.seen[1].sum(dim=1), 2 * expected)


def test_parameters_of_the_objective_are_learned() -> None:
    class Scaled(oracles.FairByAutograd):
        def __init__(self) -> None:
            super().__init__(kernels.RBF(length_scale=0.5), temperature=0.4)
            self.beta = nn.Parameter(torch.tensor(0.7, dtype=torch.float64))

        def objective(self, scores: Tensor, weights: Tensor, layout: TileLayout) -> Tensor:
            return self.beta * super().objective(scores, weights, layout)

    loss = Scaled()
    value = loss(X, Y, Z[:20])
    value.backward()
    assert loss.beta.grad is not None
    torch.testing.assert_close(loss.beta.grad * 0.7, value.detach())


def test_an_overridden_objective_replaces_the_built_in_one() -> None:
    class Constant(cclk.FairCCLK):
        def objective(self, scores: Tensor, weights: Tensor, layout: TileLayout) -> Tensor:
            return scores.new_full((len(scores),), 3.0)

    assert float(Constant(kernels.RBF(length_scale=0.5))(X, Y, Z[:20])) == 3.0


def test_the_embedding_as_condition() -> None:
    class Own(oracles.FairByAutograd):
        embedding_condition = True

    torch.testing.assert_close(
        Own(kernels.Cosine(), symmetric=True)(X, Y),
        cclk.HardNegCCLK(kernels.Cosine(), symmetric=True)(X, Y),
    )


def test_the_base_class_does_the_rest() -> None:
    """The default kernel is fitted on the first batch, the report is kept, the state travels."""
    loss = oracles.FairByAutograd()
    with pytest.warns(cclk.CclkWarning, match="was not fitted"):
        value = loss(X, Y, {"age": Z[:20, 0]})
    assert loss.report is not None
    assert float(loss.report.clamped) == 0
    other = oracles.FairByAutograd()
    other.load_state_dict(loss.state_dict())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(other(X, Y, {"age": Z[:20, 0]}), value)
    with torch.no_grad():
        assert not loss(X, Y, {"age": Z[:20, 0]}).requires_grad
    assert repr(loss).startswith("FairByAutograd(kernel=RBF(")


def test_mistakes() -> None:
    class Mean(ConditionalLoss):
        def objective(self, scores: Tensor, weights: Tensor, layout: TileLayout) -> Tensor:
            return scores.mean()

    with pytest.raises(cclk.CclkError, match=r"objective returned shape \(\): .* shape \(20,\)"):
        Mean(kernels.RBF(length_scale=0.5))(X, Y, Z[:20])
    with pytest.raises(NotImplementedError, match=r"ConditionalLoss has no objective: override"):
        ConditionalLoss(kernels.RBF(length_scale=0.5))(X, Y, Z[:20])
    with pytest.raises(ValueError, match=r"^condition is missing"):
        oracles.FairByAutograd(kernels.Delta())(X, Y)
