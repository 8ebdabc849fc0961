"""Files of shapes in 3-D: meshes, from which points are drawn evenly by area, and clouds of points."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets.clouds import pack_clouds, sample_surface
from bispectral_ot.datasets.folder import as_text, has_files, list_files
from bispectral_ot.datasets.image_file import SUFFIXES, ImageInfo
from bispectral_ot.datasets.io_errors import library
from bispectral_ot.datasets.resize import Canvas
from bispectral_ot.datasets.sources import LazyDataset, Positions
from bispectral_ot.engines import Block, Threads, row_blocks
from bispectral_ot.errors import DatasetError, DataWarning, InputError, warn
from bispectral_ot.memory import check_fits

SHAPE_SUFFIXES = (".obj", ".off", ".ply", ".stl", ".xyz")
_CLOUD_SUFFIXES = (".ply", ".xyz")  # where no faces mean a cloud, and not a damaged mesh


def scan_shapes(folder: Path, *, n_points: int, seed: int) -> LazyDataset:
    """All shapes of ``folder``: ``<class>/<shape>`` with labels, or ``<shape>`` without.

    Parameters
    ----------
    n_points
        Points drawn from each mesh, evenly by area; clouds with more points are thinned out to as many.
    seed
        Of these points.
    """
    classes, paths, labels = list_files(folder, SHAPE_SUFFIXES, "shapes")
    if has_files(folder, SUFFIXES):
        warn(f"{folder} has images and shapes in 3-D; the shapes are read, the images are not.", DataWarning)
    if any(path.suffix.lower() != ".xyz" for path in paths):
        library("trimesh", extra="meshes", what=folder)
    files = tuple(as_text(path.relative_to(folder).as_posix()) for path in paths)
    source = ShapeSource(paths, folder, n_points, seed)
    name = as_text(folder.resolve().name)
    return LazyDataset(source, name, labels if classes else None, tuple(classes), files, kind="clouds")


@dataclass(frozen=True)
class ShapeSource:
    """Files that become one cloud of points each."""

    paths: list[Path]
    folder: Path
    n_points: int
    seed: int

    def __len__(self) -> int:
        return len(self.paths)

    def headers(self, positions: Positions) -> list[ImageInfo]:
        """None: clouds have no size in pixels."""
        return []

    def read(self, positions: Positions, canvas: Canvas) -> NDArray[np.float32]:
        """One array, in which unused rows are NaN."""
        what = f"{self.folder} with {len(positions):,} shapes"
        check_fits(24 * self.n_points * len(positions), what, "draw fewer points, n_points=...")
        blocks = row_blocks(len(positions), block_rows=16)
        parts = Threads().map(self._read_block, blocks, rows=(positions,), stage=f"read {self.folder.name}")
        return pack_clouds([cloud for part in parts for cloud in part])

    def _read_block(self, _block: Block, positions: Positions) -> list[NDArray[np.float32]]:
        # a stream for each file: its points depend neither on threads nor on which other files are read
        return [
            _read_shape(self.paths[i], self.n_points, np.random.default_rng([self.seed, int(i)])) for i in positions
        ]


def _read_shape(path: Path, n_points: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Points (n, 3) of a shape: ``n_points`` drawn from the faces of a mesh, or at most as many of a cloud."""
    try:
        points = _read_points(path, n_points, rng)
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
    if path.suffix.lower() == ".xyz":  # further columns are normals or colours
        lines = path.read_text(errors="replace").split("\n")
        if not any(line.strip() for line in lines):  # NumPy would warn only
            raise InputError("it is empty")
        return _thinned(np.loadtxt(lines, usecols=(0, 1, 2), ndmin=2), n_points, rng)
    import trimesh

    logging.getLogger("trimesh").setLevel(logging.ERROR)  # textures that are missing do not matter
    options: dict[str, Any] = {"skip_materials": True} if path.suffix.lower() == ".obj" else {}
    shape: Any = trimesh.load(path, process=False, **options)
    if isinstance(shape, trimesh.Scene):
        shape = shape.to_geometry()  # all parts in one mesh
    if len(getattr(shape, "faces", ())):
        return sample_surface(shape.vertices, np.asarray(shape.faces), n_points, rng=rng)
    if path.suffix.lower() not in _CLOUD_SUFFIXES:
        raise InputError(f"it has no faces (points without faces are read from {' and '.join(_CLOUD_SUFFIXES)} files)")
    return _thinned(np.asarray(shape.vertices), n_points, rng)


def _thinned(points: NDArray[Any], n_points: int, rng: np.random.Generator) -> NDArray[Any]:
    return points if len(points) <= n_points else points[np.sort(rng.choice(len(points), n_points, replace=False))]
