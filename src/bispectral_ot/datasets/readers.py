"""Readers of files: one module of :mod:`bispectral_ot.datasets.formats` for each format, loaded when one is read.

A reader is a function ``scan(path, split, keys)`` that returns a :class:`LazyDataset`; a new one needs its module and a
line in ``READERS``.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bispectral_ot.checks import advise
from bispectral_ot.datasets.formats.fits import FITS_SUFFIXES
from bispectral_ot.datasets.formats.idx import is_idx_name
from bispectral_ot.datasets.image_file import SUFFIXES
from bispectral_ot.datasets.named_sets import NAMED
from bispectral_ot.datasets.shape_files import SHAPE_SUFFIXES
from bispectral_ot.datasets.sources import LazyDataset
from bispectral_ot.errors import DatasetError, InputError


class Reader(NamedTuple):
    """Module and function that read a format; whether files may have several splits, and arrays to name."""

    module: str
    function: str = "scan"
    has_splits: bool = False
    has_keys: bool = False


_IDX = Reader("idx")
READERS = {
    ".npz": Reader("numpy_files", "scan_npz", has_splits=True, has_keys=True),
    ".npy": Reader("numpy_files", "scan_npy"),
    **dict.fromkeys((".h5", ".hdf5"), Reader("hdf5", has_splits=True, has_keys=True)),
    ".zarr": Reader("zarr_store", has_splits=True, has_keys=True),
    ".parquet": Reader("parquet", has_keys=True),
    **dict.fromkeys((".mrcs", ".mrc"), Reader("cryo", "scan_mrc")),
    ".star": Reader("cryo", "scan_star"),
    **dict.fromkeys(FITS_SUFFIXES, Reader("fits", has_keys=True)),
    **dict.fromkeys((".tif", ".tiff"), Reader("tiff")),
    ".tar": Reader("tar"),
    **dict.fromkeys((".csv", ".tsv"), Reader("table", has_splits=True, has_keys=True)),
}


def scan_file(path: Path, split: str, keys: Sequence[str] = ()) -> LazyDataset:
    """The set in a file; ``keys`` are the arrays or columns of it that are meant."""
    suffix = path.suffix.lower()
    if not path.exists():
        if suffix or len(path.parts) > 1:
            raise DatasetError(f"there is no file or folder {path}; check the path.")
        raise DatasetError(f"{str(path)!r} is neither a known dataset nor a file or folder here; {advise(path, NAMED)}")
    if not path.is_file() and suffix != ".zarr":  # which is a folder
        raise DatasetError(f"{path} is neither a file nor a folder; save the data to a file first.")
    reader = _IDX if is_idx_name(path.name) else READERS.get(suffix)
    if reader is None:
        raise DatasetError(_unknown(path, suffix))
    if not reader.has_splits:
        check_split(split, path)
    if keys and not reader.has_keys:
        raise InputError(f"{path} has no arrays or columns to name, so leave ::{'::'.join(keys)} out.")
    module = importlib.import_module(f"bispectral_ot.datasets.formats.{reader.module}")
    lazy: LazyDataset = getattr(module, reader.function)(path, split, keys)
    return lazy


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
