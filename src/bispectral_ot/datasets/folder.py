"""Folders of images, and of shapes in 3-D: one sub-folder per class, or flat and without labels."""

from __future__ import annotations

import logging
import os
import unicodedata
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets.clouds import pack_clouds, sample_surface
from bispectral_ot.datasets.frames import Canvas
from bispectral_ot.datasets.image_file import SUFFIXES
from bispectral_ot.datasets.io_errors import library
from bispectral_ot.datasets.sources import SPLIT_WORDS, FileSource, LazyDataset, Positions
from bispectral_ot.errors import DatasetError, DataWarning, InputError, warn
from bispectral_ot.memory import check_fits

SHAPE_SUFFIXES = (".obj", ".off", ".ply", ".stl", ".xyz")
_CLOUD_SUFFIXES = (".ply", ".xyz")  # where no faces mean a cloud, and not a damaged mesh


def scan_folder(folder: Path, suffixes: tuple[str, ...] = SUFFIXES, noun: str = "images") -> LazyDataset:
    """All files of ``folder``: ``<class>/<file>`` with labels, or ``<file>`` without."""
    flat = _files_in(folder, suffixes)
    by_class = {sub: _files_in(sub, suffixes) for sub in _sub_folders(folder)}
    filled = {sub: files for sub, files in by_class.items() if files}
    if flat and filled:
        raise DatasetError(
            f"{folder} has {len(flat)} {noun} next to {len(filled)} sub-folders with {noun}; put all into sub-folders."
        )
    if not flat and not filled:
        deeper = next((sub for sub in by_class if any(path.is_dir() for path in sub.iterdir())), None)
        raise DatasetError(
            f"{folder} has no {noun} ({', '.join(suffixes)}), neither directly nor one folder down."
            + (f" Name the folder that holds the classes: {deeper} ?" if deeper else "")
        )
    empty = [sub.name for sub, files in by_class.items() if not files]
    if filled and empty:
        warn(f"{folder}: {len(empty)} sub-folders have no {noun}, left out: {', '.join(empty[:5])}", DataWarning)
    paths = flat or [path for files in filled.values() for path in files]
    labels = [index for index, files in enumerate(filled.values()) for _ in files] if filled else None
    names = tuple(_as_text(path.relative_to(folder).as_posix()) for path in paths)
    classes = tuple(_as_text(sub.name) for sub in filled)
    source = FileSource(paths, names, str(folder))
    return LazyDataset(source, _as_text(folder.resolve().name), labels, classes, names)


def split_folders(folder: Path) -> dict[str, Path]:
    """The folder of each split, where a folder has nothing but ``train``, ``val`` and ``test`` folders, else {}."""
    folders = _sub_folders(folder)
    found = {split: sub for sub in folders for split, words in SPLIT_WORDS.items() if sub.name.lower() in words}
    return found if len(found) == len(folders) else {}


def has_files(folder: Path, suffixes: tuple[str, ...]) -> bool:
    """Whether there are such files in the folder or one folder down."""
    return any(_files_in(place, suffixes) for place in (folder, *_sub_folders(folder)))


def _sub_folders(folder: Path) -> list[Path]:
    with os.scandir(folder) as entries:
        return sorted(folder / each.name for each in entries if each.is_dir() and not each.name.startswith("."))


def _files_in(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    with os.scandir(folder) as entries:
        names = [each.name for each in entries if each.name.lower().endswith(suffixes) and each.is_file()]
    return sorted(folder / name for name in names if not name.startswith("."))


def _as_text(name: str) -> str:
    """The name read as UTF-8, whatever the locale, and accented letters in one spelling, whatever the disk has."""
    return unicodedata.normalize("NFC", os.fsencode(name).decode("utf-8", "surrogateescape"))


def scan_shapes(folder: Path, *, n_points: int, seed: int) -> LazyDataset:
    """All shapes of ``folder``: ``<class>/<shape>`` with labels, or ``<shape>`` without; see :func:`load`."""
    lazy = scan_folder(folder, SHAPE_SUFFIXES, noun="shapes")
    if has_files(folder, SUFFIXES):
        warn(f"{folder} has images and shapes in 3-D; the shapes are read, the images are not.", DataWarning)
    if any(not name.lower().endswith(".xyz") for name in lazy.files):
        library("trimesh", extra="meshes", what=folder)
    return replace(lazy, source=ShapeSource(lazy.source, n_points, seed), kind="clouds")


@dataclass(frozen=True)
class ShapeSource:
    """Files that become one cloud of points each."""

    files: FileSource
    n_points: int
    seed: int

    def __len__(self) -> int:
        return len(self.files)

    def read(self, positions: Positions, canvas: Canvas) -> NDArray[np.float32]:
        """One array, in which unused rows are NaN."""
        what = f"{self.files.place} with {len(positions):,} shapes"
        check_fits(24 * self.n_points * len(positions), what, "draw fewer points, n_points=...")
        return pack_clouds(self.files.map(self._read, positions, "read"))

    def _read(self, i: int) -> NDArray[np.float32]:
        """Points (n, 3) of a shape: ``n_points`` drawn from the faces of a mesh, or at most as many of a cloud."""
        path: Path = self.files.items[i]
        try:
            # a stream for each file: its points depend neither on threads nor on which other files are read
            points = _read_points(path, self.n_points, np.random.default_rng([self.seed, i]))
            if len(points) < 2:
                raise InputError(f"it has {len(points)} point(s), which is no shape")
            if not np.isfinite(points).all() or np.abs(points).max() > np.finfo(np.float32).max:
                raise InputError("it has coordinates that are NaN or infinite (or beyond float32)")
        except MemoryError:
            raise
        except Exception as error:  # readers raise whatever they like on a damaged file
            said = str(error).rstrip(".") or type(error).__name__
            raise DatasetError(f"cannot read the shape {path}: {said}; repair or remove it.") from None
        return points.astype(np.float32)


def _read_points(path: Path, n_points: int, rng: np.random.Generator) -> NDArray[Any]:
    suffix = path.suffix.lower()
    if suffix == ".xyz":  # further columns are normals or colours
        lines = path.read_text(errors="replace").split("\n")
        if not any(line.strip() for line in lines):  # NumPy would warn only
            raise InputError("it is empty")
        points = np.loadtxt(lines, usecols=(0, 1, 2), ndmin=2)
    else:
        import trimesh

        logging.getLogger("trimesh").setLevel(logging.ERROR)  # textures that are missing do not matter
        options: Any = {"skip_materials": True} if suffix == ".obj" else {}
        shape: Any = trimesh.load(path, process=False, **options)
        shape = shape.to_geometry() if isinstance(shape, trimesh.Scene) else shape  # all parts in one mesh
        if len(getattr(shape, "faces", ())):
            return sample_surface(shape.vertices, np.asarray(shape.faces), n_points, rng=rng)
        if suffix not in _CLOUD_SUFFIXES:
            raise InputError("it has no faces (points without faces are read from .ply and .xyz files)")
        points = np.asarray(shape.vertices)
    return points if len(points) <= n_points else points[np.sort(rng.choice(len(points), n_points, replace=False))]
