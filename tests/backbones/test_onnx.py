"""An ONNX file is checked before onnxruntime opens it."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks.fuzz_mutations import mutate_bytes
from cclk.backbones import build_extractor
from cclk.backbones.onnx import _check
from cclk.errors import FeatureError


def build(path: Path) -> Any:
    return build_extractor(str(path), channels=3, pixels=8)


@pytest.fixture
def never_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("opened")

    monkeypatch.setattr("onnxruntime.InferenceSession", refuse)


def model(nodes: list[Any], weights: list[Any] = (), functions: list[Any] = ()) -> Any:  # type: ignore[assignment]
    """A network whose nodes turn x into y."""
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", 1, ["b", 3, 8, 8])],
        [helper.make_tensor_value_info("y", 1, None)],
        list(weights),
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=list(functions))


def average(domain: str = "", name: str = "GlobalAveragePool") -> Any:
    return helper.make_node(name, ["x"], ["y"], domain=domain)


def write(path: Path, content: Any) -> Path:
    path.write_bytes(content.SerializeToString())
    return path


def external(location: str) -> Any:
    weights = numpy_helper.from_array(np.ones(4, np.float32), "w")
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.add(key="offset", value="0")
    weights.external_data.add(key="location", value=location)
    return weights


@pytest.mark.usefixtures("never_opened")
@pytest.mark.parametrize(
    "location", ["../secret", "/etc/hostname", "link", "sub/w.bin", "absent", "", ".", "a\0b"]
)
@pytest.mark.parametrize("place", ["weights", "attribute", "branch"])
def test_weights_outside_of_the_folder(place: str, location: str, tmp_path: Path) -> None:
    folder = tmp_path / "net"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "secret").write_bytes(bytes(16))
    (folder / "sub" / "w.bin").write_bytes(bytes(16))
    (folder / "link").symlink_to(tmp_path / "secret")
    constant = helper.make_node("Constant", [], ["w"], value=external(location))
    branch = helper.make_graph([constant], "branch", [], [])
    content = {
        "weights": lambda: model([average()], [external(location)]),
        "attribute": lambda: model([constant, average()]),
        "branch": lambda: model(
            [helper.make_node("If", ["c"], ["w"], then_branch=branch, else_branch=branch)]
        ),
    }[place]()
    with pytest.raises(FeatureError, match="they must be in a file beside it"):
        build(write(folder / "n.onnx", content))


@pytest.mark.usefixtures("never_opened")
@pytest.mark.parametrize("place", ["graph", "function", "another function"])
def test_operators_beyond_the_standard(place: str, tmp_path: Path) -> None:
    odd = average("com.microsoft", "EPContext")
    opsets = [helper.make_opsetid("", 17)]
    own = helper.make_function(
        "own", "Odd", ["x"], ["y"], [odd if place == "function" else average()], opsets
    )
    content = {
        "graph": model([odd]),
        "function": model([average("own", "Odd")], functions=[own]),
        "another function": model([average("own", "Other")], functions=[own]),
    }[place]
    with pytest.raises(FeatureError, match=r"has the operator '\w+' of '[\w.]+', which is not one"):
        build(write(tmp_path / "n.onnx", content))


def test_functions_and_weights_beside_the_file(tmp_path: Path) -> None:
    opsets = [helper.make_opsetid("", 17)]
    own = helper.make_function("own", "Mean", ["x"], ["y"], [average()], opsets)
    content = model([average("own", "Mean")], [external("w.bin")], [own])
    (tmp_path / "w.bin").write_bytes(bytes(16))
    assert build(write(tmp_path / "n.onnx", content)) is not None


@pytest.mark.usefixtures("never_opened")
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not an ONNX file"),
        (b"no such thing", "is not an ONNX file, or damaged"),
        (b"\x0a\x7f", "is not an ONNX file, or damaged"),
    ],
)
def test_other_files(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "n.onnx").write_bytes(content)
    with pytest.raises(FeatureError, match=words):
        build(tmp_path / "n.onnx")


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    content = b""
    for number in range(301):  # a graph with a node with an attribute with a graph ...
        tag = (0x32, 0x2A, 0x0A)[number % 3]
        length = bytes([len(content) % 128 + 128, len(content) // 128])
        content = bytes([tag]) + length + content
    (tmp_path / "n.onnx").write_bytes(b"\x3a" + length + content[3:])
    with pytest.raises(FeatureError, match="is not an ONNX file, or damaged"):
        _check(tmp_path / "n.onnx")


def test_names_that_are_not_text(tmp_path: Path) -> None:
    path = write(tmp_path / "n.onnx", model([average()]))
    path.write_bytes(path.read_bytes().replace(b"\x0a\x01x", b"\x0a\x01\xff"))
    with pytest.raises(FeatureError, match=r"n\.onnx cannot be opened by onnxruntime"):
        build(path)


def test_damaged_files_are_errors_of_this_package(tmp_path: Path) -> None:
    weights = numpy_helper.from_array(np.ones(4, np.float32), "w")
    seed = model([average()], [weights]).SerializeToString()
    path = tmp_path / "n.onnx"
    for number in range(300):
        path.write_bytes(mutate_bytes(seed, [seed], random.Random(number)))
        with suppress(FeatureError):
            _check(path)


def test_a_field_number_beyond_32_bits_is_refused(tmp_path: Path) -> None:
    """A parser reads the lower half of such a number: it would see a graph that is not checked."""
    path = tmp_path / "net.onnx"
    path.write_bytes(bytes([0xBA, 0x80, 0x80, 0x80, 0x10, 0x00]))
    with pytest.raises(FeatureError, match="is not an ONNX file"):
        _check(path)
