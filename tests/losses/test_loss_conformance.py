"""What every loss must do, whatever it is: invariances, precision, state, and one clear message
for every mistake.
"""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import cclk
from cclk import kernels
from cclk.losses.base import ContrastiveLoss

NAN, INF = float("nan"), float("inf")

CORRECTED = {"uniform_share": 0.3, "tau_plus": 0.05}
# Every call takes a condition, as categories.
LOSSES: dict[str, Callable[..., ContrastiveLoss]] = {
    "InfoNCE": cclk.InfoNCE,
    "HardNegInfoNCE": cclk.HardNegInfoNCE,
    "WeaklySupInfoNCE": cclk.WeaklySupInfoNCE,
    "FairInfoNCE": cclk.FairInfoNCE,
    "WeaklySupCCLK": partial(cclk.WeaklySupCCLK, kernels.Delta()),
    "WeaklySupCCLK, outer": partial(cclk.WeaklySupCCLK, kernels.Delta(), positives="outer"),
    "FairCCLK": partial(cclk.FairCCLK, kernels.Delta()),
    "HardNegCCLK": partial(cclk.HardNegCCLK, kernels.Delta()),
    "HardNegCCLK, corrected": partial(cclk.HardNegCCLK, kernels.Delta(), **CORRECTED),
}
CONDITIONAL = ("WeaklySupCCLK", "FairCCLK", "HardNegCCLK")
every_loss = pytest.mark.parametrize("name", LOSSES)


def batch(
    size: int = 24, dtype: torch.dtype = torch.float64, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, 6, generator=generator, dtype=dtype)
    return (
        x,
        x + 0.5 * torch.randn(size, 6, generator=generator, dtype=dtype),
        torch.arange(size) % 4,
    )


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 99))
@every_loss
def test_order_and_length_do_not_matter(name: str, seed: int) -> None:
    x, y, z = batch(seed=seed)
    loss = LOSSES[name](views="all", symmetric=True, temperature=0.2)
    value = loss(x, y, z)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(loss(x[order], y[order], z[order]), value)
    lengths = torch.rand(len(x), 1, dtype=x.dtype) * 100 + 0.01
    torch.testing.assert_close(loss(x * lengths, y / lengths, z), value)
    torch.testing.assert_close(loss(y, x, z), value)


@every_loss
def test_reductions(name: str) -> None:
    each, mean, total = (LOSSES[name](reduction=how)(*batch()) for how in ("none", "mean", "sum"))
    assert each.shape == (24,)
    torch.testing.assert_close(each.mean(), mean)
    torch.testing.assert_close(each.sum(), total)


@every_loss
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_gradients_do_not_change_when_they_are_used(name: str, reduction: str) -> None:
    """With an incoming gradient of 1, they are passed on without a copy."""
    x, y, z = batch()
    x, y = x.requires_grad_(), y.requires_grad_()
    loss = LOSSES[name](views="all", symmetric=True, reduction=reduction)
    value = loss(x, y, z)
    once = torch.autograd.grad(value, (x, y), retain_graph=True)
    first = [gradient.clone() for gradient in once]
    again = torch.autograd.grad(value, (x, y), retain_graph=True)
    doubled = torch.autograd.grad(2 * value, (x, y), retain_graph=True)
    batched = torch.autograd.grad(
        value, (x, y), torch.tensor([1.0, 3.0]).double(), is_grads_batched=True
    )
    for one, same, two, several in zip(first, again, doubled, batched, strict=True):
        assert torch.equal(one, same)
        torch.testing.assert_close(2 * one, two)
        torch.testing.assert_close(several, torch.stack([one, 3 * one]))
        assert one.abs().max() > 0


@every_loss
def test_training_lowers_it(name: str) -> None:
    x, y, z = batch(32)
    x, y = torch.randn(32, 6, dtype=x.dtype).requires_grad_(), y.requires_grad_()
    loss = LOSSES[name](temperature=0.5)
    before = loss(x, y, z)
    for _ in range(30):
        gradients = torch.autograd.grad(loss(x, y, z), [x, y])
        x, y = (
            (t - 3 * g).detach().requires_grad_() for t, g in zip((x, y), gradients, strict=True)
        )
    assert loss(x, y, z) < before - 0.2


@every_loss
def test_without_gradients(name: str) -> None:
    x, y, z = batch()
    loss = LOSSES[name]()
    value = loss(x.requires_grad_(), y, z)
    with torch.no_grad():
        assert not loss(x, y, z).requires_grad
    assert torch.equal(loss(x.detach(), y, z), value.detach())


