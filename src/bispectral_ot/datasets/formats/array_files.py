"""Files of arrays: ``.npz``, ``.npy``, HDF5, and IDX, the format of MNIST."""

from __future__ import annotations

import gzip
import json
import math
import re
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from bispectral_ot.datasets.array_names import array_source, list_arrays
from bispectral_ot.datasets.io_errors import check_chunks, library, reading, refuse_bomb
from bispectral_ot.datasets.sources import LazyDataset
from bispectral_ot.errors import DatasetError
from bispectral_ot.memory import check_fits

_HARMLESS = 2**19  # bytes of a deflated chunk, of which at most a thousandfold is made
_SECONDS = 30.0  # for the strings of a file, and one more for each 20,000
# Types of IDX, and what the names of its files say about the split.
_IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_SPLIT_MARKS = {"train": ("train",), "val": ("val",), "test": ("t10k", "test")}
_READ_STRINGS = """
import json, resource, sys, h5py
resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))
values = h5py.File(sys.argv[1], "r")[sys.argv[2]][...].ravel()
json.dump([each.decode("utf-8", "replace") if isinstance(each, bytes) else str(each) for each in values], sys.stdout)
"""


class _Member:
    """An array of an archive, of which the header was read."""

    def __init__(self, path: Path, member: str) -> None:
        self.path, self.member = path, member
        with zipfile.ZipFile(path) as archive, archive.open(member) as file:
            self.shape, self.dtype = _header(file)

    @cached_property
    def array(self) -> NDArray[Any]:
        what = f"{self.path}: {self.member.removesuffix('.npy')!r}"
        _refuse_objects(self.dtype, what)
        check_fits(math.prod(self.shape) * self.dtype.itemsize, what, "save a part of it, or smaller images")
        with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as file:
            return np.asarray(npy.read_array(file, allow_pickle=False))

    def __getitem__(self, index: Any) -> NDArray[Any]:
        return np.asarray(self.array[index])


