"""Turns of the plane, with and without mirrors, by correlation of polar spectra."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets.transforms import border_levels
from bispectral_ot.datasets.warp import rotation_maps, warp
from bispectral_ot.features.polar_spectrum import PolarSpectrum
from bispectral_ot.poses.motions import Floats, Located, MotionArray, Rows, climb, flat_separation, wrapped

# Angles of the grid for each frequency: the highest peak is then that of the curve itself.
_PER_FREQUENCY = 16


class PlanarMotions:
    """Turns, and mirrors if the spectrum has that symmetry.

    Turning an image by an angle multiplies its coefficients of frequency k by ``e^{-i k angle}`` in a frame whose
    second axis points down, as rows do: counter-clockwise as displayed, that is ``e^{i k angle}``. So the fit of the
    source x, turned, to y is ``sum over k of Re(e^{i k angle} sum x_k conj(y_k))``, a trigonometric polynomial, whose
    maximum Newton's method finds exactly.

    Parameters
    ----------
    spectrum
        Fitted to images of the size that will be given.
    """

    unit = 1.0

    def __init__(self, spectrum: PolarSpectrum) -> None:
        self.spectrum = spectrum
        frequency = spectrum.index_map_["frequency"]
        self.frequencies = np.arange(int(frequency.max()) + 1)
        self._starts = np.searchsorted(frequency, np.arange(len(self.frequencies) + 1))
        self.mirrors = spectrum.symmetry == "rotation-reflection"
        n_angles = _PER_FREQUENCY * len(self.frequencies)
        self._spacing = 2 * np.pi / n_angles
        turns = np.outer(self.frequencies, self._spacing * np.arange(n_angles))
        self._waves = np.concatenate([np.cos(turns), -np.sin(turns)]).astype(np.float32)
        angles = np.degrees(self._spacing * np.arange(n_angles))
        self.grid = np.concatenate([self._motions(angles, sheet) for sheet in range(1 + self.mirrors)])

    @staticmethod
    def _motions(angles: Floats, sheet: Any) -> Floats:
        """Angles of a sheet as motions: conjugate coefficients are upside down, half a turn from left to right."""
        mirrored = np.broadcast_to(np.asarray(sheet, dtype=np.float64), angles.shape)
        return np.stack([wrapped(angles + 180.0 * mirrored), mirrored], axis=-1)

    def coefficients(self, signals: NDArray[Any]) -> Rows:
        """Images to polar spectra (n, c) of unit norm."""
        rows = np.empty((len(signals), self.spectrum.n_features_out_), dtype=np.float32)
        self.spectrum.fill(signals, rows)  # the match has warned of images without content
        return rows

    def practice(self, signals: NDArray[Any], *, seed: int) -> tuple[NDArray[Any], Floats]:
        """Images turned (and mirrored) at random, corners filled with their background."""
        random = np.random.default_rng(seed)
        degrees = random.uniform(-180.0, 180.0, len(signals))
        mirrored = random.random(len(signals)) < 0.5 * self.mirrors
        flipped = np.where(mirrored.reshape(-1, *[1] * (signals.ndim - 1)), signals[:, :, ::-1], signals)
        background = border_levels(signals.reshape(*signals.shape[:3], -1))
        turned = warp(flipped, rotation_maps(degrees, *signals.shape[1:3]), fill=background)
        # a mirror changes the sense of a turn
        return turned, np.stack([np.where(mirrored, degrees, -degrees), mirrored], axis=-1)

    def products(self, source: Rows, target: Rows, indices: NDArray[np.int64]) -> Rows:
        """Cross spectra (n, k, sheets * 2 K), real parts before imaginary ones."""
        from bispectral_ot.poses.kernels import cross_spectra

        spectra = np.empty((*indices.shape, 1 + self.mirrors, 2 * len(self.frequencies)), dtype=np.float32)
        cross_spectra(source, target, indices, self._starts, self.mirrors, spectra)
        return spectra.reshape(*indices.shape, -1)

    def fits(self, products: Rows) -> Rows:
        """Fits (..., g) at all angles of the grid."""
        sheets = products.reshape(*products.shape[:-1], -1, len(self._waves))
        values: Rows = sheets @ self._waves
        return values.reshape(*products.shape[:-1], -1)

    def locate(self, products: Rows, start: NDArray[np.int64]) -> Located:
        """Newton's method on the polynomial, within one step of the grid."""
        n_angles, n_frequencies = self._waves.shape[1], len(self.frequencies)
        sheet = start // n_angles
        sheets = products.reshape(*products.shape[:-1], -1, 2, n_frequencies)
        chosen = np.take_along_axis(sheets, sheet[..., None, None, None], axis=-3)[..., 0, :, :].astype(np.float64)
        coefficients = chosen[..., 0, :] + 1j * chosen[..., 1, :]
        first = self._spacing * (start % n_angles)
        angles, fits, widths = climb(
            lambda at: self._derivatives(coefficients, at),
            first,
            lambda at, step: np.clip(at + step[..., 0], first - self._spacing, first + self._spacing),
        )
        return Located(self._motions(np.degrees(angles), sheet), fits, widths)

    def _derivatives(self, coefficients: NDArray[np.complex128], angles: Floats) -> tuple[Floats, Floats, Floats]:
        """Values, slopes (..., 1) and downward curvatures (..., 1, 1) of the polynomials."""
        terms = coefficients * np.exp(1j * self.frequencies * angles[..., None])
        slope = -(self.frequencies * terms.imag).sum(axis=-1)
        curvature = (self.frequencies**2 * terms.real).sum(axis=-1)
        return terms.real.sum(axis=-1), slope[..., None], curvature[..., None, None]

    separation = staticmethod(flat_separation)

    def by_name(self, motions: Floats) -> MotionArray:
        """Angles, and mirrors where there are any."""
        return MotionArray(motions[..., 0], mirrored=motions[..., 1] == 1 if self.mirrors else None)
