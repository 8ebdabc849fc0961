"""FITS: a cube of images, one image in each extension, or a folder of cut-outs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.checks import advise
from bispectral_ot.datasets.array_names import array_source
from bispectral_ot.datasets.image_file import ImageInfo
from bispectral_ot.datasets.io_errors import check_announced, library, reading
from bispectral_ot.datasets.resize import Canvas
from bispectral_ot.datasets.sources import LazyDataset, decoded_source
from bispectral_ot.errors import DatasetError

FITS_SUFFIXES = (".fits", ".fit", ".fts")


def scan(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """A cube (n, height, width), that of the extension named by ``keys``; or all extensions with one image each."""
    with reading(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # astropy tells of every card that it repairs
        units = _image_units(path)
        if keys:
            units = {name: unit for name, unit in units.items() if name == keys[0]} or _unknown(path, keys[0], units)
        cubes = {name: unit for name, unit in units.items() if len(unit.shape) >= 3}
        if len(cubes) > 1:
            raise DatasetError(f"{path} has several cubes: {', '.join(cubes)}; name one as {path.name}::NAME.")
        for name, unit in cubes.items():
            return LazyDataset(array_source(_pixels(unit), f"{path}::{name}"), path.stem)
        if not units:
            raise DatasetError(f"{path} has no images; tables are not read.")
        names = tuple(units)
        images = [_pixels(unit) for unit in units.values()]
    return LazyDataset(decoded_source(images, names, str(path)), path.stem, files=names)


def fits_header(path: Path, what: str) -> ImageInfo:
    """Size of a cut-out, from the head of its file."""
    height, width = _cut_out(path, what, read=False).shape
    return ImageInfo(height, width, "floating point")


def decode_fits(path: Path, what: str, canvas: Canvas) -> tuple[NDArray[Any], bool]:
    """The one image of a file."""
    return _pixels(_cut_out(path, what)), False


def _cut_out(path: Path, what: str, *, read: bool = True) -> Any:
    with reading(what), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        units = list(_image_units(path, read=read).values())
        if not units or len(units[0].shape) != 2:
            shapes = ", ".join(str(unit.shape) for unit in units) or "none"
            raise DatasetError(f"{what} is no cut-out: expected one image (height, width), found {shapes}.")
        return units[0]


def _image_units(path: Path, *, read: bool = True) -> dict[str, Any]:
    """Units with pixels, by name, or by number where they have none; with ``read``, they have their data."""
    fits = library("astropy.io.fits", extra="fits", what=path)
    found = {}
    with fits.open(path, memmap=False, lazy_load_hdus=False) as units:
        for number, unit in enumerate(units):
            if unit.is_image and len(unit.shape) >= 2 and 0 not in unit.shape:
                announced = math.prod(unit.shape) * abs(unit.header["BITPIX"]) // 8
                check_announced(announced, path.stat().st_size, path)
                if read:
                    unit.data  # noqa: B018 (while the file is open)
                name = unit.name or str(number)
                found[name if name not in found else f"{name} {number}"] = unit
    return found


def _pixels(unit: Any) -> NDArray[Any]:
    """Pixels in the byte order of this machine; a single image of small numbers as float32, as most are."""
    pixels = np.asarray(unit.data)
    small = pixels.ndim == 2 and pixels.dtype.itemsize <= 2
    return pixels.astype(np.float32 if small else pixels.dtype.newbyteorder("="))


def _unknown(path: Path, name: str, units: dict[str, Any]) -> dict[str, Any]:
    raise DatasetError(f"{path} has no image extension {name!r}; {advise(name, units)}")
