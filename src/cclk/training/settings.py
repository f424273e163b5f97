"""The settings of a run: their names, types and defaults, and where they come from (a preset or a
TOML file, then overrides).
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from cclk._reading import check_tree, parse_toml, read_text, reason
from cclk.errors import CclkError, SettingsError
from cclk.registry import (
    AUGMENTATIONS,
    DATASETS,
    ENCODERS,
    HEADS,
    KERNELS,
    METHODS,
    OPTIMIZERS,
    PENALTIES,
    Registry,
    require_trust,
)
from cclk.suggestions import suggestion

Missing = Literal["error", "drop", "impute"]
AUTO: Literal["auto"] = "auto"
"""Stands for a default that depends on the data; see `cclk.training.resolve`."""
OPTIONS = {
    "kernel_options": ("length_scale", "neighbors", "degree", "offset"),
    "loss_options": (
        "ridge", "solver", "views", "symmetric", "positives", "own_share", "uniform_share", "beta",
        "tau_plus",
    ),
    "sampler_options": ("group",),
}  # fmt: skip
"""Setting -> its options in this package, which overrides may name directly, as in "ridge"."""
LARGEST = 1e18
"""The largest number of a setting: with larger ones training overflows."""


class Section(BaseModel):
    """A group of settings. Unknown names are errors; values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _read_text(cls, value: Any, info: ValidationInfo) -> Any:
        """The command line passes text: options as TOML, such as `{ width = 16 }`."""
        kind = get_origin(cls.model_fields[str(info.field_name)].annotation)
        if isinstance(value, str) and kind is dict:
            return parse_toml(f"value = {value}")["value"]
        return [value] if isinstance(value, str) and kind is list else value

    @field_validator("*")
    @classmethod
    def _is_registered(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, int | float) and abs(value) > LARGEST:
            raise ValueError(f"input should be at most {LARGEST:g}, not {value:g}")
        field = cls.model_fields[str(info.field_name)]
        registry = _registry(field)
        return (
            value if registry is None or value in (None, field.default) else registry.check(value)
        )


class TableSettings(Section):
    """A table of one's own, and what its columns are for."""

    data: Path | None = Field(None, description="a .csv or .parquet file")
    image: str | None = Field(None, description="column of image paths, relative to the file")
    features: list[str] = Field(
        [], description="or columns of numbers, by name or by a pattern 'sensor_*'"
    )
    condition: list[str] = Field(
        [],
        description=(
            "columns to use, ignore or find hard, or a pattern 'has_*'; a kind or a kernel may"
            " follow: 'site:categorical', 'hour:circular', 'age:laplacian'"
        ),
    )
    label: str | None = Field(None, description="column that probes predict from the features")
    split: str | None = Field(
        None, description="train, validation or test; default: drawn, 70 : 15 : 15"
    )
    split_by: str | None = Field(
        None, description="names persons or the like; rows of one are all in one split"
    )
    row_id: str | None = Field(None, description="column that names each row; default: its number")
    missing: Missing = Field("error", description="rows that lack a value")
    image_size: int = Field(32, ge=1, description="pixels; images are cropped to a square")
    gray: bool = Field(False, description="read images in gray")

    @model_validator(mode="after")
    def _is_complete(self) -> TableSettings:
        if self.data is None and (columns := self.columns()):
            raise ValueError(
                f"{next(iter(columns))} is a column of a table: pass the table too, as data"
            )
        for name in ("image_size", "gray"):
            if not self.image and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} is for images: pass their column too, as image")
        return self

    def columns(self) -> dict[str, object]:
        """The columns that have a use."""
        names = ("image", "features", "condition", "label", "split", "split_by", "row_id")
        return {name: value for name in names if (value := getattr(self, name))}


class DataSettings(Section):
    """The data to train on, if they are not a table of one's own."""

    dataset: Annotated[str | None, DATASETS] = Field(
        "colordigits", description="dataset, or a .npz file"
    )
    data_dir: Path | None = Field(
        None, description="folder of dataset files; default: CCLK_DATA, else ~/.cache/cclk"
    )
    holdout: int | None = Field(
        None,
        ge=0,
        description="training rows moved to the validation split; default: set by the dataset",
    )
    dataset_options: dict[str, object] = Field({}, description="options of the dataset")
    condition_scale: float = Field(
        1.0, gt=0, description="factor of the condition, as if measured in other units"
    )
    standardize: bool = Field(
        True,
        description=(
            "scale continuous condition columns to unit variance, and embeddings to length 1 around"
            " their mean"
        ),
    )


