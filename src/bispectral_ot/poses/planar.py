"""Motions of the plane: rotations (with reflections, an encoder or shifts), quarter turns, cyclic shifts."""

import copy
import dataclasses
from typing import Any

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from bispectral_ot.compiled import njit
from bispectral_ot.datasets.transforms import content_shifts
from bispectral_ot.datasets.warp import border_levels, rotation_maps, shift_maps, warp
from bispectral_ot.engines import Block, Threads, row_blocks
from bispectral_ot.features.encoders import Orbit
from bispectral_ot.features.polar import PolarSpectrum
from bispectral_ot.groups import CyclicGroup
from bispectral_ot.poses.motions import Floats, Indices, Located, MotionArray, Motions, Rows, climb, wrapped

_ANGLES_PER_FREQUENCY = 16  # of the grid: its highest point is then at the peak of the curve
_SHIFT_BAND, _SHIFT_STEPS = 8, 32  # highest frequency in periods per side, and shifts of the grid along each side
_ENCODER_COLUMNS = 128  # of an encoder's orbit, after a random projection, which keeps inner products


class WaveMotions(Motions):
    """Motions by angles in which the fit is a trigonometric polynomial: ``sum over f of Re(c_f e^{i f.angles})``.

    Products are the real, then imaginary parts of c, for plain and mirrored sheets. Motions off the grid are refined.
    """

    discrete = False  # quarter turns
    identity = (0.0, 0.0)

    def _set_waves(self, waves: NDArray[Any], steps: int) -> None:
        """Integer frequencies (F, q), and steps of the grid along each of q angles."""
        self._waves, self._spacing = waves.astype(np.float64), 2 * np.pi / steps
        ticks = [self._spacing * np.arange(steps)] * waves.shape[1]
        self._angles = np.stack(np.meshgrid(*ticks, indexing="ij"), axis=-1).reshape(-1, waves.shape[1])
        phases = self._waves @ self._angles.T
        self._grid_waves = np.concatenate([np.cos(phases), -np.sin(phases)]).astype(np.float32)

    def fits(self, products: Rows) -> Rows:
        """Fits (..., g) at all angles of the grid, sheet by sheet."""
        values: Rows = products.reshape(*products.shape[:-1], -1, len(self._grid_waves)) @ self._grid_waves
        return values.reshape(*products.shape[:-1], -1)

    def _peaks(self, products: Rows, start: Indices) -> tuple[Indices, Floats, Floats, Floats]:
        """Sheets, angles (..., q), fits and widths of the peaks near positions of the grid."""
        sheet, position = np.divmod(start, len(self._angles))
        sheets = products.reshape(*products.shape[:-1], -1, 2, len(self._waves))
        real, imaginary = np.moveaxis(np.take_along_axis(sheets, sheet[..., None, None, None], axis=-3), -2, 0)
        coefficients, first = real[..., 0, :].astype(np.float64) + 1j * imaginary[..., 0, :], self._angles[position]

        def derivatives(angles: Floats) -> tuple[Floats, Floats, Floats]:
            terms = coefficients * np.exp(1j * (angles @ self._waves.T))
            hessian = np.einsum("...f,fa,fb->...ab", terms.real, self._waves, self._waves)
            return terms.real.sum(axis=-1), -terms.imag @ self._waves, hessian

        if self.discrete:
            return sheet, first, derivatives(first)[0], np.full(start.shape, np.nan)
        low, high = first - self._spacing, first + self._spacing
        return sheet, *climb(derivatives, first, lambda at, step: np.clip(at + step, low, high))


