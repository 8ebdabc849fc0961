"""Electron microscopy: MRC stacks, and the particles that a RELION .star file lists."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets.image_file import Look
from bispectral_ot.datasets.image_files import ImageFiles
from bispectral_ot.datasets.keys import stack_of
from bispectral_ot.datasets.listing import Listing
from bispectral_ot.datasets.reading import library, reading
from bispectral_ot.errors import DatasetError

_IMAGE, _CLASS = "rlnImageName", "rlnClassNumber"


def list_mrc(path: Path, split: str, keys: Sequence[str]) -> Listing:
    """A stack of images; what is mapped from the disk is read when it is needed."""
    with reading(path):
        return Listing(stack_of(_open_stack(path), str(path)), path.stem)


def _open_stack(path: Path) -> NDArray[Any]:
    mrcfile = library("mrcfile", extra="cryoem", what=path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of stacks without the mark of the format, which many programs write
        opened = mrcfile.mmap(path, mode="r", permissive=True)
    data: NDArray[Any] | None = opened.data
    if data is None:
        raise DatasetError(f"{path} has no images that can be read; it is damaged, or no MRC file.")
    if data.ndim == 3 and opened.is_volume() and path.suffix.lower() != ".mrcs":
        raise DatasetError(f"{path} is one volume of shape {data.shape}; a stack of images is called .mrcs.")
    return data[None] if data.ndim == 2 else data


def list_star(path: Path, split: str, keys: Sequence[str]) -> Listing:
    """The particles of a RELION file, ``000001@stack.mrcs``, with their class where they have one."""
    starfile = library("starfile", extra="cryoem", what=path)
    library("mrcfile", extra="cryoem", what=path)
    with reading(path):
        table = _particles(path, starfile.read(path, always_dict=True))
        names = [str(name) for name in table[_IMAGE]]
        labels = table[_CLASS].to_numpy() if _CLASS in table.columns else None
        items = [_particle(path, name) for name in names]
    folder = _project_folder(path, items)
    stack = lru_cache(maxsize=64)(_open_stack)

    def plane(item: tuple[int, str], what: str) -> NDArray[Any]:
        with reading(what):
            planes: NDArray[Any] = stack(folder / item[1])
            if not 1 <= item[0] <= len(planes):
                raise DatasetError(f"{what}: the stack has {len(planes)} images, but number {item[0]} is asked for.")
            return np.asarray(planes[item[0] - 1])

    def look(item: tuple[int, str], what: str) -> Look:
        return Look.at(plane(item, what))

    def decode(item: tuple[int, str], what: str) -> tuple[NDArray[Any], bool]:
        return np.array(plane(item, what), dtype=np.float32), False

    return Listing(ImageFiles(items, names, str(path), look, decode), path.stem, labels, files=tuple(names))


def _particles(path: Path, blocks: dict[str, Any]) -> Any:
    """The table that names images: ``particles`` of RELION 3.1, or the only one of earlier versions."""
    for table in blocks.values():
        if hasattr(table, "columns") and _IMAGE in table.columns and len(table):
            return table
    raise DatasetError(f"{path} has no table with a column {_IMAGE}; give the .star file of extracted particles.")


def _particle(path: Path, name: str) -> tuple[int, str]:
    number, mark, file = name.partition("@")
    if not mark or not number.isdigit():
        raise DatasetError(f"{path}: {name!r} is no particle; expected a number and a stack, 000001@stack.mrcs.")
    return int(number), file


def _project_folder(path: Path, items: list[tuple[int, str]]) -> Path:
    """The folder that stacks are relative to: RELION names them from the project, which is above the .star file."""
    first = items[0][1]
    for folder in path.resolve().parents:
        if (folder / first).is_file():
            return folder
    raise DatasetError(f"{path} names the stack {first}, which is neither in its folder nor relative to one above it.")
