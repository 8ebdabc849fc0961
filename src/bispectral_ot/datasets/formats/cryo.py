"""Electron microscopy: MRC stacks, and the particles that a RELION .star file lists."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets.array_names import array_source
from bispectral_ot.datasets.io_errors import library
from bispectral_ot.datasets.sources import FileSource, LazyDataset
from bispectral_ot.errors import DatasetError

_IMAGE, _CLASS = "rlnImageName", "rlnClassNumber"
_TYPES = {0: "i1", 1: "i2", 2: "f4", 4: "c8", 6: "u2", 12: "f2"}  # of the field MODE
_HEADER = 1024
_FOLDERS_UP = 4  # from a .star file to the project: Extract/job007/particles.star


def scan_mrc(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """A stack of images, mapped from the disk."""
    return LazyDataset(array_source(_open_stack(path), str(path)), path.stem)


def _open_stack(path: Path) -> NDArray[Any]:
    """Images (n, height, width) of an MRC file, in either byte order.

    The first 24 words of its header are the number of columns, rows and sections, the mode, eighteen others, the space
    group and the length of the extended header. Space group 1 is a volume, and 401 a stack of volumes.
    """
    with open(path, "rb") as file:
        head = file.read(96).ljust(96, b"\0")
    for order in "<>":
        words: list[int] = np.frombuffer(head, dtype=f"{order}i4").tolist()
        (columns, rows, sections, mode), (group, extended) = words[:4], words[22:]
        if min(columns, rows, sections) < 1 or extended < 0 or mode not in _TYPES:
            continue
        dtype = np.dtype(order + _TYPES[mode])
        if _HEADER + extended + math.prod((columns, rows, sections, dtype.itemsize)) > path.stat().st_size:
            continue
        if dtype.kind == "c":
            raise DatasetError(f"{path} has complex numbers (a Fourier transform); expected real images.")
        if group == 401 or (group == 1 and sections > 1 and path.suffix.lower() != ".mrcs"):
            raise DatasetError(
                f"{path} has volumes ({sections} x {rows} x {columns}); a stack of images has space group 0, or is "
                "called .mrcs."
            )
        return np.memmap(path, dtype, mode="r", offset=_HEADER + extended, shape=(sections, rows, columns))
    raise DatasetError(f"{path} has no images that can be read; it is damaged, or no MRC file.")


def scan_star(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """The particles of a RELION file, ``000001@stack.mrcs``, with their class where they have one."""
    blocks = library("starfile", extra="cryoem", what=path).read(path, always_dict=True).values()
    tables = [each for each in blocks if hasattr(each, "columns") and _IMAGE in each.columns and len(each)]
    if not tables:  # "particles" of RELION 3.1, or the only table of earlier versions
        raise DatasetError(f"{path} has no table with a column {_IMAGE}; give the .star file of extracted particles.")
    names = [str(name) for name in tables[0][_IMAGE]]
    labels = tables[0][_CLASS].to_numpy() if _CLASS in tables[0].columns else None
    items = [name.partition("@")[::2] for name in names]
    for name, (number, file) in zip(names, items, strict=True):
        if not file or not number.isdigit():
            raise DatasetError(f"{path}: {name!r} is no particle; expected a number and a stack, 000001@stack.mrcs.")
    folder = _project_folder(path, items[0][1])
    for file in dict.fromkeys(file for _, file in items):
        if not Path(os.path.normpath(folder / file)).is_relative_to(folder):
            raise DatasetError(
                f"{path} names the stack {file}, which is outside of its project folder {folder}; put the stacks "
                "there, and name them relative to it."
            )
        if not (folder / file).is_file():
            raise DatasetError(f"{path} names the stack {file}, which is no file in {folder}.")
    stack = lru_cache(maxsize=64)(_open_stack)

    def plane(item: tuple[str, str]) -> NDArray[np.float32]:
        planes, number = stack(folder / item[1]), int(item[0])
        if not 1 <= number <= len(planes):
            raise DatasetError(f"{path}: {item[1]} has {len(planes)} images, but number {number} is asked for.")
        return np.array(planes[number - 1], dtype=np.float32)

    return LazyDataset(FileSource(items, names, str(path), plane), path.stem, labels, files=tuple(names))


def _project_folder(path: Path, first: str) -> Path:
    """The folder that stacks are relative to: RELION names them from the project, which is above the .star file."""
    for folder in list(path.resolve().parents)[:_FOLDERS_UP]:
        if (folder / first).is_file():
            return folder
    raise DatasetError(
        f"{path} names the stack {first}, which is neither in its folder nor relative to one of the "
        f"{_FOLDERS_UP - 1} above it."
    )
