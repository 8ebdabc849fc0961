"""Files of arrays (``.npz``, ``.npy``, HDF5, Zarr, and IDX, the format of MNIST) and of vectors, such as embeddings."""

import gzip
import json
import math
import os
import re
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from bispectral_ot.checks import advise, user_path
from bispectral_ot.datasets.dataset import Dataset
from bispectral_ot.datasets.io_errors import check_chunks, library, reading, refuse_bomb
from bispectral_ot.datasets.sources import LABEL_WORDS, LazyDataset, array_source, as_text, list_arrays
from bispectral_ot.errors import DatasetError, InputError, warn
from bispectral_ot.memory import check_fits

Arrays = dict[str, Any]  # of NumPy, h5py or Zarr, by their names
_CODECS = ("zstd", "blosc", "gzip", "zlib")
_VECTOR_WORDS = ("vectors", "embeddings", "features", "x")
_SECONDS = 30.0  # for the strings of a file, and one more for each 20,000
_IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_READ_STRINGS = """
import json, resource, sys, h5py
hard = resource.getrlimit(resource.RLIMIT_AS)[1]
resource.setrlimit(resource.RLIMIT_AS, (2**33 if hard == resource.RLIM_INFINITY else min(hard, 2**33), hard))
values = h5py.File(sys.argv[1], "r")[sys.argv[2]][...].ravel()
json.dump([each.decode("utf-8", "replace") if isinstance(each, bytes) else str(each) for each in values], sys.stdout)
"""


class _Member:
    """Array of an archive whose header was read."""

    def __init__(self, path: Path, member: str) -> None:
        self.path, self.member = path, member
        with zipfile.ZipFile(path) as archive, archive.open(member) as file:
            self.shape, self.dtype = _header(file)

    @cached_property
    def array(self) -> NDArray[Any]:
        what = f"{self.path}: {self.member.removesuffix('.npy')!r}"
        check_fits(math.prod(self.shape) * self.dtype.itemsize, what, "save a part of it, or smaller images")
        with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as file:
            _header(file, what)
            file.seek(0)
            return np.asarray(npy.read_array(file, allow_pickle=False))

    def __getitem__(self, index: Any) -> NDArray[Any]:
        return np.asarray(self.array[index])


def _npz_arrays(path: Path) -> Arrays:
    with zipfile.ZipFile(path) as archive:
        members = [name for name in archive.namelist() if archive.open(name).read(6) == npy.MAGIC_PREFIX]
    return {name.removesuffix(".npy"): _Member(path, name) for name in members}


