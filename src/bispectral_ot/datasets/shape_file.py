"""One file with a shape in 3-D: a mesh, from which points are drawn evenly by area, or a cloud of points."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets.shapes import sample_surface
from bispectral_ot.errors import DatasetError, InputError

SHAPE_SUFFIXES = (".obj", ".off", ".ply", ".stl", ".xyz")
_CLOUD_SUFFIXES = (".ply", ".xyz")  # where no faces mean a cloud, and not a damaged mesh


def check_mesh_reader() -> None:
    """Raise a :class:`DatasetError` where the library that reads meshes is not installed."""
    try:
        import trimesh  # noqa: F401
    except ImportError:
        raise DatasetError(
            'reading meshes needs trimesh; install it with pip install "bispectral-ot[meshes]".'
        ) from None


def read_shape(path: Path, *, n_points: int, rng: np.random.Generator) -> NDArray[np.float32]:
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
