"""The settings of a run: what they are, where they come from (a preset or a TOML file, then
overrides), and one clear line if wrong.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from cclk.errors import SettingsError
from cclk.training.suggestions import suggestion

Method = Literal[
    "infonce",
    "weaksup-infonce",
    "weaksup-cclk",
    "fair-infonce",
    "fair-cclk",
    "hardneg-infonce",
    "hardneg-cclk",
]
METHODS: tuple[Method, ...] = get_args(Method)
CONDITIONAL: tuple[Method, ...] = ("weaksup-infonce", "weaksup-cclk", "fair-infonce", "fair-cclk")
"""The methods that need a condition; the others compare views, and hard negatives condition on
the embedding.
"""

KernelName = Literal["auto", "rbf", "laplacian", "linear", "cosine", "polynomial", "delta"]


RENAMED = {
    "colours": "colors",
    "grey": "gray",
    "partners": "neighbors",
    "picture_size": "image_size",
    "standardise": "standardize",
}
"""Old names of settings, still accepted in run folders, files and options."""


class Section(BaseModel):
    """A group of settings: unknown names are errors, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class DataSettings(Section):
    """What is learned from."""

    dataset: str = Field(
        "colordigits",
        description=(
            "colordigits, colormnist, cifar10, fashion-mnist, ut-zappos, cub, imagenet-100, or an"
            " .npz file"
        ),
    )
    data_dir: Path | None = Field(
        None, description="where dataset files are; default: CCLK_DATA, else ~/.cache/cclk"
    )
    holdout: int | None = Field(
        None,
        ge=0,
        description="training rows moved to the validation split; default: the dataset's own",
    )
    dataset_options: dict[str, Any] = Field({}, description="options of the dataset itself")
    condition_scale: float = Field(
        1.0, gt=0, description="the condition is multiplied by it, as if measured in other units"
    )
    standardize: bool = Field(
        True,
        description="scale each continuous condition column to unit variance on the training split",
    )


class AugmentSettings(Section):
    """How two views are made of a sample."""

    augmentation: Literal["simclr", "digits", "none", "vectors"] = Field(
        "digits", description="the family of random changes"
    )
    augmentation_options: dict[str, Any] = Field(
        {}, description="its settings, such as { crop = [0.2, 1.0] }"
    )


class ModelSettings(Section):
    """What is trained."""

    encoder: str = Field(
        "lenet5", description="lenet5, resnet18, resnet34, resnet50, mlp, or package.module:factory"
    )
    encoder_options: dict[str, Any] = Field(
        {}, description="its settings, such as { stem = 'cifar', width = 16 }"
    )
    head: str = Field("linear-bn", description="projection head: linear-bn, mlp, linear or none")
    projection: int = Field(128, ge=1, description="width of the projection")


class LossSettings(Section):
    """How views are compared."""

    temperature: float = Field(0.1, gt=0, description="cosine similarities are divided by it")
    kernel: KernelName = Field(
        "auto", description="similarity of conditions; auto: by the kind of each column"
    )
    length_scale: float | Literal["auto", "median"] = Field(
        "auto", description="of rbf and laplacian"
    )
    neighbors: float = Field(
        3.0, ge=1, description="effective neighbors that length_scale auto leaves the median anchor"
    )
    degree: int = Field(3, ge=1, description="of the polynomial kernel")
    offset: float = Field(0.0, ge=0, description="of the polynomial kernel")
    ridge: float = Field(0.01, gt=0, description="regularization of the conditional operator")
    weights: Literal["loo", "paper", "release", "nw"] = Field(
        "loo", description="which weights are made of the operator"
    )
    solver: Literal["auto", "exact", "features", "nystrom"] = Field(
        "auto", description="how the operator is found"
    )
    views: Literal["cross", "all"] = Field("all", description="all: also compare within a view")
    symmetric: bool = Field(True, description="both views are anchors")
    beta: float = Field(1.0, ge=0, description="hardness of hardneg-infonce")
    tau_plus: float = Field(
        0.1, ge=0, lt=1, description="assumed share of false negatives of hardneg-infonce"
    )
    clusters: Annotated[int, Field(ge=1)] | Literal["values"] = Field(
        10,
        description=(
            "k-means clusters of the cluster baselines; values: every distinct value of the"
            " condition is one"
        ),
    )


