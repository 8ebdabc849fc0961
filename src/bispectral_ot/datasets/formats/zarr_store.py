"""Zarr stores: arrays by name."""

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

from bispectral_ot.datasets.array_names import list_arrays
from bispectral_ot.datasets.io_errors import check_chunks, library, refuse_bomb
from bispectral_ot.datasets.sources import LazyDataset
from bispectral_ot.errors import DatasetError, DataWarning, warn

_HARMLESS = 2**15  # bytes of a compressed chunk
_MOST_LABEL_CHUNKS = 10_000  # Zarr takes about a millisecond for each
_CODECS = ("zstd", "blosc", "gzip", "zlib")


def scan_zarr(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """An array, a group with ``images`` and ``labels`` or with the arrays that ``keys`` name."""
    zarr = library("zarr", extra="zarr", what=path)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="zarr")  # about files that are no part of the store
        node = zarr.open(str(path), mode="r")
        arrays = dict(_arrays(node)) if hasattr(node, "arrays") else {"images": node}
        lazy = list_arrays(str(path), path.stem, arrays, keys, split, partial(_read_labels, path))
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
    count = _chunk_count(array)
    if found < count:
        warn(
            f"{count - found:,} of {count:,} chunks of {what} are not stored, and count as {array.fill_value}. "
            "Zarr leaves out chunks of nothing else; where files were lost, get the store again.",
            DataWarning,
        )


def _chunk_count(array: Any) -> int:
    grid = getattr(array, "shards", None) or array.chunks
    return math.prod(-(-side // step) for side, step in zip(array.shape, grid, strict=True))


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
    """Labels, unless they are in so many chunks that Zarr would need minutes."""
    count = _chunk_count(array)
    if count > _MOST_LABEL_CHUNKS:
        raise DatasetError(
            f"{path}: {array.path!r} is stored in {count:,} chunks of {array.chunks[0]}, which take minutes to read; "
            f"save it again in one chunk, chunks={array.shape}, or read the images alone as FILE::IMAGES."
        )
    _check(array, path)
    return np.asarray(array[...])
