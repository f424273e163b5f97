"""`cclk demo`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cclk._terminal import Console
from cclk.errors import RunError

RUNS: dict[str, tuple[str, dict[str, float]]] = {
    "untrained": ("digits-infonce", {"steps": 1, "lr": 1e-9}),
    "digits-infonce": ("digits-infonce", {}),
    "digits-fair": ("digits-fair", {}),
}
"""The runs of the demo: a preset and settings to change."""


def demo(
    *,
    out: Annotated[Path, Parameter(help="folder of the demo's runs")] = Path("runs/demo"),
    seeds: Annotated[int, Parameter(help="number of seeds of each method")] = 1,
) -> None:
    """Train InfoNCE and Fair-CCLK on colored digits, and show how conditioning removes color."""
    if seeds < 1:
        raise RunError(f"--seeds is {seeds}: it must be at least 1")
    import cclk
    from cclk._files import replace_text
    from cclk.evaluation import score_table
    from cclk.report import summarize, view_run
    from cclk.run import Run, train
    from cclk.training._process import retain_freed_memory
    from cclk.training.run_folder import SETTINGS

    began = time.perf_counter()
    retain_freed_memory()
    console = Console()
    console.print(
        "Handwritten digits on colored backgrounds. One encoder is trained with InfoNCE, one with"
        " Fair-CCLK, which should ignore the color, and one is not trained at all. Then probes try"
        " to read the digit and the color from the features of each.\n"
    )
    runs: list[Run] = []
    evaluations = {}
    for seed in range(seeds):
        for name, (preset, changes) in RUNS.items():
            folder = out / (name if seeds == 1 else f"{name}-seed{seed}")
            if (folder / SETTINGS).exists():
                runs.append(Run(folder).resume())
            else:
                overrides = {**changes, "seed": seed}
                runs.append(
                    train(preset=preset, overrides=overrides, out=folder, command="cclk demo")
                )
    for run in runs:
        evaluations[run.name] = run.evaluate(baselines=False)  # one run is not trained
    result = {
        "command": f"cclk demo --seeds {seeds}",
        "version": cclk.__version__,
        "evaluations": {
            name: [evaluations[run.name].to_json() for run in runs[number :: len(RUNS)]]
            for number, name in enumerate(RUNS)
        },
    }
    replace_text(out / "demo.json", json.dumps(result, indent=2) + "\n")
    console.print(score_table(evaluations, "digit"), highlight=False, soft_wrap=True)
    page = runs[0].report(out / "report.html", beside=runs[1:])
    for sentence in summarize([view_run(run) for run in runs]):
        console.print(f"\n{sentence}", highlight=False, markup=False, soft_wrap=True)
    seconds = time.perf_counter() - began
    console.print(
        f"\n{seconds:.0f} s in all. The report: {page.resolve()}", highlight=False, soft_wrap=True
    )
    console.print(
        "Next, on your own table: cclk check --data FILE --features COLUMNS --condition COLUMN",
        highlight=False,
        soft_wrap=True,
    )
