"""Compiled kernels that resample images; a module of their own, so that numba is imported only when one is called."""
# mypy: allow-untyped-decorators

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.compiled import njit

Taps = tuple[NDArray[np.int64], NDArray[np.float32]]  # first pixel and weights of each new one


@njit(nogil=True, cache=True)
def warp_block(padded: NDArray[np.float32], maps: NDArray[np.float64], out: NDArray[np.float32]) -> None:
    """Fill ``out`` with images under affine ``maps`` (n, 2, 3); one pixel of background before each, two after.

    ``out`` is (n, height, width, channels) and ``padded`` is (n, height + 3, width + 3, channels).
    """
    n, height, width, channels = out.shape
    for i in range(n):
        a, b, c, d, e, f = maps[i, 0, 0], maps[i, 0, 1], maps[i, 0, 2], maps[i, 1, 0], maps[i, 1, 1], maps[i, 1, 2]
        for row in range(height):
            for column in range(width):
                y = min(max(a * row + b * column + c, -1.0), height)
                x = min(max(d * row + e * column + f, -1.0), width)
                top, left = int(np.floor(y)), int(np.floor(x))
                down, right, above, below = y - top, x - left, padded[i, top + 1], padded[i, top + 2]
                for k in range(channels):
                    upper = above[left + 1, k] + right * (above[left + 2, k] - above[left + 1, k])
                    lower = below[left + 1, k] + right * (below[left + 2, k] - below[left + 1, k])
                    out[i, row, column, k] = upper + down * (lower - upper)


@njit(nogil=True, cache=True, fastmath=True)
def resample_block(
    images: NDArray[Any], vertical: Taps, horizontal: Taps, backgrounds: NDArray[Any], out: NDArray[Any], rounded: bool
) -> None:
    """Fill ``out`` (n, h, w, channels) with separable weighted means of ``images`` (n, height, width * channels).

    Row r of the output is the sum of the ``row_weights`` (h, taps) with the rows of the image from ``rows[r]`` on, and
    columns likewise; taps outside the image count as its background (channels,). ``out`` may be ``rounded``.
    """
    (rows, row_weights), (columns, column_weights) = vertical, horizontal
    n, new_height, new_width, channels = out.shape
    height, width = images.shape[1], images.shape[2] // channels
    line, inside = np.zeros(images.shape[2], np.float32), np.zeros(new_width, np.float32)
    first = np.maximum(0, -columns)
    last = np.maximum(first, np.minimum(column_weights.shape[1], width - columns))
    for c in range(new_width):
        for k in range(first[c], last[c]):
            inside[c] += column_weights[c, k]
    for place in range(n * new_height):
        i, r = divmod(place, new_height)
        image, background = images[i], backgrounds[i]
        line[:] = 0
        covered = np.float32(0)
        for k in range(max(0, -rows[r]), min(row_weights.shape[1], height - rows[r])):
            weight, source = row_weights[r, k], image[rows[r] + k]
            covered += weight
            for x in range(len(line)):
                line[x] += weight * source[x]
        for c in range(new_width):
            rest, count, begin = 1 - covered * inside[c], last[c] - first[c], channels * (columns[c] + first[c])
            # slices, so that no index is checked for being negative
            taps, part = column_weights[c, first[c] : last[c]], line[begin : begin + channels * count]
            if channels == 3:  # colours, three times as fast as by the loop below
                red, green, blue = rest * background[0], rest * background[1], rest * background[2]
                for k in range(count):
                    red += taps[k] * part[3 * k]
                    green += taps[k] * part[3 * k + 1]
                    blue += taps[k] * part[3 * k + 2]
                if rounded:
                    red, green, blue = np.rint(red), np.rint(green), np.rint(blue)
                out[i, r, c, 0], out[i, r, c, 1], out[i, r, c, 2] = red, green, blue
                continue
            for channel in range(channels):
                total = rest * background[channel]
                for k in range(count):
                    total += taps[k] * part[k * channels + channel]
                out[i, r, c, channel] = np.rint(total) if rounded else total
