"""`cclk-paper bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from cclk._terminal import Console
from cclk.cli.output import QUIET
from cclk_paper.cli.options import RESULTS, RUNS, WORKERS, require_positive, show
from cclk_paper.experiments import Pool, experiment, pending
from cclk_paper.experiments import reproduce as run_grid
from cclk_paper.experiments.preflight import check_data

_NAME = Parameter(help="which benchmark")
_SIZE = Parameter(help="cpu: many hours on two cores; smoke: minutes, shows that everything runs")
_ONLY = Parameter(help='only cells with this text in "method, dataset", such as "HSIC, adult"')
_SEEDS = Parameter(help="number of seeds of the selected cells; default: 5, of large datasets 3")
_FIRST = Parameter(
    negative="", show_default=False, help="stop after the first stage, which draws the frontier"
)


def bench(
    name: Annotated[Literal["removal"], _NAME],
    /,
    *,
    size: Annotated[Literal["cpu", "smoke"], _SIZE] = "cpu",
    seeds: Annotated[int | None, _SEEDS] = None,
    only: Annotated[str, _ONLY] = "",
    frontier_only: Annotated[bool, _FIRST] = False,
    workers: Annotated[int | None, WORKERS] = None,
    results: Annotated[Path, RESULTS] = Path("results"),
    runs: Annotated[Path, RUNS] = Path("runs/bench"),
    data_dir: Annotated[str | None, Parameter(help="folder of dataset files")] = None,
    quiet: Annotated[bool, QUIET] = False,
) -> None:
    """Compare ways to remove a condition from features: utility at the same leakage.

    `cclk-paper bench removal --only adult`

    First, every method and strength is trained once and measured on the validation split. Then,
    for limits of the leakage and of the lost utility, the best strength of each method is run with
    several seeds and measured on the test split. Leakage is that of the worst of a panel of probes.

    Missing data are listed before a run starts. Results are kept in RESULTS/NAME.json. Finished
    runs are not repeated, so an interrupted benchmark resumes, and seeds can be added.
    """
    one = experiment(name)
    require_positive(seeds=seeds, workers=workers)
    overrides = {"data_dir": data_dir} if data_dir else {}
    jobs = pending(one, size, results_folder=results, seeds=seeds, overrides=overrides, only=only)
    with Console(stderr=True, quiet=quiet).status("checking data"):
        check_data(jobs)
    command = f"cclk-paper bench {name}" + (" --size smoke" if size == "smoke" else "")
    with Pool(workers) as pool:
        result = run_grid(
            one,
            size,
            pool,
            results_folder=results,
            runs_folder=runs,
            command=command + (f" --seeds {seeds}" if seeds else ""),
            seeds=seeds,
            overrides=overrides,
            only=only,
            first_stage=frontier_only,
            quiet=quiet,
        )
    show(result, quiet)
