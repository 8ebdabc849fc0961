"""Shapes in 3-D: point clouds of different sizes in one array, voxel volumes, and points on meshes."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bispectral_ot.checks import check_integer, detached
from bispectral_ot.errors import InputError
from bispectral_ot.memory import check_fits


def check_clouds(clouds: Any, *, what: str = "clouds") -> NDArray[np.float32]:
    """Clouds (points_i, 3) of any sizes as one float32 array (n, points of the largest, 3), the rest NaN."""
    if not hasattr(clouds, "__len__"):
        raise InputError(f"{what}: expected clouds, such as a list of arrays (points, 3), got {type(clouds).__name__}.")
    if isinstance(clouds, np.ndarray) and clouds.dtype.kind != "O":
        if clouds.ndim != 3 or clouds.shape[2] != 3:
            raise InputError(f"{what}: clouds must have shape (n, points, 3), got {clouds.shape}; use cloud[None].")
        clouds = [cloud_points(cloud) for cloud in clouds]
    parts = [check_rows(each, f"{what}: cloud {i}", "points", columns=3) for i, each in enumerate(clouds)]
    if not parts:
        raise InputError(f"{what} has no clouds; at least one is needed.")
    longest = max(map(len, parts))
    check_fits(12 * len(parts) * longest, f"{what}: {len(parts):,} clouds of up to {longest:,} points", "thin them out")
    packed = np.full((len(parts), longest, 3), np.nan, dtype=np.float32)
    for row, part in zip(packed, parts, strict=True):
        row[: len(part)] = part
    return packed


def cloud_points(cloud: NDArray[Any]) -> NDArray[Any]:
    """Points (points, 3) of a cloud in a dataset: rows up to the last that is not all NaN."""
    if len(cloud) == 0 or cloud.dtype.kind != "f" or not np.isnan(cloud[-1]).all():
        return cloud
    real = np.flatnonzero(~np.isnan(cloud).all(axis=1))
    return cloud[: real[-1] + 1 if len(real) else 0]


def check_rows(values: Any, what: str, noun: str, columns: int | None = None) -> NDArray[np.float32]:
    """Vectors or points (n, columns), finite real numbers, as float32; or an :class:`InputError`."""
    refuse_masked(values, f"{what}: {noun}")
    try:
        rows = np.asarray(detached(values))
    except ValueError:
        raise InputError(f"{what}: the {noun} have different lengths; give one array (n, columns).") from None
    wide = rows.ndim == 2 and rows.shape[1] == (columns or rows.shape[1])
    if not wide or not rows.size or rows.dtype.kind not in "buif":
        expected = f"real numbers of shape (n, {columns or 'columns'})"
        raise InputError(f"{what}: {noun} must be {expected}, got {rows.shape} {rows.dtype}.")
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes infinite and is refused below
        rows = rows.astype(np.float32, copy=False)
    wrong = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(wrong):
        raise InputError(f"{what}: {len(wrong)} {noun} have NaN or infinity (or are beyond float32), first {wrong[0]}.")
    return rows


def refuse_masked(values: Any, what: str) -> None:
    """Raise an :class:`InputError` if entries are masked: NumPy would convert them to numbers."""
    parts = values if isinstance(values, (list, tuple)) else (values,)
    count = sum(int(np.ma.getmaskarray(part).sum()) for part in parts if isinstance(part, np.ma.MaskedArray))
    if count:
        raise InputError(f"{what} has {count} masked entries; fill them with .filled(value), or leave those out.")


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


def sample_surface(vertices: ArrayLike, faces: ArrayLike, n_points: int, *, rng: np.random.Generator) -> NDArray[Any]:
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
    # 1 / p and 1 / p^2, p^3 = p + 1: multiples of these modulo 1 cover the square evenly, however many there are
    u, v = (rng.random((2, 1)) + np.array([[0.7548776662466927], [0.5698402909980532]]) * order)[..., None] % 1
    fold = u + v > 1  # the other half of the parallelogram, folded back into the triangle
    u, v = np.where(fold, 1 - u, u), np.where(fold, 1 - v, v)
    return rng.permutation(a[face] + u * (b - a)[face] + v * (c - a)[face])