class OptimSettings(Section):
    """How weights move."""

    optimizer: Literal["adam", "adamw", "sgd", "lars"] = Field("adam", description="the optimizer")
    lr: float = Field(3e-3, gt=0, description="base learning rate")
    scale_lr: bool = Field(False, description="multiply lr by batch_size / 256")
    weight_decay: float = Field(0.0, ge=0, description="not on biases and norms")
    momentum: float = Field(0.9, ge=0, lt=1, description="of sgd and lars")
    warmup: float = Field(0.0, ge=0, description="epochs of linear ramp before the cosine")


class TrainSettings(Section):
    """For how long, on what batches."""

    batch_size: int = Field(256, ge=2, description="samples per step, over all processes")
    epochs: float | None = Field(
        None, gt=0, description="passes over the training split, instead of steps"
    )
    steps: int | None = Field(
        None, ge=1, description="batches to train on; 1,175 if neither steps nor epochs are given"
    )
    sampler: Literal["auto", "uniform", "local", "clusters"] = Field(
        "auto",
        description=(
            "local: groups of neighbors in the condition; auto: clusters for the cluster baselines,"
            " else uniform"
        ),
    )
    group: int = Field(16, ge=1, description="neighbors per group of the local sampler")
    queue: int = Field(
        0,
        ge=0,
        description=(
            "samples whose past keys, by a momentum encoder, are neighbors beside the batch; 0:"
            " none"
        ),
    )
    ema: float = Field(
        0.99,
        ge=0,
        lt=1,
        description=(
            "how slowly the momentum encoder follows: the share of its weights kept each step"
        ),
    )
    precision: Literal["float32", "bfloat16"] = Field(
        "float32",
        description=(
            "of the network's inner products; bfloat16 is faster where processor or GPU support it;"
            " weights stay float32"
        ),
    )
    threads: int | None = Field(
        None,
        ge=1,
        description=(
            "threads to compute with; default: all cores, or fewer if a short measurement says that"
            " is faster"
        ),
    )
    log_every: int = Field(20, ge=1, description="steps between metrics")
    checkpoint_every: int = Field(500, ge=1, description="steps between checkpoints")
    devices: int = Field(1, ge=1, description="processes on this machine")

    @model_validator(mode="after")
    def _one_length(self) -> TrainSettings:
        if self.epochs is not None and self.steps is not None:
            raise ValueError("give epochs or steps, not both")
        return self


class Settings(Section):
    """Everything a run depends on."""

    method: Method = Field("fair-cclk", description="what to learn from the condition, and how")
    seed: int = Field(0, ge=0, lt=2**32, description="of weights, batches and views")
    data: DataSettings = DataSettings()
    augment: AugmentSettings = AugmentSettings()
    model: ModelSettings = ModelSettings()
    loss: LossSettings = LossSettings()
    optim: OptimSettings = OptimSettings()
    train: TrainSettings = TrainSettings()


def places() -> Iterator[tuple[str, str, Any]]:
    """Every setting: its name, the section it is in ("" for none), and its field."""
    for name, field in Settings.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            yield from (
                (inner, name, detail) for inner, detail in field.annotation.model_fields.items()
            )
        else:
            yield name, "", field


def choices(annotation: Any) -> list[str]:
    """The words that a setting of this type takes; none if it takes no words, or any.

    >>> choices(float | Literal["auto", "median"])
    ['auto', 'median']
    """
    words = get_args(annotation)
    if get_origin(annotation) is Literal:
        return [str(word) for word in words]
    return [choice for part in words for choice in choices(part)]


def presets() -> list[str]:
    """The names of the presets that come with the package."""
    return sorted(
        item.name.removesuffix(".toml")
        for item in _presets().iterdir()
        if item.name.endswith(".toml")
    )