@every_loss
def test_gradient_of_one_view_alone(name: str) -> None:
    """A momentum encoder's view needs no gradient."""
    x, y, z = batch()
    loss = LOSSES[name](views="all", symmetric=True)
    both = torch.autograd.grad(loss(x.requires_grad_(), y.requires_grad_(), z), [x, y])
    torch.testing.assert_close(torch.autograd.grad(loss(x, y.detach(), z), x)[0], both[0])


@every_loss
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_low_precision_embeddings(name: str, dtype: torch.dtype) -> None:
    x, y, z = batch(dtype=torch.float32)
    loss = LOSSES[name]()
    low = [t.to(dtype).requires_grad_() for t in (x, y)]
    value = loss(*low, z)
    value.backward()
    assert value.dtype == torch.float32
    assert low[0].grad is not None
    assert low[0].grad.dtype == dtype
    torch.testing.assert_close(value, loss(*(t.detach().float() for t in low), z))


@every_loss
def test_under_autocast_it_computes_in_float32(name: str) -> None:
    x, y, z = batch(dtype=torch.float32)
    loss = LOSSES[name](temperature=0.05)
    plain = loss(x, y, z)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(loss(x, y, z), plain)
        layer = torch.nn.Linear(6, 6)
        loss(layer(x), layer(y), z).backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.isfinite().all()


def test_autocast_does_not_reach_the_weights() -> None:
    """An operator in factors is a float32 product; autocast would compute it in bfloat16."""
    x, y, _ = batch(dtype=torch.float32)
    z = torch.randn(24, 3, generator=torch.Generator().manual_seed(1))
    loss = cclk.FairCCLK(kernels.Cosine())
    plain = loss(x, y, z)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(loss(x, y, z), plain)


@every_loss
def test_two_samples_are_enough(name: str) -> None:
    x, y, _ = batch(2)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", cclk.CclkWarning
        )  # a constant condition conditions on nothing
        assert LOSSES[name]()(x, y, torch.zeros(2)).isfinite()


