"""Common size: sets that are compared are read at one size, each image once."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets.dataset import Dataset
from bispectral_ot.datasets.frames import SAMPLE, Canvas, FrameChoice, Placement
from bispectral_ot.datasets.sources import LazyDataset, Positions
from bispectral_ot.datasets.warp import Size
from bispectral_ot.errors import DataWarning, InputError, warn
from bispectral_ot.sampling import evenly_spaced

LARGEST_SIDE = 128  # of images where no size was asked for: larger ones are slower and match no better
_LARGE = 1024  # pixels: from here on, a sample is small


def read_together(
    sets: Sequence[LazyDataset],
    positions: Sequence[Positions | None] | None = None,
    *,
    size: Size | None = None,
    grey: bool = False,
    frames: FrameChoice | None = None,
) -> list[Dataset]:
    """Images at ``positions`` of each set (all by default), at one size; a set that occurs twice is read once."""
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
    if size is not None:
        return size
    sizes = {lazy: {(info.height, info.width) for info in lazy.headers(kept)} for lazy, kept in wanted.items()}
    sizes = {lazy: each for lazy, each in sizes.items() if each}
    distinct = set().union(*sizes.values())
    if not distinct:
        return None
    large = max(distinct, key=max)
    in_memory = all(lazy.dataset is not None for lazy in sizes)
    if len(distinct) == 1 and (in_memory or max(large) <= LARGEST_SIDE):
        return None
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
