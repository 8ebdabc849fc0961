"""FITS: a cube of images, one image in each extension, or a folder of cut-outs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.checks import advise
from bispectral_ot.datasets.array_names import array_source
from bispectral_ot.datasets.io_errors import check_announced, library
from bispectral_ot.datasets.sources import FileSource, LazyDataset
from bispectral_ot.errors import DatasetError

FITS_SUFFIXES = (".fits", ".fit", ".fts")


def scan(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """A cube (n, height, width), that of the extension named by ``keys``; or all extensions with one image each."""
    images = _read_images(path)
    if keys and keys[0] not in images:
        raise DatasetError(f"{path} has no image extension {keys[0]!r}; {advise(keys[0], images)}")
    images = {keys[0]: images[keys[0]]} if keys else images
    cubes = {name: pixels for name, pixels in images.items() if pixels.ndim >= 3}
    if len(cubes) > 1:
        raise DatasetError(f"{path} has several cubes: {', '.join(cubes)}; name one as {path.name}::NAME.")
    for name, cube in cubes.items():
        return LazyDataset(array_source(cube, f"{path}::{name}"), path.stem)
    if not images:
        raise DatasetError(f"{path} has no images; tables are not read.")
    names = tuple(images)
    return LazyDataset(FileSource(list(images.values()), names, str(path)), path.stem, files=names)


def read_cut_out(path: Path) -> NDArray[np.generic]:
    """The one image of a file."""
    images = list(_read_images(path).values())
    if not images or images[0].ndim != 2:
        shapes = ", ".join(str(pixels.shape) for pixels in images) or "none"
        raise DatasetError(f"{path} is no cut-out: expected one image (height, width), found {shapes}.")
    return images[0]


def _read_images(path: Path) -> dict[str, NDArray[np.generic]]:
    """Pixels of all extensions by name, or by number where they have none; small numbers of one image as float32."""
    fits = library("astropy.io.fits", extra="fits", what=path)
    found = {}
    with warnings.catch_warnings(), fits.open(path, memmap=False, lazy_load_hdus=False) as units:
        warnings.simplefilter("ignore")  # astropy tells of every card that it repairs
        for number, unit in enumerate(units):
            if unit.is_image and len(unit.shape) >= 2 and 0 not in unit.shape:
                announced = math.prod(unit.shape) * abs(unit.header["BITPIX"]) // 8
                check_announced(announced, path.stat().st_size, path)
                pixels = np.asarray(unit.data)
                small = pixels.ndim == 2 and pixels.dtype.itemsize <= 2
                name = unit.name if unit.name and unit.name not in found else f"{unit.name} {number}".strip()
                found[name] = pixels.astype(np.float32 if small else pixels.dtype.newbyteorder("="))
    return found
