"""Fetch the original files from their official addresses, each checked against its published MD5
before it is kept.

A file appears in its folder only when it is whole and right: it is fetched and unpacked in a
temporary folder beside its place, verified, then moved. Nothing waits for ever: an address that
does not answer, or answers at a crawl, is given up.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import logging
import queue
import tarfile
import tempfile
import threading
import time
import urllib.request
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from cclk.data.folder import data_folder
from cclk.datasets.formats import find
from cclk.errors import DataError

_log = logging.getLogger(__name__)

ANSWER_SECONDS = 15.0
"""How long an address may take to answer, and to send its next bytes."""
CRAWL_SECONDS, CRAWL_BYTES_PER_SECOND = 30.0, 2_000
"""After so many seconds a download slower than this is given up."""
_CHUNK = 1 << 16
_DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error, tarfile.TarError)
_LARGEST_DOWNLOAD, _LARGEST_FILE = 1 << 28, 1 << 26
_IDX_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


@dataclass(frozen=True)
class Source:
    """Where a dataset's files come from: `address` + NAME.gz for each, or all from one archive
    at `address`.
    """

    title: str
    address: str
    md5: Mapping[str, str]
    """Of each file, unpacked."""
    within: str | None = None
    """The folder inside the archive; None where each file has an address of its own."""


def _idx_md5(*sums: str) -> dict[str, str]:
    return dict(zip(_IDX_FILES, sums, strict=True))


SOURCES = {
    "mnist": Source(
        "MNIST",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        _idx_md5(
            "6bbc9ace898e44ae57da46a324031adb",
            "a25bea736e30d166cdddb491f175f624",
            "2646ac647ad5339dbf082846283269ea",
            "27ae3e4e09519cfbb04c329615203637",
        ),
    ),
    "fashion-mnist": Source(
        "Fashion-MNIST",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        _idx_md5(
            "f4a8712d7a061bf5bd6d2ca38dc4d50a",
            "9018921c3c673c538a1fc5bad174d6f9",
            "8181f5470baa50b63fa0f6fddb340f0a",
            "15d484375f8d13e6eb1aabb0c3f46965",
        ),
    ),
    "cifar10": Source(
        "CIFAR-10",
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        {
            "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
            "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
            "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
            "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
            "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
            "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
        },
        within="cifar-10-batches-bin",
    ),
}


class _NotFetchedError(Exception):
    """The reason, in words, why a file could not be had."""


def ensure(name: str, data_dir: Path | None = None) -> Path:
    """The folder of a dataset, with all of its files in it; those that are missing are fetched."""
    source, folder = SOURCES[name], data_folder(data_dir) / name
    missing = [file for file in source.md5 if find(folder, file) is None]
    if not missing:
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".download-") as work:
            _fetch(source, missing, Path(work), folder)
    except _NotFetchedError as reason:
        raise DataError(
            f"{source.title} is not complete in {folder} and could not be downloaded ({reason}): "
            f"put {', '.join(missing)} (or the same names with .gz) into {folder}"
        ) from reason
    except OSError as error:
        raise DataError(
            f"{source.title} cannot be put into {folder}: {error.strerror or error}; choose another"
            " folder with --data-dir or CCLK_DATA"
        ) from error
    return folder


def _fetch(source: Source, files: list[str], work: Path, folder: Path) -> None:
    if source.within is not None:
        archive = work / "archive"
        _receive(source.address, archive)
        _unpack(source, archive, files, work)
        archive.unlink()
    for file in files:
        if source.within is None:
            address = f"{source.address}{file}.gz"
            _receive(address, work / f"{file}.gz")
            with gzip.open(work / f"{file}.gz") as stream:
                _copy(cast(IO[bytes], stream), work / file, address)
            (work / f"{file}.gz").unlink()
        found = hashlib.md5((work / file).read_bytes(), usedforsecurity=False).hexdigest()
        if found != source.md5[file]:
            raise _NotFetchedError(
                f"{source.address} gave a {file} with MD5 {found} instead of {source.md5[file]}"
            )
    # Only now, when every file is right: a dataset is not left half old and half new.
    for file in files:
        (work / file).replace(folder / file)


def _receive(address: str, target: Path) -> None:
    _log.info("downloading %s", address)
    started, received = time.monotonic(), 0
    with _open(address) as response, target.open("wb") as out:
        while True:
            try:
                # One piece as it comes: a full-sized read would wait out any number of crumbs.
                chunk = response.read1(_CHUNK)
            except (OSError, http.client.HTTPException) as error:
                raise _NotFetchedError(f"{address}: {_reason(error)}") from error
            if not chunk:
                return
            out.write(chunk)
            received += len(chunk)
            elapsed = time.monotonic() - started
            if received > _LARGEST_DOWNLOAD:
                raise _NotFetchedError(f"{address} sent more than {_LARGEST_DOWNLOAD} bytes")
            if elapsed > CRAWL_SECONDS and received < elapsed * CRAWL_BYTES_PER_SECOND:
                raise _NotFetchedError(f"{address} sent only {received} bytes in {elapsed:.0f} s")


def _open(address: str) -> Any:
    """`urlopen` with a limit that holds: its own does not cover looking up the name, nor trying
    one server after another.
    """
    answer: queue.Queue[Any] = queue.Queue()

    def ask() -> None:
        try:
            answer.put(urllib.request.urlopen(address, timeout=ANSWER_SECONDS))
        except (OSError, http.client.HTTPException, ValueError) as error:
            answer.put(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        response = answer.get(timeout=ANSWER_SECONDS)
    except queue.Empty:
        raise _NotFetchedError(f"{address} did not answer within {ANSWER_SECONDS:g} s") from None
    if isinstance(response, Exception):
        raise _NotFetchedError(f"{address}: {_reason(response)}") from response
    return response


def _unpack(source: Source, archive: Path, files: list[str], work: Path) -> None:
    """Copy the wanted files out of a tar archive: no path of the archive's own is ever written to."""
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for file in files:
                stream = tar.extractfile(f"{source.within}/{file}")
                if stream is None:
                    raise _NotFetchedError(f"in the archive of {source.address}, {file} is no file")
                _copy(stream, work / file, source.address)
    except KeyError as error:
        raise _NotFetchedError(
            f"the archive of {source.address} is not complete: {error.args[0]}"
        ) from error
    except _DAMAGE as error:
        raise _NotFetchedError(
            f"what {source.address} sent is no archive, or cut short ({error})"
        ) from error


def _copy(stream: IO[bytes], target: Path, address: str) -> None:
    written = 0
    with target.open("wb") as out:
        while True:
            try:
                chunk = stream.read(_CHUNK)
            except _DAMAGE as error:
                raise _NotFetchedError(
                    f"what {address} sent is cut short or damaged ({error})"
                ) from error
            if not chunk:
                return
            written += len(chunk)
            if written > _LARGEST_FILE:
                raise _NotFetchedError(
                    f"{target.name} of {address} unpacks to more than {_LARGEST_FILE} bytes"
                )
            out.write(chunk)


def _reason(error: Exception) -> str:
    inner = getattr(error, "reason", None)
    if isinstance(inner, OSError):
        error = inner
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
