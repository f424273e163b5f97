"""A sweep: methods over values of one of their settings, as accuracy against leakage."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass

from cclk.errors import SettingsError
from cclk.registry import METHODS
from cclk.training import methods
from cclk.training.settings import Section, Settings, load
from cclk_paper.experiments.measure import Measure
from cclk_paper.experiments.plan import Cell, Experiment, Overrides, Plan
from cclk_paper.experiments.results import ExperimentResult, key_of

MEASURES: tuple[Measure, ...] = ("accuracy", "knn", "worst_r2")
DEFAULT = (
    "fair-cclk:leakage_penalty=1,3,10",
    "fair-cclk:neighbors=1.5,3,12,48,192",
    "fair-infonce:lr=1e-5,1e-4,1e-3,6e-3",
    "infonce:lr=1e-5,1e-4,1e-3,6e-3",
)
"""Fair-CCLK over the strength of the penalty, and over the number of neighbors up to nearly the
batch, which is InfoNCE; the baselines over their learning rate, since that of Fair-CCLK does not
suit them.
"""


@dataclass(frozen=True)
class Knob:
    """A method, one of its settings, and the values to try."""

    method: str
    setting: str
    values: tuple[float, ...]

    @classmethod
    def read(cls, text: str) -> Knob:
        """Parse "method:setting=value,value,...".

        >>> Knob.read("fair-cclk:neighbors=1.5,3")
        Knob(method='fair-cclk', setting='neighbors', values=(1.5, 3))
        """
        path, _, listed = text.partition("=")
        method, _, setting = path.rpartition(":")  # an import path has a colon, too
        try:
            values = tomllib.loads(f"values = [{listed}]")["values"]
        except tomllib.TOMLDecodeError:
            values = []
        numbers = bool(values) and all(isinstance(value, int | float) for value in values)
        if not method or not setting or not numbers:
            raise SettingsError(
                f"{text!r} is not METHOD:SETTING=VALUE,VALUE,... with numbers, such as {DEFAULT[0]}"
            )
        METHODS.check(method)
        return cls(method, setting, tuple(values))


def sweep(
    name: str, knobs: Sequence[Knob], common: Overrides, seeds: int, split: str, data: str = ""
) -> Experiment:
    """Return the experiment of a sweep; invalid settings raise an error here.

    Args:
        name: of the experiment and its file.
        knobs: methods and the values of their settings.
        common: settings of all runs.
        seeds: runs of each value.
        split: "test" or "validation", where runs are measured.
        data: fingerprint of the dataset.
    """
    cells = []
    for knob in knobs:
        # Batches of similar conditions are for kernel methods; others have their own sampler.
        kernel = methods.find(knob.method).takes("kernel")
        shared = {
            key: value for key, value in common.items() if kernel or key not in ("sampler", "group")
        }
        for value in knob.values:
            settings = {**shared, "method": knob.method, knob.setting: value}
            load(overrides=settings)
            row = f"{knob.method} ({knob.setting})"
            cells.append(Cell(row, "accuracy against leakage", settings, x=value))
    plan = Plan(
        tuple(cells),
        seeds,
        measures=MEASURES,
        split="test" if split == "test" else "validation",
        train_on_holdout=False,
        data=data,
    )
    title = "The frontier of accuracy and leakage"
    return Experiment(name, title, "beyond the paper", lambda size: plan)


def extends(plan: Plan, before: ExperimentResult) -> bool:
    """Whether a plan has every cell of a result, so that none of its runs is lost."""
    planned = {key_of(cell.settings, cell.row, 0) for cell in plan.cells}
    return before.split == plan.split and all(
        key_of(cell.settings, cell.row, 0) in planned for cell in before.cells
    )


def flat(settings: Settings) -> dict[str, object]:
    """Return the settings that were set, by name, except method and seed, which a sweep sets."""
    values: dict[str, object] = {}
    for name, value in settings.model_dump(mode="json", exclude_unset=True).items():
        values |= value if isinstance(getattr(settings, name), Section) else {name: value}
    return {name: value for name, value in values.items() if name not in ("method", "seed")}
