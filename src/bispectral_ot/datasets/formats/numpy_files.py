"""NumPy files: ``.npz`` with named arrays, ``.npy`` with one array of images."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from bispectral_ot.datasets.array_names import array_source, list_arrays
from bispectral_ot.datasets.sources import LazyDataset
from bispectral_ot.errors import DatasetError
from bispectral_ot.memory import check_fits


class _Member:
    """An array of an archive, of which the header was read."""

    def __init__(self, path: Path, member: str) -> None:
        self.path, self.member = path, member
        with zipfile.ZipFile(path) as archive, archive.open(member) as file:
            self.shape, self.dtype = _header(file)

    @cached_property
    def array(self) -> NDArray[Any]:
        what = f"{self.path}: {self.member.removesuffix('.npy')!r}"
        _refuse_objects(self.dtype, what)
        check_fits(math.prod(self.shape) * self.dtype.itemsize, what, "save a part of it, or smaller images")
        with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as file:
            return np.asarray(npy.read_array(file, allow_pickle=False))

    def __getitem__(self, index: Any) -> NDArray[Any]:
        return np.asarray(self.array[index])


def scan_npz(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """``images`` and, where there are any, ``labels`` and ``classes``."""
    with zipfile.ZipFile(path) as archive:
        members = [name for name in archive.namelist() if archive.open(name).read(6) == npy.MAGIC_PREFIX]
    arrays = {name.removesuffix(".npy"): _Member(path, name) for name in members}
    return list_arrays(str(path), path.stem, arrays, keys, split)


def scan_npy(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """An array of images, without labels, mapped from the disk."""
    with open(path, "rb") as file:
        if zipfile.is_zipfile(file):
            raise DatasetError(f"{path} is an .npz archive; give it a name that ends with .npz.")
        file.seek(0)
        _refuse_objects(_header(file)[1], str(path))
    return LazyDataset(array_source(np.load(path, mmap_mode="r", allow_pickle=False), str(path)), path.stem)


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[npy.read_magic(file)]
    shape, _, dtype = read(file)
    return shape, dtype


def _refuse_objects(dtype: np.dtype[Any], what: str) -> None:
    if dtype.hasobject:
        raise DatasetError(
            f"{what} holds Python objects, which are not read; save strings as labels.astype(str), numbers as an array "
            "of numbers."
        )
