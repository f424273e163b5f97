"""Download the original files from their official addresses, each checked against its SHA-256 sum
and its published MD5 sum.

Files are downloaded and unpacked in a temporary folder, verified, and then moved, so a dataset
folder never holds incomplete files. Addresses that do not answer, or only very slowly, are
abandoned.
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
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cclk.data.folder import data_folder, may_write
from cclk.errors import DataError
from cclk_paper.datasets.formats import LARGEST_FILE, find

_log = logging.getLogger(__name__)

ANSWER_SECONDS = 15.0
"""Time limit for an address to answer, and to send its next bytes."""
CRAWL_SECONDS, CRAWL_BYTES_PER_SECOND = 30.0, 2_000
"""After this time, a download slower than this is abandoned."""
_CHUNK = 1 << 16
_DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error, tarfile.TarError)
_LARGEST_DOWNLOAD = 1 << 28
_IDX_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


class Checksums(NamedTuple):
    """The sums of a file.

    MD5 sums are the published ones. They do not protect against a forged file, which the SHA-256
    does: it was computed from files that have the published MD5 sum.
    """

    md5: str
    sha256: str

    @classmethod
    def of(cls, content: bytes) -> Checksums:
        """Compute the sums of the content of a file."""
        md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
        return cls(md5, hashlib.sha256(content).hexdigest())


@dataclass(frozen=True)
class Source:
    """Where a dataset's files come from.

    Args:
        title: the name of the dataset.
        address: the address of an archive, or a prefix to which NAME.gz is appended.
        sums: the sums of each unpacked file.
        within: the folder inside the archive; None if each file has a separate address.
    """

    title: str
    address: str
    sums: Mapping[str, Checksums]
    within: str | None = None


def _idx_sums(*sums: Checksums) -> dict[str, Checksums]:
    return dict(zip(_IDX_FILES, sums, strict=True))


SOURCES = {
    "mnist": Source(
        "MNIST",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        _idx_sums(
            Checksums(
                "6bbc9ace898e44ae57da46a324031adb",
                "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            ),
            Checksums(
                "a25bea736e30d166cdddb491f175f624",
                "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            ),
            Checksums(
                "2646ac647ad5339dbf082846283269ea",
                "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            ),
            Checksums(
                "27ae3e4e09519cfbb04c329615203637",
                "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            ),
        ),
    ),
    "fashion-mnist": Source(
        "Fashion-MNIST",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        _idx_sums(
            Checksums(
                "f4a8712d7a061bf5bd6d2ca38dc4d50a",
                "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            ),
            Checksums(
                "9018921c3c673c538a1fc5bad174d6f9",
                "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            ),
            Checksums(
                "8181f5470baa50b63fa0f6fddb340f0a",
                "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            ),
            Checksums(
                "15d484375f8d13e6eb1aabb0c3f46965",
                "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
            ),
        ),
    ),
    "cifar10": Source(
        "CIFAR-10",
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        {
            "data_batch_1.bin": Checksums(
                "5dd7e06a14cb22eb9f671a540d1b7c25",
                "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
            ),
            "data_batch_2.bin": Checksums(
                "5ea93a67294ea407fff1d09f752e9692",
                "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
            ),
            "data_batch_3.bin": Checksums(
                "942cd6a4bcdd0dd3c604fbe906cb4421",
                "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
            ),
            "data_batch_4.bin": Checksums(
                "ae636b3ba5c66a11e91e8cb52e771fcb",
                "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
            ),
            "data_batch_5.bin": Checksums(
                "53f37980c15c3d472c316c40844f3f0d",
                "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
            ),
            "test_batch.bin": Checksums(
                "803d5f7f4d78ea53de84dbe85f74fb6d",
                "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
            ),
        },
        within="cifar-10-batches-bin",
    ),
}


class _DownloadError(Exception):
    """Why a file could not be downloaded."""


def ensure(name: str, data_dir: Path | None = None) -> Path:
    """Return the folder of a dataset after downloading the files that are missing.

    Args:
        name: one of `SOURCES`.
        data_dir: the data folder; None: CCLK_DATA, else ~/.cache/cclk.
    """
    source, folder = SOURCES[name], data_folder(data_dir) / name
    missing = [file for file in source.sums if find(folder, file) is None]
    if not missing:
        return folder
    if not may_write(folder):
        return ensure(name)
    created: list[Path] = []
    try:
        created = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".download-") as work:
            _fetch(source, missing, Path(work), folder)
    except _DownloadError as reason:
        others = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
        raise DataError(
            f"{source.title} is not complete in {folder} and could not be downloaded ({reason}):"
            f" put {missing[0]}{others} there, or the same names with .gz"
        ) from reason
    except OSError as error:
        raise DataError(
            f"{source.title} cannot be stored in {folder}: {error.strerror or error}; choose"
            " another data folder with data_dir or CCLK_DATA"
        ) from error
    finally:
        for path in created:  # succeeds only for folders that are still empty
            with suppress(OSError):
                path.rmdir()
    return folder


def _fetch(source: Source, files: list[str], work: Path, folder: Path) -> None:
    if source.within is not None:
        _receive(source.address, work / "archive")
        _unpack(source, work / "archive", files, work)
    for file in files:
        if source.within is None:
            address, packed = f"{source.address}{file}.gz", work / f"{file}.gz"
            _receive(address, packed)
            with gzip.open(packed) as stream:
                _copy(stream.read, work / file, address, LARGEST_FILE)
        received, expected = Checksums.of((work / file).read_bytes()), source.sums[file]
        if received != expected:
            raise _DownloadError(
                f"{source.address} sent a {file} with SHA-256 {received.sha256[:16]} instead of"
                f" {expected.sha256[:16]}"
            )
    # Moved after all files are verified, so that versions are not mixed.
    for file in files:
        (work / file).replace(folder / file)


def _receive(address: str, target: Path) -> None:
    _log.info("downloading %s", address)
    with _open(address) as response:
        # `read` would wait for a full chunk, however slowly its bytes arrive.
        _copy(response.read1, target, address, _LARGEST_DOWNLOAD)


def _copy(read: Callable[[int], bytes], target: Path, address: str, limit: int) -> None:
    """Write what `read` returns to a file; stop if it is damaged, too large, or too slow."""
    started, copied = time.monotonic(), 0
    with target.open("wb") as out:
        while True:
            try:
                chunk = read(_CHUNK)
            except _DAMAGE as error:
                raise _DownloadError(f"{address} is truncated or damaged") from error
            except (OSError, http.client.HTTPException) as error:
                raise _DownloadError(f"{address}: {_reason(error)}") from error
            if not chunk:
                return
            out.write(chunk)
            copied += len(chunk)
            elapsed = time.monotonic() - started
            if copied > limit:
                raise _DownloadError(f"{target.name} of {address} has more than {limit} bytes")
            if elapsed > CRAWL_SECONDS and copied < elapsed * CRAWL_BYTES_PER_SECOND:
                raise _DownloadError(f"{address} sent only {copied} bytes in {elapsed:.0f} s")


def _open(address: str) -> Any:
    """Call `urlopen` with a time limit that includes name resolution and retries of servers."""
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
        raise _DownloadError(f"{address} did not answer within {ANSWER_SECONDS:g} s") from None
    if isinstance(response, Exception):
        raise _DownloadError(f"{address}: {_reason(response)}") from response
    return response


def _unpack(source: Source, archive: Path, files: list[str], work: Path) -> None:
    """Copy files out of a tar archive without ever writing to a path from the archive."""
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for file in files:
                stream = tar.extractfile(f"{source.within}/{file}")
                if stream is None:
                    raise _DownloadError(f"{file} in {source.address} is not a file")
                _copy(stream.read, work / file, source.address, LARGEST_FILE)
    except KeyError as error:
        raise _DownloadError(f"{source.address} is not complete: {error.args[0]}") from error
    except (*_DAMAGE, RecursionError, ValueError) as error:  # a link to itself never ends
        raise _DownloadError(f"{source.address} is not an archive or truncated") from error


def _reason(error: Exception) -> str:
    inner = getattr(error, "reason", None)
    if isinstance(inner, OSError):
        error = inner
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
