"""Named sets: downloads from a server on this machine, and files in a folder."""

import gzip
import hashlib
import io
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import numpy as np
import pytest

from bispectral_ot.datasets import load
from bispectral_ot.datasets.named_sets import NAMED, fetch
from bispectral_ot.errors import DatasetError
from bispectral_ot.files import cache_folder
from idx_files import idx_bytes, write_idx

NOWHERE = "http://127.0.0.1:9/"  # the discard port: refused at once


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        name = self.path.strip("/")
        self.server.requests.append(name)
        content = self.server.files.get(name, b"")
        self.send_response(200 if content else 404)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    """Serves ``files`` and keeps a list of all requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}/"


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # pooch waits between two attempts
    with Server() as serving:
        thread = Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


@pytest.fixture
def published(server, images, monkeypatch):
    """A tiny MNIST on the server, in place of the real one."""
    labels = np.arange(7, dtype=np.uint8)
    for split in ("train", "t10k"):
        server.files[f"{split}-images-idx3-ubyte.gz"] = gzip.compress(idx_bytes(images))
        server.files[f"{split}-labels-idx1-ubyte.gz"] = gzip.compress(idx_bytes(labels))
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in server.files.items()}
    tiny = replace(NAMED["mnist"], mirrors=(server.url,), sha256=sums, counts={"train": 7, "test": 7})
    monkeypatch.setitem(NAMED, "mnist", tiny)
    return tiny


def test_fetched_once_then_taken_from_the_cache(published, server, images):
    dataset = load("mnist")
    np.testing.assert_array_equal(dataset.images, images)
    assert dataset.name == "mnist"
    assert sorted(server.requests) == ["train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"]
    load("mnist")
    assert len(server.requests) == 2


def test_a_wrong_checksum_leaves_nothing_in_the_cache_and_the_next_mirror_is_tried(published, server):
    whole = server.files["train-images-idx3-ubyte.gz"]
    server.files["train-images-idx3-ubyte.gz"] += b"!"
    with pytest.raises(DatasetError, match=r"ubyte.gz \(wrong checksum\)"):
        load("mnist")
    assert list(cache_folder(published.name).iterdir()) == []
    server.files["train-images-idx3-ubyte.gz"] = whole
    assert len(list(fetch(replace(published, mirrors=(NOWHERE, server.url))).iterdir())) == 4


def test_no_network_says_which_file_to_put_where(published, monkeypatch):
    monkeypatch.setitem(NAMED, "mnist", replace(published, mirrors=(NOWHERE, NOWHERE)))
    name, folder = "train-images-idx3-ubyte.gz", cache_folder(published.name)
    words = f"{NOWHERE}{name} .ConnectionError. or .*; .*copy it to {folder / name}, .*BISPECTRAL_OT_DATA"  # one line
    with pytest.raises(DatasetError, match=words):
        load("mnist")


def test_a_named_folder_is_never_completed_by_a_download(published, server, tmp_path, monkeypatch):
    monkeypatch.setenv("BISPECTRAL_OT_DATA", str(tmp_path))
    with pytest.raises(DatasetError, match="no train split of mnist"):
        load("mnist")
    assert server.requests == []
    fetch(published)  # but what was fetched on request is used
    assert len(load("mnist")) == 7


@pytest.fixture
def letters(server, images, monkeypatch):
    """Tiny EMNIST letters on the server, in place of the real ones."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for split in ("train", "test"):
            prefix, labels = f"gzip/emnist-letters-{split}", np.arange(1, 8, dtype=np.uint8)
            archive.writestr(f"{prefix}-images-idx3-ubyte.gz", gzip.compress(idx_bytes(images.transpose(0, 2, 1))))
            archive.writestr(f"{prefix}-labels-idx1-ubyte.gz", gzip.compress(idx_bytes(labels)))
        archive.writestr("gzip/emnist-digits-train-images-idx3-ubyte.gz", b"not wanted")
    server.files["gzip.zip"] = packed.getvalue()
    sums = {"gzip.zip": hashlib.sha256(packed.getvalue()).hexdigest()}
    tiny = replace(NAMED["emnist-letters"], mirrors=(server.url,), sha256=sums, counts={"train": 7, "test": 7})
    monkeypatch.setitem(NAMED, "emnist-letters", tiny)
    return tiny


def test_letters_come_out_of_their_archive(letters, server, images):
    for split in ("train", "test"):
        dataset = load("emnist-letters", split=split)
        np.testing.assert_array_equal(dataset.images, images)
        np.testing.assert_array_equal(dataset.labels, np.arange(7))
        assert dataset.name == "emnist-letters"
    assert (server.requests, len(list(cache_folder(letters.name).iterdir()))) == (["gzip.zip"], 4)


TRAIN = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
TEST = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


@pytest.mark.parametrize(("place", "packed"), [(".", ""), ("mnist", ".gz")])
def test_every_layout(tmp_path, images, write_pair, place, packed):
    write_pair(tmp_path / place, TEST[0] + packed, TEST[1] + packed)
    dataset = load("mnist", split="test", root=tmp_path)
    np.testing.assert_array_equal(dataset.images, images)
    np.testing.assert_array_equal(dataset.labels, np.arange(7))
    assert (dataset.name, len(dataset.classes)) == ("mnist-assembled", 10)


def test_mnist_files_are_not_taken_for_letters_and_assembled_ones_are_upright(tmp_path, images, write_pair):
    write_pair(tmp_path, *TRAIN)
    with pytest.raises(DatasetError, match="no train split of emnist-letters"):
        load("emnist-letters", root=tmp_path)
    write_pair(tmp_path / "emnist-letters", *TRAIN)
    with pytest.raises(DatasetError, match="labels that emnist-letters does not have"):
        load("emnist-letters", root=tmp_path)
    write_pair(tmp_path / "emnist-letters", *TRAIN, first_label=1)
    dataset = load("emnist-letters", root=tmp_path)
    np.testing.assert_array_equal(dataset.images, images)
    assert dataset.name == "emnist-letters-assembled"


def test_a_flat_folder_of_another_set_is_recognised(tmp_path):
    write_idx(tmp_path / TRAIN[0], np.zeros((10, 28, 28), dtype=np.uint8))
    write_idx(tmp_path / TRAIN[1], np.array([5, 0, 4, 1, 9, 2, 1, 3, 1, 4], dtype=np.uint8))  # first of MNIST
    assert len(load("mnist", root=tmp_path)) == 10
    with pytest.raises(DatasetError, match="belongs to mnist, not to kmnist"):
        load("kmnist", root=tmp_path)


def test_the_real_sets(shared_data):
    found = [load(name, root=shared_data) for name in ("mnist", "kmnist", "emnist-letters")]
    assert [each.class_counts.min() for each in found] == [5421, 6000, 1140]