def load(
    source: Path | None = None,
    preset: str | None = None,
    overrides: Mapping[str, object] | None = None,
) -> Settings:
    """Settings from a preset or a TOML file, with some replaced by name.

    Args:
        overrides: setting name ("lr", "optim.lr" or "optim:lr") to its value; text is read as TOML
            (`0.1`, `true`, `{ width = 16 }`).
    """
    if source is not None and preset is not None:
        raise SettingsError("give a settings file or --preset, not both")
    tree: dict[str, Any] = {}
    where = "settings"
    if preset is not None:
        if preset not in presets():
            raise SettingsError(
                f"there is no preset {preset!r}{suggestion(preset, presets())}: choose one of"
                f" {', '.join(presets())}"
            )
        tree, where = tomllib.loads((_presets() / f"{preset}.toml").read_text()), f"preset {preset}"
    elif source is not None:
        where = str(source)
        try:
            tree = tomllib.loads(source.read_text())
        except FileNotFoundError:
            raise SettingsError(
                f"there is no settings file {source}: see `cclk train --help` for presets"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{source} cannot be read: {error}") from error
        except tomllib.TOMLDecodeError as error:
            raise SettingsError(f"{source} is not valid TOML: {error}") from error
    for name, value in (overrides or {}).items():
        if value is not None:
            _put(tree, name, _parsed(value))
    return parse(tree, where)


def parse(tree: Mapping[str, Any], where: str = "settings") -> Settings:
    """Checked settings; the first thing wrong is said in one line."""
    try:
        return Settings.model_validate(_with_new_names(tree))
    except ValidationError as error:
        found = error.errors()
        first, name = found[0], _name(found[0])
        if first["type"] == "extra_forbidden":
            known = {key: f"{section}.{key}" if section else key for key, section, _ in places()}
            known |= {section: section for _, section, _ in places() if section}
            raise SettingsError(
                f"{where}: there is no setting {name!r}{suggestion(name.rpartition('.')[2], known)}"
            ) from None
        # A setting that takes a number or a word fails once for each.
        faults = [
            fault["msg"].removeprefix("Value error, ") for fault in found if _name(fault) == name
        ]
        told = ", or ".join(fault[0].lower() + fault[1:] for fault in faults)
        given = "" if isinstance(first["input"], dict | BaseModel) else f", not {first['input']!r}"
        words = next(
            (
                choices(field.annotation)
                for key, section, field in places()
                if name == (f"{section}.{key}" if section else key)
            ),
            [],
        )
        raise SettingsError(
            f"{where}: {name}: {told}{given}{suggestion(str(first['input']), words)}"
        ) from None


def _with_new_names(node: Any) -> Any:
    """A tree of settings in which old names are replaced."""
    if isinstance(node, Mapping):
        return {RENAMED.get(name, name): _with_new_names(value) for name, value in node.items()}
    return "values" if node == "outcomes" else node


def _name(fault: Mapping[str, Any]) -> str:
    """The setting a fault is about: a section and a name, without the alternatives of its type."""
    return ".".join(str(part) for part in fault["loc"][:2])


def _put(tree: dict[str, Any], name: str, value: object) -> None:
    name = name.replace("-", "_").replace(":", ".")
    section, _, key = name.rpartition(".")
    key = RENAMED.get(key, key)
    found = [
        (place, inner) for inner, place, _ in places() if inner == key and section in ("", place)
    ]
    if not found:
        known = [inner.replace("_", "-") for inner, _, _ in places()]
        raise SettingsError(
            f"there is no setting {name.replace('_', '-')!r}{suggestion(key, known)}: `cclk train"
            " --help-all` lists them"
        )
    place, inner = found[0]
    target = tree.setdefault(place, {}) if place else tree
    if not isinstance(target, dict):
        raise SettingsError(f"{place} is {target!r}: it must be a section of settings, [{place}]")
    if inner in ("epochs", "steps"):  # the one given last holds
        target.pop("steps" if inner == "epochs" else "epochs", None)
    target[inner] = value


def _parsed(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return value


def _presets() -> Any:
    return resources.files("cclk.training") / "presets"
