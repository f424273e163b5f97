"""Every experiment at every size is a grid that can be run, and the published figures beside it
are the paper's.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from cclk_paper.experiments import EXPERIMENTS, SIZES, Cell, Experiment, Plan, Size, experiment
from cclk_paper.experiments.measure import TITLES
from cclk_paper.experiments.registry.fair import UNTRAINED
from cclk_paper.experiments.registry.hardneg_kernels import FITTED_ROW, OTHERS

from cclk import datasets
from cclk.registry import METHODS
from cclk.training.settings import Settings, load

# Typed from the paper's tables, not from the registry: mean and spread.
ZAPPOS, CUB, IMAGENET = "UT-Zappos", "CUB", "ImageNet-100"
TABLE_2_LEFT = {
    ("InfoNCE", ZAPPOS): (77.8, 1.5),
    ("InfoNCE", CUB): (14.1, 0.7),
    ("InfoNCE", IMAGENET): (76.2, 0.3),
    ("WeaklySup-InfoNCE", ZAPPOS): (84.6, 0.4),
    ("WeaklySup-InfoNCE", CUB): (20.6, 0.5),
    ("WeaklySup-InfoNCE", IMAGENET): (81.4, 0.4),
    ("WeaklySup-CCLK", ZAPPOS): (86.6, 0.7),
    ("WeaklySup-CCLK", CUB): (29.9, 0.3),
    ("WeaklySup-CCLK", IMAGENET): (82.4, 0.5),
}
TABLE_2_RIGHT = {
    ("RBF", ZAPPOS): (86.5, 0.5),
    ("RBF", CUB): (32.3, 0.5),
    ("RBF", IMAGENET): (81.8, 0.4),
    ("Laplacian", ZAPPOS): (86.8, 0.3),
    ("Laplacian", CUB): (32.1, 0.5),
    ("Laplacian", IMAGENET): (80.2, 0.3),
    ("linear", ZAPPOS): (86.5, 0.4),
    ("linear", CUB): (29.4, 0.8),
    ("linear", IMAGENET): (77.5, 0.3),
    ("cosine", ZAPPOS): (86.6, 0.7),
    ("cosine", CUB): (29.9, 0.3),
    ("cosine", IMAGENET): (82.4, 0.5),
}
TABLE_3 = {
    "InfoNCE": ((84.1, 1.8), (48.8, 4.5)),
    "Fair-CCLK": ((86.4, 0.9), (64.7, 3.9)),
}  # accuracy, MSE
FAIR_CLUSTERS = {
    3: ((82.12, 0.3), (56.27, 4.9)),
    5: ((84.55, 0.4), (58.67, 4.8)),
    10: ((85.90, 0.4), (64.91, 5.1)),
    15: ((85.22, 0.4), (65.02, 5.0)),
    20: ((84.23, 0.3), (65.11, 4.9)),
}
FAIR_KERNELS = {
    "RBF": ((86.2, 0.5), (57.6, 10.6)),
    "polynomial": ((86.7, 0.5), (61.3, 9.4)),
    "Laplacian": ((85.0, 0.9), (72.8, 13.2)),
    "cosine": ((86.4, 0.9), (64.7, 3.9)),
}
ONE, TWO = "CIFAR-10, setting 1", "CIFAR-10, setting 2"
TABLES_4_AND_6 = {
    ("InfoNCE", ONE): (89.9, 0.2),
    ("InfoNCE", TWO): (93.4, 0.1),
    ("InfoNCE", IMAGENET): (77.8, 0.4),
    ("HardNeg-InfoNCE", ONE): (91.4, 0.2),
    ("HardNeg-InfoNCE", TWO): (93.6, 0.2),
    ("HardNeg-InfoNCE", IMAGENET): (79.2, 0.5),
    ("HardNeg-CCLK", ONE): (91.7, 0.1),
    ("HardNeg-CCLK", TWO): (93.9, 0.1),
    ("HardNeg-CCLK", IMAGENET): (81.2, 0.2),
}
HARDNEG_KERNELS = {"linear": (91.5, 0.2), "RBF": (91.7, 0.1), "polynomial": (90.3, 0.4)}
SIGMA_SQUARED = {
    1: (3.0, 1.5),
    10: (30.9, 0.3),
    100: (32.2, 0.4),
    500: (32.0, 0.2),
    1000: (24.4, 0.9),
}

SOURCES = {  # as numbered in the paper
    "weaksup": "Table 2, left",
    "weaksup-kernels": "Table 2, right",
    "fair": "Table 3",
    "hardneg": "Tables 4 and 6",
    "fair-kernels": "Table 5, left",
    "hardneg-kernels": "Table 5, right",
    "weaksup-bandwidth": "Table 7",
    "fair-clusters": "Table 8",
    "insufficient": "Figure 3",
    "weights": "Figure 2, K_Z beside (K_Z + ridge I)^-1 K_Z",
}
TRAINED = [name for name in EXPERIMENTS if name != "weights"]
grids = pytest.mark.parametrize(
    ("name", "size"), [(name, size) for name in TRAINED for size in SIZES]
)


def variants(plan: Plan) -> Iterator[tuple[Cell, Settings]]:
    """Every cell with each of its choices, as it is trained."""
    for cell in plan.cells:
        for choice in cell.choices or ({},):
            yield cell, load(overrides={**plan.common, **cell.settings, **choice})


def published(cells: Mapping[object, Cell]) -> dict[object, tuple[object, ...]]:
    return {
        name: tuple(cell.paper[measure] for measure in ("accuracy", "linear_mse"))
        for name, cell in cells.items()
    }


def cells_of(name: str, size: Size = "paper") -> tuple[Cell, ...]:
    return experiment(name).plan(size).cells


def test_the_names() -> None:
    assert SIZES == ("paper", "cpu", "smoke")
    wanted = {
        "weaksup",
        "weaksup-kernels",
        "weaksup-bandwidth",
        "insufficient",
        "fair",
        "fair-kernels",
        "fair-clusters",
    }
    assert wanted | {"hardneg", "hardneg-kernels", "weights"} <= set(EXPERIMENTS)
    for name in EXPERIMENTS:
        found = experiment(name)
        assert isinstance(found, Experiment)
        assert found.name == name
        assert found.title
        assert found.source
    with pytest.raises(
        ValueError, match=r"^unknown experiment 'fare': choose all, weaksup, .*weights$"
    ):
        experiment("fare")


@grids
def test_every_cell_can_be_trained(name: str, size: Size) -> None:
    plan = experiment(name).plan(size)
    assert plan.cells
    assert plan.seeds >= 1
    assert set(plan.measures) <= set(TITLES)
    assert plan.split in ("test", "validation")
    for cell, settings in variants(plan):
        assert cell.row
        assert cell.column
        assert METHODS.accepts(settings.method)
        assert settings.data.dataset in datasets.DATASETS
        if size == "smoke":
            assert settings.data.dataset == "colordigits", "nothing is downloaded for a test"
    places = [(cell.row, cell.column, cell.x) for cell in plan.cells]
    assert len(set(places)) == len(places)


@grids
def test_what_is_chosen_can_be_chosen(name: str, size: Size) -> None:
    """There are rows to choose on, and whoever follows another's choice finds it in its column."""
    plan = experiment(name).plan(size)
    for cell, settings in variants(plan):
        if cell.choices or plan.split == "validation" or plan.watch:
            load = datasets.DATASETS[settings.data.dataset]
            own = inspect.signature(load).parameters["holdout"].default
            held = own if settings.data.holdout is None else settings.data.holdout
            assert held is None or held > 0, f"{cell.row}, {cell.column}"  # None: a share
        if cell.tuned_like:
            followed = [
                other
                for other in plan.cells
                if (other.row, other.column) == (cell.tuned_like, cell.column)
            ]
            assert len(followed) == 1
            assert followed[0].choices
            assert not cell.choices
    if any(cell.choices for cell in plan.cells):
        assert "accuracy" in plan.measures, "what a choice is made by"


