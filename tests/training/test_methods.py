"""From columns of a condition to the kernel, the batches and the units that a loss sees."""

from __future__ import annotations

import dataclasses
import inspect

import pytest
import torch

from cclk.columns import Column
from cclk.data.dataset import Dataset, Split
from cclk.data.samplers import LocalBatches, Uniform
from cclk.errors import SettingsError
from cclk.kernels import RBF, Cosine
from cclk.registry import METHODS
from cclk.training import methods
from cclk.training.network import network_for
from cclk.training.resolve import TRAINING, resolve
from cclk.training.run_folder import load_dataset
from cclk.training.settings import OPTIONS, Settings, load
from cclk.training.trainer import Trainer


@pytest.fixture
def mixed() -> Dataset:
    """Vectors with an age, a site and a set of three attributes as condition."""
    generator = torch.Generator().manual_seed(0)
    rows = 120
    age = 50 + 12 * torch.randn(rows, 1, generator=generator)
    site = torch.randint(0, 3, (rows, 1), generator=generator).float()
    traits = torch.randint(0, 2, (rows, 3), generator=generator).float()
    condition = torch.cat([age, site, traits], dim=1)
    x = 100 + 7 * torch.randn(rows, 4, generator=generator)
    split = Split(x, torch.arange(rows) % 2, condition)
    nothing = split.subset(torch.arange(0))
    columns = (
        Column("age"),
        Column("site", "categorical", 1, ("a", "b", "c")),
        Column("traits", "attributes", 3, ("t1", "t2", "t3"), "laplacian"),
    )
    return Dataset("mixed", split, nothing, split, ("a", "b"), columns, "mixed")


def settings(method: str = "fair-cclk", **more: object) -> Settings:
    return load(
        overrides={
            "method": method,
            "encoder": "mlp",
            "augmentation": "vectors",
            "batch_size": 40,
            "clusters": 4,
            **more,
        }
    )


def build(settings: Settings, dataset: Dataset) -> methods.Method:
    return methods.build(resolve(settings, dataset), dataset)


def test_the_kernel_of_a_mixed_condition_is_the_product_of_its_columns(mixed: Dataset) -> None:
    built = build(settings(), mixed)
    assert built.kernel is not None
    assert built.condition is not None
    batch = built.condition.rows(slice(0, 10))
    rows = batch.values
    age, site, traits = (leaf for leaf in built.kernel.leaves())
    distance = (rows[:, None, 0] - rows[None, :, 0]).double()
    alike = torch.exp(-(distance**2) / (2 * age.length_scale_**2))  # type: ignore[attr-defined]
    alike *= rows[:, None, 1] == rows[None, :, 1]
    alike *= torch.exp(
        -torch.cdist(rows[:, 2:].double(), rows[:, 2:].double()) / traits.length_scale_
    )  # type: ignore[attr-defined]
    torch.testing.assert_close(built.kernel(batch).double(), alike, atol=1e-5, rtol=1e-5)
    assert repr(site) == "Delta('site')"
    assert "slice" not in repr(built.kernel)


@pytest.mark.parametrize("method", ["fair-cclk", "weaksup-cclk"])
def test_users_see_the_names_of_columns(method: str, mixed: Dataset) -> None:
    built = build(settings(method), mixed)
    assert repr(built.kernel).startswith("RBF('age', length_scale='auto' -> ")
    assert ") * Delta('site') * Laplacian('traits', length_scale='auto' -> " in repr(built.kernel)
    colors = dataclasses.replace(mixed, columns=(Column("color", width=5),))
    kernel = build(settings(method), colors).kernel
    assert repr(kernel).startswith("RBF('color', length_scale='auto' -> ")
    assert kernel is not None
    assert isinstance(kernel.state_dict()["0"], float), "a named vector has one length scale"


def test_a_kernel_of_distances_is_not_for_names(mixed: Dataset) -> None:
    with pytest.raises(
        SettingsError,
        match=(
            "the kernel rbf needs numbers, but condition site holds categories: choose delta, or"
            " auto"
        ),
    ):
        build(settings(kernel="rbf"), mixed)


def test_only_numbers_are_standardized(mixed: Dataset) -> None:
    scaled = methods.standardized(settings(), mixed).values
    assert float(scaled[:, 0].mean().abs()) < 1e-5
    assert float(scaled[:, 0].std()) == pytest.approx(1)
    assert torch.equal(scaled[:, 1:], mixed.train.condition[:, 1:])
    tenfold = methods.standardized(settings(condition_scale=10, standardize=False), mixed).values
    torch.testing.assert_close(tenfold[:, 0], 10 * mixed.train.condition[:, 0])
    assert torch.equal(tenfold[:, 1], mixed.train.condition[:, 1])
    assert torch.equal(tenfold[:, 2:], 10 * mixed.train.condition[:, 2:])


def test_categories_are_equally_far_from_each_other(mixed: Dataset) -> None:
    points = methods.as_points(methods.standardized(settings(), mixed))
    assert points.shape == (120, 1 + 3 + 3)
    corners = points[:, 1:4].unique(dim=0)
    assert torch.equal(torch.pdist(corners), torch.full((3,), 2**0.5))


@pytest.mark.parametrize("method", tuple(METHODS))
def test_every_method_takes_a_mixed_condition(method: str, mixed: Dataset) -> None:
    local = {"sampler": "local", "group": 8} if method == "fair-cclk" else {}
    built = build(settings(method, **local), mixed)
    rows = built.sampler.batch(0)
    x, y = torch.randn(2, len(rows), 8, generator=torch.Generator().manual_seed(0))
    value = built.loss(x, y, None if built.condition is None else built.condition.rows(rows))
    assert value.isfinite()


