"""Compiled inner loop of :mod:`resampling`, loaded only where images are resampled."""
# mypy: allow-untyped-decorators

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.compiled import njit


@njit(nogil=True, cache=True)
def sample(
    planes: NDArray[np.float32],
    maps: NDArray[np.float64],
    table: NDArray[np.float64],
    limits: tuple[float, float],
    out: NDArray[np.float32],
) -> None:
    """Fill ``out`` with ``planes`` (n, rows, columns, channels) at ``maps @ (row, column, 1)``; border pixels repeat.

    ``table`` (steps + 1, taps) has the weights of the neighbours at -2, -1, ... pixels by the fraction of a pixel;
    values are clipped to ``limits``.
    """
    n, height, width, channels = planes.shape
    steps, taps = table.shape[0] - 1, table.shape[1]
    for i in range(n):
        for row in range(height):
            for column in range(width):
                y = maps[i, 0, 0] * row + maps[i, 0, 1] * column + maps[i, 0, 2]
                x = maps[i, 1, 0] * row + maps[i, 1, 1] * column + maps[i, 1, 2]
                top, left = int(np.floor(y)), int(np.floor(x))
                by_row, by_column = table[int((y - top) * steps + 0.5)], table[int((x - left) * steps + 0.5)]
                for channel in range(channels):
                    total = 0.0
                    for a in range(taps):
                        if by_row[a] == 0.0:
                            continue
                        at = min(max(top + a - 2, 0), height - 1)
                        line = 0.0
                        for b in range(taps):
                            if by_column[b] != 0.0:
                                line += by_column[b] * planes[i, at, min(max(left + b - 2, 0), width - 1), channel]
                        total += by_row[a] * line
                    out[i, row, column, channel] = min(max(total, limits[0]), limits[1])
