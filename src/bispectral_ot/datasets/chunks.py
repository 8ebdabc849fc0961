"""Images that stay in their files: a ``dask.array`` whose chunks are read by the workers that need them."""

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
from bispectral_ot.datasets.image_files import ImageFiles
from bispectral_ot.datasets.listing import Content, Listing, Positions, Stack
from bispectral_ot.datasets.resize import Size
from bispectral_ot.errors import ClusterError, DatasetError
from bispectral_ot.progress import silent

# Bytes of images that are read together, and how many images at most.
_CHUNK_BYTES, _CHUNK_IMAGES = 2**25, 2048


def can_stay(listing: Listing) -> bool:
    """Whether the images of a set can be read elsewhere: files of a folder, and arrays of a Zarr store."""
    content = listing.content
    if listing.kind != "images" or listing.dataset is not None:
        return False
    if isinstance(content, ImageFiles):
        return all(isinstance(item, Path) for item in content.items)
    return isinstance(content, Stack) and type(content.rows).__module__.startswith("zarr")


def stay_in_files(listing: Listing, positions: Positions, *, size: Size | None, grey: bool) -> Dataset:
    """A dataset of the images at ``positions``, none of which but a few samples is read here.

    All chunks are given the size, the channels and the type that one image of each mode has together; the heads of
    all files were looked at for that.
    """
    import dask.array as da

    content = _absolute(listing.content)
    samples = content.read(_one_of_each_mode(content, positions), size, grey, silent)
    shape, dtype = samples.shape[1:], samples.dtype
    step = max(1, min(_CHUNK_IMAGES, _CHUNK_BYTES // max(1, samples[0].nbytes)))
    parts = [positions[start : start + step] for start in range(0, len(positions), step)]
    name = f"read-{listing.name}-{uuid.uuid4().hex}"
    none = (0,) * len(shape)
    graph = {
        (name, i, *none): (partial(_read_chunk, *_part(content, part), size, grey, shape, dtype),)
        for i, part in enumerate(parts)
    }
    images: Any = da.Array(graph, name, (tuple(map(len, parts)), *((side,) for side in shape)), dtype=dtype)
    labels: Any = listing.labels
    return Dataset(
        images,
        None if labels is None else labels[positions],
        name=listing.name,
        classes=listing.classes,
        files=tuple(listing.files[i] for i in positions) if listing.files else (),
    )


def _absolute(content: Content) -> Content:
    """Workers have current folders of their own."""
    if isinstance(content, ImageFiles):
        return replace(content, items=[path.absolute() for path in content.items], place=os.path.abspath(content.place))
    assert isinstance(content, Stack)
    return replace(content, what=os.path.abspath(content.what))


def _one_of_each_mode(content: Content, positions: Positions) -> Positions:
    modes: dict[str, int] = {}
    for position, look in zip(positions, content.looks(positions, silent), strict=False):  # one look if all are alike
        modes.setdefault(look.mode, int(position))
    return np.array(sorted(modes.values()))


def _part(content: Content, positions: Positions) -> tuple[Content, Positions]:
    """What a chunk needs of the content, and its positions in that."""
    if not isinstance(content, ImageFiles):
        return content, positions
    items, names = ([every[i] for i in positions] for every in (content.items, content.names))
    return replace(content, items=items, names=names), np.arange(len(positions))


def _read_chunk(
    content: Content, positions: Positions, size: Size | None, grey: bool, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> NDArray[Any]:
    """Some images, of the given shape and type."""
    path = content.place if isinstance(content, ImageFiles) else content.what.partition("::")[0]  # type: ignore[attr-defined]
    if not os.path.exists(path):
        raise ClusterError(
            f"{_worker()} cannot see {path}. Put it on a file system that all workers share, under the same path, or "
            "load the set before the match: its images are then sent to the workers."
        )
    images = content.read(positions, size, grey, silent)
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
