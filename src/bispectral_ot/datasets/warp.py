"""Bilinear resampling of a batch of images, each through an affine map of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bispectral_ot.engines import Block, fill_rows
from bispectral_ot.errors import InputError

_BLOCK_PIXELS = 2**20


def warp(
    images: NDArray[Any],
    maps: NDArray[np.float64],
    *,
    fill: ArrayLike = 0.0,
    stage: str = "resample",
) -> NDArray[np.float32]:
    """Sample ``images`` at ``maps @ (row, column, 1)`` for every output pixel (row, column).

    Bilinear; a neighbour outside the image has the value ``fill``, so that borders blend into it.

    Parameters
    ----------
    images
        (n, height, width) or (n, height, width, channels).
    maps
        (n, 2, 3): output (row, column, 1) to input (row, column).
    fill
        One number, one per channel, or one per image and channel (n, channels).
    """
    channels = images.shape[3] if images.ndim == 4 else 1
    outside = _fill_values(fill, len(images), channels)
    planes = images.reshape(*images.shape[:3], channels)
    out = fill_rows(
        _warp,
        np.empty(planes.shape, dtype=np.float32),
        block_rows=max(1, _BLOCK_PIXELS // max(1, images[0].size)),
        rows=(planes, np.ascontiguousarray(maps, dtype=np.float64), outside),
        stage=stage,
    )
    return out.reshape(images.shape)


def _warp(
    block: Block, planes: NDArray[Any], maps: NDArray[np.float64], outside: NDArray[np.float32]
) -> NDArray[np.float32]:
    from bispectral_ot.datasets.image_kernels import warp_block

    out = np.empty(planes.shape, dtype=np.float32)
    warp_block(np.ascontiguousarray(planes, dtype=np.float32), maps, outside, out)
    return out


def rotation_maps(degrees: NDArray[np.float64], height: int, width: int) -> NDArray[np.float64]:
    """Maps (n, 2, 3) that turn an image counter-clockwise, as displayed, about ((H - 1) / 2, (W - 1) / 2).

    With the row axis pointing down, output (y, x) about the centre comes from
    ``(x sin t + y cos t, x cos t - y sin t)``; exact for multiples of 90 degrees.
    """
    from scipy.special import cosdg, sindg

    cos, sin = cosdg(degrees), sindg(degrees)
    middle_row, middle_column = (height - 1) / 2, (width - 1) / 2
    maps = np.empty((len(degrees), 2, 3))
    maps[:, 0, 0], maps[:, 0, 1] = cos, sin
    maps[:, 1, 0], maps[:, 1, 1] = -sin, cos
    maps[:, 0, 2] = middle_row - cos * middle_row - sin * middle_column
    maps[:, 1, 2] = middle_column + sin * middle_row - cos * middle_column
    return maps


def shift_maps(rows: NDArray[np.float64], columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Maps (n, 2, 3) that move the content of each image down by ``rows`` and right by ``columns``."""
    maps = np.zeros((len(rows), 2, 3))
    maps[:, 0, 0] = maps[:, 1, 1] = 1.0
    maps[:, 0, 2], maps[:, 1, 2] = -rows, -columns
    return maps


def _fill_values(fill: ArrayLike, n: int, channels: int) -> NDArray[np.float32]:
    """Values (n, channels)."""
    values = np.asarray(fill)
    if values.dtype.kind not in "buif" or not np.isfinite(values).all():
        raise InputError(f"fill must be a finite number (or one per channel), got {fill!r}.")
    if values.shape not in ((), (channels,), (n, channels)):
        raise InputError(
            f"fill has shape {values.shape} but the images have {channels} channels; give one number for each channel."
        )
    return np.array(np.broadcast_to(values, (n, channels)), dtype=np.float32)