@every_loss
def test_copies_prints_and_rejects(name: str) -> None:
    make = LOSSES[name]
    loss = make(temperature=0.2, views="all")
    twin = copy.deepcopy(loss)
    assert torch.equal(twin(*batch()), loss(*batch()))
    assert "temperature=0.2" in repr(loss)
    assert "views='all'" in repr(loss)
    for wrong in (
        {"temperature": 0},
        {"temperature": INF},
        {"temperature": -1},
        {"views": "both"},
        {"reduction": "max"},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            make(**wrong)


def spoil(tensor: Tensor, value: float) -> Tensor:
    tensor = tensor.clone()
    tensor[3, 1] = value
    return tensor


@every_loss
def test_mistakes_name_the_argument(name: str) -> None:
    x, y, z = batch()
    loss = LOSSES[name]()
    cases: list[tuple[tuple[object, ...], dict[str, object], str]] = [
        ((spoil(x, NAN), y, z), {}, "^x has 1 values that are NaN or infinite, the first in row 3"),
        ((x, spoil(y, INF), z), {}, "^y has 1 values"),
        ((x, y[:-1], z), {}, "^y has 23 rows but x has 24"),
        ((x[:1], y[:1], z[:1]), {}, "^x has 1 rows.*at least 2"),
        ((x[:0], y[:0], z[:0]), {}, "^x has 0 rows.*at least 2"),
        ((x, y[:, :3], z), {}, "^y has width 3 but x has 6"),
        ((x[0], y[0], z), {}, "^x has shape"),
        ((x[:, :0], y[:, :0], z), {}, r"^x has shape \(24, 0\)"),
        ((x.long(), y, z), {}, "^x has dtype"),
        ((x.numpy(), y, z), {}, "^x is a ndarray"),
        ((x, y, z), {"support": x}, "^support must be a pair"),
        ((x, y, z), {"support": (spoil(x, NAN), z)}, r"^support\[0\] has 1 values"),
        ((x, y, z), {"support": (x[:, :2], z)}, r"^support\[0\] has width 2"),
    ]
    if name not in ("InfoNCE", "HardNegInfoNCE"):
        bad = z.double()
        bad[5] = NAN
        cases += [
            ((x, y, z[:-1]), {}, "^condition has 23 rows but x has 24"),
            (
                (x, y, bad),
                {},
                "^condition has 1 values that are NaN or infinite, the first at row 5",
            ),
            (
                (x, y, z),
                {"support": (x, z[:3])},
                r"^support\[1\] has 3 rows but support\[0\] has 24",
            ),
        ]
    if name in ("WeaklySupCCLK", "WeaklySupCCLK, outer", "FairCCLK"):
        cases += [
            ((x, y, None), {}, "^condition is missing"),
            ((x, y, z), {"support": (x, None)}, r"^support\[1\] is missing"),
        ]
        cases += [((x, y, z), {"support": (x, {"site": z})}, "^condition columns differ")]
        cases += [
            (
                (x, y, z),
                {"support": (x, torch.zeros(24, 2))},
                "^condition is 1 wide in one table and 2 wide",
            )
        ]
    for arguments, options, words in cases:
        with pytest.raises(ValueError, match=words):
            loss(*arguments, **options)


def test_ignored_conditions() -> None:
    x, y, z = batch()
    assert torch.equal(cclk.InfoNCE()(x, y), cclk.InfoNCE()(x, y, z))
    assert torch.equal(cclk.HardNegInfoNCE()(x, y), cclk.HardNegInfoNCE()(x, y, z))


@pytest.mark.parametrize(
    ("loss", "number"),
    [
        (cclk.InfoNCE, 1),
        (cclk.WeaklySupInfoNCE, 3),
        (cclk.FairInfoNCE, 4),
        (cclk.HardNegInfoNCE, 5),
        (cclk.WeaklySupCCLK, 7),
        (cclk.FairCCLK, 8),
        (cclk.HardNegCCLK, 9),
    ],
)
def test_equations_are_numbered_as_in_the_paper(loss: type, number: int) -> None:
    assert (loss.__doc__ or "").startswith(f"Equation {number}")


def test_infonce_is_cross_entropy() -> None:
    x, y, _ = batch()
    unit_x, unit_y = (torch.nn.functional.normalize(t) for t in (x, y))
    torch.testing.assert_close(
        cclk.InfoNCE(0.1)(x, y),
        torch.nn.functional.cross_entropy(unit_x @ unit_y.T / 0.1, torch.arange(24)),
    )


def test_limits() -> None:
    """Where they ought to, the losses become one another."""
    x, y, _ = batch()
    alone, together = torch.arange(24), torch.zeros(24)
    plain = cclk.InfoNCE()(x, y)
    torch.testing.assert_close(cclk.HardNegInfoNCE(beta=0, tau_plus=0)(x, y), plain)
    torch.testing.assert_close(cclk.WeaklySupInfoNCE()(x, y, alone), plain)
    torch.testing.assert_close(cclk.FairInfoNCE()(x, y, together), plain)
    torch.testing.assert_close(cclk.FairInfoNCE()(x, y, alone), torch.zeros_like(plain))
    wide = cclk.FairCCLK(kernels.RBF(length_scale=1e6), weights="nw")(x, y, alone.double())
    torch.testing.assert_close(wide, plain)


def test_the_outer_form_is_infonce_without_neighbors_and_clusters_with_equal_shares() -> None:
    x, y, z = batch()
    alone = torch.arange(24)
    for own_share in (0.0, 0.3, 1.0):
        loss = cclk.WeaklySupCCLK(kernels.Delta(), positives="outer", own_share=own_share)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cclk.CclkWarning)
            torch.testing.assert_close(loss(x, y, alone), cclk.InfoNCE()(x, y))
    own = cclk.WeaklySupCCLK(kernels.Delta(), positives="outer", own_share=1.0)
    torch.testing.assert_close(own(x, y, z), cclk.InfoNCE()(x, y))
    share = 1 / 6  # of each of the six samples of a cluster
    equal = cclk.WeaklySupCCLK(kernels.Delta(), weights="nw", positives="outer", own_share=share)
    torch.testing.assert_close(equal(x, y, z), cclk.WeaklySupInfoNCE()(x, y, z))


def test_corrections_of_hard_negatives() -> None:
    x, y, z = batch()
    uniform = cclk.HardNegCCLK(kernels.Delta(), uniform_share=1.0)
    torch.testing.assert_close(uniform(x, y, z), cclk.InfoNCE()(x, y))
    debiased = cclk.HardNegCCLK(kernels.Delta(), uniform_share=1.0, tau_plus=0.1)
    torch.testing.assert_close(debiased(x, y, z), cclk.HardNegInfoNCE(beta=0, tau_plus=0.1)(x, y))
    assert "uniform_share=1.0, tau_plus=0.1" in repr(debiased)
    with pytest.raises(ValueError, match="uniform_share is 2: it must be between 0 and 1"):
        cclk.HardNegCCLK(uniform_share=2)
    with pytest.raises(ValueError, match="tau_plus is 1: it must be at least 0 and less than 1"):
        cclk.HardNegCCLK(tau_plus=1)