@grids
def test_claims_and_axes_speak_of_what_is_there(name: str, size: Size) -> None:
    found = experiment(name)
    plan = found.plan(size)
    for column in {cell.column for cell in plan.cells}:
        rows = [cell.row for cell in plan.cells if cell.column == column]
        if found.claims:
            assert len(set(rows)) == len(rows), "a claim is about one cell of a row"
        for claim in found.claims:
            assert claim.measure in plan.measures
            assert {claim.row, *claim.others} <= set(rows)
            assert claim.row not in claim.others
            assert claim.others
    for cell in plan.cells:
        assert (cell.x is not None) == bool(found.axis)
        assert set(cell.paper) <= set(plan.measures)


def test_methods_of_the_paper() -> None:
    """Each experiment compares what the paper compares, at every size."""
    families = {
        "weaksup": {"infonce", "weaksup-infonce", "weaksup-cclk"},
        "insufficient": {"weaksup-infonce", "weaksup-cclk"},
        "fair": {"infonce", "fair-infonce", "fair-cclk"},
        "fair-clusters": {"fair-infonce"},
        "hardneg": {"infonce", "hardneg-infonce", "hardneg-cclk"},
    }
    kernels = {
        "weaksup-kernels": {"rbf", "laplacian", "linear", "cosine"},
        "fair-kernels": {"rbf", "polynomial", "laplacian", "cosine"},
        "hardneg-kernels": {"linear", "rbf", "polynomial", "laplacian", "cosine"},
    }
    for size in SIZES:
        for name, methods in families.items():
            by_column: dict[str, set[str]] = {}
            for cell, settings in variants(experiment(name).plan(size)):
                by_column.setdefault(cell.column, set()).add(settings.method)
            assert all(found >= methods for found in by_column.values()), (name, size)
        for name, wanted in kernels.items():
            for cell, settings in variants(experiment(name).plan(size)):
                # The default is RBF for numbers.
                assert settings.loss.kernel in (
                    cell.row.split(",")[0].lower(),
                    "auto" if cell.row == "RBF" else "",
                )
                if cell.row == "polynomial":
                    assert settings.loss.kernel_options.get("degree", 3) == 3
            assert {
                cell.row.split(",")[0].lower() for cell in experiment(name).plan(size).cells
            } == wanted
        for name in ("fair", "fair-clusters"):
            for column in {cell.column for cell in experiment(name).plan(size).cells}:
                found = [
                    s.loss.clusters
                    for c, s in variants(experiment(name).plan(size))
                    if c.column == column and s.method == "fair-infonce"
                ]
                assert set(found) == set(FAIR_CLUSTERS), (name, size)


