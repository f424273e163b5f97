"""`cclk evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cclk._terminal import Console
from cclk.cli.output import QUIET, TRUST_CODE


def evaluate(
    runs: Annotated[list[Path], Parameter(help="folders of finished runs", negative="")],
    *,
    bootstrap: Annotated[
        int, Parameter(help="resamples of the test split for the intervals")
    ] = 1000,
    trust_code: Annotated[bool, TRUST_CODE] = False,
    quiet: Annotated[bool, QUIET] = False,
) -> None:
    """Evaluate runs on the test split: accuracy of the label, leakage of the condition.

    Accuracy is that of a linear probe and of kNN; leakage is read by a linear and a non-linear
    probe. Writes RUN/evaluation.json and prints a table.
    """
    from cclk.evaluation.run_evaluation import label_and_condition
    from cclk.evaluation.table import evaluation_table
    from cclk.run import Run

    opened = [Run(folder, trust_code=trust_code) for folder in runs]
    # Folders of the same name are distinguished by their paths.
    unique = len({run.name for run in opened}) == len(opened)
    named = {run.name if unique else str(run.folder): run for run in opened}
    evaluations = {
        name: run.evaluate(bootstrap=bootstrap, quiet=quiet) for name, run in named.items()
    }
    if not quiet:
        labels = {label_and_condition(run)[0] for run in opened}
        label = labels.pop() if len(labels) == 1 else "label"
        Console().print(evaluation_table(evaluations, label=label))
