"""Whatever a file holds, the outcome is a dataset or an error that names the file: never anything else."""

import gzip
import io
import os
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from bispectral_ot.datasets import load
from bispectral_ot.errors import DatasetError, InputError, MemoryBudgetError
from idx_files import idx_bytes

IMAGES = np.random.default_rng(1).integers(0, 256, (4, 6, 5), dtype=np.uint8)


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def npy_header(shape: str, descr: str = "'|u1'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


LABELLED = {"images.npy": npy(IMAGES), "labels.npy": npy(np.arange(4))}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.npy", npz({"images.npy": npy(IMAGES)}), "is an .npz archive"),
        ("a.npz", npz({"images.npy": b"no array"}), "it has none"),
        ("a.npz", npz({"images.npy": npy(IMAGES), "Images.npy": npy(IMAGES)}), "'images' and 'Images'; keep only one"),
        ("a.npz", npz(LABELLED | {"classes.npy": npy(np.array("abcd"))}), r"'classes' has shape \(\)"),
        ("a.npz", npz(LABELLED | {"labels.npy": npy(np.array(3))}), r"'labels' has shape \(\)"),
        ("a.npy", npy_header("(-1, 4, 4)"), "cannot read"),
        ("a.npy", npy_header("(4, 6, 5)", "'|O'"), "Python objects"),
        ("a.idx", bytes([0, 0, 8, 65]) + bytes(4 * 65), "not an IDX file"),
    ],
)
def test_odd_files_are_named(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=words) as raised:
        load(tmp_path / name)
    if "labels" not in words:
        assert name in str(raised.value)


# Some kilobytes that begin like 40 GB of zeros, and packed zeros without end after a header that names few of them.
BOMB_NPZ = npz({"images.npy": npy_header("(400000, 1000, 100)") + bytes(3 * 10**7)})
BOMB_IDX = gzip.compress(idx_bytes(IMAGES) + bytes(10**7), mtime=0)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.npz", BOMB_NPZ, r"needs 40\.0 GB of memory"),
        ("a.npy", npy_header("(400000, 1000, 100)"), r"cannot read .*mmap length"),
        ("a.idx", bytes([0, 0, 8, 3]) + struct.pack(">III", 400_000, 1000, 100), r"needs 40\.0 GB"),
        ("a.idx.gz", BOMB_IDX, "but more follow"),
    ],
)
def test_what_would_not_fit_is_refused_before_it_is_unpacked(tmp_path, monkeypatch, name, content, words):
    monkeypatch.setattr("bispectral_ot.memory.available_memory", lambda: 4 * 10**9)
    (tmp_path / name).write_bytes(content)
    assert len(content) < 100_000
    tracemalloc.start()
    try:
        with pytest.raises((DatasetError, MemoryBudgetError), match=words):
            load(tmp_path / name)
        assert tracemalloc.get_traced_memory()[1] < 10**7
    finally:
        tracemalloc.stop()


def test_sizes_that_do_not_fit_are_refused_before_the_work(monkeypatch):
    monkeypatch.setattr("bispectral_ot.memory.available_memory", lambda: 16 * 10**9)  # the pixels alone would fit
    for size in (999_999_999, (1, 999_999_999)):
        with pytest.raises(MemoryBudgetError, match="ask for a smaller size"):
            load(IMAGES, resize=size)


def test_paths_that_lead_nowhere(tmp_path):
    with pytest.raises(InputError, match="home folder that '~nouser-of-this-name/x' names"):
        load("~nouser-of-this-name/x")
    with pytest.raises(InputError, match="home folder"):
        load("mnist", root="~nouser-of-this-name/x")
    with pytest.raises(DatasetError, match=r"cannot read .*File name too long"):
        load("a" * 300 + ".npy")
    with pytest.raises(DatasetError):
        load("a\0b.npy")
    os.mkfifo(tmp_path / "pipe.npy")
    with pytest.raises(DatasetError, match="neither a file nor a folder"):
        load(tmp_path / "pipe.npy")
