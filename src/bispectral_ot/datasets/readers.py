"""Which file is read by which function: one line for each ending."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from bispectral_ot.checks import advise
from bispectral_ot.datasets import arrays
from bispectral_ot.datasets.bundled import BUNDLED
from bispectral_ot.datasets.formats.cryo import list_mrc, list_star
from bispectral_ot.datasets.formats.fits import FITS_SUFFIXES, list_fits
from bispectral_ot.datasets.formats.hdf5 import list_hdf5
from bispectral_ot.datasets.formats.parquet import list_parquet
from bispectral_ot.datasets.formats.table import list_csv
from bispectral_ot.datasets.formats.tar import list_tar
from bispectral_ot.datasets.formats.tiff import list_tiff
from bispectral_ot.datasets.formats.zarr_store import list_zarr
from bispectral_ot.datasets.idx import is_idx_name
from bispectral_ot.datasets.image_file import SUFFIXES
from bispectral_ot.datasets.listing import Listing
from bispectral_ot.datasets.official import OFFICIAL
from bispectral_ot.datasets.shape_file import SHAPE_SUFFIXES
from bispectral_ot.errors import DatasetError, InputError


class Reader(NamedTuple):
    """``listing(path, split, keys)``; whether files of the kind may have several splits, and arrays to name."""

    listing: Callable[[Path, str, Sequence[str]], Listing]
    has_splits: bool = False
    has_keys: bool = False


def _list_npz(path: Path, split: str, keys: Sequence[str]) -> Listing:
    return Listing.of(arrays.read_npz(path, split=split, asked=keys))


_HDF5 = Reader(list_hdf5, has_splits=True, has_keys=True)
_CSV = Reader(list_csv, has_splits=True, has_keys=True)
_FITS = Reader(list_fits, has_keys=True)
READERS = {
    ".npz": Reader(_list_npz, has_splits=True, has_keys=True),
    ".npy": Reader(lambda path, _split, _keys: Listing.of(arrays.read_npy(path))),
    **{".h5": _HDF5, ".hdf5": _HDF5},
    ".zarr": Reader(list_zarr, has_splits=True, has_keys=True),
    ".parquet": Reader(list_parquet, has_keys=True),
    **{".mrcs": Reader(list_mrc), ".mrc": Reader(list_mrc), ".star": Reader(list_star)},
    **dict.fromkeys(FITS_SUFFIXES, _FITS),
    **{".tif": Reader(list_tiff), ".tiff": Reader(list_tiff)},
    ".tar": Reader(list_tar),
    **{".csv": _CSV, ".tsv": _CSV},
}
_IDX = Reader(lambda path, _split, _keys: Listing.of(arrays.read_idx_file(path)))


def list_file(path: Path, split: str, keys: Sequence[str] = ()) -> Listing:
    """What the set in a file holds; ``keys`` are the arrays or columns of it that are meant."""
    suffix = path.suffix.lower()
    if not path.exists():
        if suffix or len(path.parts) > 1:
            raise DatasetError(f"there is no file or folder {path}; check the path.")
        known = advise(path, (*OFFICIAL, *BUNDLED))
        raise DatasetError(f"{str(path)!r} is neither a known dataset nor a file or folder here; {known}")
    if not path.is_file() and suffix != ".zarr":  # which is a folder
        raise DatasetError(f"{path} is neither a file nor a folder; save the data to a file first.")
    reader = _IDX if is_idx_name(path.name) else READERS.get(suffix)
    if reader is None:
        raise DatasetError(_unknown(path, suffix))
    if not reader.has_splits:
        check_split(split, path)
    if keys and not reader.has_keys:
        raise InputError(f"{path} has no arrays or columns to name, so leave ::{'::'.join(keys)} out.")
    return reader.listing(path, split, keys)


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