class AugmentSettings(Section):
    """How two views of a sample are drawn."""

    augmentation: Annotated[str, AUGMENTATIONS] = Field(
        AUTO,
        description=(
            "random changes of a view; auto: vectors for numbers, simclr for color images of a"
            " table, else digits"
        ),
    )
    augmentation_options: dict[str, object] = Field(
        {}, description="options of the augmentation, such as { crop = [0.2, 1.0] }"
    )


class ModelSettings(Section):
    """The network to train."""

    encoder: Annotated[str, ENCODERS] = Field(
        AUTO,
        description=("network; auto: mlp for numbers, resnet18 or lenet5 for images"),
    )
    encoder_options: dict[str, object] = Field(
        {}, description="options of the encoder, such as { stem = 'cifar', width = 16 }"
    )
    feature_width: int | None = Field(
        None,
        ge=1,
        le=16384,
        description="number of features, by a linear layer; default: that of the encoder",
    )
    head: Annotated[str, HEADS] = Field("linear-bn", description="projection head")
    projection: int = Field(128, ge=1, le=16384, description="dimensions of the projection")


class LossSettings(Section):
    """The loss and its kernel."""

    temperature: float | None = Field(
        None,
        gt=0,
        description=(
            "cosine similarities are divided by it; default: 0.2 to remove a condition of a table,"
            " else 0.1"
        ),
    )
    kernel: Annotated[str, KERNELS] = Field(
        "auto", description="similarity of conditions; auto: by the kind of each column"
    )
    kernel_options: dict[str, object] = Field(
        {},
        description=(
            "options of the kernel, such as { neighbors = 12 }: length_scale and neighbors of rbf"
            " and laplacian, degree and offset of polynomial"
        ),
    )
    weights: Literal["auto", "loo", "paper", "authors", "nw"] = Field(
        "auto", description="weights of neighbors; auto: nw for fair-cclk, else loo"
    )
    loss_options: dict[str, object] = Field(
        {},
        description=(
            "options of the loss, such as { ridge = 0.1 }: ridge, solver, views, symmetric;"
            " positives and own_share of weaksup-cclk; uniform_share and tau_plus of hardneg-cclk;"
            " beta and tau_plus of hardneg-infonce"
        ),
    )
    clusters: Annotated[int, Field(ge=1)] | Literal["values"] = Field(
        10,
        description=(
            "k-means clusters of the cluster baselines; values: one for every distinct value of the"
            " condition"
        ),
    )


class RemovalSettings(Section):
    """What the features must not reveal, and what they must keep."""

    remove: Literal["auto", "none", "light", "medium", "strong"] = Field(
        AUTO,
        description=(
            "how much condition to remove; auto: medium for fair methods on a table, else none"
        ),
    )
    leakage_penalty: float = Field(
        0.0,
        ge=0,
        description=(
            "strength of the penalty on what the features reveal of the condition, with any method;"
            " 1 to 20, 0: none"
        ),
    )
    penalty: Annotated[str, PENALTIES] = Field("reader", description="how leakage is penalized")
    penalty_ramp: float = Field(
        0.3,
        ge=0,
        le=1,
        description="share of the steps in which the strength of the penalty rises from 0",
    )
    penalty_rows: int = Field(
        0,
        ge=0,
        description="further training samples per step that the penalty learns from",
    )
    feature_noise: float = Field(
        0.0,
        ge=0,
        description=(
            "noise on the features, a fixed function of the table, in units of their standard"
            " deviation; for tables"
        ),
    )
    keep: str = Field(
        "",
        description=(
            "label that the features must keep: its column in a table, or `label`; trains a linear"
            " classifier beside the loss"
        ),
    )
    keep_strength: float = Field(
        100.0,
        gt=0,
        description="with keep, the contrastive loss is divided by it, so that the label decides",
    )
    independence: Literal["parity", "odds"] = Field(
        "parity",
        description=(
            "what the penalty demands of features and condition: parity: independence; odds:"
            " independence among samples of the same label"
        ),
    )


