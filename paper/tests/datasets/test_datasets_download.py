"""Downloads against a server on this machine: what is kept, what is refused, and that nothing
hangs.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import http.server
import io
import shutil
import socket
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from cclk_paper.datasets import download
from cclk_paper.datasets.download import SOURCES, Checksums, Source, ensure
from small_files import cifar_bytes, write_cifar, write_idx_dataset

from cclk import datasets
from cclk.errors import DataError

pytestmark = pytest.mark.filterwarnings("error")


class Handler(http.server.BaseHTTPRequestHandler):
    content: ClassVar[dict[str, bytes]] = {}
    asked: ClassVar[list[str]] = []
    crumbs: ClassVar[bool] = False
    promise: ClassVar[int] = 0
    stop: ClassVar[threading.Event] = threading.Event()

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.path not in self.content:
            self.send_error(404)
            return
        body = self.content[self.path]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body) + self.promise))
        self.end_headers()
        if self.crumbs:
            while not self.stop.wait(0.05):
                self.wfile.write(b"x")
                self.wfile.flush()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name, value in {
        "content": {},
        "asked": [],
        "crumbs": False,
        "promise": 0,
        "stop": threading.Event(),
    }.items():
        monkeypatch.setattr(Handler, name, value)
    for name in (
        "http_proxy",
        "HTTP_PROXY",
        "https_proxy",
        "HTTPS_PROXY",
        "all_proxy",
        "ALL_PROXY",
    ):
        monkeypatch.delenv(name, raising=False)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(
            target=running.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        Handler.stop.set()
        running.shutdown()
        thread.join()


@pytest.fixture
def mnist(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """A small MNIST on the server; the files as they should arrive."""
    write_idx_dataset(tmp_path / "made")
    files = {path.name: path.read_bytes() for path in (tmp_path / "made").iterdir()}
    shutil.rmtree(tmp_path / "made")
    Handler.content.update(
        {f"/mnist/{name}.gz": gzip.compress(content) for name, content in files.items()}
    )
    sums = {name: Checksums.of(files[name]) for name in SOURCES["mnist"].sums}
    source = Source("MNIST", f"{server}/mnist/", sums)
    monkeypatch.setitem(SOURCES, "mnist", source)
    return files


def tar(members: dict[str, bytes], link: str | None = None, folder: str | None = None) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        if link is not None:
            info = tarfile.TarInfo(link)
            info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(info)
        if folder is not None:
            info = tarfile.TarInfo(folder)
            info.type = tarfile.DIRTYPE
            archive.addfile(info)
    return out.getvalue()


@pytest.fixture
def cifar(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """A small CIFAR-10 archive on the server; the files it holds."""
    write_cifar(tmp_path / "made")
    files = {path.name: path.read_bytes() for path in (tmp_path / "made").iterdir()}
    shutil.rmtree(tmp_path / "made")
    Handler.content["/cifar.tar.gz"] = tar(
        {f"cifar-10-batches-bin/{name}": content for name, content in files.items()}
    )
    sums = {name: Checksums.of(files[name]) for name in SOURCES["cifar10"].sums}
    monkeypatch.setitem(
        SOURCES,
        "cifar10",
        Source("CIFAR-10", f"{server}/cifar.tar.gz", sums, within="cifar-10-batches-bin"),
    )
    return files


def nothing_left(folder: Path) -> bool:
    return not folder.exists()


def test_files_are_fetched_verified_and_kept(mnist: dict[str, bytes], tmp_path: Path) -> None:
    dataset = datasets.load("colormnist", data_dir=tmp_path, holdout=0)
    assert len(dataset.train) == 60
    assert {path.name: path.read_bytes() for path in (tmp_path / "mnist").iterdir()} == mnist
    count = len(Handler.asked)
    assert count == 4
    datasets.load("colormnist", data_dir=tmp_path, holdout=0)
    assert len(Handler.asked) == count, "nothing is fetched twice"


def test_only_what_is_missing_is_fetched(mnist: dict[str, bytes], tmp_path: Path) -> None:
    folder = tmp_path / "mnist"
    folder.mkdir()
    (folder / "train-images-idx3-ubyte").write_bytes(mnist["train-images-idx3-ubyte"])
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(
        gzip.compress(mnist["t10k-labels-idx1-ubyte"])
    )
    ensure("mnist", tmp_path)
    assert sorted(Handler.asked) == [
        "/mnist/t10k-images-idx3-ubyte.gz",
        "/mnist/train-labels-idx1-ubyte.gz",
    ]


def test_archives_are_unpacked(cifar: dict[str, bytes], tmp_path: Path) -> None:
    assert len(datasets.load("cifar10", data_dir=tmp_path, holdout=0).train) == 50
    assert {path.name: path.read_bytes() for path in (tmp_path / "cifar10").iterdir()} == cifar
    assert Handler.asked == ["/cifar.tar.gz"]


def test_wrong_contents_are_not_kept(mnist: dict[str, bytes], tmp_path: Path) -> None:
    Handler.content["/mnist/t10k-labels-idx1-ubyte.gz"] = gzip.compress(b"something else")
    expected = hashlib.sha256(mnist["t10k-labels-idx1-ubyte"]).hexdigest()
    received = hashlib.sha256(b"something else").hexdigest()
    message = (
        rf"sent a t10k-labels-idx1-ubyte with SHA-256 {received[:16]} instead of {expected[:16]}\):"
        r" put train-images"
    )
    with pytest.raises(DataError, match=message):
        ensure("mnist", tmp_path)
    assert nothing_left(tmp_path / "mnist")


def test_a_forged_file_with_the_published_md5_is_not_kept(
    mnist: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, name = SOURCES["mnist"], "t10k-labels-idx1-ubyte"
    sums = {**source.sums, name: Checksums(source.sums[name].md5, "0" * 64)}
    monkeypatch.setitem(SOURCES, "mnist", Source(source.title, source.address, sums))
    with pytest.raises(DataError, match=f"instead of {'0' * 16}"):
        ensure("mnist", tmp_path)
    assert nothing_left(tmp_path / "mnist")


@pytest.mark.parametrize(
    "body", [b"", b"<html>log in first</html>", gzip.compress(bytes(range(256)) * 40)[:-9]]
)
def test_damaged_downloads_are_not_kept(
    mnist: dict[str, bytes], tmp_path: Path, body: bytes
) -> None:
    Handler.content["/mnist/train-images-idx3-ubyte.gz"] = body
    with pytest.raises(
        DataError,
        match=(
            r"could not be downloaded \(.*(truncated or damaged|with SHA-256).*\): put"
            r" train-images-idx3-ubyte and 3 others there"
        ),
    ):
        ensure("mnist", tmp_path)
    assert nothing_left(tmp_path / "mnist")


def test_a_connection_that_breaks_off(
    mnist: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Handler.content["/mnist/train-images-idx3-ubyte.gz"]
    Handler.content["/mnist/train-images-idx3-ubyte.gz"] = whole[:50]
    monkeypatch.setattr(Handler, "promise", len(whole) - 50)
    with pytest.raises(DataError, match="could not be downloaded"):
        ensure("mnist", tmp_path)
    assert nothing_left(tmp_path / "mnist")


@pytest.mark.parametrize("damage", ["cut", "empty", "html", "member", "link", "folder"])
def test_damaged_archives_are_not_kept(
    cifar: dict[str, bytes], tmp_path: Path, damage: str
) -> None:
    members = {f"cifar-10-batches-bin/{name}": content for name, content in cifar.items()}
    less = {name: content for name, content in members.items() if "test_batch" not in name}
    whole = Handler.content["/cifar.tar.gz"]
    body = {
        "cut": whole[: len(whole) // 2],
        "empty": b"",
        "html": b"<html></html>",
        "member": tar(less),
        "link": tar(less, link="cifar-10-batches-bin/test_batch.bin"),
        "folder": tar(less, folder="cifar-10-batches-bin/test_batch.bin"),
    }
    Handler.content["/cifar.tar.gz"] = body[damage]
    with pytest.raises(
        DataError,
        match=(
            r"^CIFAR-10 is not complete in .* could not be downloaded \(.*\): put data_batch_1.bin"
            r" [^\n]*$"
        ),
    ):
        ensure("cifar10", tmp_path)
    assert nothing_left(tmp_path / "cifar10")


def test_paths_inside_an_archive_are_never_written_to(
    cifar: dict[str, bytes], tmp_path: Path
) -> None:
    members = {f"cifar-10-batches-bin/{name}": content for name, content in cifar.items()}
    Handler.content["/cifar.tar.gz"] = tar(
        {"../../escaped": b"x", "/tmp/cclk-escaped": b"x", **members}
    )
    ensure("cifar10", tmp_path / "deep" / "down")
    assert sorted(
        path.name for path in (tmp_path / "deep" / "down" / "cifar10").iterdir()
    ) == sorted(cifar)
    assert not list(tmp_path.rglob("*escaped"))
    assert not Path("/tmp/cclk-escaped").exists()


def test_files_that_unpack_without_end_are_refused(
    mnist: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "LARGEST_FILE", 1000)
    with pytest.raises(DataError, match="has more than 1000 bytes"):
        ensure("mnist", tmp_path)
    monkeypatch.setattr(download, "_LARGEST_DOWNLOAD", 10)
    with pytest.raises(DataError, match="has more than 10 bytes"):
        ensure("mnist", tmp_path)
    assert nothing_left(tmp_path / "mnist")


@pytest.mark.usefixtures("mnist", "cifar")
def test_a_failed_download_leaves_no_folders(tmp_path: Path) -> None:
    Handler.content.clear()
    with pytest.raises(DataError, match="could not be downloaded"):
        ensure("mnist", tmp_path / "deep" / "down")
    assert nothing_left(tmp_path / "deep")
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "train-labels-idx1-ubyte").write_bytes(b"mine")
    with pytest.raises(DataError, match="could not be downloaded"):
        ensure("mnist", tmp_path)
    assert [path.name for path in (tmp_path / "mnist").iterdir()] == ["train-labels-idx1-ubyte"]
    (tmp_path / "cifar10").mkdir()
    with pytest.raises(DataError, match="could not be downloaded"):
        ensure("cifar10", tmp_path)
    assert (tmp_path / "cifar10").is_dir(), "a folder that was there before stays"


def test_missing_at_the_address(mnist: dict[str, bytes], tmp_path: Path) -> None:
    Handler.content.clear()
    folder = tmp_path / "mnist"
    message = (
        rf"^MNIST is not complete in {folder} and could not be downloaded \(http://[^ ]*:"
        r" .*404.*\): put train-images-idx3-ubyte and 3 others there, or the same names with \.gz$"
    )
    with pytest.raises(DataError, match=message):
        datasets.load("colormnist", data_dir=tmp_path)


@pytest.mark.parametrize("name", ["colormnist", "cifar10", "fashion-mnist"])
def test_no_network_is_one_line_that_says_what_to_do(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise OSError(errno.ENETUNREACH, "Network is unreachable")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    with pytest.raises(DataError, match="Network is unreachable") as caught:
        datasets.load(name, data_dir=tmp_path)
    folder = "mnist" if name == "colormnist" else name
    for part in (next(iter(SOURCES[folder].sums)), f"/{folder} "):
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_silent_address_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "ANSWER_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        monkeypatch.setitem(SOURCES, "mnist", Source("MNIST", address, SOURCES["mnist"].sums))
        started = time.monotonic()
        with pytest.raises(DataError, match=r"did not answer within 0\.3 s|timed out"):
            ensure("mnist", tmp_path)
        assert time.monotonic() - started < 3


def test_a_lookup_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    def hang(*args: object, **options: object) -> None:
        released.wait(20)
        raise OSError("too late")

    monkeypatch.setattr("urllib.request.urlopen", hang)
    monkeypatch.setattr(download, "ANSWER_SECONDS", 0.2)
    started = time.monotonic()
    with pytest.raises(DataError, match=r"did not answer within 0\.2 s"):
        ensure("mnist", tmp_path)
    released.set()
    assert time.monotonic() - started < 3


def test_a_crawling_address_is_given_up(
    mnist: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Handler, "crumbs", True)
    monkeypatch.setattr(download, "CRAWL_SECONDS", 0.4)
    started = time.monotonic()
    with pytest.raises(DataError, match=r"sent only \d+ bytes in 0 s"):
        ensure("mnist", tmp_path)
    assert time.monotonic() - started < 5


def test_a_folder_that_cannot_be_made(mnist: dict[str, bytes], tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(
        DataError,
        match=(
            r"MNIST cannot be stored in .*file/mnist: Not a directory; choose another data folder"
            r" with data_dir"
        ),
    ):
        ensure("mnist", tmp_path / "file")


def test_a_full_disk(
    mnist: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(DataError, match=r"MNIST cannot be stored in .*: No space left on device"):
        ensure("mnist", tmp_path)
    assert nothing_left(tmp_path / "mnist")


def test_published_sums_and_layout() -> None:
    assert {name: len(source.sums) for name, source in SOURCES.items()} == {
        "mnist": 4,
        "fashion-mnist": 4,
        "cifar10": 6,
    }
    for source in SOURCES.values():
        assert all((len(md5), len(sha)) == (32, 64) for md5, sha in source.sums.values())
    assert len(cifar_bytes(0)) % 3073 == 0
