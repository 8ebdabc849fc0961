"""Which file is read by which function: one line for each ending."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bispectral_ot.checks import advise
from bispectral_ot.datasets import arrays
from bispectral_ot.datasets.bundled import BUNDLED
from bispectral_ot.datasets.idx import is_idx_name
from bispectral_ot.datasets.image_file import SUFFIXES
from bispectral_ot.datasets.listing import Listing
from bispectral_ot.datasets.official import OFFICIAL
from bispectral_ot.datasets.shape_file import SHAPE_SUFFIXES
from bispectral_ot.errors import DatasetError, InputError


class Reader(NamedTuple):
    """``listing(path, split)``; whether files of the kind may have several splits."""

    listing: Callable[[Path, str], Listing]
    has_splits: bool = False


READERS = {
    ".npz": Reader(lambda path, split: Listing.of(arrays.read_npz(path, split=split)), has_splits=True),
    ".npy": Reader(lambda path, split: Listing.of(arrays.read_npy(path))),
}
_IDX = Reader(lambda path, split: Listing.of(arrays.read_idx_file(path)))


def list_file(path: Path, split: str) -> Listing:
    """What the set in a file holds."""
    suffix = path.suffix.lower()
    if not path.exists():
        if suffix or len(path.parts) > 1:
            raise DatasetError(f"there is no file or folder {path}; check the path.")
        known = advise(path, (*OFFICIAL, *BUNDLED))
        raise DatasetError(f"{str(path)!r} is neither a known dataset nor a file or folder here; {known}")
    if not path.is_file():
        raise DatasetError(f"{path} is neither a file nor a folder; save the data to a file first.")
    reader = _IDX if is_idx_name(path.name) else READERS.get(suffix)
    if reader is None:
        raise DatasetError(_unknown(path, suffix))
    if not reader.has_splits:
        check_split(split, path)
    return reader.listing(path, split)


def _unknown(path: Path, suffix: str) -> str:
    if suffix in SUFFIXES:
        return f"{path} is a single image; name the folder that holds the images."
    if suffix in SHAPE_SUFFIXES:
        return f"{path} is a single shape; name the folder that holds the shapes."
    return (
        f"{path} is of an unknown kind; expected a folder of images ({', '.join(SUFFIXES)}) or of shapes "
        f"({', '.join(SHAPE_SUFFIXES)}), or a file: IDX, {', '.join(READERS)}."
    )


def check_split(split: str, what: object) -> None:
    """Refuse a split of something that has none."""
    if split != "train":
        raise InputError(f"{what} has no {split} split; leave the split out to have all of it.")