def test_the_form_of_the_positives_is_checked_and_shown() -> None:
    with pytest.raises(ValueError, match="positives is 'both': it must be 'inner' or 'outer'"):
        cclk.WeaklySupCCLK(kernels.Delta(), positives="both")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"own_share is 1\.5: it must be between 0 and 1"):
        cclk.WeaklySupCCLK(kernels.Delta(), positives="outer", own_share=1.5)
    shown = repr(cclk.WeaklySupCCLK(kernels.Delta(), positives="outer", own_share=0.3))
    assert "positives='outer', own_share=0.3" in shown
    assert "positives" not in repr(cclk.WeaklySupCCLK(kernels.Delta()))


def test_zero_embeddings_and_huge_ones() -> None:
    x, y, z = batch(dtype=torch.float32)
    x[0], y[1] = 0.0, 1e30 * y[1]
    x.requires_grad_(), y.requires_grad_()
    value = cclk.FairCCLK(kernels.Delta())(x, y, z)
    value.backward()
    assert value.isfinite()
    assert x.grad is not None
    assert y.grad is not None
    assert torch.equal(x.grad[0], torch.zeros(6))
    assert y.grad.isfinite().all()
    assert y.grad.abs().sum() > 0


def test_anchors_without_neighbors_are_counted() -> None:
    x, y, z = batch()
    z = torch.where(torch.arange(24) < 6, 100 + torch.arange(24), 0)
    loss = cclk.FairCCLK(kernels.Delta())
    with pytest.warns(cclk.CclkWarning, match="25% of anchors have no neighbors"):
        loss(x.requires_grad_(), y, z).backward()
    assert loss.report is not None
    assert float(loss.report.clamped) == 0.25
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert loss.report.solver == "none"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss(x, y, z)  # once is enough
    both = cclk.FairCCLK(kernels.Delta(), symmetric=True)
    with pytest.warns(cclk.CclkWarning, match="25% of anchors"):
        both(x, y, z)
    assert both.report is not None
    assert float(both.report.clamped) == 0.25


def test_a_hopeless_bandwidth_is_said_at_the_users_line() -> None:
    x, y, _ = batch()
    loss = cclk.FairCCLK(kernels.RBF(length_scale=1e-6))
    with pytest.warns(
        cclk.CclkWarning, match="length scale is too small.*Raise length_scale above"
    ) as caught:
        loss(x, y, torch.randn(24))
    assert caught[0].filename == __file__


def test_fitted_scales_travel_with_the_state(tmp_path: object) -> None:
    x, y, _ = batch()
    z = torch.randn(24, 3)
    loss = cclk.FairCCLK(kernels.RBF().fit(z))
    path = f"{tmp_path}/loss.pt"
    torch.save(loss.state_dict(), path)
    other = cclk.FairCCLK()
    other.load_state_dict(torch.load(path, weights_only=True))
    assert torch.equal(other(x, y, z), loss(x, y, z))


def test_the_authors_code_is_one_preset() -> None:
    loss = cclk.FairCCLK.authors(kernels.RBF(length_scale=2.0), temperature=0.1)
    assert "weights='authors'" in repr(loss)
    assert "views='all', symmetric=True" in repr(loss)
    assert cclk.HardNegCCLK.authors(kernels.RBF(length_scale=2.0)).conditioning.ridge == 100
    options = "solver='exact', weights='authors', temperature=0.5, views='all', symmetric=True"
    assert repr(
        cclk.WeaklySupCCLK.authors(
            kernels.Delta(), solver="exact", gather_distributed=True, reduction="sum"
        )
    ) == (
        f"WeaklySupCCLK(kernel=Delta(), ridge=0.01, {options}, gather_distributed=True,"
        " reduction='sum')"
    )


def test_defaults_are_not_shown() -> None:
    assert repr(cclk.FairCCLK(kernels.Delta())) == (
        "FairCCLK(kernel=Delta(), ridge=0.01, weights='nw', temperature=0.1)"
    )
    assert "weights='loo'" in repr(cclk.FairCCLK(kernels.Cosine()))
    assert "weights='loo'" in repr(cclk.WeaklySupCCLK(kernels.Delta()))
    assert repr(cclk.InfoNCE()) == "InfoNCE(temperature=0.1)"
    assert repr(cclk.HardNegInfoNCE()) == "HardNegInfoNCE(beta=1.0, tau_plus=0.1, temperature=0.1)"


