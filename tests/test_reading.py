"""Files of strangers: every reader gives one line that names the file, and none allocates what a
header claims.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from cclk_paper.datasets import download
from cclk_paper.experiments import results

from benchmarks import fuzz
from benchmarks.fuzz_mutations import _npy
from cclk import datasets
from cclk._files import read_tensors
from cclk._reading import parse_json, read_json
from cclk.data import arrays
from cclk.data.decode import read_image
from cclk.data.table_file import TableFile
from cclk.errors import CclkError, CclkWarning, DataError, ResultError, RunError, SettingsError
from cclk.evaluation import read_evaluation
from cclk.training.checkpoints import _read
from cclk.training.metrics import read_metrics
from cclk.training.run_folder import RunFolder
from cclk.training.settings import load

ROWS = "path,age,name\n" + "".join(f"{n}.jpg,{n},n{n}\n" for n in range(20))


@pytest.mark.parametrize("name", fuzz.targets(Path("unused")))
def test_fuzz(name: str, tmp_path: Path) -> None:
    """The short form of `python -m benchmarks.fuzz`."""
    case = fuzz.targets(tmp_path, [name])[name]()
    findings = fuzz.run(case, name, 0, range(100), lambda _: None)
    assert findings.bad == 0, findings.examples
    # Their digest detects nearly all damage.
    assert findings.counts["accepted"] or name in ("encoder", "extractor", "estimator")
    assert findings.counts["refused"] or name in ("metrics", "loss:pairs")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": NaN}', "NaN"),
        ('{"a": -Infinity}', "finite"),
        ('{"a": 1e999}', "finite"),
        ('{"a": 1' + "0" * 5000 + "}", "64 bits"),
        ('{"a": 1, "a": 2}', "'a' is repeated"),
        ("[" * 100_000, "nested too deeply"),
        ("[" * 40 + "]" * 40, "nested too deeply"),
        ('"\\ud800"', "Unicode"),
        ('"\\u0000"', "null character"),
        ("{", "not valid JSON"),
    ],
)
def test_json_is_strict(text: str, message: str) -> None:
    with pytest.raises(CclkError, match=message):
        parse_json(text)


def test_what_is_not_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match="not a file"):
            read_json(path)
    for name in ("settings.json", "evaluation.json", "metrics.jsonl", "t.csv", "t.npz"):
        (tmp_path / name).mkdir()
    with pytest.raises(RunError, match=r"settings\.json cannot be read: it is a folder"):
        RunFolder(tmp_path)
    with pytest.raises(RunError, match=r"evaluation\.json is not a valid"):
        read_evaluation(tmp_path)
    with pytest.raises(RunError, match=r"metrics\.jsonl cannot be read"):
        read_metrics(tmp_path)
    with pytest.raises(DataError, match=r"t\.csv cannot be read: it is a folder"):
        TableFile(tmp_path / "t.csv")
    with pytest.raises(DataError, match=r"t\.npz: .*it is a folder"):
        arrays.load(tmp_path / "t.npz")
    with pytest.raises(SettingsError, match="it is a folder"):
        load(tmp_path)
    with pytest.raises(ResultError, match="Is a directory"):
        results.read(tmp_path)


def test_a_damaged_line_of_metrics_is_skipped(tmp_path: Path) -> None:
    lines = [json.dumps({"step": step, "loss": 1.5}) for step in range(5)]
    lines[2] = "gar\x00bage"
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + '\n{"step": 5, "lo')
    with pytest.warns(CclkWarning, match=r"1 damaged lines are ignored, the first is line 3"):
        logged = read_metrics(tmp_path)
    assert [line["step"] for line in logged] == [0, 1, 3, 4]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_encodings_of_tables(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(ROWS.replace("n7", "ñ7").encode(encoding))
    table = TableFile(tmp_path / "t.csv")
    assert table.names == ["path", "age", "name"]
    assert table.text("name")[7] == "ñ7"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (ROWS.replace("name", "näme").encode("latin-1"), "line 1 is not UTF-8 text"),
        (ROWS.replace("n7", "ñ7").encode("latin-1"), r"line 9 is not UTF-8 text .*ñ7.*UTF-8"),
        (ROWS.encode("utf-16-le"), "line 1 .*UTF-16 without a byte order mark"),
        (ROWS.replace("n7", '"n7').encode(), "line 9 has a stray quote .*cell of 14 lines"),
        (ROWS.replace("n7", '"n7').replace("n9", '"n9"').encode(), "line 9 has a stray quote"),
        (ROWS.replace("n7", "n\0").encode(), "line 9 contains a null character"),
        (ROWS.replace(",n7", "").encode(), "line 9: expected 3 columns, got 2"),
        (ROWS.replace("n7", "n" * 3_000_000).encode(), "line 9 has 3,000,009 characters"),
    ],
)
def test_faults_of_tables_name_the_line(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(DataError, match=rf"t\.csv cannot be read: {message}"):
        TableFile(tmp_path / "t.csv")


def test_a_cell_of_several_lines_is_no_stray_quote(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(ROWS.replace("n7", '"n7,\n""x"""'))
    assert TableFile(tmp_path / "t.csv").text("name")[7] == 'n7,\n"x"'