class OptimSettings(Section):
    """The optimizer and its learning rate."""

    optimizer: Annotated[str, OPTIMIZERS] = Field("adam", description="optimizer")
    lr: float = Field(3e-3, gt=0, description="base learning rate")
    scale_lr: bool = Field(False, description="multiply lr by batch_size / 256")
    weight_decay: float = Field(0.0, ge=0, description="weight decay, except of biases and norms")
    momentum: float = Field(0.9, ge=0, lt=1, description="momentum of sgd and lars")
    warmup: float = Field(0.0, ge=0, description="epochs of linear warmup before the cosine")


class TrainSettings(Section):
    """The length of the run, its batches, and how it is computed."""

    batch_size: int = Field(256, ge=2, description="samples per step, over all processes")
    epochs: float | None = Field(
        None, gt=0, description="passes over the training split, instead of steps"
    )
    steps: int | None = Field(
        None,
        ge=1,
        description=("batches; default: 400 to remove a condition of numbers, else 1,175"),
    )
    sampler: Literal["auto", "uniform", "local", "clusters"] = Field(
        "auto",
        description=(
            "local: groups of neighbors in the condition; auto: clusters for the cluster baselines,"
            " local for weaksup-cclk unless its condition is categorical, else uniform"
        ),
    )
    sampler_options: dict[str, object] = Field(
        {},
        description=(
            "options of the samplers local and clusters: { group = 8 }, rows per group; default: 16"
            " neighbors of local (4 for weaksup-cclk), 2 rows of a cluster"
        ),
    )
    queue: int = Field(
        0,
        ge=0,
        description=(
            "past samples, embedded by a momentum encoder, that are neighbors beside the batch; 0:"
            " none"
        ),
    )
    ema: float = Field(
        0.99,
        ge=0,
        lt=1,
        description=(
            "decay of the momentum encoder: the share of its weights that each step keeps"
        ),
    )
    precision: Literal["float32", "bfloat16"] = Field(
        "float32",
        description=(
            "precision of matrix products; bfloat16 is faster where processor or GPU support it;"
            " weights stay float32"
        ),
    )
    threads: int | None = Field(
        None,
        ge=1,
        le=1024,
        description="threads to compute with; default: all cores",
    )
    log_every: int = Field(20, ge=1, description="steps between metrics")
    checkpoint_every: int = Field(500, ge=1, description="steps between checkpoints")
    devices: int = Field(1, ge=1, le=64, description="processes on this machine")
    nodes: int = Field(
        1,
        ge=1,
        description=(
            "machines, each of which runs this command, with MASTER_ADDR, MASTER_PORT and"
            " NODE_RANK in its environment unless SLURM starts them"
        ),
    )

    @model_validator(mode="after")
    def _one_length(self) -> TrainSettings:
        if self.epochs is not None and self.steps is not None:
            raise ValueError("set epochs or steps, not both")
        return self


class Settings(Section):
    """All settings of a run."""

    method: Annotated[str, METHODS] = Field("fair-cclk", description="how to use the condition")
    seed: int = Field(0, ge=0, lt=2**32, description="seed of weights, batches and views")
    table: TableSettings = TableSettings()
    data: DataSettings = DataSettings()
    augment: AugmentSettings = AugmentSettings()
    model: ModelSettings = ModelSettings()
    loss: LossSettings = LossSettings()
    removal: RemovalSettings = RemovalSettings()
    optim: OptimSettings = OptimSettings()
    train: TrainSettings = TrainSettings()

    @model_validator(mode="after")
    def _one_source(self) -> Settings:
        for name in ("dataset", "dataset_options"):
            if self.table.data is not None and getattr(self.data, name):
                raise ValueError(f"data and {name} both name the training data: pass one")
        return self

    @property
    def source(self) -> str:
        """The table, or the name or file of a dataset."""
        return str(self.data.dataset if self.table.data is None else self.table.data)

    @property
    def source_options(self) -> dict[str, object]:
        """The options that the data are loaded with."""
        if self.table.data is None:
            return dict(self.data.dataset_options)
        options = self.table.columns() | {"missing": self.table.missing}
        if self.removal.keep:
            options.setdefault("label", self.removal.keep)
        if self.table.image:
            options |= {"size": self.table.image_size, "gray": self.table.gray}
        return options

    def with_defaults(self, **defaults: object) -> Settings:
        """Return settings with these values by name, where they have not been set."""
        changes: dict[str, dict[str, object]] = {}
        for name, section, _ in setting_fields():
            values = getattr(self, section) if section else self
            unset = name not in values.model_fields_set or getattr(values, name) in (None, AUTO)
            if name in defaults and unset:
                changes.setdefault(section, {})[name] = defaults[name]
        return self.model_copy(
            update={
                section: getattr(self, section).model_copy(update=values)
                for section, values in changes.items()
            }
        )

    def without_paths(self) -> Settings:
        """Return settings for a file that may be published: of absolute paths, the last part."""

        def short(value: Any) -> Any:
            if isinstance(value, Path) and value.is_absolute():
                return Path(value.name)
            if isinstance(value, str) and (value.startswith("~/") or Path(value).is_absolute()):
                return Path(value).name
            return value

        options = {name: short(value) for name, value in self.data.dataset_options.items()}
        dataset = short(self.data.dataset)
        data = {"data_dir": None, "dataset": dataset, "dataset_options": options}
        table = {"data": short(self.table.data)}
        return self.model_copy(
            update={
                "data": self.data.model_copy(update=data),
                "table": self.table.model_copy(update=table),
            }
        )