def scan_npz(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """``images`` and, if present, ``labels`` and ``classes``."""
    return list_arrays(path, _npz_arrays(path), keys, split, lambda member: member[...])


def scan_npy(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """Array of images, without labels, mapped from the disk."""
    if zipfile.is_zipfile(path):
        raise DatasetError(f"{path} is an .npz archive; give it a name that ends with .npz.")
    with open(path, "rb") as file:
        _header(file, str(path))
    return LazyDataset(array_source(np.load(path, mmap_mode="r", allow_pickle=False), str(path)), path.stem)


def _header(file: IO[bytes], what: str = "") -> tuple[tuple[int, ...], np.dtype[Any]]:
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    shape, _, dtype = readers[npy.read_magic(file)](file)
    if what and dtype.hasobject:
        raise DatasetError(f"{what} holds Python objects, which are not read; save strings as labels.astype(str).")
    return shape, dtype


def hdf5_arrays(path: Path) -> Arrays:
    """Arrays of a file by their names; the file stays open as long as one of them is used."""
    h5py = library("h5py", extra="hdf5", what=path)
    arrays: Arrays = {}

    def note(name: str, item: Any) -> None:
        # an array may keep its numbers in any other file of the machine: not followed
        if isinstance(item, h5py.Dataset) and not item.external and not item.is_virtual and item.shape is not None:
            arrays[name] = item

    h5py.File(path, "r").visititems(note)
    return arrays


def scan_hdf5(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """``images`` and ``labels``, Galaxy10's ``images`` and ``ans``, or the arrays that ``keys`` name."""
    lazy = list_arrays(path, hdf5_arrays(path), keys, split, lambda array: read_hdf5(array, path))
    _check_hdf5(lazy.source.rows, path)
    return lazy


def _check_hdf5(array: Any, path: Path) -> None:
    """Refuse chunks that would take much more memory than the array."""
    what = f"{path}::{array.name}"
    check_chunks(array.chunks, array.shape, array.dtype.itemsize, what)
    if array.compression == "gzip":
        large: list[tuple[int, ...]] = []  # chunks of half a megabyte or less inflate to 0.5 GB at most
        array.id.chunk_iter(lambda chunk: large.append(chunk.chunk_offset) if chunk.size > 2**19 else None)
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
        what = f"the strings of {path}::{array.name.lstrip('/')}"
        raise DatasetError(f"{what} cannot be read in {_SECONDS:.0f} s; the file is damaged.") from None
    except subprocess.CalledProcessError as error:
        lines = [f"h5py ended with code {error.returncode}", *error.stderr.decode("utf-8", "replace").splitlines()]
        raise OSError(lines[-1]) from None
    return np.array(json.loads(done.stdout), dtype=object)


def scan_zarr(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """Array, or group with ``images`` and ``labels`` or with the arrays that ``keys`` name."""
    zarr = library("zarr", extra="zarr", what=path)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="zarr")  # about files that are not part of the store
        node = zarr.open(str(path), mode="r")
        arrays = dict(node.members(max_depth=4)) if hasattr(node, "members") else {"images": node}
        arrays = {name: each for name, each in arrays.items() if hasattr(each, "chunks")}  # no groups
        lazy = list_arrays(path, arrays, keys, split, lambda array: _checked_zarr(array, path)[...])
        _checked_zarr(lazy.source.rows, path)
        return lazy


def _checked_zarr(array: Any, path: Path) -> Any:
    """Return an array; refuses chunks much larger than it, and warns of missing ones."""
    what = f"{path}::{array.path}" if array.path else str(path)
    grid = getattr(array, "shards", None) or array.chunks
    check_chunks(grid, array.shape, array.dtype.itemsize, what)
    folder = os.path.join(array.store_path.store.root, array.path)
    names = [getattr(each, "codec_id", None) or type(each).__name__.lower() for each in array.compressors]
    # filters, shards and further codecs change the bytes of a chunk as well
    is_plain = len(names) == 1 and not array.filters and not getattr(array, "shards", None)
    codec, found = str(names[0]).removesuffix("codec") if is_plain else "other", 0
    for place, _, files in os.walk(folder):
        for file in files:
            if not file.startswith(".") and file != "zarr.json":
                found += 1
                chunk = Path(place, file)
                if codec in _CODECS and chunk.stat().st_size > 2**15:
                    _check_decoded(chunk, codec, array.dtype.itemsize * math.prod(grid), what)
    count = math.prod(-(-side // step) for side, step in zip(array.shape, grid, strict=True))
    if found < count:
        missing = f"{count - found:,} of {count:,} chunks of {what} are not stored, and count as {array.fill_value}"
        advice = "Zarr does not store chunks of that value alone; if files were lost, get the store again"
        warn(f"{missing}. {advice}.")
    return array


def _check_decoded(file: Path, codec: str, limit: int, what: str) -> None:
    """Refuse a chunk of more than ``limit`` bytes, by the size in its header if there is one."""
    with open(file, "rb") as stream:
        head = stream.read(18)
        if codec in ("gzip", "zlib"):
            refuse_bomb(head + stream.read(), limit, what)
            return
    if codec == "blosc":
        size = int.from_bytes(head[4:8], "little")
    else:  # a frame of Zstandard: magic number, descriptor, window, dictionary, content size
        kind, single = head[4] >> 6, head[4] >> 5 & 1
        start, width = 5 + (1 - single) + (0, 1, 2, 4)[head[4] & 3], (single, 2, 4, 8)[kind]
        size = int.from_bytes(head[start : start + width], "little") + (256 if width == 2 else 0)
    if size > limit + 1024:
        raise DatasetError(f"{what} has a chunk that is larger than announced; the store is damaged, get it again.")


def is_idx_name(name: str) -> bool:
    """Whether a file name is one of IDX: ``train-images-idx3-ubyte``, ``a.idx``, with or without ``.gz``."""
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
            raise DatasetError(f"{path} is damaged: its header declares {expected:,} bytes, but {found} follow.")
        return np.frombuffer(content, dtype=dtype).reshape(shape).astype(dtype.newbyteorder("="))


def read_idx_pair(path: Path, labels_path: Path | None) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Images and labels; the published EMNIST files (``emnist-...``), whose images are transposed, become upright."""
    images = read_idx(path)
    if images.ndim < 3:
        raise DatasetError(f"{path} has shape {images.shape}, not images; name the file with the images.")
    if path.name.startswith("emnist-"):
        images = np.ascontiguousarray(images.swapaxes(1, 2))
    labels = None if labels_path is None else read_idx(labels_path)
    if labels is not None and labels.shape != (len(images),):
        raise DatasetError(f"{labels_path} has labels of shape {labels.shape}, but {path} has {len(images)} images.")
    return images, labels


def scan_idx(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """Images of an IDX file, with the labels file (``labels`` for ``images``, ``idx1`` for ``idx3``) beside it."""
    stem = path.name.removesuffix(".gz")
    labels_stem = re.sub(r"idx\d", "idx1", stem.replace("images", "labels"))
    beside = find_plain_or_packed(path.parent, labels_stem) if labels_stem != stem else None
    images, labels = read_idx_pair(path, beside)
    return LazyDataset(array_source(images, str(path)), re.sub(r"[-.]images.*|[-.]idx.*", "", stem) or stem, labels)


def find_plain_or_packed(folder: Path, stem: str) -> Path | None:
    """File ``stem`` or ``stem.gz`` in ``folder``, whichever exists."""
    return next((path for path in (folder / stem, folder / f"{stem}.gz") if path.is_file()), None)


def read_vectors(word: str) -> Dataset:
    """Vectors in a file, and labels if it has some; ``FILE:NAME`` or ``FILE:NAME:LABELS`` name its arrays."""
    file, *asked = [word] if user_path(word).exists() else re.split(":+", word)
    path = user_path(file)
    if not path.is_file() or path.suffix.lower() not in _VECTOR_FILES:
        found = "there is no file" if not path.exists() else "vectors cannot be read from"
        raise DatasetError(f"{found} {path}; expected one of {', '.join(_VECTOR_FILES)}.")
    with reading(path):
        arrays = _VECTOR_FILES[path.suffix.lower()](path)
        axes = {name: len(array.shape) for name, array in arrays.items()}
        tables = [name for name in axes if axes[name] == 2]
        known = sorted((_VECTOR_WORDS.index(name.lower()), name) for name in tables if name.lower() in _VECTOR_WORDS)
        certain = tables if len(tables) == 1 else [name for _, name in known if path.suffix != ".h5ad"] or [""]
        vectors = (*asked, *certain)[0]
        labels = asked[1] if len(asked) > 1 else next((name for name in LABEL_WORDS if axes.get(name) == 1), "")
        if vectors not in tables or (labels and labels not in arrays):
            wrong, names = (vectors, tables) if vectors not in tables else (labels, arrays)
            what = f"there is no array {wrong!r}" if wrong else "it is not clear which array holds the vectors"
            raise InputError(f"{path}: {what}; name it as {path.name}:NAME:LABELS; {advise(wrong, names)}")
        check_fits(4 * math.prod(arrays[vectors].shape), str(path), "save a part of it")
        rows, given = (_in_memory(arrays[name], path) if name else None for name in (vectors, labels))
    return Dataset.from_vectors(rows, given, name=path.stem)  # type: ignore[arg-type]


def _in_memory(array: Any, path: Path) -> Any:
    return as_text(np.asarray(array[...]) if isinstance(array, (np.ndarray, _Member)) else read_hdf5(array, path))


def _read_anndata(path: Path) -> Arrays:
    """``X``, arrays of ``obsm``, and the columns of ``obs``, of which those with categories are strings."""
    arrays = {
        name: each for name, each in hdf5_arrays(path).items() if name == "X" or name.startswith(("obs/", "obsm/"))
    }
    found = {name.partition("/")[2] or name: each for name, each in arrays.items()}
    for name in [name.removesuffix("/codes") for name in found if name.endswith("/codes")]:
        found[name] = _in_memory(found[f"{name}/categories"], path)[read_hdf5(found[f"{name}/codes"], path)]
    return found


def _read_parquet(path: Path) -> Arrays:
    """Columns by name, those of lists as tables; without any, the columns of numbers together are ``vectors``."""
    table = library("pyarrow.parquet", extra="parquet", what=path).read_table(path)
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        columns[name] = np.stack(column.to_pylist()) if hasattr(column.type, "value_type") else column.to_numpy()
    if not any(each.ndim == 2 for each in columns.values()):
        numbers = {name: each for name, each in columns.items() if each.dtype.kind in "iuf"}
        columns["vectors"] = np.stack([numbers[name] for name in numbers if name.lower() not in LABEL_WORDS], axis=1)
    return columns


_VECTOR_FILES = {
    ".npy": lambda path: {"vectors": np.load(path, mmap_mode="r", allow_pickle=False)},
    **{".npz": _npz_arrays, ".parquet": _read_parquet, ".h5ad": _read_anndata},
    **dict.fromkeys((".h5", ".hdf5"), hdf5_arrays),
}
