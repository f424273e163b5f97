"""Fair contrastive learning on ColorMNIST: predict the digit without the background color."""

from __future__ import annotations

from cclk_paper.experiments.plan import Cell, Claim, Experiment, Overrides, Plan, Published, Size
from cclk_paper.experiments.registry.recipes import (
    FAIR_BUDGET,
    FAIR_CHOICES,
    FAIR_OURS,
    FAIR_RELEASE,
    FAIR_SMOKE,
    LEAKAGE,
    LOCAL,
    SMOKE_ROWS,
)

CLUSTERS = {  # Table 8: number of clusters, accuracy, MSE
    3: ((82.12, 0.3), (56.27, 4.9)),
    5: ((84.55, 0.4), (58.67, 4.8)),
    10: ((85.90, 0.4), (64.91, 5.1)),
    15: ((85.22, 0.4), (65.02, 5.0)),
    20: ((84.23, 0.3), (65.11, 4.9)),
}
UNTRAINED = "no training"
RELEASE, OURS = "the release's recipe", "our recipe"


def cluster_cells(
    column: str, settings: Overrides, choices: tuple[Overrides, ...] = ()
) -> tuple[Cell, ...]:
    """Fair-InfoNCE with the paper's numbers of clusters; settings are selected with ten."""
    ten = cluster_row(10)
    return tuple(
        Cell(
            cluster_row(count),
            column,
            {**settings, "method": "fair-infonce", "clusters": count},
            choices=choices if count == 10 else (),
            tuned_like=ten if choices and count != 10 else "",
            paper={"accuracy": accuracy, "linear_mse": mse},
        )
        for count, (accuracy, mse) in CLUSTERS.items()
    )


def cluster_row(count: int) -> str:
    """Return the name of a row."""
    return f"Fair-InfoNCE, {count} clusters"


def cells(choices: tuple[Overrides, ...]) -> tuple[Cell, ...]:
    """All methods in both recipes."""
    infonce: Published = {"accuracy": (84.1, 1.8), "linear_mse": (48.8, 4.5)}
    fair: Published = {"accuracy": (86.4, 0.9), "linear_mse": (64.7, 3.9)}
    cosine = {"method": "fair-cclk", "kernel": "cosine"}
    ours = {**FAIR_OURS, **LOCAL, "method": "fair-cclk"}
    return (
        Cell("InfoNCE", RELEASE, {**FAIR_RELEASE, "method": "infonce"}, paper=infonce),
        *cluster_cells(RELEASE, FAIR_RELEASE),
        Cell("Fair-CCLK", RELEASE, {**FAIR_RELEASE, **cosine}, paper=fair),
        Cell(UNTRAINED, OURS, {**FAIR_OURS, "method": "infonce", "steps": 1, "lr": 1e-9}),
        Cell("InfoNCE", OURS, {**FAIR_OURS, "method": "infonce"}, choices=choices, paper=infonce),
        *cluster_cells(OURS, FAIR_OURS, choices),
        Cell("Fair-CCLK", OURS, ours, choices=choices, paper=fair),
    )


def plan(size: Size) -> Plan:
    """The paper's budget fits two cores, so `cpu` and `paper` are the same."""
    if size == "smoke":
        note = "ColorDigits and a few steps: shows that everything runs"
        return Plan(
            cells(FAIR_CHOICES[-1:]),
            seeds=1,
            common=FAIR_SMOKE,
            measures=LEAKAGE,
            note=note,
            rows=SMOKE_ROWS,
        )
    note = "the paper's own data, network and budget; the colors are redrawn"
    return Plan(cells(FAIR_CHOICES), seeds=5, common=FAIR_BUDGET, measures=LEAKAGE, note=note)


EXPERIMENT = Experiment(
    "fair",
    "Fair contrastive learning: digits without their color",
    "Table 3",
    plan,
    claims=tuple(
        Claim(measure, "Fair-CCLK", others)
        for measure in ("accuracy", "linear_mse", "linear_r2", "nonlinear_r2")
        for others in (("InfoNCE",), tuple(cluster_row(count) for count in CLUSTERS))
    ),
)
