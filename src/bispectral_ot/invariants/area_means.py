"""Large images to the size that features need: means over square cells about the centre."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.compiled import njit

_COMPILED = ("uint8", "uint16", "float32", "float64")  # others are copied to float64 first, a block at a time


@dataclass(frozen=True)
class AreaMeans:
    """Means of an image over square cells of ``cell`` x ``cell`` pixels, which meet at its centre or lie on it.

    The cells cover the image; of those that stick out, the mean is that of the pixels inside. Turning or mirroring an
    image by whole quarters does the same to its means.

    Attributes
    ----------
    height, width : of the images
    cell : side of a cell, in pixels; 1 leaves images as they are

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.invariants.area_means import AreaMeans
    >>> AreaMeans(2, 4, 2).means(np.array([[1, 2, 3, 4, 5, 6, 7, 8]]), 1)
    array([[[3.5, 5.5]]])
    """

    height: int
    width: int
    cell: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of cells."""
        return math.ceil(self.height / self.cell), math.ceil(self.width / self.cell)

    @property
    def variance(self) -> float:
        """How much wider a blur becomes by averaging: variance along an axis of a cell's pixels, in cells squared."""
        return (1 - 1 / self.cell**2) / 12

    @property
    def inscribed_radius(self) -> float:
        """Radius of the largest circle through middles of pixels inside the image, in cells."""
        return (min(self.height, self.width) - 1) / 2 / self.cell

    @cached_property
    def inside(self) -> NDArray[np.float32]:
        """Share of each cell that is inside the image, flattened: (rows * columns,)."""
        rows, columns = (
            np.array([stop - start for start, stop in _edges(size, n_cells, self.cell)]) / self.cell
            for size, n_cells in zip((self.height, self.width), self.shape, strict=True)
        )
        return np.outer(rows, columns).astype(np.float32).ravel()

    def means(self, rows: NDArray[Any], channels: int) -> NDArray[np.float64]:
        """Images (n, height * width * channels), channels last, to means (n, channels, rows * columns of cells)."""
        if rows.dtype.name not in _COMPILED:
            rows = rows.astype(np.float64)
        images = rows.reshape(len(rows), self.height, self.width * channels)
        out = np.zeros((len(rows), channels, *self.shape))
        down, across = (
            np.array(_edges(size, n_cells, self.cell))
            for size, n_cells in zip((self.height, self.width), self.shape, strict=True)
        )
        average(images, down, across, out)
        return out.reshape(len(rows), channels, -1)


def _edges(size: int, n_cells: int, cell: int) -> list[tuple[float, float]]:
    """Where cells along an axis start and stop, in pixels; those at the ends are cut off at the image's border."""
    first = (size - n_cells * cell) / 2
    return [(max(0.0, first + i * cell), min(float(size), first + (i + 1) * cell)) for i in range(n_cells)]


# NumPy's reductions know no cells that begin at half a pixel, and would copy the image to floats first.
@njit(nogil=True, cache=True)
def average(
    images: NDArray[Any], rows: NDArray[np.float64], columns: NDArray[np.float64], out: NDArray[np.float64]
) -> None:
    """Add the mean of each cell to ``out`` (n, channels, n_rows, n_columns).

    ``images`` is (n, height, width * channels); ``rows`` and ``columns`` are the edges of the cells, (n_cells, 2).
    """
    n_channels = out.shape[1]
    line = np.empty(images.shape[2])
    for n in range(len(images)):
        for r in range(len(rows)):
            start, stop = rows[r]
            line[:] = 0
            for y in range(int(start), int(np.ceil(stop))):
                share = (min(y + 1.0, stop) - max(float(y), start)) / (stop - start)
                row = images[n, y]
                for i in range(len(line)):
                    line[i] += share * row[i]
            for c in range(len(columns)):
                start, stop = columns[c]
                for x in range(int(start), int(np.ceil(stop))):
                    share = (min(x + 1.0, stop) - max(float(x), start)) / (stop - start)
                    for channel in range(n_channels):
                        out[n, channel, r, c] += share * line[x * n_channels + channel]
