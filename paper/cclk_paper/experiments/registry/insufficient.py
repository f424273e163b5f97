"""Few samples per value of the condition, which conditional sampling needs and a kernel does not.

The condition is a list of noisy binary attributes. The more of them, the fewer images share a
value: conditional sampling takes pairs from images with exactly the same attributes, the kernel
from images with similar ones.
"""

from __future__ import annotations

from cclk_paper.datasets.ut_zappos import samples_per_value
from cclk_paper.experiments.plan import Cell, Experiment, Overrides, Plan, Size
from cclk_paper.experiments.registry.recipes import DIGITS_SMOKE, FASHION, SEGMENTS, ZAPPOS
from cclk_paper.experiments.registry.weaksup import INNER

SAMPLES = {6: 937.5, 8: 234.4, 10: 60.4, 12: 17.5, 16: 3.2, 24: 1.2}
"""Number of attributes -> mean number of the 60,000 training images with the same ones."""

KEPT = (4, 8, 16, 32, 64, 126)
"""Numbers of attributes of UT-Zappos, the most frequent ones; 126 are all of them."""


def plan(size: Size) -> Plan:
    """UT-Zappos with few to all attributes; Fashion-MNIST instead of it at other sizes."""
    if size == "paper":  # the numbers of shoes are those of the official table, where it is there
        samples = samples_per_value(KEPT) or dict.fromkeys(KEPT[-1:], 1.0)
        points = [
            (round(mean, 1), "UT-Zappos", {**ZAPPOS, "dataset_options": {"attributes": count}})
            for count, mean in samples.items()
        ]
    elif size == "smoke":
        settings = {**DIGITS_SMOKE, "dataset_options": SEGMENTS}
        points = [(10.0, "digits, seven segments", settings)]
    else:
        points = [
            (
                samples,
                "Fashion-MNIST, noisy attributes",
                {**FASHION, "dataset_options": {"attributes": count, "noise": 0.2}},
            )
            for count, samples in SAMPLES.items()
        ]
    methods: dict[str, Overrides] = {
        "WeaklySup-InfoNCE": {"method": "weaksup-infonce", "clusters": "values"},
        "WeaklySup-CCLK": INNER,
    }
    cells = [
        Cell(row, column, {**settings, **method}, x=samples)
        for samples, column, settings in points
        for row, method in methods.items()
    ]
    return Plan(
        tuple(cells),
        seeds=1 if size == "smoke" else 3,
        note="" if size == "paper" else "Fashion-MNIST stands in for UT-Zappos",
    )


EXPERIMENT = Experiment(
    "insufficient",
    "Few samples per value",
    "Figure 3",
    plan,
    axis="training images per value of the condition",
)