def test_support_is_more_neighbors() -> None:
    """Lent neighbors are as good as the batch's own: the joined batch gives the anchors the same
    loss.
    """
    x, y, z = batch()
    for make in (cclk.FairCCLK, cclk.WeaklySupCCLK):
        whole = make(kernels.Delta(), reduction="none")(x, y, z)
        lent = make(kernels.Delta(), reduction="none")(
            x[:10], y[:10], z[:10], support=(y[10:], z[10:])
        )
        torch.testing.assert_close(lent, whole[:10])


def test_a_standing_complaint_is_said_once() -> None:
    x, y, _ = batch()
    loss = cclk.FairCCLK(kernels.Similarity(lambda a, b: 1 - (a - b.T).abs()))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            loss(x, y, torch.randn(24))
    assert sum("not positive definite" in str(warning.message) for warning in caught) == 1


def test_named_columns_reach_the_support() -> None:
    x, y, z = batch()
    table = {"site": z, "age": torch.randn(24)}
    part = [
        {name: column[rows] for name, column in table.items()}
        for rows in (slice(0, 10), slice(10, 24))
    ]

    def make() -> cclk.FairCCLK:
        kernel = kernels.Delta("site") * kernels.RBF("age", length_scale=1.0)
        return cclk.FairCCLK(kernel, reduction="none")

    whole = make()(x, y, table)
    reordered = dict(reversed(part[1].items()))
    torch.testing.assert_close(
        make()(x[:10], y[:10], part[0], support=(y[10:], reordered)), whole[:10]
    )


def test_precomputed_matrices() -> None:
    x, y, _ = batch()
    z = torch.linspace(0, 3, 24).double()
    kernel = kernels.RBF(length_scale=0.2)
    expected = cclk.FairCCLK(kernel, weights="loo")(x, y, z)
    torch.testing.assert_close(
        cclk.FairCCLK(kernels.Precomputed())(x, y, kernel(z)), expected, rtol=1e-6, atol=1e-8
    )
    torch.testing.assert_close(
        cclk.FairCCLK(kernels.Precomputed(kernel(z)))(x, y, torch.arange(24)),
        expected,
        rtol=1e-6,
        atol=1e-8,
    )
    with pytest.raises(ValueError, match="not symmetric"):
        cclk.FairCCLK(kernels.Precomputed(), weights="nw")(x, y, torch.rand(24, 24))
    for mode in ("nw", "paper"):
        torch.testing.assert_close(
            cclk.FairCCLK(kernels.Precomputed(), weights=mode)(x, y, kernel(z)),
            cclk.FairCCLK(kernel, weights=mode)(x, y, z),
        )


@every_loss
def test_the_third_argument_is_called_condition(name: str) -> None:
    x, y, z = batch()
    loss = LOSSES[name]()
    assert torch.equal(loss(x, y, condition=z), loss(x, y, z))


@every_loss
def test_a_last_batch_of_one_row_is_told_to_be_dropped(name: str) -> None:
    x, y, z = batch()
    with pytest.raises(ValueError, match=r"x has 1 rows: .*pass drop_last=True to the DataLoader"):
        LOSSES[name]()(x[:1], y[:1], z[:1])


def test_a_kernel_fitted_in_evaluation_mode_says_so() -> None:
    """Lightning's sanity check calls the loss on a validation batch before any training."""
    x, y, _ = batch()
    with pytest.warns(
        cclk.CclkWarning, match="was not fitted.*The loss is in evaluation mode.*sanity check"
    ):
        cclk.FairCCLK().eval()(x, y, torch.randn(24))
    with pytest.warns(cclk.CclkWarning, match="was not fitted") as caught:
        cclk.FairCCLK()(x, y, torch.randn(24))
    assert "evaluation mode" not in str(caught[0].message)


@every_loss
def test_every_argument_is_in_the_signature_and_documented(name: str) -> None:
    kind = getattr(cclk, name.partition(",")[0])
    documented = inspect.getdoc(kind)
    assert documented is not None
    for argument in inspect.signature(kind).parameters:
        assert f"    {argument}:" in documented
    assert {"temperature", "views", "symmetric", "gather_distributed", "reduction"} <= set(
        inspect.signature(kind).parameters
    )
