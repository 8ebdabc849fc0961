"""Sets that are compared with each other are read together: at one size, and each of them once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from bispectral_ot.datasets.chunks import can_stay, stay_in_files
from bispectral_ot.datasets.dataset import Dataset
from bispectral_ot.datasets.listing import Listing, Positions
from bispectral_ot.datasets.resize import Size
from bispectral_ot.errors import DataWarning, warn
from bispectral_ot.progress import Progress, silent

# Larger images are slower and hardly better: docs/poses.md compares at 64 too.
MODEST_SIDE = 64
# Images whose sides differ by more are different things to look at, or one of them is a thumbnail.
_MOST_RATIO = 8


def read_together(
    listings: Sequence[Listing],
    positions: Sequence[Positions | None] | None = None,
    *,
    size: Size | None = None,
    grey: bool = False,
    stay: bool = False,
    progress: Progress = silent,
) -> list[Dataset]:
    """Read the images at ``positions`` of each set, all by default.

    Where sizes differ, within a set or between sets, all images are brought to one: ``size``, else squares of 64
    pixels, or of the longest side of the set whose images are smallest. A listing that is given twice is read once.
    With ``stay``, images in folders and Zarr stores stay there, to be read by workers that see the same files.
    """
    places = positions or [None] * len(listings)
    wanted: dict[Listing, Positions] = {}
    for listing, kept in zip(listings, places, strict=True):
        kept = np.arange(len(listing)) if kept is None else kept
        wanted[listing] = np.union1d(wanted[listing], kept) if listing in wanted else kept
    size = _one_size(wanted, size, progress)
    staying = {listing for listing in wanted if stay and can_stay(listing)}
    read = {
        listing: listing.read(kept, size=size, grey=grey, progress=progress)
        for listing, kept in wanted.items()
        if listing not in staying
    }

    def dataset(listing: Listing, kept: Positions | None) -> Dataset:
        if listing in staying:
            return stay_in_files(listing, np.arange(len(listing)) if kept is None else kept, size=size, grey=grey)
        if kept is None or len(kept) == len(read[listing]):
            return read[listing]
        return read[listing].select(np.searchsorted(wanted[listing], kept))

    return [dataset(listing, kept) for listing, kept in zip(listings, places, strict=True)]


def _one_size(wanted: dict[Listing, Positions], size: Size | None, progress: Progress) -> Size | None:
    """The size that is given, or else one for all images; None where all have the same or have none."""
    flat = [listing for listing in wanted if listing.kind == "images"]
    sizes = {listing: _sizes(listing, wanted[listing], progress) for listing in flat}
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
    if size is not None or len(distinct) == 1:
        return size
    side = min(MODEST_SIDE, *(max(map(max, each)) for each in sizes.values()))
    ranges = ", ".join(f"{listing.name} {size_range(each)}" for listing, each in sizes.items())
    warn(
        f"images have different sizes ({ranges}) and are compared at {side} x {side}, with their aspect ratio kept and "
        "background around them; choose another size with resize=... (--resize).",
        DataWarning,
    )
    return side, side


def _sizes(listing: Listing, positions: Positions, progress: Progress) -> set[Size]:
    return {(look.height, look.width) for look in listing.content.looks(positions, progress)}


def size_range(sizes: Iterable[Size]) -> str:
    """Sizes in words, from the smallest area to the largest: ``"46 x 60 to 128 x 128"``."""
    ordered = sorted(sizes, key=lambda size: (size[0] * size[1], size))
    return " to ".join(dict.fromkeys(f"{height} x {width}" for height, width in (ordered[0], ordered[-1])))
