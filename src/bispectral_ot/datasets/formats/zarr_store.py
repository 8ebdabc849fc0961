"""Zarr stores: arrays by name; of OME-Zarr the image at full resolution."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot import runtime
from bispectral_ot.datasets.array_names import arrange_axes, list_arrays
from bispectral_ot.datasets.io_errors import check_chunks, library, refuse_bomb
from bispectral_ot.datasets.sources import ArraySource, LazyDataset
from bispectral_ot.errors import DatasetError, DataWarning, warn
from bispectral_ot.memory import check_fits

_HARMLESS = 2**15  # bytes of a compressed chunk
_MANY_CHUNKS = 1000  # which Zarr takes a millisecond each for
_CODECS = ("zstd", "blosc", "gzip", "zlib")


def scan_zarr(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """An array, a group with ``images`` and ``labels`` or with the arrays that ``keys`` name, or OME-Zarr."""
    zarr = library("zarr", extra="zarr", what=path)
    name = path.stem.removesuffix(".ome")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="zarr")  # about files that are no part of the store
        node = zarr.open(str(path.absolute()), mode="r")  # workers have other current folders
        is_array = not hasattr(node, "arrays")
        attributes = {} if is_array or keys else _ome_attributes(node)
        if "multiscales" in attributes:
            return LazyDataset(ArraySource(_full_resolution(node, path), str(path)), name)
        arrays = {"images": node} if is_array else dict(_arrays(node))
        lazy = list_arrays(str(path), name, arrays, keys, split, partial(_read_labels, path))
        _check(lazy.source.rows, path)
        return lazy


def _arrays(group: Any, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    yield from ((prefix + name, array) for name, array in group.arrays())
    if depth < 4:
        for name, child in group.groups():
            yield from _arrays(child, f"{prefix}{name}/", depth + 1)


def _check(array: Any, path: Path) -> None:
    """Refuse chunks that would take much more memory than the array; warn of chunks that are not stored."""
    what = f"{path}::{array.path}" if array.path else str(path)
    grid = getattr(array, "shards", None) or array.chunks
    check_chunks(grid, array.shape, array.dtype.itemsize, what)
    folder = os.path.join(array.store_path.store.root, array.path)
    found, codec = 0, _codec(array)
    for place, _, names in os.walk(folder):
        for name in names:
            if not name.startswith(".") and name != "zarr.json":
                found += 1
                file = os.path.join(place, name)
                if codec in _CODECS and os.path.getsize(file) > _HARMLESS:
                    _check_decoded(file, codec, array.dtype.itemsize * math.prod(grid), what)
    count = math.prod(-(-side // step) for side, step in zip(array.shape, grid, strict=True))
    if found < count:
        warn(
            f"{count - found:,} of {count:,} chunks of {what} are not stored, and count as {array.fill_value}. "
            "Zarr leaves out chunks of nothing else; where files were lost, get the store again.",
            DataWarning,
        )


def _check_decoded(file: str, codec: str, limit: int, what: str) -> None:
    """Refuse a chunk of more than ``limit`` bytes, by the size in its header where it has one."""
    with open(file, "rb") as stream:
        head = stream.read(18)
        if codec in ("gzip", "zlib"):
            refuse_bomb(head + stream.read(), limit, what)
            return
    if codec == "blosc":
        size = int.from_bytes(head[4:8], "little")
    else:  # a frame of Zstandard: magic number, descriptor, window, dictionary, content size
        kind, single = head[4] >> 6, head[4] >> 5 & 1
        start = 5 + (1 - single) + (0, 1, 2, 4)[head[4] & 3]
        width = (single, 2, 4, 8)[kind]
        size = int.from_bytes(head[start : start + width], "little") + (256 if width == 2 else 0)
    if size > limit + 1024:
        raise DatasetError(f"{what} has a chunk that is larger than announced; the store is damaged, get it again.")


def _codec(array: Any) -> str:
    """Name of the only compressor, "none" without one, "other" where more changes the bytes of a chunk."""
    if array.filters or getattr(array, "shards", None) or len(array.compressors) > 1:
        return "other"
    for each in array.compressors:
        return str(getattr(each, "codec_id", None) or type(each).__name__.lower().removesuffix("codec"))
    return "none"


def _read_labels(path: Path, array: Any) -> NDArray[Any]:
    """Labels; a line of numbers in thousands of chunks is decoded here, a hundred times as fast as by Zarr."""
    _check(array, path)
    codec, n, step = _codec(array), array.shape[0], array.chunks[0]
    if array.ndim != 1 or n <= _MANY_CHUNKS * step or array.dtype.kind not in "biuf" or codec not in ("none", *_CODECS):
        return np.asarray(array[...])
    import numcodecs

    decode = (lambda content: content) if codec == "none" else numcodecs.get_codec({"id": codec}).decode
    endian = getattr(getattr(array, "serializer", None), "endian", None)  # of version 3; the type of version 2 has it
    dtype = np.dtype(array.dtype) if endian is None else np.dtype(array.dtype).newbyteorder(endian.value)
    folder = os.path.join(array.store_path.store.root, array.path)
    missing = np.full(step, array.fill_value or 0, dtype=dtype).tobytes()
    parts = []
    for number in range(-(-n // step)):
        try:
            with open(os.path.join(folder, array.metadata.encode_chunk_key((number,))), "rb", buffering=0) as file:
                parts.append(bytes(decode(file.read())))
        except FileNotFoundError:
            parts.append(missing)  # a warning said it
        if len(parts[-1]) != len(missing):
            raise DatasetError(f"{path}: chunk {number} of the labels has a wrong length; get the store again.")
        if number % 10_000 == 0:
            runtime.progress(f"labels of {path.name}", number * step, n)
    runtime.progress(f"labels of {path.name}", n, n)
    return np.frombuffer(b"".join(parts), dtype=dtype)[:n].astype(array.dtype)


def _ome_attributes(group: Any) -> dict[str, Any]:
    """Attributes of version 0.5, which has a place of its own for them, or of earlier ones."""
    attributes = dict(group.attrs)
    inner = attributes.get("ome")
    return inner if isinstance(inner, dict) else attributes


def _full_resolution(group: Any, path: Path) -> NDArray[Any]:
    """Images (n, height, width[, channels]) of a group with multiscales."""
    scales = _ome_attributes(group)["multiscales"][0]
    array = group[scales["datasets"][0]["path"]]
    named = scales.get("axes") or list("tczyx")[-array.ndim :]  # before version 0.3 all five, unnamed
    axes = "".join(axis["name"][:1] if isinstance(axis, dict) else str(axis)[:1] for axis in named)
    check_fits(math.prod(array.shape) * array.dtype.itemsize, str(path), "save a part of it")
    _check(array, path)
    return arrange_axes(np.asarray(array[...]), axes, path)