def test_vectors_meet_the_encoder_standardized_and_the_scale_is_kept(mixed: Dataset) -> None:
    network = network_for(settings(), mixed)
    inputs = network.encoder.inputs(mixed.train.x)
    torch.testing.assert_close(inputs.mean(dim=0), torch.zeros(4), atol=1e-5, rtol=0)
    torch.testing.assert_close(inputs.std(dim=0, correction=0), torch.ones(4))
    other = network_for(settings(), mixed)
    other.encoder.inputs.fit(torch.zeros(3, 4))
    other.load_state_dict(network.state_dict())
    assert torch.equal(other.encoder.inputs(mixed.train.x), inputs)


def test_a_constant_column_is_not_blown_up(mixed: Dataset) -> None:
    network = network_for(settings(), mixed)
    network.encoder.inputs.fit(torch.full((1000, 4), 0.1))
    torch.testing.assert_close(
        network.encoder.inputs(torch.full((1, 4), 0.11)),
        torch.full((1, 4), 0.01),
        atol=1e-6,
        rtol=0,
    )


def test_columns_describe_every_value(mixed: Dataset) -> None:
    assert mixed.condition_names == ("age", "site", "t1", "t2", "t3")
    assert mixed.condition_kind == "mixed"
    with pytest.raises(
        ValueError,
        match="mixed: the condition has 5 values in each row, but its columns describe 4",
    ):
        dataclasses.replace(mixed, columns=(Column("age", width=4),))


def test_batches_of_weak_supervision_are_groups_of_neighbors(mixed: Dataset) -> None:
    sampler = build(settings("weaksup-cclk"), mixed).sampler
    assert isinstance(sampler, LocalBatches)
    assert sampler.group == 4
    odd = build(settings("weaksup-cclk", batch_size=6), mixed).sampler
    assert isinstance(odd, LocalBatches)
    assert odd.group == 2, "the default divides any batch"
    assert isinstance(build(settings("fair-cclk"), mixed).sampler, Uniform)
    train = dataclasses.replace(mixed.train, condition=mixed.train.condition[:, 1:2])
    sites = dataclasses.replace(mixed, train=train, columns=mixed.columns[1:2])
    assert isinstance(build(settings("weaksup-cclk"), sites).sampler, Uniform), (
        "a random batch has samples of every site"
    )


def test_kernels_of_embeddings(mixed: Dataset) -> None:
    train = dataclasses.replace(mixed.train, condition=mixed.train.condition[:, 2:])
    features = dataclasses.replace(mixed, train=train, columns=(Column("f", "embedding", 3),))
    built = build(settings("weaksup-cclk"), features)
    assert isinstance(built.kernel, RBF)
    assert methods.conditioning(built, settings("weaksup-cclk")).weights == "loo"
    fair = build(settings("fair-cclk"), features)
    assert methods.conditioning(fair, settings("fair-cclk")).weights == "nw"
    moving = build(settings("hardneg-cclk"), features)
    assert isinstance(moving.kernel, Cosine), "embeddings move during training"
    assert methods.conditioning(moving, settings("hardneg-cclk")).weights == "loo"


@pytest.mark.parametrize("method", ["fair-infonce", "fair-cclk", "infonce"])
def test_a_group_that_no_sampler_uses_is_an_error(method: str, mixed: Dataset) -> None:
    with pytest.raises(SettingsError, match=rf"'group': 8}}, but {method} draws its batches"):
        build(settings(method, group=8), mixed)


def test_options_of_kernels_losses_and_samplers(mixed: Dataset) -> None:
    built = build(settings(kernel_options={"neighbors": 2.0}, ridge=0.5, views="cross"), mixed)
    assert built.kernel is not None
    age, site, _ = built.kernel.leaves()
    assert age.neighbors == 2  # type: ignore[attr-defined]
    assert not hasattr(site, "neighbors"), "a kernel gets the options that it has"
    assert built.loss.conditioning.ridge == 0.5  # type: ignore[union-attr]
    for options, error in (
        ({"kernel_options": {"width": 1}}, "the kernel 'auto' has no option 'width'"),
        ({"loss_options": {"margin": 1}}, "the loss of fair-cclk has no option 'margin'"),
        (
            {"sampler": "local", "sampler_options": {"rows": 1}},
            "the sampler local has no option 'rows'",
        ),
    ):
        with pytest.raises(SettingsError, match=error):
            build(settings(**options), mixed)


@pytest.mark.parametrize("method", ["infonce", "fair-cclk", "weaksup-cclk", "hardneg-infonce"])
def test_options_of_a_loss_are_its_defaults_or_those_of_training(
    method: str, mixed: Dataset
) -> None:
    spec = methods.find(method)
    options = resolve(settings(method), mixed).loss.loss_options
    own = inspect.signature(spec.loss).parameters
    assert set(options) == set(own) & set(OPTIONS["loss_options"])
    different = {name for name, value in options.items() if value != own[name].default}
    assert different == set(TRAINING) & set(options)


def test_a_loss_that_learns_is_refused() -> None:
    settings = load(overrides={"loss_options": {"learn_temperature": True}})
    with pytest.raises(SettingsError, match=r"learns log_temperature, but training optimizes the"):
        Trainer(settings, load_dataset(settings))