def test_weaksup_is_table_2() -> None:
    cells = {(cell.row, cell.column): cell for cell in cells_of("weaksup")}
    assert {name: cell.paper for name, cell in cells.items()} == {
        name: {"accuracy": value} for name, value in TABLE_2_LEFT.items()
    }
    assert [choice["clusters"] for choice in cells["WeaklySup-InfoNCE", IMAGENET].choices] == [
        100,
        200,
        500,
        2500,
    ]
    cells = {(cell.row, cell.column): cell for cell in cells_of("weaksup-kernels")}
    assert {name: cell.paper for name, cell in cells.items()} == {
        name: {"accuracy": value} for name, value in TABLE_2_RIGHT.items()
    }


def test_bandwidths_are_the_papers() -> None:
    plan = experiment("weaksup-bandwidth").plan("paper")
    fixed = {cell.x: cell for cell in plan.cells if cell.paper}
    assert {x: cell.paper for x, cell in fixed.items()} == {
        x: {"accuracy": value} for x, value in SIGMA_SQUARED.items()
    }
    for cell, settings in variants(plan):
        assert settings.data.dataset == "cub"
        assert settings.loss.kernel == "rbf"
        if cell.paper:  # the paper's exp(-d^2 / sigma^2) is ours with 2 l^2 = sigma^2
            assert 2 * float(
                str(settings.loss.kernel_options["length_scale"])
            ) ** 2 == pytest.approx(cell.x, rel=1e-5)
        else:
            assert "length_scale" not in settings.loss.kernel_options


@pytest.mark.parametrize("size", ["cpu", "smoke"])
def test_bandwidths_elsewhere_rescale_the_condition(size: Size) -> None:
    plan = experiment("weaksup-bandwidth").plan(size)
    assert {1e-3, 1e3} <= {cell.x for cell in plan.cells}
    scales: dict[str, set[object]] = {}
    for cell, settings in variants(plan):
        assert settings.data.condition_scale == cell.x
        assert not settings.data.standardize, "else the scale would not be seen"
        scales.setdefault(cell.row, set()).add(settings.loss.kernel_options.get("length_scale"))
    fixed, auto = scales.values()
    assert auto == {"auto"}
    assert len(fixed) == 1
    assert "auto" not in fixed


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_sources_are_numbered_as_in_the_paper(name: str) -> None:
    assert experiment(name).source == SOURCES.get(name, "beyond the paper")


@pytest.mark.parametrize("size", SIZES)
def test_fair_is_tables_3_and_8(size: Size) -> None:
    columns: dict[str, dict[object, Cell]] = {}
    for cell in cells_of("fair", size):
        columns.setdefault(cell.column, {})[cell.row] = cell
    assert len(columns) == 2, "the release's recipe and ours"
    clusters = {
        f"Fair-InfoNCE, {count} clusters": figures for count, figures in FAIR_CLUSTERS.items()
    }
    for cells in columns.values():
        cells.pop(UNTRAINED, None)  # ours, to see what training is worth
        assert published(cells) == TABLE_3 | clusters
    for column in columns:
        found = {
            cell.row: cell for cell in cells_of("fair-clusters", size) if cell.column == column
        }
        assert published(found) == clusters
        found = {cell.row: cell for cell in cells_of("fair-kernels", size) if cell.column == column}
        assert published(found) == FAIR_KERNELS