class PlanarMotions(WaveMotions):
    """Rotations (or only quarter turns), and reflections if the fitted spectrum has that symmetry.

    Rotating an image counter-clockwise as displayed multiplies its coefficients of frequency k by ``e^{i k angle}``
    (rows go down). So the fit of the rotated source x to y is ``sum over k of Re(e^{i k angle} sum x_k conj(y_k))``.
    """

    def __init__(self, spectrum: PolarSpectrum, *, discrete: bool = False) -> None:
        self.spectrum, self.discrete = spectrum, discrete
        frequency = spectrum.index_map_["frequency"]
        frequencies = np.arange(int(frequency.max()) + 1)
        self._starts = np.searchsorted(frequency, np.arange(len(frequencies) + 1))
        self.mirrors = spectrum.symmetry == "rotation-reflection"
        self._set_waves(frequencies[:, None], 4 if self.discrete else _ANGLES_PER_FREQUENCY * len(frequencies))
        sheets = np.arange(1 + self.mirrors)
        self.grid = self._motions(self._angles[None], sheets[:, None]).reshape(-1, 2)

    @staticmethod
    def _motions(angles: Floats, sheet: Any) -> Floats:
        """Angles (..., 1) of a sheet as motions: conjugate coefficients are upside down, 180 degrees from mirrored."""
        degrees = wrapped(np.degrees(angles[..., 0]) + 180.0 * sheet)
        return np.stack([degrees, np.broadcast_to(sheet, degrees.shape)], axis=-1).astype(np.float64)

    def coefficients(self, signals: NDArray[Any]) -> Rows:
        """Images to polar spectra (n, c) of unit norm."""
        rows = np.empty((len(signals), self.spectrum.n_features_out_), dtype=np.float32)
        self.spectrum.fill(signals, rows)  # the match has warned of images without content
        return rows

    def practice(self, signals: NDArray[Any], *, seed: int) -> tuple[NDArray[Any], Floats]:
        """Images rotated (and mirrored) at random, with background in the corners; quarter turns have no effect."""
        if self.discrete:
            return super().practice(signals, seed=seed)
        random = np.random.default_rng(seed)
        degrees = random.uniform(-180.0, 180.0, len(signals))
        mirrored = random.random(len(signals)) < 0.5 * self.mirrors
        flipped = np.where(mirrored.reshape(-1, *[1] * (signals.ndim - 1)), signals[:, :, ::-1], signals)
        background = border_levels(signals.reshape(*signals.shape[:3], -1))
        turned = warp(flipped, rotation_maps(degrees, *signals.shape[1:3]), fill=background)
        # a reflection reverses a rotation
        return turned, np.stack([np.where(mirrored, degrees, -degrees), mirrored], axis=-1)

    def products(self, source: Rows, target: Rows, indices: Indices) -> Rows:
        """Cross spectra (n, k, sheets * 2 K), real parts before imaginary ones."""
        spectra = np.empty((*indices.shape, 1 + self.mirrors, 2 * len(self._waves)), dtype=np.float32)
        cross_spectra(source, target, indices, self._starts, self.mirrors, spectra)
        return spectra.reshape(*indices.shape, -1)

    def locate(self, products: Rows, start: Indices) -> Located:
        """Best rotation, within one step of the grid."""
        sheet, angles, fits, widths = self._peaks(products, start)
        return Located(self._motions(angles, sheet), fits, widths)

    def separation(self, motions: Floats, others: Floats) -> Floats:
        """Degrees between motions (angle, mirrored); 180 if only one is mirrored, NaN without a motion."""
        apart = np.abs(wrapped(motions[..., 0] - others[..., 0]))
        return np.where(motions[..., 1] == others[..., 1], apart, np.maximum(apart, 180.0))

    def by_name(self, motions: Floats) -> MotionArray:
        """Angles, and reflections if there are any."""
        return MotionArray(motions[..., 0], mirrored=motions[..., 1] == 1 if self.mirrors else None)