def scan_npz(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """``images`` and, where there are any, ``labels`` and ``classes``."""
    with zipfile.ZipFile(path) as archive:
        members = [name for name in archive.namelist() if archive.open(name).read(6) == npy.MAGIC_PREFIX]
    arrays = {name.removesuffix(".npy"): _Member(path, name) for name in members}
    return list_arrays(str(path), path.stem, arrays, keys, split)


def scan_npy(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """An array of images, without labels, mapped from the disk."""
    if zipfile.is_zipfile(path):
        raise DatasetError(f"{path} is an .npz archive; give it a name that ends with .npz.")
    with open(path, "rb") as file:
        _refuse_objects(_header(file)[1], str(path))
    return LazyDataset(array_source(np.load(path, mmap_mode="r", allow_pickle=False), str(path)), path.stem)


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[npy.read_magic(file)]
    shape, _, dtype = read(file)
    return shape, dtype


def _refuse_objects(dtype: np.dtype[Any], what: str) -> None:
    if dtype.hasobject:
        raise DatasetError(f"{what} holds Python objects, which are not read; save strings as labels.astype(str).")


def hdf5_arrays(path: Path) -> dict[str, Any]:
    """Arrays of a file by their names; the file stays open as long as one of them is used."""
    h5py = library("h5py", extra="hdf5", what=path)
    arrays: dict[str, Any] = {}

    def note(name: str, item: Any) -> None:
        # an array may keep its numbers in any other file of the machine: not followed
        if isinstance(item, h5py.Dataset) and not item.external and not item.is_virtual and item.shape is not None:
            arrays[name] = item

    h5py.File(path, "r").visititems(note)
    return arrays


def scan_hdf5(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """``images`` and ``labels``, Galaxy10's ``images`` and ``ans``, or the arrays that ``keys`` name."""
    arrays = hdf5_arrays(path)
    lazy = list_arrays(str(path), path.stem, arrays, keys, split, lambda array: read_hdf5(array, path))
    _check_hdf5(lazy.source.rows, path)
    return lazy


def _check_hdf5(array: Any, path: Path) -> None:
    """Refuse chunks that would take much more memory than the array."""
    what = f"{path}::{array.name}"
    check_chunks(array.chunks, array.shape, array.dtype.itemsize, what)
    if array.compression == "gzip":
        large: list[tuple[int, ...]] = []
        array.id.chunk_iter(lambda chunk: large.append(chunk.chunk_offset) if chunk.size > _HARMLESS else None)
        for offset in large:
            _, encoded = array.id.read_direct_chunk(offset)
            refuse_bomb(encoded, math.prod(array.chunks) * array.dtype.itemsize, what)


def read_hdf5(array: Any, path: Path) -> NDArray[Any]:
    """Array in memory; strings are read by another process, since HDF5 may search damaged files without end."""
    if array.dtype.kind != "O":
        _check_hdf5(array, path)
        return np.asarray(array[...])
    command = [sys.executable, "-P", "-c", _READ_STRINGS, str(path), array.name]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_SECONDS + len(array) / 20_000, check=True)
    except subprocess.TimeoutExpired:
        raise DatasetError(
            f"the strings of {path}::{array.name.lstrip('/')} cannot be read in {_SECONDS:.0f} s; the file is damaged."
        ) from None
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode("utf-8", "replace").strip().splitlines()
        raise OSError(lines[-1] if lines else f"h5py ended with code {error.returncode}") from None
    return np.array(json.loads(done.stdout), dtype=object)


def is_idx_name(name: str) -> bool:
    """Whether a file name says IDX: ``train-images-idx3-ubyte``, ``a.idx``, with or without ``.gz``."""
    return re.search(r"[-.]idx\d?(-\w+)?(\.gz)?$", name.lower()) is not None


def read_idx(path: Path) -> NDArray[Any]:
    """Array of an IDX file: two zero bytes, a type, the number of axes, each axis as a 4-byte integer, the values."""
    with reading(path), open(path, "rb") as plain:
        packed = plain.read(2) == b"\x1f\x8b"
        plain.seek(0)
        file: Any = gzip.GzipFile(fileobj=plain) if packed else plain
        start = file.read(4)
        if len(start) < 4 or start[:2] != b"\x00\x00" or start[2] not in _IDX_TYPES or not 1 <= start[3] <= 4:
            raise DatasetError(f"{path} is not an IDX file: it begins with {start.hex() or 'nothing'}.")
        dtype, sizes = np.dtype(_IDX_TYPES[start[2]]), file.read(4 * start[3])
        if len(sizes) < 4 * start[3]:
            raise DatasetError(f"{path} is truncated: its header ends after {4 + len(sizes)} bytes.")
        shape = tuple(int(size) for size in np.frombuffer(sizes, dtype=">u4"))
        expected = math.prod(shape) * dtype.itemsize
        check_fits(expected, str(path), "the file is damaged, or too large for this machine")
        content = file.read(expected + 1)  # no more: a packed file may have no end
        if len(content) != expected:
            found = "fewer" if len(content) < expected else "more"
            raise DatasetError(f"{path} is damaged: its header names {expected:,} bytes, but {found} follow.")
        return np.frombuffer(content, dtype=dtype).reshape(shape).astype(dtype.newbyteorder("="))


def read_idx_pair(images_path: Path, labels_path: Path | None) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Images and labels; the published EMNIST files (``emnist-...``), whose images are transposed, become upright."""
    images = read_idx(images_path)
    if images.ndim < 3:
        raise DatasetError(f"{images_path} has shape {images.shape}, not images; name the file with the images.")
    if images_path.name.startswith("emnist-"):
        images = np.ascontiguousarray(images.swapaxes(1, 2))
    labels = None if labels_path is None else read_idx(labels_path)
    if labels is not None and labels.shape != (len(images),):
        raise DatasetError(
            f"{labels_path} has labels of shape {labels.shape}, but {images_path} has {len(images)} images."
        )
    return images, labels


def scan_idx(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """Images of an IDX file, with the labels file (``labels`` for ``images``, ``idx1`` for ``idx3``) beside it."""
    stem = path.name.removesuffix(".gz")
    labels_stem = re.sub(r"idx\d", "idx1", stem.replace("images", "labels"))
    images, labels = read_idx_pair(
        path, find_plain_or_packed(path.parent, labels_stem) if labels_stem != stem else None
    )
    return LazyDataset(array_source(images, str(path)), re.sub(r"[-.]images.*|[-.]idx.*", "", stem) or stem, labels)


def find_plain_or_packed(folder: Path, stem: str) -> Path | None:
    """The file ``stem`` or ``stem.gz`` in ``folder``, whichever is there."""
    return next((path for path in (folder / stem, folder / f"{stem}.gz") if path.is_file()), None)


def find_idx_images(folder: Path, *, split: str) -> Path | None:
    """The IDX file with the images of ``split`` in ``folder``; None where the folder has no IDX files."""
    files = sorted(path for path in folder.iterdir() if is_idx_name(path.name) and path.is_file())
    if not files:
        return None
    found = [p for p in files if "images" in p.name and any(mark in p.name for mark in _SPLIT_MARKS[split])]
    stems = {path.name.removesuffix(".gz") for path in found}
    if len(stems) != 1:
        raise DatasetError(
            f"{folder} has {len(stems) or 'no'} IDX files with images of the {split} split among "
            f"{', '.join(path.name for path in files[:6])}; name the file itself."
        )
    return found[0]