@pytest.mark.parametrize("size", ["paper", "cpu"])
def test_fair_has_the_papers_budget(size: Size) -> None:
    for name in ("fair", "fair-kernels", "fair-clusters"):
        plan = experiment(name).plan(size)
        assert plan.seeds >= 5
        for cell, settings in variants(plan):
            assert (settings.data.dataset, settings.model.encoder) == ("colormnist", "lenet5")
            assert cell.row == UNTRAINED or (settings.train.batch_size, settings.train.steps) == (
                256,
                1175,
            )
    for cell, settings in variants(experiment("fair").plan(size)):
        if "release" in cell.column:
            assert (settings.optim.optimizer, settings.optim.lr, settings.optim.scale_lr) == (
                "lars",
                1e-3,
                True,
            )
            assert settings.augment.augmentation_options["crop"] == [0.08, 1.0]
            assert settings.loss.temperature == 0.1


@pytest.mark.parametrize("size", SIZES)
def test_all_methods_of_our_fair_recipe_are_tuned_alike(size: Size) -> None:
    """The same choices, or the choice made for a cell that had them, and nothing else set for
    one method alone but what it is.
    """
    cells = [
        cell
        for cell in cells_of("fair", size)
        if "release" not in cell.column and cell.row != UNTRAINED
    ]
    choices = [cell.choices for cell in cells if cell.choices]
    assert all(found == choices[0] for found in choices)
    assert all(cell.choices or cell.tuned_like for cell in cells)
    assert {str(cell.settings["method"]) for cell in cells if cell.choices} == {
        "infonce",
        "fair-infonce",
        "fair-cclk",
    }


def test_hardneg_is_tables_4_and_6() -> None:
    plan = experiment("hardneg").plan("paper")
    cells = {(cell.row, cell.column): cell for cell in plan.cells}
    assert {name: cell.paper for name, cell in cells.items()} == {
        name: {"accuracy": value} for name, value in TABLES_4_AND_6.items()
    }
    kernels = {(cell.row, cell.column): cell.paper for cell in cells_of("hardneg-kernels")}
    assert kernels == {
        (kernel, ONE): {"accuracy": value} for kernel, value in HARDNEG_KERNELS.items()
    } | {(row, ONE): {} for row in (*OTHERS, FITTED_ROW)}


def test_few_samples_per_value_is_a_curve_of_the_official_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CCLK_DATA", str(tmp_path))
    assert {cell.x for cell in cells_of("insufficient")} == {1.0}
    table = tmp_path / "ut-zappos" / "ut-zap50k-data" / "meta-data.csv"
    table.parent.mkdir(parents=True)
    header = "CID,Category,SubCategory,HeelHeight,Insole,Closure,Gender,Material,ToeStyle"
    rows = [f"{n},Shoes,Flats,{n % 2}in,,{n % 3},{n % 5},{n % 7},{n % 11}" for n in range(60)]
    table.write_text("\n".join([header, *rows]))
    curve = [cell.x for cell in cells_of("insufficient")[::2]]
    assert len(curve) == 6
    assert curve == sorted(curve, key=lambda x: -(x or 0))
    assert curve[0] != curve[-1]
    assert len(cells_of("insufficient")) == 12


def test_large_runs_are_the_papers() -> None:
    batch_and_epochs = {ZAPPOS: (152, 1000), CUB: (128, 1000), ONE: (256, 400), TWO: (512, 1000)}
    for name in (
        "weaksup",
        "weaksup-kernels",
        "weaksup-bandwidth",
        "insufficient",
        "hardneg",
        "hardneg-kernels",
    ):
        for cell, settings in variants(experiment(name).plan("paper")):
            budget = (settings.train.batch_size, settings.train.epochs)
            assert budget == batch_and_epochs.get(
                cell.column, (512 if "hardneg" in name else 128, 200)
            ), (name, cell)
            optim = settings.optim
            assert (settings.model.encoder, optim.optimizer, optim.lr, optim.scale_lr) == (
                "resnet50",
                "lars",
                1.5,
                True,
            )
            small = settings.data.dataset in ("ut-zappos", "cifar10")
            assert settings.model.encoder_options == {
                "stem": "cifar" if small else "imagenet",  # images of 32 x 32 have another stem
                "zero_init_residual": True,
            }
            assert (settings.model.head, settings.model.projection) == ("mlp", 128)


def test_the_image_of_kernel_and_weights() -> None:
    found = experiment("weights")
    assert found.figure is not None
    figure = found.figure("smoke", None)
    side = len(figure.colors)
    assert list(figure.panels) == ["K", "W, paper", "W, loo", "W, nw"]
    for name, panel in figure.panels.items():
        assert len(panel) == side
        assert all(len(row) == side for row in panel)
        diagonal = [panel[place][place] for place in range(side)]
        if name == "K":
            assert diagonal == [1.0] * side
        elif name != "W, paper":
            assert diagonal == [0.0] * side, "the anchor is not its own neighbor"
    assert all(sum(row) == pytest.approx(1, abs=0.02) for row in figure.panels["W, nw"])
    brightness = [sum(color) for color in figure.colors]
    assert brightness == sorted(brightness)
    assert all(1 <= value <= side for value in figure.effective_neighbors.values())