class OrbitMotions(PlanarMotions):
    """Rotations that align the rows of an encoder over the rotations of an image, and the image itself.

    The rows for n rotations are a signal on the circle. A rotation changes its Fourier coefficients like those of the
    rings of an image, so they are further columns of the same frequencies, with a weight that is chosen like the
    calibration. Fewer than eight rotations would not separate the frequencies.
    """

    def __init__(self, spectrum: PolarSpectrum, orbit: Orbit) -> None:
        super().__init__(spectrum)
        n, own = max(8, orbit.group_.order), spectrum.index_map_
        self.orbit = copy.copy(orbit)
        self.orbit.group, self.orbit.group_ = f"C{n}", CyclicGroup(n)
        self._orbit_waves = np.arange(1, min(n // 2, len(self._waves) - 1) + 1)
        columns = min(_ENCODER_COLUMNS, orbit.encoder_.n_features_out_)
        frequency = np.concatenate([own["frequency"], np.repeat(self._orbit_waves, 2 * columns)])
        part = np.concatenate([own["part"], np.tile(np.repeat([0, 1], columns), len(self._orbit_waves))])
        self._order = np.lexsort((part, frequency))
        self._starts = np.searchsorted(frequency[self._order], np.arange(len(self._waves) + 1))
        by_orbit = self._order >= len(own)
        self.scales = [np.sqrt(np.where(by_orbit, w, 1 - w)).astype(np.float32) for w in (0.5, 0.0, 0.25, 0.75)]

    def coefficients(self, signals: NDArray[Any]) -> Rows:
        """Polar spectra and Fourier coefficients of the orbits, each of unit norm."""
        orbits: NDArray[Any] = self.orbit.signals(signals)
        if orbits.shape[2] > _ENCODER_COLUMNS:
            orbits = orbits @ np.random.default_rng(0).normal(size=(orbits.shape[2], _ENCODER_COLUMNS))
        total = np.linalg.norm(orbits, axis=(1, 2))[:, None]
        spectra = scipy.fft.rfft(orbits, axis=1, norm="ortho")[:, self._orbit_waves].conj()
        spectra[:, 2 * self._orbit_waves == orbits.shape[1]] *= np.sqrt(0.5)  # has no conjugate partner
        rows = np.concatenate([spectra.real, spectra.imag], axis=2).reshape(len(orbits), -1)
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows / np.where(norms > 1e-5 * total, norms, np.inf)  # rows that do not change with the rotation
        both = np.concatenate([super().coefficients(signals), rows.astype(np.float32)], axis=1)
        return np.ascontiguousarray(both[:, self._order])


class CentredMotions(PlanarMotions):
    """Rotations (and reflections) about the centre of the content, then a shift.

    With the content of the source at s and that of the target at t, relative to the middle of the image, the shift
    after the rotation R is ``t - R s``: rows of coefficients end with s or t, and products with both.
    """

    def coefficients(self, signals: NDArray[Any]) -> Rows:
        """Polar spectra of the centred images, and the positions of their content: (n, c + 2)."""
        background, shifts = content_shifts(signals)
        centred = warp(signals, shift_maps(shifts[:, 0], shifts[:, 1]), fill=background)
        return np.concatenate([super().coefficients(centred), -shifts.astype(np.float32)], axis=1)

    def practice(self, signals: NDArray[Any], *, seed: int) -> tuple[NDArray[Any], Floats]:
        """Images rotated (and mirrored) at random; shifts are not compared."""
        moved, truth = super().practice(signals, seed=seed)
        return moved, np.concatenate([truth, np.zeros_like(truth)], axis=-1)

    def products(self, source: Rows, target: Rows, indices: Indices) -> Rows:
        """Cross spectra and the positions of the content of source and target: (n, k, p + 4)."""
        spectra = super().products(source, target, indices)
        places = np.broadcast_to(source[:, None, -2:], (*indices.shape, 2)), target[indices, -2:]
        empty = (indices < 0) | ~spectra.any(axis=-1)
        return np.where(empty[..., None], 0, np.concatenate([spectra, *places], axis=-1))

    def fits(self, products: Rows) -> Rows:
        """Fits (..., g) at all angles of the grid."""
        return super().fits(products[..., :-4])

    def locate(self, products: Rows, start: Indices) -> Located:
        """Best rotation, and the shift after it."""
        found = super().locate(products[..., :-4], start)
        turns, mirrored = np.radians(found.motions[..., 0]), found.motions[..., 1]
        down, right = products[..., -4], np.where(mirrored == 1, -1, 1) * products[..., -3]
        cosine, sine = np.cos(turns), np.sin(turns)  # rows go down: counter-clockwise takes right to up
        moved = np.stack([down * cosine - right * sine, right * cosine + down * sine], axis=-1)
        return found._replace(motions=np.concatenate([found.motions, products[..., -2:] - moved], axis=-1))

    def by_name(self, motions: Floats) -> MotionArray:
        """Angles, reflections if there are any, and shifts."""
        return dataclasses.replace(super().by_name(motions), shifts=motions[..., 2:])


class Shifts(WaveMotions):
    """Cyclic shifts (down, right) of images (n, height, width[, channels]), in pixels; a side is 360 degrees.

    With F and G the Fourier transforms of source and target, the fit of the shift d is
    ``sum over f of Re(conj(F_f) G_f e^{i f.d})`` over the low frequencies f except 0.
    """

    def __init__(self, signals: NDArray[Any]) -> None:
        height, width, self.channels = (*signals.shape[1:], 1)[:3]
        self.size = np.array([height, width], dtype=np.float64)
        self.unit = float(self.size.mean()) / 360.0
        limits = [min(_SHIFT_BAND, (side - 1) // 2) for side in (height, width)]
        waves = np.mgrid[-limits[0] : limits[0] + 1, 0 : limits[1] + 1].reshape(2, -1).T
        # the other half is the conjugate, for a real image
        self._set_waves(waves[(waves[:, 1] > 0) | (waves[:, 0] > 0)], _SHIFT_STEPS)
        self.grid = self._shifts(self._angles)

    def _shifts(self, angles: Floats) -> Floats:
        return (0.5 - (0.5 - angles / (2 * np.pi)) % 1) * self.size

    def coefficients(self, signals: NDArray[Any]) -> Rows:
        """Images to low frequencies (n, channels * 2 F) of unit norm: real parts, then imaginary ones."""
        planes = signals.reshape(*signals.shape[:3], -1)
        blocks = row_blocks(len(signals), block_rows=max(1, 2**22 // max(1, planes[0].size)))
        return np.concatenate(list(Threads().map(self._unit_rows, blocks, rows=[planes], stage="features")))

    def _unit_rows(self, _block: Block, planes: NDArray[Any]) -> Rows:
        """Fourier coefficients of unit norm at the frequencies; zeros for constant images."""
        images = planes.transpose(0, 3, 1, 2).astype(np.float32)
        images -= images.mean(axis=(2, 3), keepdims=True)
        peaks = np.abs(images).max(axis=(1, 2, 3), keepdims=True)
        images /= np.where(peaks > 0, peaks, 1)
        down, right = self._waves.astype(np.int64).T
        spectra = scipy.fft.rfft2(images, norm="ortho")[:, :, down, right]
        rows = np.stack([spectra.real, spectra.imag], axis=2).reshape(len(planes), -1)
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        lengths = np.where(norms > 1e-5 * np.sqrt(rows.shape[1]), norms, np.inf)
        return np.ascontiguousarray(rows / lengths, dtype=np.float32)

    def products(self, source: Rows, target: Rows, indices: Indices) -> Rows:
        """Cross spectra (n, k, 2 F), real parts before imaginary ones."""
        x = source.reshape(len(source), 1, self.channels, 2, -1)
        y = target[indices].reshape(*indices.shape, self.channels, 2, x.shape[-1])
        real = (x * y).sum(axis=(2, 3))
        imaginary = (x[:, :, :, 0] * y[:, :, :, 1] - x[:, :, :, 1] * y[:, :, :, 0]).sum(axis=2)
        products: Rows = np.concatenate([real, imaginary], axis=-1)
        products[indices < 0] = 0.0
        return products

    def locate(self, products: Rows, start: Indices) -> Located:
        """Best shift, within one step of the grid."""
        _, angles, fits, widths = self._peaks(products, start)
        return Located(self._shifts(angles), fits, widths)

    def separation(self, motions: Floats, others: Floats) -> Floats:
        """Length of the difference, a whole side being 360 degrees."""
        return np.linalg.norm(wrapped((motions - others) / self.size * 360.0), axis=-1)

    def by_name(self, motions: Floats) -> MotionArray:
        """Shifts in pixels."""
        return MotionArray(shifts=motions)


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def cross_spectra(source: Rows, target: Rows, indices: Indices, starts: Indices, mirrors: bool, out: Rows) -> None:
    """Fill ``out`` (n, k, sheets, 2 K) with real, then imaginary parts of ``sum x conj(y)`` for each frequency.

    Columns ``starts[f]`` to ``starts[f + 1]`` have frequency f: real parts, then imaginary ones. The second sheet has
    the mirrored source, ``conj(x)``. An index of -1 is no target: zeros.
    """
    n_frequencies = len(starts) - 1
    for i in range(indices.shape[0]):
        x = source[i]
        for j in range(indices.shape[1]):
            if indices[i, j] < 0:
                out[i, j] = 0.0
                continue
            y = target[indices[i, j]]
            for f in range(n_frequencies):
                middle = (starts[f] + starts[f + 1]) // 2
                half = middle - starts[f]
                rr = ii = ri = ir = np.float32(0.0)
                for column in range(starts[f], middle):
                    rr += x[column] * y[column]
                    ii += x[column + half] * y[column + half]
                    ri += x[column] * y[column + half]
                    ir += x[column + half] * y[column]
                out[i, j, 0, f] = rr + ii
                out[i, j, 0, n_frequencies + f] = ir - ri
                if mirrors:
                    out[i, j, 1, f] = rr - ii
                    out[i, j, 1, n_frequencies + f] = -ir - ri
