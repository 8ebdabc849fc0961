"""Cyclic shifts of an image, by correlation of its low frequencies."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from bispectral_ot.poses.motions import Floats, Located, MotionArray, Rows, climb, low_frequencies

# Highest frequency, in periods per side, and shifts of the grid along each side.
_BAND, _STEPS = 8, 32


class Shifts:
    """Cyclic shifts (down, right) in pixels.

    With F and G the Fourier transforms of source and target, the fit of the shift d is
    ``sum over f of Re(F_f conj(G_f) e^{-i f.d})`` over the low frequencies f but 0: a trigonometric polynomial, whose
    maximum Newton's method finds between pixels. Shifts are compared as angles, a whole side being 360 degrees.

    Parameters
    ----------
    height, width
        Of the images.
    channels
        Of each image; they move together.
    """

    def __init__(self, height: int, width: int, channels: int = 1) -> None:
        self.size, self.channels = np.array([height, width], dtype=np.float64), channels
        self.unit = float(self.size.mean()) / 360.0
        limits = [min(_BAND, (side - 1) // 2) for side in (height, width)]
        rows, columns = np.mgrid[-limits[0] : limits[0] + 1, 0 : limits[1] + 1].reshape(2, -1)
        half = (columns > 0) | (rows > 0)  # of a real image the other half is the conjugate
        self._rows, self._columns = rows[half], columns[half]
        self._waves = 2 * np.pi * np.stack([self._rows / height, self._columns / width], axis=1)  # radians per pixel
        steps = [np.arange(_STEPS) * side / _STEPS for side in (height, width)]
        self.grid = self._wrapped(np.stack(np.meshgrid(*steps, indexing="ij"), axis=-1).reshape(-1, 2))
        phases = self._waves @ self.grid.T
        self._grid_waves = np.concatenate([np.cos(phases), np.sin(phases)]).astype(np.float32)

    @classmethod
    def of(cls, signals: NDArray[Any]) -> Shifts:
        """For images (n, height, width[, channels])."""
        height, width, channels = (*signals.shape[1:], 1)[:3]
        return cls(height, width, channels)

    def _wrapped(self, shifts: Floats) -> Floats:
        wrapped: Floats = self.size / 2 - (self.size / 2 - shifts) % self.size
        return wrapped

    def coefficients(self, signals: NDArray[Any]) -> Rows:
        """Images to low frequencies (n, channels * 2 F) of unit norm: real parts, then imaginary ones."""
        where = self._rows % signals.shape[1], self._columns

        def transform(images: NDArray[np.float32]) -> NDArray[Any]:
            spectra = scipy.fft.rfft2(images, norm="ortho")[:, :, where[0], where[1]]
            return np.stack([spectra.real, spectra.imag], axis=2)

        return low_frequencies(signals, self.channels, transform)

    def practice(self, signals: NDArray[Any], *, seed: int) -> tuple[NDArray[Any], Floats]:
        """Images as they are: moving them changes nothing about the fit."""
        return signals, np.zeros((len(signals), 2))

    def products(self, source: Rows, target: Rows, indices: NDArray[np.int64]) -> Rows:
        """Cross spectra (n, k, 2 F), real parts before imaginary ones."""
        x = source.reshape(len(source), 1, self.channels, 2, -1)
        y = target[indices].reshape(*indices.shape, self.channels, 2, x.shape[-1])
        real = (x * y).sum(axis=(2, 3))
        imaginary = (x[:, :, :, 1] * y[:, :, :, 0] - x[:, :, :, 0] * y[:, :, :, 1]).sum(axis=2)
        products: Rows = np.concatenate([real, imaginary], axis=-1)
        products[indices < 0] = 0.0
        return products

    def fits(self, products: Rows) -> Rows:
        """Fits (..., g) at all shifts of the grid."""
        values: Rows = products @ self._grid_waves
        return values

    def locate(self, products: Rows, start: NDArray[np.int64]) -> Located:
        """Newton's method on the polynomial, within one step of the grid."""
        n_waves = len(self._waves)
        coefficients = products[..., :n_waves] + 1j * products[..., n_waves:].astype(np.float64)
        first, reach = self.grid[start] / self.size * (2 * np.pi), 2 * np.pi / _STEPS
        angles, fits, widths = climb(
            lambda at: self._derivatives(coefficients, at),
            first,
            lambda at, step: np.clip(at + step, first - reach, first + reach),
        )
        return Located(self._wrapped(angles * self.size / (2 * np.pi)), fits, widths)

    def _derivatives(self, coefficients: NDArray[np.complex128], angles: Floats) -> tuple[Floats, Floats, Floats]:
        """Values, slopes (..., 2) and downward curvatures (..., 2, 2) at angles, a side being a whole turn."""
        waves = self._waves * self.size / (2 * np.pi)
        terms = coefficients * np.exp(-1j * (angles @ waves.T))
        slope: Floats = terms.imag @ waves
        return terms.real.sum(axis=-1), slope, np.einsum("...f,fa,fb->...ab", terms.real, waves, waves)

    def separation(self, motions: Floats, others: Floats) -> Floats:
        """Length of the difference, a whole side being 360 degrees."""
        apart: Floats = np.linalg.norm(self._wrapped(motions - others) / self.size, axis=-1) * 360.0
        return apart

    def by_name(self, motions: Floats) -> MotionArray:
        """Shifts in pixels."""
        return MotionArray(shifts=motions)
