"""Too few samples per value of the condition: what conditional sampling needs and a kernel does
not.

The condition is a list of noisy binary attributes. The more of them, the fewer images share a
value: conditional sampling takes its pairs from images with exactly the same attributes, the kernel
from images with similar ones.
"""

from __future__ import annotations

from cclk.experiments.plan import Cell, Experiment, Plan, Size
from cclk.experiments.registry.recipes import DIGITS_SMOKE, FASHION, ZAPPOS

SAMPLES = {6: 937.5, 8: 234.4, 10: 60.4, 12: 17.5, 16: 3.2, 24: 1.2}
"""Number of attributes, and how many of the 60,000 training images have the same ones on average."""


def plan(size: Size) -> Plan:
    """Fashion-MNIST with from 1 to about 1,000 images per value; the paper has UT-Zappos."""
    if size == "paper":
        points = [(1.0, "UT-Zappos", ZAPPOS)]
    elif size == "smoke":
        points = [
            (
                10.0,
                "digits, seven segments",
                {**DIGITS_SMOKE, "dataset_options": {"segments": True}},
            )
        ]
    else:
        points = [
            (
                samples,
                "Fashion-MNIST, noisy attributes",
                {**FASHION, "dataset_options": {"attributes": count, "noise": 0.2}},
            )
            for count, samples in SAMPLES.items()
        ]
    cells = []
    for samples, column, settings in points:
        cells += [
            Cell(
                "WeaklySup-InfoNCE",
                column,
                {**settings, "method": "weaksup-infonce", "clusters": "values"},
                x=samples,
            ),
            Cell("WeaklySup-CCLK", column, {**settings, "method": "weaksup-cclk"}, x=samples),
        ]
    return Plan(
        tuple(cells),
        seeds=1 if size == "smoke" else 3,
        note="" if size == "paper" else "Fashion-MNIST stands in for UT-Zappos",
    )


EXPERIMENT = Experiment(
    "insufficient",
    "Few samples per value",
    "figure: samples per value",
    plan,
    axis="training images per value of the condition",
)
