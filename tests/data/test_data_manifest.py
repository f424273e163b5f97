"""Tables of one's own: what is understood of them, and one line that names row and column for
each mistake.
"""

# ruff: noqa: E501 (a table of mistakes reads better with one to a line)

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch
from PIL import Image

from cclk import CclkWarning, datasets
from cclk.columns import Column
from cclk.data.dataset import Dataset
from cclk.errors import DataError

ROWS = 40


def people(folder: Path, **changed: list[object]) -> Path:
    """A table of forty people with images."""
    random = np.random.default_rng(0)
    (folder / "pics").mkdir(exist_ok=True)
    for row in range(ROWS):
        Image.fromarray(np.full((20, 30, 3), row, np.uint8)).save(folder / "pics" / f"{row}.png")
    columns: dict[str, list[object]] = {
        "path": [f"pics/{row}.png" for row in range(ROWS)],
        "age": [round(20 + row * 1.5, 1) for row in range(ROWS)],
        "site": [["Oslo", "Bonn", "Rome"][row % 3] for row in range(ROWS)],
        "traits": [["a;b", "b", "c;a"][row % 3] for row in range(ROWS)],
        "has_hat": [row % 2 for row in range(ROWS)],
        "has_tie": [row % 4 // 2 for row in range(ROWS)],
        "s_1": random.normal(size=ROWS).tolist(),
        "s_2": (5 + 3 * random.normal(size=ROWS)).tolist(),
        "smiling": ["yes" if row % 2 else "no" for row in range(ROWS)],
        "part": [("train", "train", "validation", "test")[row % 4] for row in range(ROWS)],
    } | changed
    lines = [",".join(columns)] + [
        ",".join(str(values[row]) for values in columns.values()) for row in range(ROWS)
    ]
    path = folder / "people.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_table_with_images_and_three_conditions(tmp_path: Path) -> None:
    found = datasets.load(
        str(people(tmp_path)),
        data_dir=tmp_path,
        image="path",
        condition=["age", "site", "traits"],
        label="smiling",
        split="part",
    )
    assert (len(found.train), len(found.validation), len(found.test)) == (20, 10, 10)
    assert found.columns == (
        Column("age", "continuous"),
        Column("site", "categorical", 1, ("Bonn", "Oslo", "Rome")),
        Column("traits", "attributes", 3, ("traits=a", "traits=b", "traits=c")),
    )
    assert found.condition_kind == "mixed"
    assert found.classes == ("no", "yes")
    assert found.condition_names == ("age", "site", "traits=a", "traits=b", "traits=c")
    # Rows 0, 1, 4, 5, ... are for training.
    rows = [row for row in range(ROWS) if row % 4 < 2]
    assert torch.equal(found.train.condition[:, 0], torch.tensor([20 + row * 1.5 for row in rows]))
    assert found.train.condition[:, 1].tolist() == [
        [1.0, 0.0, 2.0][row % 3] for row in rows
    ]  # Bonn, Oslo, Rome
    assert found.train.condition[:, 2:].tolist() == [
        [[1, 1, 0], [0, 1, 0], [1, 0, 1]][row % 3] for row in rows
    ]
    assert found.train.ids == tuple(str(row + 1) for row in rows)
    images = found.train.x[torch.arange(20)]
    assert images.shape == (20, 3, 32, 32)
    assert images[:, 0, 0, 0].tolist() == rows
    for words in (
        "age is a number from 20 to 78.5",
        "site is one of 3 categories",
        "traits is a set of 3 attributes",
    ):
        assert words in found.description


def test_numbers_as_inputs_and_patterns(tmp_path: Path) -> None:
    found = datasets.load(
        str(people(tmp_path)), features="s_*", condition=["has_*", "age:laplacian"], row_id="path"
    )
    assert found.train.x.dtype == torch.float32
    assert found.train.x.shape[1] == 2
    assert [(column.name, column.kind, column.kernel) for column in found.columns] == [
        ("has", "attributes", ""),
        ("age", "continuous", "laplacian"),
    ]
    assert found.classes == ("unlabeled",)
    assert len(found.train) + len(found.validation) + len(found.test) == ROWS
    everyone = found.train.ids + found.validation.ids + found.test.ids
    assert sorted(everyone) == sorted(f"pics/{row}.png" for row in range(ROWS))


def test_an_empty_set_of_attributes_is_not_a_missing_one(tmp_path: Path) -> None:
    traits: list[object] = [["a;b", "", "c;a"][row % 3] for row in range(ROWS)]
    found = datasets.load(
        str(people(tmp_path, traits=traits)),
        features="s_*",
        condition="traits",
        row_id="path",
        split="part",
    )
    assert (
        "traits is a set of 3 attributes (a, b, c), of which 13 rows have none" in found.description
    )
    assert found.train.condition[:3].tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 0]]  # rows 0, 1, 4
    traits[7] = "NA"
    with pytest.raises(DataError, match=r"1 in traits \(the first in row 8\)"):
        datasets.load(str(people(tmp_path, traits=traits)), features="s_*", condition="traits")


