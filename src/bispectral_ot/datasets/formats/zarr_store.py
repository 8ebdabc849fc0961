"""Zarr stores: arrays by name; of OME-Zarr the image at full resolution, or the fields of a plate."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot import runtime
from bispectral_ot.datasets.array_names import arranged, list_arrays
from bispectral_ot.datasets.image_file import ImageInfo
from bispectral_ot.datasets.io_errors import check_chunks, library, reading, refuse_bomb
from bispectral_ot.datasets.resize import Canvas
from bispectral_ot.datasets.sources import ArraySource, FileSource, LazyDataset
from bispectral_ot.errors import DatasetError, DataWarning, warn
from bispectral_ot.memory import check_fits

_HARMLESS = 2**15  # bytes of a compressed chunk
_MANY_CHUNKS = 1000  # which Zarr takes a millisecond each for


def scan(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """An array, a group with ``images`` and ``labels`` or with the arrays that ``keys`` name, or OME-Zarr."""
    zarr = library("zarr", extra="zarr", what=path)
    missing: list[str] = []
    with reading(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about files that are no part of the store
        node = zarr.open(str(path.absolute()), mode="r")  # workers have other current folders
        if not hasattr(node, "members") and not hasattr(node, "arrays"):  # a store that is one array
            lazy = list_arrays(str(path), path.stem, {"images": node}, (), split)
        else:
            attributes = _ome_attributes(node)
            if not keys and "plate" in attributes:
                return _list_plate(node, path, attributes["plate"])
            if not keys and "multiscales" in attributes:
                source = ArraySource(_full_resolution(node, path, missing), str(path))
                lazy = LazyDataset(source, path.name.removesuffix(".zarr").removesuffix(".ome"))
            else:
                read = partial(_read_labels, missing=missing)
                lazy = list_arrays(str(path), path.stem, dict(_arrays(node)), keys, split, read=read)
        if hasattr(lazy.source.rows, "store_path"):  # type: ignore[attr-defined]
            _check(lazy.source.rows, str(path), missing)  # type: ignore[attr-defined]
    for message in missing:
        warn(message, DataWarning)
    return lazy


def _arrays(group: Any, prefix: str = "", depth: int = 0) -> list[tuple[str, Any]]:
    found = [(prefix + name, array) for name, array in group.arrays()]
    if depth < 4:
        for name, child in group.groups():
            found += _arrays(child, f"{prefix}{name}/", depth + 1)
    return found


def _stored(array: Any) -> list[os.DirEntry[str]]:
    """Files that hold chunks of an array."""
    folders, found = [os.path.join(array.store_path.store.root, array.path)], []
    while folders:
        for entry in os.scandir(folders.pop()):
            if entry.is_dir():
                folders.append(entry.path)
            elif not entry.name.startswith(".") and entry.name != "zarr.json":
                found.append(entry)
    return found


def _check(array: Any, what: str, missing: list[str]) -> None:
    """Refuse chunks that would take much more memory than the array; note how many chunks are not stored."""
    what = f"{what}::{array.path}" if array.path else what
    grid = getattr(array, "shards", None) or array.chunks
    check_chunks(grid, array.shape, array.dtype.itemsize, what)
    files, codec = _stored(array), _codec(array)
    limit = array.dtype.itemsize * math.prod(grid)
    for file in files:
        if file.stat().st_size > _HARMLESS and codec in ("zstd", "blosc", "gzip", "zlib"):
            _check_decoded(Path(file.path), codec, limit, what)
    count = math.prod(-(-side // step) for side, step in zip(array.shape, grid, strict=True))
    if len(files) < count:
        missing.append(
            f"{count - len(files):,} of {count:,} chunks of {what} are not stored, and count as {array.fill_value}. "
            "Zarr leaves out chunks of nothing else; where files were lost, get the store again."
        )


def _check_decoded(path: Path, codec: str, limit: int, what: str) -> None:
    """Refuse a chunk that says, or shows, that it is larger than it may be."""
    if codec in ("gzip", "zlib"):
        refuse_bomb(path.read_bytes(), limit, what)
        return
    with open(path, "rb") as file:
        head = file.read(18)
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
    """Name of the compressor, where there is one and nothing else changes the bytes of a chunk."""
    compressors = array.compressors
    if array.filters or getattr(array, "shards", None) or len(compressors) > 1:
        return "other"
    if not compressors:
        return "none"
    return str(getattr(compressors[0], "codec_id", None) or type(compressors[0]).__name__.lower().removesuffix("codec"))


def _read_labels(array: Any, missing: list[str]) -> NDArray[Any]:
    _check(array, str(array.store_path.store.root), missing)
    codec = _codec(array)
    few = math.prod(-(-side // step) for side, step in zip(array.shape, array.chunks, strict=True)) <= _MANY_CHUNKS
    if few or array.ndim != 1 or array.dtype.kind not in "biuf" or codec not in ("none", "zstd", "blosc", "gzip"):
        return np.asarray(array[...])
    return _read_small_chunks(array, codec)


def _read_small_chunks(array: Any, codec: str) -> NDArray[Any]:
    """A line of numbers in thousands of chunks, each decoded here."""
    import numcodecs

    decode = (lambda content: content) if codec == "none" else numcodecs.get_codec({"id": codec}).decode
    endian = getattr(getattr(array, "serializer", None), "endian", None)  # of version 3; the type of version 2 has it
    dtype = np.dtype(array.dtype) if endian is None else np.dtype(array.dtype).newbyteorder(endian.value)
    folder, (n,), (step,) = os.path.join(array.store_path.store.root, array.path), array.shape, array.chunks
    values = np.full(n, array.fill_value or 0, dtype=array.dtype)
    for number, start in enumerate(range(0, n, step)):
        try:
            with open(os.path.join(folder, array.metadata.encode_chunk_key((number,))), "rb") as file:
                chunk = np.frombuffer(decode(file.read()), dtype=dtype)
        except FileNotFoundError:
            continue  # a warning said it
        values[start : start + step] = chunk[: min(step, n - start)]
        if number % 10_000 == 0:
            runtime.progress(f"labels of {Path(folder).name}", start, n)
    runtime.progress(f"labels of {Path(folder).name}", n, n)
    return values


def _ome_attributes(group: Any) -> dict[str, Any]:
    """Of version 0.5, which has a place of its own for them, or of earlier ones."""
    attributes = dict(group.attrs)
    inner = attributes.get("ome")
    return inner if isinstance(inner, dict) else attributes


def _full_resolution(group: Any, path: Path, missing: list[str]) -> NDArray[Any]:
    """Images (n, height, width[, channels]) of a group with multiscales."""
    scales = _ome_attributes(group)["multiscales"][0]
    array = group[scales["datasets"][0]["path"]]
    named = scales.get("axes") or list("tczyx")[-array.ndim :]  # before version 0.3 all five, unnamed
    axes = "".join(axis["name"][:1] if isinstance(axis, dict) else str(axis)[:1] for axis in named)
    arrange = arranged(axes, tuple(array.shape), str(path))
    check_fits(math.prod(array.shape) * array.dtype.itemsize, str(path), "save a part of it")
    _check(array, str(path), missing)
    return arrange(np.asarray(array[...]))


def _list_plate(group: Any, path: Path, plate: dict[str, Any]) -> LazyDataset:
    """Every field of every well is an image, which is called by its path, as in ``A/1/0``."""
    names = []
    for well in plate["wells"]:
        fields = _ome_attributes(group[well["path"]])["well"]["images"]
        names += [f"{well['path']}/{field['path']}" for field in fields]

    def decode(name: str, what: str, canvas: Canvas) -> tuple[NDArray[Any], bool]:
        with reading(what):
            missing: list[str] = []
            images = _full_resolution(group[name], path, missing)
            if missing:
                raise DatasetError(missing[0])
            if len(images) != 1:
                raise DatasetError(f"{what} has {len(images)} planes; name one field: {path / name}.")
            return images[0], False

    def header(name: str, what: str) -> ImageInfo:
        return ImageInfo.of(decode(name, what, Canvas())[0])

    source = FileSource(names, names, str(path), header, decode)
    return LazyDataset(source, path.name.removesuffix(".zarr").removesuffix(".ome"), files=tuple(names))
