"""Compiled kernels that resample images; a module of their own, so that numba is imported only when one is called."""
# mypy: allow-untyped-decorators

from __future__ import annotations

from typing import Any

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
    """Fill ``out`` with ``images`` (n, rows, columns, channels) seen through affine ``maps`` (n, 2, 3)."""
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


@njit(nogil=True, cache=True, fastmath=True)
def resample_block(
    images: NDArray[Any],
    rows: NDArray[np.int64],
    row_weights: NDArray[Any],
    columns: NDArray[np.int64],
    column_weights: NDArray[Any],
    background: NDArray[Any],
    out: NDArray[Any],
    rounded: bool,
) -> None:
    """Fill ``out`` (n, h, w, channels) with separable weighted means of ``images`` (n, height, width * channels).

    Row r of the output is the sum of the ``row_weights`` (h, taps) with the rows of the image from ``rows[r]`` on, and
    columns likewise; taps outside the image count as ``background`` (n, channels). ``out`` may be ``rounded``.
    """
    n, new_height, new_width, channels = out.shape
    height, width = images.shape[1], images.shape[2] // channels
    line, inside = np.zeros(images.shape[2], row_weights.dtype), np.zeros(new_width, row_weights.dtype)
    first = np.maximum(0, -columns)
    last = np.maximum(first, np.minimum(column_weights.shape[1], width - columns))
    for c in range(new_width):
        for k in range(first[c], last[c]):
            inside[c] += column_weights[c, k]
    for i in range(n):
        for r in range(new_height):
            line[:] = 0
            covered = row_weights.dtype.type(0)
            for k in range(max(0, -rows[r]), min(row_weights.shape[1], height - rows[r])):
                weight, source = row_weights[r, k], images[i, rows[r] + k]
                covered += weight
                for x in range(len(line)):
                    line[x] += weight * source[x]
            for c in range(new_width):
                rest, count, begin = 1 - covered * inside[c], last[c] - first[c], channels * (columns[c] + first[c])
                # slices, so that no index is checked for being negative
                taps, part = column_weights[c, first[c] : last[c]], line[begin : begin + channels * count]
                if channels == 3:  # colours, three times as fast as by the loop below
                    red, green, blue = rest * background[i, 0], rest * background[i, 1], rest * background[i, 2]
                    for k in range(count):
                        red += taps[k] * part[3 * k]
                        green += taps[k] * part[3 * k + 1]
                        blue += taps[k] * part[3 * k + 2]
                    if rounded:
                        red, green, blue = np.rint(red), np.rint(green), np.rint(blue)
                    out[i, r, c, 0], out[i, r, c, 1], out[i, r, c, 2] = red, green, blue
                    continue
                for channel in range(channels):
                    total = rest * background[i, channel]
                    for k in range(count):
                        total += taps[k] * part[k * channels + channel]
                    out[i, r, c, channel] = np.rint(total) if rounded else total