def test_a_set_without_any_attributes(tmp_path: Path) -> None:
    path = people(tmp_path, traits=[";"] * ROWS)
    with pytest.raises(DataError, match="'traits' has no attributes at all: omit it"):
        datasets.load(str(path), features="s_*", condition="traits")


def test_a_list_of_words_is_no_embedding(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(
        pa.table({"s_1": np.arange(ROWS), "traits": [["hat"], ["beard"]] * (ROWS // 2)}),
        tmp_path / "t.parquet",
    )
    with pytest.raises(
        DataError,
        match=(
            r"row 1, column 'traits' holds \['hat'\]: a list must consist of numbers; .* joined by ';'"
        ),
    ):
        datasets.load(str(tmp_path / "t.parquet"), features="s_1", condition="traits")


def test_parquet_with_an_embedding_column(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(ROWS, 4))
    table = pa.table(
        {
            "s_1": vectors[:, 0],
            "clip": vectors.tolist(),
            "code": pa.array(np.arange(ROWS) % 3),
            "ok": [True, False] * 20,
        }
    )
    path = tmp_path / "t.parquet"
    pa.parquet.write_table(table, path)
    found = datasets.load(str(path), features="s_1", condition=["clip", "code", "ok"])
    assert [(column.kind, column.width) for column in found.columns] == [
        ("embedding", 4),
        ("categorical", 1),
        ("categorical", 1),
    ]
    place = [int(name) - 1 for name in found.train.ids]
    torch.testing.assert_close(
        found.train.condition[:, :4], torch.from_numpy(vectors[place]).float()
    )


def test_kinds_can_be_told(tmp_path: Path) -> None:
    path = str(people(tmp_path))

    def kind(condition: str) -> str:
        return datasets.load(path, features="s_*", condition=condition).columns[0].kind

    assert kind("has_hat") == "categorical"
    assert kind("has_hat:continuous") == "continuous"
    assert kind("age:categorical") == "categorical"
    assert kind("age:delta") == "categorical"
    assert kind("traits:categorical") == "categorical"
    assert kind("has_*:embedding") == "embedding"


def test_missing_values_are_counted_dropped_or_filled_in(tmp_path: Path) -> None:
    ages: list[object] = [30 + row for row in range(ROWS)]
    ages[3], ages[7] = "", "NA"
    sites: list[object] = ["Oslo", "Bonn"] * 20
    sites[5] = "nan"
    path = str(people(tmp_path, age=ages, site=sites))
    with pytest.raises(
        DataError, match=r"2 in age, 1 in site \(the first in row 4\); missing=.drop. drops"
    ):
        datasets.load(path, features="s_*", condition=["age", "site"])
    dropped = datasets.load(path, features="s_*", condition=["age", "site"], missing="drop")
    assert len(dropped.train) + len(dropped.validation) + len(dropped.test) == ROWS - 3
    filled = datasets.load(
        path, features="s_*", condition=["age", "site"], missing="impute", row_id="path"
    )
    every = {
        name: row
        for part in (filled.train, filled.validation, filled.test)
        for name, row in zip(part.ids, part.condition.tolist(), strict=True)
    }
    known = [
        ages[int(name[5:-4])]
        for name in filled.train.ids
        if name not in ("pics/3.png", "pics/7.png")
    ]
    assert every["pics/3.png"][0] == every["pics/7.png"][0] == np.median(known)
    assert every["pics/5.png"][1] == 2.0  # a category of its own


def test_a_condition_may_be_left_out(tmp_path: Path) -> None:
    found = datasets.load(str(people(tmp_path)), features="s_*", label="smiling")
    assert (found.columns, found.condition_names, found.train.condition.shape) == (
        (),
        (),
        (len(found.train), 0),
    )
    assert found.description == "people.csv: 40 rows, 2 numbers each; no condition"


def test_a_condition_among_the_inputs_is_said(tmp_path: Path) -> None:
    with pytest.warns(CclkWarning, match="the condition s_1 is also an input"):
        datasets.load(str(people(tmp_path)), features="s_*", condition="s_1")
    with pytest.warns(CclkWarning, match="smiling is both the label and a condition"):
        datasets.load(str(people(tmp_path)), features="s_*", condition="smiling", label="smiling")


def replaced(values: list[object], row: int, value: object) -> list[object]:
    return [*values[:row], value, *values[row + 1 :]]


DAYS: list[object] = [f"2024-{1 + row % 12:02d}-{1 + row // 2:02d}" for row in range(ROWS)]
AGES: list[object] = [30.5 + row for row in range(ROWS)]
PATHS: list[object] = [f"pics/{row}.png" for row in range(ROWS)]
NUMBERS = {"features": "s_*", "condition": "age"}
IMAGES = {"image": "path", "condition": "age"}
WRONG: dict[str, tuple[Callable[[Path], Path], dict[str, object], str]] = {
    "no such file": (lambda folder: folder / "none.csv", NUMBERS, r"none\.csv does not exist"),
    "empty file": (lambda folder: written(folder, b""), NUMBERS, r"t\.csv cannot be read: it is empty"),
    "header only": (lambda folder: written(folder, b"age,s_1\n"), NUMBERS, r"a header and no rows"),
    "wrong encoding": (lambda folder: written(folder, "age,s_1\n3,\xe9\n".encode("latin-1")), NUMBERS, r"not UTF-8"),
    "ragged line": (lambda folder: written(folder, b"age,s_1\n3,4\n3,4,5\n"), NUMBERS, r"line 3: expected 2 columns, got 3.*separated by ',': quote cells that contain one"),
    "bare semicolons": (lambda folder: written(folder, b"age;s_1;traits\n3;4;a;b\n"), NUMBERS, r"line 2: expected 3 columns, got 4.*separated by ';': quote cells that contain one"),
    "thousands": (lambda folder: written(folder, b"age;s_1\n1.234,5;4\n1,5;3\n"), {"features": "s_*", "condition": "age:continuous"}, r"row 1, column 'age' is '1\.234,5': it must be a number with a decimal point"),
    "quoted decimal comma": (lambda folder: people(folder, s_2=['"1,5"'] * 40), NUMBERS, r"row 1, column 's_2' is '1,5': it must be a number with a decimal point"),
    "no such date": (lambda folder: people(folder, age=replaced(DAYS, 4, "2024-02-30")), NUMBERS, r"row 5, column 'age' is '2024-02-30': it must be a date such as 2024-05-31, .*or request age:categorical"),
    "not a date": (lambda folder: people(folder, age=replaced(DAYS, 4, "soon")), {"features": "s_*", "condition": "age:continuous"}, r"row 5, column 'age' is 'soon': it must be a date such as 2024-05-31"),
    "twice the same column": (lambda folder: written(folder, b"age,age,s_1\n1,2,3\n"), NUMBERS, r"several columns named 'age'"),
    "broken parquet": (lambda folder: written(folder, b"PAR1 no", "t.parquet"), NUMBERS, r"cannot be read"),
    "unknown condition": (people, {"features": "s_*", "condition": "agee"}, r"no column 'agee' \(did you mean 'age'\?\), requested as a condition"),
    "unknown input": (people, {"features": "x_*", "condition": "age"}, r"no column 'x_\*', requested as features"),
    "unknown label": (people, NUMBERS | {"label": "mood"}, r"no column 'mood', requested as the label"),
    "unknown kind": (people, {"features": "s_*", "condition": "age:rbff"}, r"'rbff' is neither a kind .* nor a kernel"),
    "no input": (people, {"condition": "age"}, r"either an image column or feature columns"),
    "both inputs": (people, IMAGES | {"features": "s_*"}, r"either an image column or feature columns"),
    "twice the same condition": (people, {"features": "s_*", "condition": ["age", "age"]}, r"condition age is requested twice"),
    "text among numbers": (lambda folder: people(folder, s_2=replaced(AGES, 4, "old")), NUMBERS, r"row 5, column 's_2' is 'old'"),
    "text as number": (people, {"features": "s_*", "condition": "site:continuous"}, r"row 1, column 'site' is 'Oslo'"),
    "infinite": (lambda folder: people(folder, age=replaced(AGES, 2, "inf")), NUMBERS, r"row 3, column 'age' is infinite"),
    "no image": (lambda folder: people(folder, path=replaced(PATHS, 6, "pics/x.png")), IMAGES, r"row 7, column 'path': the image .* is missing"),
    "absolute path": (lambda folder: people(folder, path=replaced(PATHS, 1, "/no/x.png")), IMAGES, r"row 2, column 'path': .*/no/x\.png"),
    "same id": (lambda folder: people(folder, path=replaced(PATHS, 9, "pics/3.png")), IMAGES | {"row_id": "path"}, r"row 10, .*the id of row 4 too"),
    "wrong split": (lambda folder: people(folder, part=["train"] * 39 + ["tset"]), NUMBERS | {"split": "part"}, r"row 40, column 'part' is 'tset'"),
    "no test rows": (lambda folder: people(folder, part=["train"] * 40), NUMBERS | {"split": "part"}, r"40 rows are for train and 0 for test"),
    "missing label": (lambda folder: people(folder, smiling=["", *["yes"] * 39]), NUMBERS | {"label": "smiling", "missing": "impute"}, r"1 in smiling"),
    "all missing": (lambda folder: people(folder, age=[""] * 40), NUMBERS, r"column 'age' has no values at all"),
    "unknown option": (people, NUMBERS | {"color": 1}, r"has no option 'color'"),
}  # fmt: skip


def written(folder: Path, content: bytes, name: str = "t.csv") -> Path:
    (folder / name).write_bytes(content)
    return folder / name


@pytest.mark.parametrize("case", WRONG)
def test_every_mistake_has_one_line(case: str, tmp_path: Path) -> None:
    make, options, told = WRONG[case]
    with pytest.raises(DataError, match=told) as raised:
        datasets.load(str(make(tmp_path)), data_dir=tmp_path, **options)  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)


def test_what_is_filled_in_comes_from_the_training_rows(tmp_path: Path) -> None:
    ages: list[object] = ["", *[float(row) for row in range(1, ROWS)]]
    parts: list[object] = ["train"] * 20 + ["test"] * 20
    found = datasets.load(
        str(people(tmp_path, age=ages, part=parts)),
        features="s_*",
        condition="age:continuous",
        split="part",
        missing="impute",
    )
    assert float(found.train.condition[0]) == 10.0


def test_one_and_one_point_nought_are_the_same_category(tmp_path: Path) -> None:
    codes: list[object] = ["1", "1.0", "2", "2.00"] * 10
    found = datasets.load(str(people(tmp_path, site=codes)), features="s_*", condition="site")
    assert set(torch.cat([found.train.condition, found.test.condition]).flatten().tolist()) == {
        0.0,
        1.0,
    }


def test_labels_and_ids_among_the_inputs_are_said(tmp_path: Path) -> None:
    with pytest.warns(CclkWarning, match="the label has_hat is also an input"):
        datasets.load(str(people(tmp_path)), features="has_*", condition="age", label="has_hat")
    with pytest.raises(DataError, match="40 distinct decimals: a label is one of a few classes"):
        datasets.load(str(people(tmp_path)), features="s_2", condition="age", label="s_1")
    ages: list[object] = ["unknown", *(20.5 + row for row in range(1, 40))]
    with pytest.raises(DataError, match="39 distinct decimals: a label is one of a few classes"):
        datasets.load(str(people(tmp_path, age=ages)), features="s_2", label="age")
    with pytest.raises(DataError, match="requested as the label, matches several columns"):
        datasets.load(str(people(tmp_path)), features="s_2", condition="age", label="has_*")


def test_lists_may_be_missing_but_not_infinite(tmp_path: Path) -> None:
    lists: list[object] = [[1.0, 2.0]] * 38 + [None, [1.0, float("inf")]]
    path = tmp_path / "t.parquet"
    pa.parquet.write_table(pa.table({"s": np.arange(40.0), "clip": lists}), path)
    with pytest.raises(DataError, match="row 40, column 'clip' holds an infinite number"):
        datasets.load(str(path), features="s", condition="clip")
    lists[39] = [3.0, 4.0]
    pa.parquet.write_table(pa.table({"s": np.arange(40.0), "clip": lists}), path)
    with pytest.raises(DataError, match="1 in clip"):
        datasets.load(str(path), features="s", condition="clip")


@pytest.mark.parametrize(("sign", "told"), [(";", "separated by ';'"), ("\t", "separated by tabs")])
def test_other_delimiters_and_decimal_commas(sign: str, told: str, tmp_path: Path) -> None:
    options = {
        "features": ["s_1", "s_2"],
        "condition": ["age", "site", "traits", "has_*"],
        "label": "smiling",
        "split": "part",
    }
    plain = people(tmp_path)
    expected = datasets.load(str(plain), **options)
    rows = [line.split(",") for line in plain.read_text().splitlines()]
    cells = [[f'"{cell}"' if sign in cell else cell for cell in row] for row in rows]
    points = [
        [cell.replace(".", ",") if place in (1, 6, 7) else cell for place, cell in enumerate(row)]
        for row in cells
    ]
    assert "(" not in expected.description.partition(" rows")[0], "commas go without saying"
    for name, table, comma in (("points", cells, ""), ("commas", points, ", with decimal commas")):
        path = tmp_path / f"{name}.csv"
        path.write_text("\ufeff" + "\n".join(sign.join(row) for row in table))
        found = datasets.load(str(path), **options)  # type: ignore[arg-type]
        assert f"{name}.csv ({told}{comma}): 40 rows" in found.description
        assert [column.kind for column in found.columns] == [
            "continuous",
            "categorical",
            "attributes",
            "attributes",
        ]
        for split in ("train", "validation", "test"):
            for what in ("x", "y", "condition"):
                assert torch.equal(
                    getattr(getattr(found, split), what), getattr(getattr(expected, split), what)
                )


@pytest.mark.parametrize("sign", [",", ";"])
@pytest.mark.parametrize("role", ["features", "condition"])
@pytest.mark.parametrize(
    ("cells", "row", "shown"),
    [
        (["993", "1.234", "15.000"], 2, r"'1\.234', beside '993': is it 1\.234 or 1234\?"),
        (["993", "1,234", "15,000"], 2, "'1,234'"),
        (["12,5", "1.234", "15.000"], 1, "'12,5'"),
        (["1.234.567", "993", "12"], 1, r"'1\.234\.567'"),
    ],
)
def test_separators_of_thousands_are_not_decimal_points(
    sign: str, role: str, cells: list[str], row: int, shown: str, tmp_path: Path
) -> None:
    lines = [f'"{cell}"{sign}{number}{sign}{number % 7}.5' for number, cell in enumerate(cells * 9)]
    path = written(tmp_path, "\n".join([sign.join(("pay", "x", "z")), *lines]).encode())
    other = {"features": {"condition": "z"}, "condition": {"features": "x"}}[role]
    with pytest.raises(DataError, match=f"row {row}, column 'pay' is {shown}"):
        datasets.load(str(path), **{role: "pay"}, **other)  # type: ignore[arg-type]


def test_in_a_file_of_decimal_commas_a_point_is_not_one(tmp_path: Path) -> None:
    lines = [f"1.{number + 100};{number},5;{number}" for number in range(40)]
    path = written(tmp_path, "\n".join(["pay;z;x", *lines]).encode())
    with pytest.raises(DataError, match=r"'1\.100', in a file of decimal commas: is it .* or 1100"):
        datasets.load(str(path), features="pay", condition="z")
    fixed = written(tmp_path, "\n".join(["pay;x", *(f"{n}.500;{n}" for n in range(40))]).encode())
    found = datasets.load(str(fixed), features="x", condition="pay")
    assert "pay is a number from 0.5 to 39.5" in found.description, "decimals of a fixed length"


PERSONS: list[object] = [f"p{row // 4}" for row in range(ROWS)]


def persons(found: Dataset) -> list[set[str]]:
    """The persons of each split, by the numbers of their rows."""
    splits = (found.train, found.validation, found.test)
    return [{str(PERSONS[int(row) - 1]) for row in split.ids} for split in splits]


@pytest.mark.parametrize("options", [{}, {"holdout": 8}, {"missing": "drop"}])
def test_rows_of_a_person_are_in_one_split(options: dict[str, object], tmp_path: Path) -> None:
    path = str(people(tmp_path, person=PERSONS))
    found = datasets.load(path, **NUMBERS, split_by="person", **options)  # type: ignore[arg-type]
    train, validation, test = persons(found)
    assert min(map(len, (train, validation, test))) > 0
    assert len(train | validation | test) == len(train) + len(validation) + len(test)
    assert {len(found.validation), len(found.test)} <= {4, 8}
    again = datasets.load(path, **NUMBERS, split_by="person", seed=1)  # type: ignore[arg-type]
    assert persons(again) != persons(found)


def test_a_column_of_splits_must_not_divide_a_person(tmp_path: Path) -> None:
    path = str(people(tmp_path, person=PERSONS))
    with pytest.raises(DataError, match="row 3, column 'person' is 'p0', which is in train too"):
        datasets.load(path, **NUMBERS, split="part", split_by="person")  # type: ignore[arg-type]
    parts: list[object] = ["train"] * 32 + ["test"] * 8
    path = str(people(tmp_path, person=PERSONS, part=parts))
    found = datasets.load(path, **NUMBERS, split="part", split_by="person")  # type: ignore[arg-type]
    train, validation, _ = persons(found)
    assert len(validation) == 1, "held out by persons"
    assert not train & validation
    with pytest.raises(DataError, match="holdout is 0, but split_by needs validation rows"):
        datasets.load(path, **NUMBERS, split="part", split_by="person", holdout=0)  # type: ignore[arg-type]


def test_ids_in_several_splits_are_suspected(tmp_path: Path) -> None:
    ages: list[object] = [20.5 + row // 4 for row in range(ROWS)]
    suspicion = "have rows in several splits: .* split_by='{}' keeps"
    for name in ("person", "patient_id", "SubjectID"):
        path = str(people(tmp_path, **{name: PERSONS}))
        with pytest.warns(CclkWarning, match=suspicion.format(name)):
            datasets.load(path, **NUMBERS)  # type: ignore[arg-type]
    path = str(people(tmp_path, vp=PERSONS, age=ages))
    with pytest.warns(CclkWarning, match=suspicion.format("vp")):
        datasets.load(path, features="s_*", condition="age")
    files: list[object] = [f"pics/{row // 2}.png" for row in range(ROWS)]
    with pytest.warns(CclkWarning, match=suspicion.format("path")):
        datasets.load(str(people(tmp_path, path=files)), image="path", condition="age")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path = str(people(tmp_path, person=PERSONS, row_id=[*range(ROWS)]))
        datasets.load(path, **NUMBERS, split_by="person")  # type: ignore[arg-type]
        datasets.load(path, features="s_*", condition="person")
        datasets.load(str(people(tmp_path)), **NUMBERS)  # type: ignore[arg-type]


def test_commas_in_the_header_decide(tmp_path: Path) -> None:
    """A name may hold another sign, and quotes hide a comma."""
    both = written(tmp_path, b"age,s_1,a;b\n" + b"1.5,2,x;y\n2.5,3,x\n" * 20, "both.csv")
    found = datasets.load(str(both), features="s_1", condition=["age", "a;b"])
    assert [column.kind for column in found.columns] == ["continuous", "attributes"]
    bare = written(tmp_path, b"age, years;s_1;site\n" + b"1,5;2;Oslo\n" * 20, "bare.csv")
    with pytest.raises(
        DataError,
        match=(
            r"no column 's_1'.*: it has age, years;s_1;site; if ';' separates its columns, quote"
            r" names with commas"
        ),
    ):
        datasets.load(str(bare), features="s_1", condition="age")
    quoted = written(tmp_path, b'"age, years";s_1\n' + b"1,5;2\n2,5;3\n" * 20, "quoted.csv")
    found = datasets.load(str(quoted), features="s_1", condition="age, years")
    assert "age, years is a number from 1.5 to 2.5" in found.description


def test_dates_are_days(tmp_path: Path) -> None:
    days: list[object] = [
        ["2024-05-01", "1969-12-31T12:00", "2024-05-02 06:00:00.5", "2024-05-01T02:00+02:00"][
            row % 4
        ]
        for row in range(ROWS)
    ]
    expected = [19844.0, -0.5, 19845.25 + 0.5 / 86400, 19844.0]
    found = datasets.load(
        str(people(tmp_path, age=days)), features="s_*", condition="age", row_id="path"
    )
    assert found.columns[0].kind == "continuous"
    assert "age is a date from 1969-12-31 to 2024-05-02" in found.description
    rows = [int(name[5:-4]) for name in found.train.ids]
    torch.testing.assert_close(
        found.train.condition[:, 0], torch.tensor([expected[row % 4] for row in rows])
    )
    # As an input they are days too; a kind that is asked for stands.
    assert float(
        datasets.load(
            str(people(tmp_path, s_1=days)), features="s_1", condition="age"
        ).train.x.max()
    ) == pytest.approx(19845.25)
    assert (
        datasets.load(str(people(tmp_path, age=days)), features="s_*", condition="age:categorical")
        .columns[0]
        .kind
        == "categorical"
    )
    days[3] = ""
    with pytest.raises(DataError, match="1 in age"):
        datasets.load(str(people(tmp_path, age=days)), features="s_*", condition="age")


@pytest.mark.parametrize(
    "kind",
    [
        pa.date32(),
        pa.date64(),
        pa.timestamp("s"),
        pa.timestamp("ns"),
        pa.timestamp("ms", tz="Europe/Oslo"),
    ],
)
def test_dates_in_parquet(kind: pa.DataType, tmp_path: Path) -> None:
    days = pa.array(np.arange(ROWS) + 19844, pa.int32()).cast(pa.date32()).cast(kind)
    pyarrow.parquet.write_table(
        pa.table({"s": np.arange(40.0), "day": days}), tmp_path / "t.parquet"
    )
    found = datasets.load(str(tmp_path / "t.parquet"), features="s", condition="day")
    assert found.columns[0].kind == "continuous"
    assert "day is a date from 2024-05-01 to 2024-06-09" in found.description
    assert torch.equal(found.train.condition, found.train.x + 19844)


def test_nanoseconds_are_read(tmp_path: Path) -> None:
    moments = pa.array(np.arange(ROWS) * 86_400_000_000_001, pa.int64()).cast(pa.timestamp("ns"))
    pyarrow.parquet.write_table(
        pa.table({"s": np.arange(40.0), "day": moments}), tmp_path / "t.parquet"
    )
    assert torch.equal(
        (
            found := datasets.load(str(tmp_path / "t.parquet"), features="s", condition="day")
        ).train.condition,
        found.train.x,
    )


def test_dates_among_words_are_categories_if_requested(tmp_path: Path) -> None:
    path = str(people(tmp_path, site=["2024-05-01", "never"] * 20))
    with pytest.raises(DataError, match=r"row 2, column 'site' is 'never'.* or request site:categ"):
        datasets.load(path, features="s_*", condition="site")
    found = datasets.load(path, features="s_*", condition="site:categorical")
    assert "site is one of 2 categories (2024-05-01, never)" in found.description


def test_numbers_too_close_for_their_size_are_said(tmp_path: Path) -> None:
    moments: list[object] = [f"2024-05-01T12:00:{row:02d}" for row in range(ROWS)]
    with pytest.warns(
        CclkWarning,
        match=(
            "condition age: its 40 distinct values become 1 in 32-bit precision: subtract its"
            " smallest value"
        ),
    ):
        datasets.load(str(people(tmp_path, age=moments)), features="s_*", condition="age")


def test_three_decimals_after_a_comma_are_no_thousands(tmp_path: Path) -> None:
    rows = "\n".join(f"{60 + i},{100 + i};{i % 7};{i % 2}" for i in range(40))
    path = tmp_path / "t.csv"
    path.write_text(f"kg;x;y\n{rows}\n")
    dataset = datasets.load(path, features=["x"], condition=["kg"], label="y")
    assert dataset.columns[0].kind == "continuous"
    assert float(dataset.train.condition.min()) >= 60


@pytest.mark.parametrize("repeats", [4, 40])
def test_a_recoded_condition_is_no_id(tmp_path: Path, repeats: int) -> None:
    """Categories in another code, and whole numbers with many rows each."""
    codes = [row % 12 for row in range(12 * repeats)]
    site: list[object] = [f"s{code}" for code in codes] if repeats == 4 else [*codes]
    lines = [f"{row},{site[row]},n{code}" for row, code in enumerate(codes)]
    path = tmp_path / "recoded.csv"
    path.write_text("\n".join(["s_1,site,name", *lines]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        datasets.load(str(path), features="s_1", condition="site")


def test_circular_with_a_category_for_missing_values(tmp_path: Path) -> None:
    lines = [f"{row},{'' if row == 3 else row % 7}" for row in range(70)]
    path = tmp_path / "days.csv"
    path.write_text("\n".join(["s_1,day", *lines]))
    with pytest.raises(DataError, match="day is requested as circular, but has missing values"):
        datasets.load(str(path), features="s_1", condition="day:circular", missing="impute")
    found = datasets.load(str(path), features="s_1", condition="day:circular", missing="drop")
    assert found.columns[0].period == 7
