"""Common size: sets that are compared are read at one size, each image once, here or by the workers of a cluster."""

from __future__ import annotations

import os
import socket
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets.dataset import Dataset
from bispectral_ot.datasets.frames import SAMPLE, Canvas, FrameChoice, Placement
from bispectral_ot.datasets.sources import ArraySource, FileSource, LazyDataset, Positions
from bispectral_ot.datasets.warp import Size
from bispectral_ot.errors import ClusterError, DatasetError, DataWarning, InputError, warn
from bispectral_ot.sampling import evenly_spaced

LARGEST_SIDE = 128  # of images where no size was asked for: larger ones are slower and match no better
_LARGE = 1024  # pixels: from here on, a sample is small
_MOST_RATIO = 8  # of sides; beyond it, images show different things or one of them is a thumbnail
# Bytes of images that are read together, and how many images at most.
_CHUNK_BYTES, _CHUNK_IMAGES = 2**25, 2048


def read_together(
    sets: Sequence[LazyDataset],
    positions: Sequence[Positions | None] | None = None,
    *,
    size: Size | None = None,
    grey: bool = False,
    stay: bool = False,
    frames: FrameChoice | None = None,
) -> list[Dataset]:
    """Images at ``positions`` of each set (all by default), at one size; a set that occurs twice is read once.

    By default images of one size of at most 128 pixels a side keep it; larger ones are reduced to 128, and those of
    different sizes become squares of 128 pixels, or of the longest side of the set whose images are smallest. ``stay``
    leaves images in folders and Zarr stores, to be read by workers that have the same files.
    """
    rows = [
        np.arange(len(lazy)) if kept is None else kept
        for lazy, kept in zip(sets, positions or [None] * len(sets), strict=True)
    ]
    placements = [None] * len(sets) if frames is None else choose_placements(frames, sets, rows, grey=grey)
    wanted: dict[LazyDataset, Positions] = {}
    for lazy, kept in zip(sets, rows, strict=True):
        wanted[lazy] = np.union1d(wanted[lazy], kept) if lazy in wanted else kept
    size = common_size(wanted, size)
    read: dict[tuple[LazyDataset, Canvas], Dataset] = {}
    datasets = []
    for lazy, kept, placement in zip(sets, rows, placements, strict=True):
        canvas = Canvas(size, grey, placement)
        if stay and can_stay(lazy):
            datasets.append(stay_in_files(lazy, kept, canvas))
            continue
        if (lazy, canvas) not in read:
            read[lazy, canvas] = lazy.read(wanted[lazy], canvas)
        whole = read[lazy, canvas]
        datasets.append(whole if len(kept) == len(whole) else whole.select(np.searchsorted(wanted[lazy], kept)))
    return datasets


def choose_placements(
    frames: FrameChoice, sets: Sequence[LazyDataset], rows: Sequence[Positions], *, grey: bool = False
) -> list[Placement | None]:
    """Placements of sets from samples of their images; None for the whole canvas."""
    if not frames.looks_at(sets):
        return [None] * len(sets)
    samples, labels = [], None
    for lazy, kept in zip(sets, rows, strict=True):
        large = any(max(info.height, info.width) > _LARGE for info in lazy.headers(kept[:1]))
        some = kept[evenly_spaced(len(kept), SAMPLE // 3 if large else SAMPLE)]
        samples.append(_raw_images(lazy, some, grey))
        known: Any = lazy.labels
        labels = None if known is None else known[some]
    placements = frames(samples, [lazy.name for lazy in sets], labels)
    return [None if placement == Placement() else placement for placement in placements]


def _raw_images(lazy: LazyDataset, positions: Positions, grey: bool) -> list[NDArray[Any]]:
    """Images at ``positions`` as they are stored."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # reading all of them will warn
        images = [lazy.source.read(positions[i : i + 1], Canvas(None, grey))[0] for i in range(len(positions))]
    if len({image.ndim for image in images}) > 1:  # some are grey, some in colour
        images = [image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=2) for image in images]
    return images


def common_size(wanted: dict[LazyDataset, Positions], size: Size | None = None) -> Size | None:
    """The given size, or else one for all images of the sets; None where they have it already or have none."""
    first = np.zeros(1, dtype=np.int64)
    check_grids((lazy.name, lazy.source.headers(first)[0][:2]) for lazy in wanted if lazy.kind == "sphere")
    sizes = {lazy: {(info.height, info.width) for info in lazy.headers(kept)} for lazy, kept in wanted.items()}
    sizes = {lazy: each for lazy, each in sizes.items() if each}
    distinct = set().union(*sizes.values())
    if not distinct:
        return size
    small, large = min(distinct, key=max), max(distinct, key=max)
    if max(large) > _MOST_RATIO * max(small):
        warn(
            f"sizes differ by a factor of {max(large) / max(small):.0f}: the smallest image is {size_range([small])}, "
            f"the largest {size_range([large])} (height x width). Small images have no detail to compare with; leave "
            "them out unless they show the same things.",
            DataWarning,
        )
    in_memory = all(lazy.dataset is not None for lazy in sizes)
    if size is not None or (len(distinct) == 1 and (in_memory or max(large) <= LARGEST_SIDE)):
        return size
    ranges = ", ".join(f"{lazy.name} {size_range(each)}" for lazy, each in sizes.items())
    if len(distinct) == 1:
        scale = max(large) / LARGEST_SIDE
        size = max(1, round(large[0] / scale)), max(1, round(large[1] / scale))
        said = f"images ({ranges}) are reduced to {size[0]} x {size[1]}"
    else:
        side = min(LARGEST_SIDE, *(max(map(max, each)) for each in sizes.values()))
        size = side, side
        said = (
            f"images have different sizes ({ranges}) and are compared at {side} x {side}, with their aspect ratio kept "
            "and background around them"
        )
    warn(f"{said}; choose another size with resize=... (--resize).", DataWarning)
    return size


def check_grids(grids: Iterable[tuple[str, Sequence[int]]]) -> None:
    """Raise an :class:`InputError` unless all grids on the sphere, given as (name of the set, size), have one size."""
    known = [(name, tuple(size)) for name, size in grids]
    for name, size in known[1:]:
        if size != known[0][1]:
            one, other = (f"{each[0]} x {each[1]}" for each in (known[0][1], size))
            raise InputError(
                f"grids on the sphere have different sizes: {known[0][0]!r} has {one} (latitudes x longitudes) but "
                f"{name!r} has {other}. They are not resized, because images are scaled as flat pictures; sample both "
                "sets on the same grid."
            )


def size_range(sizes: Iterable[Size]) -> str:
    """Sizes in words, from the smallest area to the largest: ``"46 x 60 to 128 x 128"``."""
    ordered = sorted(sizes, key=lambda size: (size[0] * size[1], size))
    return " to ".join(dict.fromkeys(f"{height} x {width}" for height, width in (ordered[0], ordered[-1])))


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
