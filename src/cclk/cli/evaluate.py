"""`cclk evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cclk._terminal import Console
from cclk.cli.output import QUIET, TRUST_CODE

_MORE = {
    "none": "To remove more, train with --remove medium.",
    "light": "To remove more, train with --remove medium.",
    "medium": "To remove more, train with --remove strong.",
    "strong": (
        "To remove more, train with narrower features (--feature-width), a stronger"
        " --leakage-penalty, or for tables more --feature-noise."
    ),
}
"""The level of removal -> what to try if it did not suffice."""


def evaluate(
    runs: Annotated[list[Path], Parameter(help="folders of finished runs", negative="")],
    *,
    bootstrap: Annotated[
        int, Parameter(help="resamples of the test split for the intervals")
    ] = 1000,
    baselines: Annotated[
        bool,
        Parameter(help="also evaluate the untrained encoder and the inputs, to compare with"),
    ] = True,
    trust_code: Annotated[list[str] | None, TRUST_CODE] = None,
    quiet: Annotated[bool, QUIET] = False,
) -> None:
    """Evaluate runs on the test split: accuracy of the label, leakage of the condition.

    Accuracy is that of a linear probe and of kNN; leakage is the R² of a linear probe and of the
    worst of a panel of probes. Writes RUN/evaluation.json, prints a table, and reports whether
    training removed the condition and what that cost in accuracy.
    """
    from cclk.evaluation import score_table
    from cclk.evaluation.run_evaluation import label_and_condition
    from cclk.run import Run
    from cclk.training._process import retain_freed_memory
    from cclk.training.methods import find

    retain_freed_memory()
    opened = [Run(folder, trust_code=trust_code or False) for folder in runs]
    # Folders of the same name are distinguished by their paths.
    unique = len({run.name for run in opened}) == len(opened)
    named = {run.name if unique else str(run.folder): run for run in opened}
    evaluations = {
        name: run.evaluate(bootstrap=bootstrap, quiet=quiet, baselines=baselines)
        for name, run in named.items()
    }
    if not quiet:
        labels = {label_and_condition(run)[0] for run in opened}
        label = labels.pop() if len(labels) == 1 else "label"
        console = Console()
        lines = [score_table(evaluations, label)]
        lines += [
            f"{name}, {sentence}" if len(named) > 1 else sentence
            for name, evaluation in evaluations.items()
            for sentence in evaluation.sentences(label_and_condition(named[name])[0])
        ]
        lines += dict.fromkeys(
            _MORE[named[name].settings.removal.remove]
            for name, evaluation in evaluations.items()
            if find(named[name].settings.method).removes and evaluation.remaining
        )
        for line in lines:
            console.print(line, highlight=False, markup=False, soft_wrap=True)
