"""Point clouds of different sizes in one array, and voxel volumes: what a shape in 3-D may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.errors import InputError
from bispectral_ot.memory import check_fits


def pack_clouds(clouds: Sequence[Any], *, what: str = "clouds") -> NDArray[np.float32]:
    """Clouds (points_i, 3) of any sizes as one float32 array (n, points of the largest, 3), the rest filled with NaN.

    Examples
    --------
    >>> packed = pack_clouds([np.ones((4, 3)), np.ones((2, 3))])
    >>> packed.shape
    (2, 4, 3)
    >>> cloud_points(packed[1]).shape
    (2, 3)
    """
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
    """Return clouds as :func:`pack_clouds` keeps them, or say what is wrong with them."""
    if isinstance(clouds, np.ndarray) and clouds.dtype.kind in "uif" and clouds.ndim == 3 and clouds.shape[2] == 3:
        with np.errstate(over="ignore"):  # beyond float32 becomes infinite and is named below
            packed = clouds.astype(np.float32, copy=False)
        if len(packed) == 0:
            raise InputError(f"{what} has no clouds; at least one is needed.")
        for number, cloud in enumerate(packed):
            _as_points(cloud_points(cloud), f"{what}: cloud {number}")
        return packed
    if isinstance(clouds, np.ndarray) and clouds.dtype.kind != "O":
        raise InputError(
            f"{what}: clouds must have shape (n, points, 3), got {clouds.shape}; a single one is given as cloud[None]."
        )
    if not hasattr(clouds, "__len__"):
        raise InputError(f"{what}: expected clouds, such as a list of arrays (points, 3), got {type(clouds).__name__}.")
    return pack_clouds(clouds, what=what)


def are_clouds(data: Any) -> bool:
    """Whether a list can only mean clouds: arrays (points, 3) of different sizes."""
    if not isinstance(data, (list, tuple)) or not all(getattr(part, "ndim", 0) == 2 for part in data):
        return False
    shapes = {part.shape for part in data}
    return len(shapes) > 1 and {shape[1] for shape in shapes} == {3}


def check_volumes(volumes: NDArray[Any], *, what: str) -> None:
    """Refuse what is no batch of voxel volumes (n, depth, height, width)."""
    if volumes.ndim != 4:
        raise InputError(
            f"{what}: volumes must have shape (n, depth, height, width), got {volumes.shape}; "
            "a single one is given as volume[None]."
        )
    depth, height, width = volumes.shape[1:]
    if width <= 4 < min(depth, height):
        raise InputError(
            f"{what}: volumes of {depth} x {height} x {width} voxels look like images with {width} channels; "
            "give (n, depth, height, width), more than 4 voxels wide."
        )


def volume_points(volume: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Voxels (depth, height, width) as points (n, 3) in their middles, and the positive weight of each (n,).

    The weight is ``|voxel - background|``, where that is beyond the noise; as for :func:`~bispectral_ot.center` the
    background is the median of the volume's border, the noise four standard deviations of the border, estimated from
    its median deviation. There are no points where nothing differs from the background.

    Examples
    --------
    >>> volume = np.zeros((5, 5, 5))
    >>> volume[1, 2, 3] = 7
    >>> points, weights = volume_points(volume)
    >>> points.tolist(), weights.tolist()
    ([[1.0, 2.0, 3.0]], [7.0])
    """
    voxels = volume.astype(np.float64)
    is_border = np.ones(voxels.shape, dtype=bool)
    is_border[1:-1, 1:-1, 1:-1] = False
    border = voxels[is_border]
    background = np.median(border)
    noise = 4 * 1.4826 * np.median(np.abs(border - background))
    content = np.abs(voxels - background)
    filled = content > noise
    return np.argwhere(filled).astype(np.float64), content[filled]


def _as_points(cloud: Any, what: str) -> NDArray[np.float32]:
    if isinstance(cloud, np.ma.MaskedArray):
        raise InputError(f"{what} is a masked array; give the points that count, cloud[~mask.any(axis=1)].")
    try:
        points = np.asarray(cloud)
    except ValueError as error:
        raise InputError(f"{what} is no array of points ({error}); expected (points, 3).") from None
    if points.ndim != 2 or points.shape[1] != 3 or len(points) == 0 or points.dtype.kind not in "uif":
        raise InputError(f"{what} has shape {points.shape} and type {points.dtype}; expected points (points, 3).")
    with np.errstate(over="ignore"):
        points = points.astype(np.float32, copy=False)
    wrong = int((~np.isfinite(points).all(axis=1)).sum())
    if wrong:
        raise InputError(
            f"{what} has {wrong} points that are NaN or infinite (or beyond float32); repair it or leave it out."
        )
    return points
