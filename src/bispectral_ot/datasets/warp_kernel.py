"""The compiled inner loop of :mod:`warp`; apart, so that numba is loaded only where images are moved."""
# mypy: allow-untyped-decorators

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.compiled import njit


@njit(nogil=True, cache=True)
def warp_block(
    images: NDArray[np.float32],
    maps: NDArray[np.float64],
    fill: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Fill ``out`` with ``images`` (n, rows, columns, channels) seen through affine ``maps`` (n, 2, 3).

    ``fill`` (n, channels) is what lies outside.
    """
    n, height, width, channels = images.shape
    for i in range(n):
        a, b, c = maps[i, 0, 0], maps[i, 0, 1], maps[i, 0, 2]
        d, e, f = maps[i, 1, 0], maps[i, 1, 1], maps[i, 1, 2]
        for row in range(height):
            for column in range(width):
                y = a * row + b * column + c
                x = d * row + e * column + f
                if not (-1.0 < y < height and -1.0 < x < width):
                    for channel in range(channels):
                        out[i, row, column, channel] = fill[i, channel]
                    continue
                top, left = int(np.floor(y)), int(np.floor(x))
                down, right = y - top, x - left
                for channel in range(channels):
                    outside = fill[i, channel]
                    upper_left = upper_right = lower_left = lower_right = outside
                    if top >= 0:
                        if left >= 0:
                            upper_left = images[i, top, left, channel]
                        if left + 1 < width:
                            upper_right = images[i, top, left + 1, channel]
                    if top + 1 < height:
                        if left >= 0:
                            lower_left = images[i, top + 1, left, channel]
                        if left + 1 < width:
                            lower_right = images[i, top + 1, left + 1, channel]
                    upper = upper_left + right * (upper_right - upper_left)
                    lower = lower_left + right * (lower_right - lower_left)
                    out[i, row, column, channel] = upper + down * (lower - upper)
