"""Samplers: a batch is a function of the step, and is made of the rows it promises."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cclk.data.kmeans import kmeans
from cclk.data.randomness import generator
from cclk.data.samplers import BatchSampler, ClusterBatches, LocalBatches, Uniform

ROWS, SIZE = 203, 32
CLUSTERS = torch.from_numpy(
    np.random.default_rng(0).choice(5, ROWS, p=[0.5, 0.3, 0.12, 0.06, 0.02])
)
CONDITION = torch.from_numpy(np.random.default_rng(1).normal(size=(ROWS, 3))).float()

MAKERS: dict[str, Callable[[int], BatchSampler]] = {
    "uniform": lambda seed: Uniform(ROWS, SIZE, seed=seed),
    "fair": lambda seed: ClusterBatches(CLUSTERS, SIZE, seed=seed, mode="fair"),
    "weaksup": lambda seed: ClusterBatches(CLUSTERS, SIZE, seed=seed, mode="weaksup", group=4),
    "local": lambda seed: LocalBatches(CONDITION, SIZE, seed=seed, group=8),
}
each = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


@each
def test_a_batch_is_a_function_of_the_step(make: Callable[[int], BatchSampler]) -> None:
    steps = [*range(30), 10**6, 10**12]
    sampler = make(3)
    in_order = {step: sampler.batch(step) for step in steps}
    random.Random(0).shuffle(steps)
    again = make(3)
    for step in steps:
        assert torch.equal(again.batch(step), in_order[step])
    for step in steps[:6]:
        assert torch.equal(make(3).batch(step), in_order[step])


def uniform_by_loops(drawn: np.random.Generator) -> list[list[int]]:
    rows = drawn.permutation(ROWS).tolist()
    return [rows[SIZE * step : SIZE * (step + 1)] for step in range(ROWS // SIZE)]


def fair_by_loops(drawn: np.random.Generator) -> list[list[int]]:
    shares = np.bincount(CLUSTERS.numpy()) / ROWS
    turns = drawn.choice(5, size=ROWS // SIZE, p=shares).tolist()
    batches: list[list[int]] = [[] for _ in turns]
    for cluster in range(5):
        members = [row for row in range(ROWS) if CLUSTERS[row] == cluster]
        steps = [step for step, turn in enumerate(turns) if turn == cluster]
        if len(members) < SIZE:
            for step, rows in zip(
                steps, drawn.choice(members, size=(len(steps), SIZE)).tolist(), strict=True
            ):
                batches[step] = rows
            continue
        waiting: list[int] = []
        for step in steps:
            if len(waiting) < SIZE:
                waiting = drawn.permutation(members).tolist()
            batches[step], waiting = waiting[:SIZE], waiting[SIZE:]
    return batches


def batches_of_groups(groups: list[list[int]], drawn: np.random.Generator) -> list[list[int]]:
    rows = [row for number in drawn.permutation(len(groups)) for row in groups[number]]
    return [rows[SIZE * step : SIZE * (step + 1)] for step in range(ROWS // SIZE)]


def weaksup_by_loops(drawn: np.random.Generator) -> list[list[int]]:
    key, groups = drawn.random(ROWS), []
    ordered = sorted(range(ROWS), key=CLUSTERS.__getitem__)
    for cluster in range(5):
        places = [place for place in range(ROWS) if CLUSTERS[ordered[place]] == cluster]
        members = [ordered[place] for place in sorted(places, key=key.__getitem__)]
        for start in range(0, len(members), 4):
            groups.append([members[place % len(members)] for place in range(start, start + 4)])
    return batches_of_groups(groups, drawn)


def local_by_loops(drawn: np.random.Generator, condition: Tensor = CONDITION) -> list[list[int]]:
    values = condition.numpy()
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    if condition.shape[1] > 16:
        return around_by_loops(drawn, condition.double().numpy())
    nodes = [drawn.permutation(ROWS)[: ROWS // 8 * 8]]
    while max(map(len, nodes)) > 8:
        directions, halves = (
            drawn.standard_normal((len(nodes), values.shape[1]), dtype=np.float32),
            [],
        )
        for node, direction in zip(nodes, directions, strict=True):
            along = node[np.argsort(np.einsum("nk,k->n", values[node], direction), kind="stable")]
            cut = len(node) // 8 // 2 * 8
            halves += [along[:cut], along[cut:]] if cut else [along]
        nodes = halves
    return batches_of_groups([node.tolist() for node in nodes], drawn)


def around_by_loops(drawn: np.random.Generator, values: npt.NDArray[np.float64]) -> list[list[int]]:
    order = drawn.permutation(ROWS).tolist()
    batches = []
    for step in range(ROWS // SIZE):
        centers = order[step * SIZE // 8 : (step + 1) * SIZE // 8]
        batch: list[int] = []
        for center in centers:
            distance = ((values - values[center]) ** 2).sum(axis=1)
            nearest = sorted(range(ROWS), key=lambda row: distance[row])[:16]
            batch += [center]
            batch += [row for row in nearest if row not in centers and row not in batch][:7]
        batch += [row for row in order if row not in batch][: SIZE - len(batch)]
        batches.append(batch)
    return batches


@pytest.mark.parametrize(
    ("name", "by_loops"),
    [
        ("uniform", uniform_by_loops),
        ("fair", fair_by_loops),
        ("weaksup", weaksup_by_loops),
        ("local", local_by_loops),
    ],
)
def test_batches_are_those_of_plain_loops(
    name: str, by_loops: Callable[[np.random.Generator], list[list[int]]]
) -> None:
    purpose = {"uniform": "uniform batches", "local": "local batches"}.get(name, "cluster batches")
    sampler = MAKERS[name](3)
    for epoch in range(12):
        batches = [sampler.batch(epoch * 6 + step).tolist() for step in range(6)]
        assert batches == by_loops(generator(3, purpose, epoch))


@pytest.mark.parametrize("width", [16, 17])
def test_local_batches_of_wide_conditions_are_those_of_plain_loops(width: int) -> None:
    """Up to 16 columns the units of a column do not matter; beyond, groups are exact neighbors."""
    condition = torch.from_numpy(
        np.random.default_rng(2).normal(size=(ROWS, width)) * np.logspace(-2, 2, width)
    ).float()
    sampler = LocalBatches(condition.clone().requires_grad_(), SIZE, seed=3, group=8)
    assert [sampler.batch(step).tolist() for step in range(6)] == local_by_loops(
        generator(3, "local batches", 0), condition
    )


def test_local_batches_do_not_depend_on_an_offset() -> None:
    """Columns are centered, or float32 would not tell large values apart."""
    plain = torch.stack([torch.arange(200.0), torch.zeros(200)], dim=1)
    shifted = plain + torch.tensor([2.0**23, -(2.0**23)])
    assert torch.equal(
        LocalBatches(shifted, SIZE, group=4).batch(0), LocalBatches(plain, SIZE, group=4).batch(0)
    )


def test_defaults() -> None:
    assert torch.equal(Uniform(ROWS, SIZE).batch(0), Uniform(ROWS, SIZE, seed=0).batch(0))
    assert torch.equal(
        LocalBatches(CONDITION, SIZE).batch(0),
        LocalBatches(CONDITION, SIZE, seed=0, group=16).batch(0),
    )
    pairs = ClusterBatches(CLUSTERS, SIZE, mode="weaksup")
    assert torch.equal(
        pairs.batch(0), ClusterBatches(CLUSTERS, SIZE, seed=0, mode="weaksup", group=2).batch(0)
    )
    assert Uniform(3, 1).batch(0).shape == (1,)
    assert ClusterBatches(CLUSTERS, 33, mode="fair").batch(0).shape == (33,), (
        "only weaksup has groups"
    )


def test_an_epoch_is_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler, drawn, draw = MAKERS["local"](0), [], LocalBatches.draw
    monkeypatch.setattr(
        LocalBatches, "draw", lambda sampler, random: [drawn.append(1), draw(sampler, random)][1]
    )
    for step in range(12):
        sampler.batch(step)
    assert len(drawn) == 2


@each
def test_batches_are_rows_and_differ(make: Callable[[int], BatchSampler]) -> None:
    sampler = make(0)
    assert sampler.steps_per_epoch == ROWS // SIZE
    batches = [sampler.batch(step) for step in range(14)]
    for batch in batches:
        assert batch.dtype == torch.int64
        assert batch.shape == (SIZE,)
        assert batch.min() >= 0
        assert batch.max() < ROWS
    assert len({tuple(batch.tolist()) for batch in batches}) == 14
    assert not torch.equal(make(1).batch(0), batches[0])
    with pytest.raises(ValueError, match="step is -1"):
        sampler.batch(-1)


@each
def test_global_random_state_is_not_touched(make: Callable[[int], BatchSampler]) -> None:
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    make(0).batch(5)
    assert torch.equal(torch.rand(1), expected)


@each
def test_a_batch_can_be_changed_without_harm(make: Callable[[int], BatchSampler]) -> None:
    sampler = make(0)
    before = sampler.batch(2).clone()
    sampler.batch(2).zero_()
    assert torch.equal(sampler.batch(2), before)


@pytest.mark.parametrize("make", [MAKERS["uniform"], MAKERS["local"]], ids=["uniform", "local"])
def test_no_row_twice_in_an_epoch(make: Callable[[int], BatchSampler]) -> None:
    sampler = make(0)
    for epoch in range(3):
        rows = torch.cat(
            [
                sampler.batch(epoch * sampler.steps_per_epoch + step)
                for step in range(sampler.steps_per_epoch)
            ]
        )
        assert len(set(rows.tolist())) == len(rows) == ROWS // SIZE * SIZE


def test_uniform_leaves_no_row_out_for_long() -> None:
    sampler = Uniform(ROWS, SIZE, seed=0)
    seen = {row for step in range(6 * 6) for row in sampler.batch(step).tolist()}
    assert len(seen) == ROWS


def test_uniform_takes_a_batch_of_everything() -> None:
    sampler = Uniform(8, 8)
    assert sampler.steps_per_epoch == 1
    assert sorted(sampler.batch(4).tolist()) == list(range(8))


def test_fair_batches_are_of_one_cluster_in_proportion() -> None:
    sampler = ClusterBatches(CLUSTERS, SIZE, seed=0, mode="fair")
    drawn = []
    for step in range(3000):
        clusters = CLUSTERS[sampler.batch(step)]
        assert (clusters == clusters[0]).all()
        drawn.append(int(clusters[0]))
    share = np.bincount(drawn, minlength=5) / len(drawn)
    expected = np.bincount(CLUSTERS.numpy(), minlength=5) / ROWS
    assert np.abs(share - expected).max() < 0.03


def test_fair_rows_take_turns_within_a_cluster() -> None:
    clusters = torch.zeros(96, dtype=torch.int64)
    sampler = ClusterBatches(clusters, SIZE, seed=0, mode="fair")
    for epoch in range(3):
        rows = torch.cat([sampler.batch(3 * epoch + step) for step in range(3)])
        assert sorted(rows.tolist()) == list(range(96))
    big = torch.tensor([0] * 70 + [1] * 300)
    sampler = ClusterBatches(big, SIZE, seed=0, mode="fair")
    for step in range(100):
        assert len(sampler.batch(step).unique()) == SIZE, (
            "both clusters have rows enough: none twice in a batch"
        )


def test_fair_clusters_smaller_than_the_batch_are_drawn_with_replacement() -> None:
    clusters = torch.tensor([7] * 10 + [-2] * 25)
    sampler = ClusterBatches(clusters, SIZE, seed=0, mode="fair")
    seen = {row for step in range(200) for row in sampler.batch(step).tolist()}
    assert seen == set(range(35))
    assert all(sampler.batch(step).shape == (SIZE,) for step in range(5))


@pytest.mark.parametrize("group", [1, 2, 4, 8, 32])
def test_weaksup_batches_are_groups_of_one_cluster(group: int) -> None:
    sampler = ClusterBatches(CLUSTERS, SIZE, seed=0, mode="weaksup", group=group)
    sizes = CLUSTERS.bincount()
    mixed = set()
    for step in range(60):
        groups = sampler.batch(step).reshape(-1, group)
        clusters = CLUSTERS[groups]
        assert (clusters == clusters[:, :1]).all()
        mixed.add(len(clusters.unique()))
        for row, cluster in zip(groups, clusters[:, 0], strict=True):
            assert len(row.unique()) == min(group, int(sizes[cluster])), (
                "no row twice in a group unless its cluster is too small"
            )
    assert group == 32 or max(mixed) > 1


def test_weaksup_reaches_every_row() -> None:
    sampler = ClusterBatches(CLUSTERS, SIZE, seed=0, mode="weaksup", group=8)
    assert {row for step in range(100) for row in sampler.batch(step).tolist()} == set(range(ROWS))


def test_weaksup_neighbors_change_between_epochs() -> None:
    sampler = ClusterBatches(CLUSTERS, SIZE, seed=0, mode="weaksup", group=2)
    epochs = [
        {
            frozenset(pair.tolist())
            for step in range(6)
            for pair in sampler.batch(6 * epoch + step).reshape(-1, 2)
        }
        for epoch in (0, 1)
    ]
    assert len(epochs[0] & epochs[1]) < 15


def test_local_reaches_every_row() -> None:
    """Rows left over from whole groups and batches are others in each epoch."""
    sampler = LocalBatches(CONDITION, SIZE, seed=0, group=8)
    assert {row for step in range(100) for row in sampler.batch(step).tolist()} == set(range(ROWS))


def mean_distance(condition: Tensor, groups: Tensor) -> float:
    return float(torch.stack([torch.pdist(condition[group]).mean() for group in groups]).mean())


def test_local_batches_are_groups_of_neighbors() -> None:
    condition = torch.rand(4096, 3, generator=torch.Generator().manual_seed(0)) * 255
    local, uniform = LocalBatches(condition, 256, seed=0), Uniform(4096, 256, seed=0)
    near = mean_distance(condition, local.batch(0).reshape(-1, 16))
    far = mean_distance(condition, uniform.batch(0).reshape(-1, 16))
    # 256 leaves in three dimensions: a cell is about 1 / 6.3 of the cube's width.
    assert near < 0.35 * far
    # And the groups of one batch lie all over the place.
    centers = condition[local.batch(0)].reshape(16, 16, 3).mean(1)
    assert torch.pdist(centers).mean() > 0.7 * far


def test_local_groups_are_redrawn_every_epoch() -> None:
    sampler = LocalBatches(CONDITION, SIZE, seed=0, group=8)
    epochs = [
        {
            frozenset(group.tolist())
            for step in range(6)
            for group in sampler.batch(6 * epoch + step).reshape(-1, 8)
        }
        for epoch in range(2)
    ]
    assert len(epochs[0] & epochs[1]) <= 2


def test_local_groups_do_not_depend_on_units() -> None:
    """A column in other units must not take over: groups stay near in both."""
    random_condition = torch.rand(2048, 2, generator=torch.Generator().manual_seed(0))
    plain = LocalBatches(random_condition, 64, seed=0).batch(0)
    scaled = LocalBatches(random_condition * torch.tensor([1.0, 1024.0]), 64, seed=0).batch(0)
    near = mean_distance(random_condition, plain.reshape(-1, 16))
    assert mean_distance(random_condition, scaled.reshape(-1, 16)) < 1.5 * near


def test_local_groups_of_wide_conditions_are_near() -> None:
    """Clusters in 64 dimensions: a random direction does not separate them, distances do."""
    random = torch.Generator().manual_seed(0)
    label = torch.randint(0, 40, (4096,), generator=random)
    centers = torch.randn(40, 64, generator=random)
    condition = centers[label] + 0.5 * torch.randn(4096, 64, generator=random)
    groups = LocalBatches(condition, 256, seed=0, group=16).batch(0).reshape(-1, 16)
    assert (label[groups] == label[groups[:, :1]]).float().mean() > 0.95


def test_local_batches_of_categories_are_mostly_pure() -> None:
    sites = torch.randint(0, 4, (1024, 1), generator=torch.Generator().manual_seed(0)).float()
    sampler = LocalBatches(sites, 64, seed=0)
    pure = torch.cat(
        [
            (group := sites[sampler.batch(step)].reshape(-1, 16)).amax(1) == group.amin(1)
            for step in range(16)
        ]
    )
    assert pure.float().mean() > 0.9
    # Equal conditions are told apart at random: a group is not the same rows again.
    assert not torch.equal(sampler.batch(0).sort()[0], sampler.batch(16).sort()[0])


@given(
    rows=st.integers(16, 200),
    width=st.integers(1, 20),
    group=st.sampled_from([1, 2, 4, 8, 16]),
    step=st.integers(0, 500),
    flat=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_local_batches_of_any_size(
    rows: int, width: int, group: int, step: int, flat: bool
) -> None:
    condition = (
        torch.zeros(rows)
        if flat
        else torch.randn(rows, width, generator=torch.Generator().manual_seed(rows))
    )
    batch = LocalBatches(condition, 16, group=group).batch(step)
    assert len(batch.unique()) == 16
    assert batch.max() < rows


def test_a_local_epoch_of_sixty_thousand_is_quick() -> None:
    condition = torch.rand(60_000, 3, generator=torch.Generator().manual_seed(0))
    sampler = LocalBatches(condition, 256, seed=0)
    started = time.process_time()
    sampler.batch(0)
    assert time.process_time() - started < 1.5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Uniform(10, 11), "batch_size is 11, but the training split has 10 rows"),
        (lambda: Uniform(10, 0), "batch_size is 0"),
        (
            lambda: LocalBatches(CONDITION, 24, group=16),
            "group is 16: it must be at least 1 and divide the batch_size, 24",
        ),
        (lambda: LocalBatches(CONDITION, 32, group=0), "group is 0"),
        (lambda: LocalBatches(CONDITION, 32, group=-16), "group is -16"),
        (
            lambda: LocalBatches(torch.tensor([0.0, torch.nan] * 20), 16),
            "condition has values that are NaN",
        ),
        (lambda: ClusterBatches(CLUSTERS, 32, mode="weaksup", group=5), "group is 5"),
        (
            lambda: ClusterBatches(CLUSTERS, 32, mode="unfair"),
            "mode is 'unfair': choose fair or weaksup",
        ),  # type: ignore[arg-type]
        (
            lambda: ClusterBatches(CLUSTERS[:, None], 32, mode="fair"),
            r"clusters has shape \(203, 1\) .*: it must be integers \(n,\)",
        ),
        (
            lambda: ClusterBatches(CLUSTERS.float(), 32, mode="fair"),
            "clusters has shape .*float32: it must be integers",
        ),
    ],
)
def test_bad_arguments(make: Callable[[], BatchSampler], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_kmeans_finds_clear_clusters_and_repeats_itself() -> None:
    truth = torch.arange(300) % 3
    condition = truth[:, None] * torch.tensor([[100.0, -50.0]]) + torch.randn(
        300, 2, generator=torch.Generator().manual_seed(0)
    )
    labels = kmeans(condition, 3, seed=1)
    assert labels.dtype == torch.int64
    assert sorted(labels.unique().tolist()) == [0, 1, 2]
    for cluster in range(3):
        assert len(labels[truth == cluster].unique()) == 1
    noise = torch.randn(500, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(kmeans(noise, 7, seed=1), kmeans(noise, 7, seed=1))
    assert not torch.equal(kmeans(noise, 7, seed=1), kmeans(noise, 7, seed=2))


def test_kmeans_refuses_what_cannot_be() -> None:
    with pytest.raises(
        ValueError, match="clusters is 5, but the condition has only 2 distinct values"
    ):
        kmeans(torch.tensor([[0.0], [1.0]] * 10), 5)
    with pytest.raises(ValueError, match="clusters is 0: it must be from 1 to the 4 rows"):
        kmeans(torch.zeros(4, 1), 0)
    with pytest.raises(ValueError, match="NaN"):
        kmeans(torch.tensor([[0.0], [torch.nan]]), 1)
