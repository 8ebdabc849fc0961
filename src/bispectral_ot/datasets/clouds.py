"""Shapes in 3-D: point clouds of different sizes in one array, voxel volumes, and points on meshes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bispectral_ot.checks import check_integer
from bispectral_ot.errors import InputError
from bispectral_ot.memory import check_fits

# 1 / p and 1 / p^2, p^3 = p + 1: multiples of these modulo 1 cover the square evenly, however many there are
_PLASTIC = np.array([0.7548776662466927, 0.5698402909980532])


def pack_clouds(clouds: Sequence[Any], *, what: str = "clouds") -> NDArray[np.float32]:
    """Clouds (points_i, 3) of any sizes as one float32 array (n, points of the largest, 3), the rest NaN."""
    parts = [_as_points(cloud, f"{what}: cloud {number}") for number, cloud in enumerate(clouds)]
    if not parts:
        raise InputError(f"{what} has no clouds; at least one is needed.")
    longest = max(map(len, parts))
    check_fits(12 * len(parts) * longest, f"{what}: {len(parts):,} clouds of up to {longest:,} points", "thin them out")
    packed = np.full((len(parts), longest, 3), np.nan, dtype=np.float32)
    for row, part in zip(packed, parts, strict=True):
        row[: len(part)] = part
    return packed


def cloud_points(cloud: NDArray[Any]) -> NDArray[Any]:
    """The points (points, 3) of a cloud as :func:`pack_clouds` keeps it: rows up to the last that is not all NaN."""
    if len(cloud) == 0 or cloud.dtype.kind != "f" or not np.isnan(cloud[-1]).all():
        return cloud
    real = np.flatnonzero(~np.isnan(cloud).all(axis=1))
    return cloud[: real[-1] + 1 if len(real) else 0]


def check_clouds(clouds: Any, *, what: str) -> NDArray[np.float32]:
    """Clouds as :func:`pack_clouds` keeps them, or an :class:`InputError`."""
    if isinstance(clouds, np.ndarray) and clouds.dtype.kind != "O":
        if clouds.ndim != 3 or clouds.shape[2] != 3 or clouds.dtype.kind not in "uif":
            raise InputError(f"{what}: clouds must have shape (n, points, 3), got {clouds.shape}; use cloud[None].")
        if len(clouds) == 0:
            raise InputError(f"{what} has no clouds; at least one is needed.")
        for number, cloud in enumerate(clouds):
            _as_points(cloud_points(cloud), f"{what}: cloud {number}")
        return clouds.astype(np.float32, copy=False)
    if not hasattr(clouds, "__len__"):
        raise InputError(f"{what}: expected clouds, such as a list of arrays (points, 3), got {type(clouds).__name__}.")
    return pack_clouds(clouds, what=what)


def are_clouds(data: Any) -> bool:
    """Whether a list can only mean clouds: arrays (points, 3) of different sizes."""
    if not isinstance(data, (list, tuple)) or not all(getattr(part, "ndim", 0) == 2 for part in data):
        return False
    shapes = {part.shape for part in data}
    return len(shapes) > 1 and {shape[1] for shape in shapes} == {3}


def _as_points(cloud: Any, what: str) -> NDArray[np.float32]:
    if isinstance(cloud, np.ma.MaskedArray):
        raise InputError(f"{what} is a masked array; give the points that count, cloud[~mask.any(axis=1)].")
    try:
        points = np.asarray(cloud)
    except ValueError as error:
        raise InputError(f"{what} is no array of points ({error}); expected (points, 3).") from None
    if points.ndim != 2 or points.shape[1] != 3 or len(points) == 0 or points.dtype.kind not in "uif":
        raise InputError(f"{what} has shape {points.shape} and type {points.dtype}; expected points (points, 3).")
    with np.errstate(over="ignore"):  # beyond float32 becomes infinite and is refused below
        points = points.astype(np.float32, copy=False)
    wrong = int((~np.isfinite(points).all(axis=1)).sum())
    if wrong:
        raise InputError(f"{what} has {wrong} points that are NaN or infinite (or beyond float32); repair it.")
    return points


def volume_points(volume: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Voxels (depth, height, width) that differ from the background: points (n, 3), and by how much, their weights."""
    voxels = volume.astype(np.float64)
    is_border = np.ones(voxels.shape, dtype=bool)
    is_border[1:-1, 1:-1, 1:-1] = False
    border = voxels[is_border]
    background = np.median(border)
    content = np.abs(voxels - background)
    filled = content > 4 * 1.4826 * np.median(np.abs(border - background))
    return np.argwhere(filled).astype(np.float64), content[filled]


def sample_surface(
    vertices: ArrayLike, faces: ArrayLike, n_points: int, *, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Points (n_points, 3) drawn evenly by area from a triangle mesh, in random order."""
    check_integer("n_points", n_points, minimum=1)
    corners, numbers = np.asarray(vertices, dtype=np.float64), np.asarray(faces)
    if corners.ndim != 2 or corners.shape[1] != 3 or not np.isfinite(corners).all():
        raise InputError(f"vertices must be finite numbers of shape (n_vertices, 3); got {corners.shape}.")
    if numbers.ndim != 2 or numbers.shape[1] != 3 or numbers.dtype.kind not in "iu" or len(numbers) == 0:
        raise InputError(f"faces must be integers of shape (n_faces, 3); got {numbers.dtype} {numbers.shape}.")
    if numbers.min() < 0 or numbers.max() >= len(corners):
        raise InputError(f"faces name vertices {numbers.min()} to {numbers.max()}, but there are {len(corners)}.")
    a, b, c = corners[numbers].swapaxes(0, 1)
    areas = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    if not areas.sum() > 0:
        raise InputError("the faces have no area, so there is nothing to draw points from.")
    order = np.arange(n_points)
    places = (order + rng.random()) / n_points  # evenly along the triangles, laid end to end
    face = np.searchsorted(np.cumsum(areas) / areas.sum(), places, side="right").clip(max=len(areas) - 1)
    u, v = (rng.random((2, 1)) + _PLASTIC[:, None] * order)[..., None] % 1
    fold = u + v > 1  # the other half of the parallelogram, folded back into the triangle
    u, v = np.where(fold, 1 - u, u), np.where(fold, 1 - v, v)
    points: NDArray[np.float64] = a[face] + u * (b - a)[face] + v * (c - a)[face]
    return rng.permutation(points)
