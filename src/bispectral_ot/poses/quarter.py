"""Quarter turns and mirrors: exactly one of eight."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from bispectral_ot.errors import InputError
from bispectral_ot.poses.motions import Floats, Located, MotionArray, Rows, flat_separation, low_frequencies, wrapped

# Frequencies of the cosine transform that are compared.
_BAND = 16


class QuarterTurns:
    """The eight motions of the square, on the coefficients ``c[u, v]`` of a cosine transform.

    Mirroring left to right gives ``c[u, v]`` the sign ``(-1)^v``; a quarter turn counter-clockwise makes it
    ``(-1)^u c[v, u]``. The mean ``c[0, 0]`` is left out. All is exact.

    Parameters
    ----------
    side
        Of the square images, in pixels.
    channels
        Of each image.
    """

    unit = 1.0

    def __init__(self, side: int, channels: int = 1) -> None:
        self.side, self.channels = side, channels
        band = min(_BAND, side)
        self._basis = scipy.fft.dct(np.eye(side), axis=0, norm="ortho")[:band].astype(np.float32)
        position = np.arange(band * band * channels).reshape(band, band, channels)
        sign = np.where(np.arange(band) % 2, -1.0, 1.0)
        across = np.broadcast_to(sign[None, :, None], position.shape)
        down = np.broadcast_to(sign[:, None, None], position.shape)
        places, signs, grid = [], [], []
        for mirrored in (False, True):
            place, factor = position, across if mirrored else np.ones(position.shape)
            for quarter in range(4):
                places.append(place.ravel())
                signs.append(factor.ravel())
                grid.append((90.0 * quarter, float(mirrored)))
                place, factor = place.transpose(1, 0, 2), down * factor.transpose(1, 0, 2)
        self._places, self._signs = np.stack(places), np.stack(signs).astype(np.float32)
        self.grid = np.array(grid)
        self.grid[:, 0] = wrapped(self.grid[:, 0])

    @classmethod
    def of(cls, signals: NDArray[Any]) -> QuarterTurns:
        """For images (n, side, side[, channels])."""
        height, width = signals.shape[1:3]
        if height != width:
            raise InputError(f"images are {height} x {width}, but quarter turns need square ones; resize them.")
        return cls(height, signals.shape[3] if signals.ndim == 4 else 1)

    def coefficients(self, signals: NDArray[Any]) -> Rows:
        """Images to low frequencies (n, band * band * channels) of unit norm."""
        basis = self._basis
        return low_frequencies(signals, self.channels, lambda images: (basis @ images @ basis.T).transpose(0, 2, 3, 1))

    def practice(self, signals: NDArray[Any], *, seed: int) -> tuple[NDArray[Any], Floats]:
        """Images as they are: moving them changes nothing about the fit."""
        return signals, np.broadcast_to(self.grid[0], (len(signals), 2))

    def products(self, source: Rows, target: Rows, indices: NDArray[np.int64]) -> Rows:
        """Fits (n, k, 8) of all motions."""
        moved = source[:, self._places] * self._signs
        products: Rows = target[indices] @ moved.transpose(0, 2, 1)
        products[indices < 0] = 0.0
        return products

    def fits(self, products: Rows) -> Rows:
        """The products themselves."""
        return products

    def locate(self, products: Rows, start: NDArray[np.int64]) -> Located:
        """The motions of the grid: there are no others."""
        fits = np.take_along_axis(products, start[..., None], axis=-1)[..., 0].astype(np.float64)
        return Located(self.grid[start], fits, np.full(start.shape, np.nan))

    separation = staticmethod(flat_separation)

    def by_name(self, motions: Floats) -> MotionArray:
        """Angles and mirrors."""
        return MotionArray(motions[..., 0], mirrored=motions[..., 1] == 1)