def test_claims_of_arrays_are_checked_before_allocation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cclk.data.npz._SMALL", 1 << 20)
    path = tmp_path / "t.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", _npy(np.zeros(4), shape=(10**13, 4)))
    with pytest.raises(DataError, match=r"t\.npz: x is damaged \(it has .* needs 320000000000"):
        arrays.load(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(1 << 24))
    with pytest.raises(DataError, match="too many for its size"):
        arrays.load(path)


def test_checkpoints_that_describe_more_than_they_hold(tmp_path: Path) -> None:
    path = tmp_path / "step-000000001.safetensors"
    entry = {"dtype": "F32", "shape": [10**7, 10**7], "data_offsets": [0, 4]}
    deep = json.dumps({"__metadata__": {"run": "{}", "state": "[" * 10**5}})
    for header in (json.dumps({"network": entry}), deep, "[]", "no archive"):
        path.write_bytes(len(header).to_bytes(8, "little") + header.encode() + bytes(4))
        with pytest.raises(RunError, match=r"is not a checkpoint|is damaged"):
            _read(path)
    path.unlink()
    with pytest.raises(RunError, match=r"is damaged \(No such file"):
        _read(path)


def test_an_archive_with_a_link_to_itself(tmp_path: Path) -> None:
    source = next(each for each in download.SOURCES.values() if each.within is not None)
    file = next(iter(source.sums))
    link = tarfile.TarInfo(f"{source.within}/{file}")
    link.type, link.linkname = tarfile.LNKTYPE, link.name
    with tarfile.open(tmp_path / "archive", "w:gz") as tar:
        tar.addfile(link)
    with pytest.raises(download._DownloadError, match=r"not an archive|not complete"):
        download._unpack(source, tmp_path / "archive", [file], tmp_path)


def test_images_of_other_formats_and_too_many_pixels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from PIL import Image

    (tmp_path / "a.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    with pytest.raises(DataError, match=r"a\.png is not an image in a supported format"):
        read_image(str(tmp_path / "a.png"), 8, "RGB")
    monkeypatch.setattr("cclk.data.decode._MOST_PIXELS", 100)
    stream = io.BytesIO()
    Image.new("L", (11, 10)).save(stream, "PNG")
    (tmp_path / "a.png").write_bytes(stream.getvalue())
    with pytest.raises(DataError, match=r"a\.png has 110 pixels, more than the 100"):
        read_image(str(tmp_path / "a.png"), 8, "L")


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.npz"])
def test_git_lfs_pointers_are_named(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
    with pytest.raises(DataError, match=rf"{name}.* is a Git LFS pointer: run git lfs pull"):
        datasets.load(str(path), **({} if name.endswith("npz") else {"features": "x"}))
    with pytest.raises(OSError, match="it is a Git LFS pointer"):
        read_tensors(path)