def setting_fields() -> Iterator[tuple[str, str, FieldInfo]]:
    """Yield the name of every setting, its section ("" for none) and its field."""
    for name, field in Settings.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            yield from (
                (inner, name, detail) for inner, detail in field.annotation.model_fields.items()
            )
        else:
            yield name, "", field


def choices(setting: Any) -> list[str]:
    """Return the names that a setting accepts; none if it accepts any text, or no text.

    Args:
        setting: The field of a setting, or a type.

    Example:
        >>> choices(RemovalSettings.model_fields["independence"])
        ['parity', 'odds']
    """
    if isinstance(setting, FieldInfo):
        return list(_registry(setting) or choices(setting.annotation))
    arguments = get_args(setting)
    if get_origin(setting) is Literal:
        return [str(argument) for argument in arguments]
    return [choice for argument in arguments for choice in choices(argument)]


def _registry(field: FieldInfo) -> Registry[Any] | None:
    return next((each for each in field.metadata if isinstance(each, Registry)), None)


def presets() -> list[str]:
    """Return the names of the presets of this package."""
    return sorted(
        item.name.removesuffix(".toml")
        for item in _presets().iterdir()
        if item.name.endswith(".toml")
    )


def load(
    source: Path | None = None,
    preset: str | None = None,
    overrides: Mapping[str, object] | None = None,
    *,
    trust_code: bool | Collection[str] = False,
) -> Settings:
    """Load settings from a preset or a TOML file, and override some.

    Args:
        source: A TOML file.
        preset: The name of a preset, instead of a file.
        overrides: Values by the name of the setting ("lr", "optim.lr" or "optim:lr"), or their
            text (`0.1`, `true`, `{ width = 16 }`).
        trust_code: The import paths that the file may name, or True for all; overrides may name
            any.
    """
    if source is not None and preset is not None:
        raise SettingsError("choose a settings file or a preset, not both")
    tree: dict[str, Any] = {}
    where = "settings"
    if preset is not None:
        if preset not in presets():
            raise SettingsError(
                f"unknown preset {preset!r}{suggestion(preset, presets())}: choose one of"
                f" {', '.join(presets())}"
            )
        tree, where = tomllib.loads((_presets() / f"{preset}.toml").read_text()), f"preset {preset}"
    elif source is not None:
        where = str(source)
        try:
            tree = parse_toml(read_text(source))
        except FileNotFoundError:
            raise SettingsError(
                f"the settings file {source} does not exist: see `cclk train --help` for presets"
            ) from None
        except (OSError, CclkError) as error:
            raise SettingsError(f"{source} cannot be read: {reason(error)}") from error
        require_trust(import_paths(tree), where, trust_code)
    for name, value in (overrides or {}).items():
        if value is not None:
            _override(tree, name, value)
    table, data = tree.get("table"), tree.setdefault("data", {})
    if isinstance(table, dict) and isinstance(data, dict) and "data" in table:
        if isinstance(table["data"], str | os.PathLike):
            table["data"] = Path(table["data"]).resolve()
        data.setdefault("dataset", None)
    return parse(tree, where)


