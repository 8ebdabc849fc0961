"""Folders of images, and of shapes in 3-D: one sub-folder per class, or flat and without labels."""

import logging
import os
import unicodedata
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets.clouds import check_clouds, check_rows, sample_surface
from bispectral_ot.datasets.frames import Canvas
from bispectral_ot.datasets.image_file import SUFFIXES
from bispectral_ot.datasets.io_errors import library
from bispectral_ot.datasets.sources import SPLIT_WORDS, FileSource, LazyDataset, Positions
from bispectral_ot.errors import DatasetError, DataWarning, InputError, warn
from bispectral_ot.memory import check_fits

SHAPE_SUFFIXES = (".obj", ".off", ".ply", ".stl", ".xyz")


def scan_folder(folder: Path, suffixes: tuple[str, ...] = SUFFIXES, noun: str = "images") -> LazyDataset:
    """All files of ``folder``: ``<class>/<file>`` with labels, or ``<file>`` without."""
    flat = _files_in(folder, suffixes)
    by_class = {sub: _files_in(sub, suffixes) for sub in _sub_folders(folder)}
    filled = {sub: files for sub, files in by_class.items() if files}
    if flat and filled:
        found = f"{len(flat)} {noun} next to {len(filled)} sub-folders with {noun}"
        raise DatasetError(f"{folder} has {found}; put all into sub-folders.")
    if not flat and not filled:
        deeper = next((sub for sub in by_class if any(path.is_dir() for path in sub.iterdir())), None)
        advice = f" Name the folder that holds the classes: {deeper} ?" if deeper else ""
        raise DatasetError(f"{folder} has no {noun} ({', '.join(suffixes)}), directly or one folder down.{advice}")
    empty = [sub.name for sub, files in by_class.items() if not files]
    if filled and empty:
        warn(f"{folder}: {len(empty)} sub-folders have no {noun}, left out: {', '.join(empty[:5])}", DataWarning)
    paths = flat or [path for files in filled.values() for path in files]
    labels = [index for index, files in enumerate(filled.values()) for _ in files] if filled else None
    names = tuple(_as_text(path.relative_to(folder).as_posix()) for path in paths)
    source = FileSource(paths, names, str(folder))
    classes = tuple(_as_text(sub.name) for sub in filled)
    return LazyDataset(source, _as_text(folder.resolve().name), labels, classes, names)


def split_folders(folder: Path) -> dict[str, Path]:
    """Folders of splits if there are only ``train``, ``val`` and ``test`` folders, else {}."""
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
    """Name read as UTF-8 in any locale, with accented letters in one normal form."""
    return unicodedata.normalize("NFC", os.fsencode(name).decode("utf-8", "surrogateescape"))


def scan_shapes(folder: Path, *, n_points: int, seed: int) -> LazyDataset:
    """All shapes of ``folder``: ``<class>/<shape>`` with labels, or ``<shape>`` without."""
    lazy = scan_folder(folder, SHAPE_SUFFIXES, noun="shapes")
    if has_files(folder, SUFFIXES):
        warn(f"{folder} has images and 3-D shapes; only the shapes are read.", DataWarning)
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
        return check_clouds(self.files.map(self._read, positions, "read"))

    def _read(self, i: int) -> NDArray[np.float32]:
        """Points (n, 3) of a shape: ``n_points`` drawn from the faces of a mesh, or at most as many of a cloud."""
        path: Path = self.files.items[i]
        # a stream for each file: its points depend neither on threads nor on which other files are read
        suffix, rng = path.suffix.lower(), np.random.default_rng([self.seed, i])
        try:
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
                points = np.asarray(shape.vertices)
                if len(getattr(shape, "faces", ())):
                    points = sample_surface(points, np.asarray(shape.faces), self.n_points, rng=rng)
                elif suffix != ".ply":  # without faces it is a cloud, not a damaged mesh
                    raise InputError("it has no faces (points without faces are read from .ply and .xyz files)")
            if len(points) > self.n_points:
                points = points[np.sort(rng.choice(len(points), self.n_points, replace=False))]
            if len(points) == 1:
                raise InputError("it has only 1 point")
            return check_rows(points, "content", "points", columns=3)
        except MemoryError:
            raise
        except Exception as error:  # readers raise any kind of error on a damaged file
            said = str(error).rstrip(".") or type(error).__name__
            raise DatasetError(f"cannot read the shape {path}: {said}; repair or remove it.") from None
