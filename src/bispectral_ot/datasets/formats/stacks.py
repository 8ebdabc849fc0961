"""Stacks of images in the files of a field: TIFF with several pages, FITS, MRC, and particles of RELION."""

import logging
import math
import os
import re
import warnings
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets.io_errors import check_announced, library
from bispectral_ot.datasets.sources import FileSource, LazyDataset, array_source, check_length, choose_names
from bispectral_ot.errors import DatasetError

_IMAGE, _CLASS = "rlnImageName", "rlnClassNumber"
_MRC_TYPES = {0: "i1", 1: "i2", 2: "f4", 4: "c8", 6: "u2", 12: "f2"}  # of the field MODE
_MRC_HEADER = 1024


def scan_tiff(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """Every page is an image; axes other than ``y``, ``x``, ``s`` and up to four ``c`` count images."""
    tifffile = library("tifffile", extra="tiff", what=path)
    logging.getLogger("tifffile").addHandler(logging.NullHandler())  # it prints every repair
    with tifffile.TiffFile(path, _multifile=False) as file:
        announced = sum(math.prod(one.shape) * one.dtype.itemsize for one in file.series)
        check_announced(announced, path.stat().st_size, path)
        ome = file.ome_metadata or ""  # may take pages from any other file of the machine
        own = re.search(r'<(?:\w+:)?OME\b[^>]*\bUUID="([^"]*)"', ome)
        for name, uuid in re.findall(r'<(?:\w+:)?UUID\b(?:[^>]*?\bFileName="([^"]*)")?[^>]*>\s*([^<\s]*)', ome):
            if uuid != own[1] if own else name not in ("", path.name):
                raise DatasetError(f"{path} names pages of other files ({name}), which are not read; save all in one.")
        pages: list[NDArray[Any]] = []
        for array, axes in ((one.asarray(), one.axes.lower()) for one in file.series):
            if len(axes) != array.ndim or axes.count("y") != 1 or axes.count("x") != 1 or 0 in array.shape:
                shape = f"axes {axes!r} and shape {array.shape}"
                raise DatasetError(f"{path} has {shape}; expected y, x and others (t, z, c).")
            sizes = dict(zip(axes, array.shape, strict=False))
            channels = "s" if "s" in axes else "c" if 1 < sizes.get("c", 1) <= 4 else ""
            places = [axes.index(axis) for axis in f"yx{channels}"]
            others = [place for place in range(len(axes)) if place not in places]
            moved = np.transpose(array, [*others, *places])
            pages.extend(moved.reshape(-1, *moved.shape[len(others) :]))
    if len(pages) == 1:
        raise DatasetError(f"{path} is a single image; name the folder that holds the images.")
    names = tuple(f"page {number}" for number in range(len(pages)))
    return LazyDataset(FileSource(pages, names, str(path)), path.stem, files=names)


def scan_fits(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """Cube (n, height, width): the only one of the file, or that of the extension that ``keys`` names."""
    fits = library("astropy.io.fits", extra="fits", what=path)
    quiet = warnings.catch_warnings(action="ignore")  # astropy warns about every repaired card
    with quiet, fits.open(path, memmap=False, lazy_load_hdus=False) as units:
        images = {unit.name: unit for unit in units if unit.is_image and len(unit.shape) == 3 and 0 not in unit.shape}
        name, _ = choose_names(path, list(images), keys, only=list(images))
        announced = math.prod(images[name].shape) * abs(images[name].header["BITPIX"]) // 8
        check_announced(announced, path.stat().st_size, path)
        pixels = np.asarray(images[name].data)
    return LazyDataset(array_source(pixels.astype(pixels.dtype.newbyteorder("=")), f"{path}::{name}"), path.stem)


def scan_mrc(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """Stack of images, mapped from the disk."""
    return LazyDataset(array_source(_open_mrc(path), str(path)), path.stem)


def _open_mrc(path: Path) -> NDArray[Any]:
    """Images (n, height, width) of an MRC file, in either byte order."""
    with open(path, "rb") as file:
        head = file.read(96).ljust(96, b"\0")
    for order in "<>":
        words: list[int] = np.frombuffer(head, dtype=f"{order}i4").tolist()
        (columns, rows, sections, mode), (group, extended) = words[:4], words[22:]
        if min(columns, rows, sections) < 1 or extended < 0 or mode not in _MRC_TYPES:
            continue
        dtype = np.dtype(order + _MRC_TYPES[mode])
        if _MRC_HEADER + extended + math.prod((columns, rows, sections, dtype.itemsize)) > path.stat().st_size:
            continue
        if dtype.kind == "c":
            raise DatasetError(f"{path} has complex numbers (a Fourier transform); expected real images.")
        if group == 401 or (group == 1 and sections > 1 and path.suffix.lower() != ".mrcs"):
            raise DatasetError(f"{path} has volumes ({sections} x {rows} x {columns}); stacks end with .mrcs.")
        return np.memmap(path, dtype, mode="r", offset=_MRC_HEADER + extended, shape=(sections, rows, columns))
    raise DatasetError(f"{path} has no images that can be read; it is damaged, or not an MRC file.")


def scan_star(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """Particles of a RELION file, ``000001@stack.mrcs``, with their class if they have one."""
    blocks = library("starfile", extra="cryoem", what=path).read(path, always_dict=True).values()
    tables = [each for each in blocks if hasattr(each, "columns") and _IMAGE in each.columns and len(each)]
    if not tables:  # "particles" of RELION 3.1, or the only table of earlier versions
        raise DatasetError(f"{path} has no table with a column {_IMAGE}; give the .star file of extracted particles.")
    names = [str(name) for name in tables[0][_IMAGE]]
    labels = tables[0][_CLASS].to_numpy() if _CLASS in tables[0].columns else None
    items = [name.partition("@")[::2] for name in names]
    for name, (number, file) in zip(names, items, strict=True):
        if not file or not number.isdigit():
            raise DatasetError(f"{path}: {name!r} is not a particle; expected a number and a stack, 000001@stack.mrcs.")
    above = list(path.resolve().parents)[:4]  # Extract/job007/particles.star of a project
    folder = next((each for each in above if (each / items[0][1]).is_file()), above[0])
    for file in dict.fromkeys(file for _, file in items):
        if not Path(os.path.normpath(folder / file)).is_relative_to(folder) or not (folder / file).is_file():
            raise DatasetError(f"{path} names the stack {file}, which is not a file inside the folder of the project.")
    stack = lru_cache(maxsize=64)(_open_mrc)

    def plane(item: tuple[str, str]) -> NDArray[np.float32]:
        planes, number = stack(folder / item[1]), int(item[0])
        if not 1 <= number <= len(planes):
            raise DatasetError(f"{path}: {item[1]} has {len(planes)} images, but number {number} is requested.")
        check_length(planes, str(folder / item[1]))
        return np.array(planes[number - 1], dtype=np.float32)

    return LazyDataset(FileSource(items, names, str(path), plane), path.stem, labels, files=tuple(names))
