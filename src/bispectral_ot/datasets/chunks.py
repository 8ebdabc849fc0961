"""Images that stay in their files: a ``dask.array`` whose chunks are read by the workers."""

from __future__ import annotations

import os
import socket
import uuid
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets.dataset import Dataset
from bispectral_ot.datasets.resize import Canvas
from bispectral_ot.datasets.sources import ArraySource, FileSource, LazyDataset, Positions, Source
from bispectral_ot.errors import ClusterError, DatasetError

# Bytes of images that are read together, and how many images at most.
_CHUNK_BYTES, _CHUNK_IMAGES = 2**25, 2048


def can_stay(lazy: LazyDataset) -> bool:
    """Whether the images of a set can be read elsewhere: files of a folder, and arrays of a Zarr store."""
    source = lazy.source
    if lazy.kind != "images" or lazy.dataset is not None:
        return False
    if isinstance(source, FileSource):
        return all(isinstance(item, Path) for item in source.items)
    return isinstance(source, ArraySource) and type(source.rows).__module__.startswith("zarr")


def stay_in_files(lazy: LazyDataset, positions: Positions, canvas: Canvas) -> Dataset:
    """A dataset of the images at ``positions``, none of which but a few samples is read here.

    All chunks are given the size, the channels and the type that one image of each mode has together; the heads of
    all files were looked at for that.
    """
    import dask.array as da

    source = _absolute(lazy.source)
    samples = source.read(_one_of_each_mode(source, positions), canvas)
    shape, dtype = samples.shape[1:], samples.dtype
    step = max(1, min(_CHUNK_IMAGES, _CHUNK_BYTES // max(1, samples[0].nbytes)))
    parts = [positions[start : start + step] for start in range(0, len(positions), step)]
    name = f"read-{lazy.name}-{uuid.uuid4().hex}"
    none = (0,) * len(shape)
    graph = {
        (name, i, *none): (partial(_read_chunk, *_part(source, part), canvas, shape, dtype),)
        for i, part in enumerate(parts)
    }
    images: Any = da.Array(graph, name, (tuple(map(len, parts)), *((side,) for side in shape)), dtype=dtype)
    return lazy.with_images(images, positions, canvas.placement)


def _absolute(source: Source) -> Source:
    """Workers have current folders of their own."""
    if isinstance(source, FileSource):
        return replace(source, items=[path.absolute() for path in source.items], place=os.path.abspath(source.place))
    assert isinstance(source, ArraySource)
    return replace(source, what=os.path.abspath(source.what))


def _one_of_each_mode(source: Source, positions: Positions) -> Positions:
    modes: dict[str, int] = {}
    for position, info in zip(positions, source.headers(positions), strict=False):  # one if all are alike
        modes.setdefault(info.mode, int(position))
    return np.array(sorted(modes.values()))


def _part(source: Source, positions: Positions) -> tuple[Source, Positions]:
    """What a chunk needs of the source, and its positions in that."""
    if not isinstance(source, FileSource):
        return source, positions
    items, names = ([every[i] for i in positions] for every in (source.items, source.names))
    return replace(source, items=items, names=names), np.arange(len(positions))


def _read_chunk(
    source: Source, positions: Positions, canvas: Canvas, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> NDArray[Any]:
    """Some images, of the given shape and type."""
    path = source.place if isinstance(source, FileSource) else source.what.partition("::")[0]  # type: ignore[attr-defined]
    if not os.path.exists(path):
        raise ClusterError(
            f"{_worker()} cannot see {path}. Put it on a file system that all workers share, under the same path, or "
            "load the set before the match: its images are then sent to the workers."
        )
    images = source.read(positions, canvas)
    if images.ndim == 3 and len(shape) == 3:  # where grey images are among others in colour
        images = np.repeat(images[..., None], shape[2], axis=3)
    if images.dtype == np.uint8 and dtype == np.uint16:
        images = images.astype(np.uint16) * 257  # white is 255 in the one and 65535 in the other
    if images.shape[1:] != shape or images.dtype != dtype:
        raise DatasetError(
            f"images {positions[0]} to {positions[-1]} of {path} are {images.shape[1:]} {images.dtype}, but those "
            f"before are {shape} {dtype}; bring all to one size and type (resize=..., grey=True)."
        )
    return images


def _worker() -> str:
    from distributed import get_worker

    try:
        return f"worker {get_worker().address} on {socket.gethostname()}"
    except ValueError:  # no worker
        return socket.gethostname()