def import_paths(tree: Mapping[str, object]) -> dict[str, str]:
    """Return the import paths in settings, by the name of the setting. Nothing is imported.

    Args:
        tree: Settings and sections by name, before validation.
    """
    paths: dict[str, str] = {}
    for name, section, field in setting_fields():
        values = tree.get(section) if section else tree
        value = values.get(name) if isinstance(values, Mapping) else None
        registry = _registry(field)
        if registry is not None and isinstance(value, str) and registry.is_import_path(value):
            paths[_full_name(name, section)] = value
        if name == "dataset_options" and isinstance(value, Mapping):
            name, value = "condition", value.get("condition")
        if name == "condition":
            for column in value if isinstance(value, list) else [value]:
                kernel = str(column).partition(":")[2]
                if KERNELS.is_import_path(kernel):
                    paths[f"condition {column}"] = kernel
    return paths


def parse(tree: Mapping[str, object], where: str = "settings") -> Settings:
    """Validate settings; the first invalid one raises an error of one line.

    Args:
        tree: Settings and sections by name.
        where: What to call the source in errors.
    """
    try:
        check_tree(tree, finite=False)
        settings = Settings.model_validate(tree)
        check_tree(settings.model_dump())  # options of datasets and networks can be of any type
        return settings
    except CclkError as error:
        raise SettingsError(f"{where}: {error}") from None
    except ValidationError as error:
        faults = error.errors()
    first, name = faults[0], _name(faults[0])
    if first["type"] == "extra_forbidden":
        known = {key: _full_name(key, section) for key, section, _ in setting_fields()}
        known |= {section: section for _, section, _ in setting_fields() if section}
        raise SettingsError(
            f"{where}: unknown setting {name!r}{suggestion(name.rpartition('.')[2], known)}"
        )
    # A setting that takes a number or a name fails once for each.
    messages = [
        fault["msg"].removeprefix("Value error, ") for fault in faults if _name(fault) == name
    ]
    message = ", or ".join(each[0].lower() + each[1:] for each in messages)
    if first["type"] != "value_error":
        accepted = next(
            (
                choices(field)
                for key, section, field in setting_fields()
                if name == _full_name(key, section)
            ),
            [],
        )
        actual = str(first["input"])[:100]
        shown = repr(actual) if isinstance(first["input"], str) else actual
        message += f", not {shown}{suggestion(actual, accepted)}"
    raise SettingsError(f"{where}: {name}: {message[:500]}")


def _full_name(name: str, section: str) -> str:
    return f"{section}.{name}" if section else name


def _name(fault: Mapping[str, Any]) -> str:
    """The setting of a fault: section and name, without the alternatives of its type."""
    return ".".join(str(part)[:100] for part in fault["loc"][:2])


def _override(tree: dict[str, Any], name: str, value: object) -> None:
    name = name.replace("-", "_").replace(":", ".")
    section, _, key = name.rpartition(".")
    setting = next((setting for setting, names in OPTIONS.items() if key in names), key)
    fields = list(setting_fields())
    sections = [own for inner, own, _ in fields if inner == setting and section in ("", own)]
    if not sections:
        names = [name for name, _, _ in fields] + [name for own in OPTIONS.values() for name in own]
        known = [name.replace("_", "-") for name in names]
        raise SettingsError(
            f"unknown setting {name.replace('_', '-')!r}{suggestion(key, known)}: `cclk train"
            " --help-all` lists them"
        )
    section = sections[0]
    target = tree.setdefault(section, {}) if section else tree
    if not isinstance(target, dict):
        raise SettingsError(
            f"{section} is {target!r}: it must be a section of settings, [{section}]"
        )
    if setting != key:
        if isinstance(value, str):
            with suppress(CclkError):  # a name is not TOML
                value = parse_toml(f"value = {value}")["value"]
        options = target.get(setting)
        value = {**(options if isinstance(options, Mapping) else {}), key: value}
    if key in ("epochs", "steps"):  # the last one applies
        target.pop("steps" if key == "epochs" else "epochs", None)
    target[setting] = value


def _presets() -> Any:
    return resources.files("cclk.training") / "presets"
