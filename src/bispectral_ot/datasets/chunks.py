"""Images that stay in their files: a ``dask.array`` whose chunks are read by the workers."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets.dataset import Dataset
from bispectral_ot.datasets.frames import Canvas
from bispectral_ot.datasets.sources import ArraySource, FileSource, LazyDataset, Positions
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

    All chunks get the size, the channels and the type that one image of each mode has together.
    """
    import dask
    import dask.array as da

    source = lazy.source
    if isinstance(source, FileSource):  # workers have current folders of their own
        items = [path.absolute() for path in source.items]
        source = replace(source, items=items, place=os.path.abspath(source.place))
    else:
        source = replace(source, what=os.path.abspath(source.what))
    modes: dict[str, int] = {}
    for position, info in zip(positions, source.headers(positions), strict=False):  # one if all are alike
        modes.setdefault(info.mode, int(position))
    samples = source.read(np.array(sorted(modes.values())), canvas)
    shape, dtype = samples.shape[1:], samples.dtype
    step = max(1, min(_CHUNK_IMAGES, _CHUNK_BYTES // max(1, samples[0].nbytes)))
    chunks = []
    for start in range(0, len(positions), step):
        part, rows = source, positions[start : start + step]
        if isinstance(source, FileSource):  # a chunk gets its own files only
            part = replace(source, items=[source.items[i] for i in rows], names=[source.names[i] for i in rows])
        at = np.arange(len(rows)) if isinstance(source, FileSource) else rows
        task = dask.delayed(_read_chunk, pure=False, traverse=False)(part, at, canvas, shape, dtype)
        chunks.append(da.from_delayed(task, (len(rows), *shape), dtype=dtype))
    return lazy.with_images(da.concatenate(chunks), positions, canvas.placement)


def _read_chunk(
    source: Any, positions: Positions, canvas: Canvas, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> NDArray[Any]:
    """Some images, of the given shape and type."""
    path = source.place if isinstance(source, FileSource) else source.what.partition("::")[0]
    if not os.path.exists(path):
        raise ClusterError(
            f"{_worker()} cannot see {path}. Put it on a file system that all workers share, under the same path, or "
            "load the set before the match: its images are then sent to the workers."
        )
    images: NDArray[Any] = source.read(positions, canvas)
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
