"""A sweep: methods over values of one of their settings, by accuracy and leakage."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass

from cclk.errors import SettingsError
from cclk.experiments.plan import Cell, Experiment, Overrides, Plan
from cclk.experiments.registry.recipes import LEAKS
from cclk.experiments.results import ExperimentResult, key_of
from cclk.registry import METHODS
from cclk.training import methods
from cclk.training.settings import Section, Settings, load

DEFAULT = (
    "fair-cclk:neighbors=1.5,3,12,48,192",
    "fair-infonce:lr=1e-5,1e-4,1e-3,6e-3",
    "infonce:lr=1e-5,1e-4,1e-3,6e-3",
)
"""How far Fair-CCLK looks for neighbors, from the nearest only to nearly everyone (which is
InfoNCE); the others over their rate, for the one that suits Fair-CCLK would ruin them.
"""


@dataclass(frozen=True)
class Knob:
    """A method, one of its settings, and the values to try."""

    method: str
    setting: str
    values: tuple[float, ...]

    @classmethod
    def read(cls, text: str) -> Knob:
        """From "method:setting=value,value,...".

        >>> Knob.read("fair-cclk:neighbors=1.5,3")
        Knob(method='fair-cclk', setting='neighbors', values=(1.5, 3))
        """
        path, _, listed = text.partition("=")
        method, _, setting = path.rpartition(":")  # an import path has a colon, too
        try:
            found = tomllib.loads(f"values = [{listed}]")["values"]
        except tomllib.TOMLDecodeError:
            found = []
        if (
            not method
            or not setting
            or not found
            or not all(isinstance(value, int | float) for value in found)
        ):
            raise SettingsError(
                f"--over {text!r} is not METHOD:SETTING=VALUE,VALUE,... with numbers, such as"
                f" {DEFAULT[0]}"
            )
        METHODS.check(method)
        return cls(method, setting, tuple(found))


def sweep(
    name: str, knobs: Sequence[Knob], common: Overrides, seeds: int, split: str, data: str = ""
) -> Experiment:
    """The experiment of a sweep over data of this fingerprint; wrong settings are told before
    anything runs.
    """
    cells = []
    for knob in knobs:
        for value in knob.values:
            settings = {**_suited(common, knob.method), "method": knob.method, knob.setting: value}
            load(overrides=settings)
            cells.append(
                Cell(
                    f"{knob.method} ({knob.setting})", "accuracy against leakage", settings, x=value
                )
            )
    plan = Plan(
        tuple(cells),
        seeds,
        measures=LEAKS,
        split="test" if split == "test" else "validation",
        whole=False,
        data=data,
    )
    return Experiment(
        name, "The frontier of accuracy and leakage", "beyond the paper", lambda size: plan
    )


def extends(plan: Plan, before: ExperimentResult) -> bool:
    """Whether a plan has every cell of a result, so that nothing of it is lost."""
    planned = {key_of(cell.settings, cell.row, 0) for cell in plan.cells}
    return before.split == plan.split and all(
        key_of(cell.settings, cell.row, 0) in planned for cell in before.cells
    )


def _suited(common: Overrides, method: str) -> Overrides:
    """Batches of like conditions are a part of the kernel methods; the others have their own."""
    kernel = methods.find(method).takes("kernel")
    return {
        name: value for name, value in common.items() if kernel or name not in ("sampler", "group")
    }


def flat(settings: Settings) -> dict[str, object]:
    """What was set of these settings, by name, but for the method and the seed: those a sweep
    sets itself.
    """
    found: dict[str, object] = {}
    for name, value in settings.model_dump(mode="json", exclude_unset=True).items():
        found |= value if isinstance(getattr(settings, name), Section) else {name: value}
    return {name: value for name, value in found.items() if name not in ("method", "seed")}
