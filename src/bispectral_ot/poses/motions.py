"""Motions of a symmetry, the candidates for a pose, and the fit of each between two signals.

Motions of the plane are rotations (with reflections, an encoder or shifts), quarter turns and cyclic shifts. Rotations
in space, of signals on the sphere and of shapes, are found by correlation of harmonic coefficients.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from bispectral_ot import runtime
from bispectral_ot.compiled import njit
from bispectral_ot.datasets.transforms import content_shifts
from bispectral_ot.datasets.warp import border_levels, rotation_maps, shift_maps, warp
from bispectral_ot.engines import Block, Threads, row_blocks
from bispectral_ot.errors import InputError
from bispectral_ot.features.encoders import Orbit
from bispectral_ot.features.polar import PolarSpectrum
from bispectral_ot.groups import CyclicGroup
from bispectral_ot.groups.sphere import ShellBispectrum, SphereBispectrum, generators, wigner_matrices

Rows = NDArray[np.float32]
Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
TOLERANCE = 30.0  # degrees within which a pose counts as right
_ANGLES_PER_FREQUENCY = 16  # of the grid: its highest point is then at the peak of the curve
_SHIFT_BAND, _SHIFT_STEPS = 8, 32  # highest frequency in periods per side, and shifts of the grid along each side
_ENCODER_COLUMNS = 128  # of an encoder's orbit, after a random projection, which keeps inner products
# Rotations of the grid, about 15 degrees apart, and the largest step away from one of them.
_N_ROTATIONS, _REACH = 4608, np.radians(15)


class Located(NamedTuple):
    """Best motions near a start."""

    motions: Floats  # (..., q)
    fits: Floats  # correlations
    widths: Floats  # degrees over which a parabola at the peak falls by 1/2; NaN for discrete motions


@dataclass(frozen=True, eq=False)
class MotionArray:
    """Motions by name: a signal is mirrored left to right, then rotated, then shifted; None for absent parts."""

    angles: Floats | None = None
    mirrored: NDArray[np.bool_] | None = None
    shifts: Floats | None = None
    quaternions: Floats | None = None

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """Columns of a table, with one row for each motion."""
        columns: dict[str, NDArray[Any] | None] = {"angle": self.angles, "mirrored": self.mirrored}
        if self.shifts is not None:
            columns |= dict(zip(("down", "right"), self.shifts.T, strict=True))
        if self.quaternions is not None:
            columns |= dict(zip("xyzw", self.quaternions.T, strict=True))
        return {name: values for name, values in columns.items() if values is not None}

    @property
    def rotations(self) -> Any:
        """``scipy.spatial.transform.Rotation``, for rotations in space; the identity if the pose is unknown."""
        from scipy.spatial.transform import Rotation

        if self.quaternions is None:
            return None
        known = np.isfinite(self.quaternions[..., :1])
        return Rotation.from_quat(np.where(known, self.quaternions, [0.0, 0.0, 0.0, 1.0]).reshape(-1, 4))


class Motions(ABC):
    """Motions of a symmetry.

    The ``products`` of the coefficients of two signals are numbers in which the fit of every motion is linear. So the
    products with several targets can be averaged: the best motion of the average fits all of them best.
    """

    grid: Floats  # (g, q) motions that are tried before the best one is refined
    identity: Any  # motion that changes nothing
    unit: float = 1.0  # one degree of separation in the unit of the motions: 1, or pixels for shifts
    scales: Sequence[Any] = (1,)  # factors of the coefficients; the one that finds most of the known poses is taken

    @abstractmethod
    def coefficients(self, signals: Any) -> Rows:
        """Signals to rows (n, c) of unit norm; zeros for a signal without content."""

    def practice(self, signals: Any, *, seed: int) -> tuple[Any, Floats]:
        """Signals moved at random, and the motions (n, q) that undo it; not moved if motions do not change the fit."""
        return signals, np.broadcast_to(np.asarray(self.identity, dtype=np.float64), (len(signals), self.grid.shape[1]))

    @abstractmethod
    def products(self, source: Rows, target: Rows, indices: Indices) -> Rows:
        """Rows (n, c) and (m, c) to products (n, k, p) of each source with the targets at ``indices`` (n, k)."""

    @abstractmethod
    def fits(self, products: Rows) -> Rows:
        """Products (..., p) to the fits (..., g) of the motions of the grid."""

    @abstractmethod
    def locate(self, products: Rows, start: Indices) -> Located:
        """Best motion near ``grid[start]`` for products (..., p) and positions (...)."""

    @abstractmethod
    def separation(self, motions: Floats, others: Floats) -> Floats:
        """Degrees between motions (..., q) and others, broadcast."""

    @abstractmethod
    def by_name(self, motions: Floats) -> MotionArray:
        """Motions (..., q) by name."""


def climb(
    derivatives: Callable[[Any], tuple[Floats, Floats, Floats]], start: Any, move: Callable[[Any, Floats], Any]
) -> tuple[Any, Floats, Floats]:
    """Newton's method towards a peak of the fit; the point, its fit and the width of the peak in degrees.

    ``derivatives`` gives fits (...), slopes (..., q) and downward curvatures (..., q, q), in radians.
    """
    point = start
    for _ in range(5):
        _, slope, hessian = derivatives(point)
        values, vectors = _positive(hessian)
        step = vectors @ ((vectors.swapaxes(-1, -2) @ slope[..., None]) / values[..., None])
        point = move(point, step[..., 0])
    fits, _, hessian = derivatives(point)
    curvature = np.maximum(_positive(hessian)[0].min(axis=-1), np.pi**-2)  # at most 180 degrees wide
    return point, fits, np.degrees(1 / np.sqrt(curvature))


def _positive(hessian: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues of downward curvatures, made positive so that steps lead up, and eigenvectors."""
    values, vectors = np.linalg.eigh(hessian)
    values = np.abs(values)
    return np.maximum(values, 1e-6 * np.maximum(values.max(axis=-1, keepdims=True), 1e-12)), vectors


def wrapped(degrees: Floats) -> Floats:
    """Angles in (-180, 180]."""
    return 180.0 - (180.0 - degrees) % 360.0


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
        return replace(super().by_name(motions), shifts=motions[..., 2:])


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


class SpatialMotions(Motions):
    """Rotations of signals by their harmonic coefficients.

    With coefficients x, y of source and target, the fit of the rotation R is ``sum over l of <y_l, D_l(R) x_l>``,
    summed over channels or shells; it is refined by Newton's method on the group. ``analyse`` computes real harmonic
    coefficients (n, signals, (lmax + 1) ** 2).
    """

    identity = (0.0, 0.0, 0.0, 1.0)

    def __init__(self, analyse: Callable[[Any], Floats], lmax: int) -> None:
        from scipy.spatial.transform import Rotation

        self._analyse, self.lmax = analyse, lmax
        self.grid, self._generators = super_fibonacci(_N_ROTATIONS), generators(lmax)
        matrices = wigner_matrices(Rotation.from_quat(self.grid), lmax)
        flat = np.concatenate([matrix.reshape(_N_ROTATIONS, -1) for matrix in matrices], axis=1)
        self._matrices = flat.astype(np.float32)  # of all degrees, a row for each rotation

    def coefficients(self, signals: Any) -> Rows:
        """Harmonic coefficients (n, signals * harmonics) of unit norm; of single signals without their mean."""
        values = self._analyse(signals)
        if values.shape[1] == 1:
            values = np.where(np.arange(values.shape[2]) == 0, 0.0, values)
        rows = values.reshape(len(values), -1)
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        runtime.progress("features", len(rows), len(rows))
        return (rows / np.where(norms > 0, norms, np.inf)).astype(np.float32)

    def products(self, source: Rows, target: Rows, indices: Indices) -> Rows:
        """Products ``y_a x_b`` of all orders of each degree, summed over signals: (n, k, p)."""
        n_harmonics = (self.lmax + 1) ** 2
        x, y = source.reshape(len(source), 1, -1, n_harmonics), target.reshape(len(target), -1, n_harmonics)[indices]
        parts = []
        for degree in range(self.lmax + 1):
            orders = slice(degree**2, (degree + 1) ** 2)
            parts.append((y[..., orders].swapaxes(-1, -2) @ x[..., orders]).reshape(*indices.shape, -1))
        products = np.concatenate(parts, axis=-1)
        products[indices < 0] = 0.0
        return products

    def fits(self, products: Rows) -> Rows:
        """Fits (..., g) of all rotations of the grid."""
        return products @ self._matrices.T

    def locate(self, products: Rows, start: Indices) -> Located:
        """Best rotation, within 15 degrees of the start."""
        from scipy.spatial.transform import Rotation

        flat = products.reshape(-1, products.shape[-1]).astype(np.float64)
        first = Rotation.from_quat(self.grid[start.ravel()])

        def move(rotations: Any, step: Floats) -> Any:
            moved = (Rotation.from_rotvec(step) * rotations * first.inv()).as_rotvec()
            lengths = np.linalg.norm(moved, axis=-1, keepdims=True)
            return Rotation.from_rotvec(moved * np.minimum(1.0, _REACH / np.maximum(lengths, 1e-12))) * first

        def derivatives(rotations: Any) -> tuple[Floats, Floats, Floats]:
            n, begin = len(flat), 0
            fits, slope, hessian = np.zeros(n), np.zeros((n, 3)), np.zeros((n, 3, 3))
            for matrices, generator in zip(wigner_matrices(rotations, self.lmax), self._generators, strict=True):
                end = begin + matrices[0].size
                # <H, g D> = <H D^T, g>
                turned = flat[:, begin:end].reshape(matrices.shape) @ matrices.swapaxes(1, 2)
                fits += np.trace(turned, axis1=1, axis2=2)
                slope += np.einsum("nij,aij->na", turned, generator)
                second = generator[:, None] @ generator
                hessian -= np.einsum("nij,abij->nab", turned, (second + second.swapaxes(0, 1)) / 2)
                begin = end
            return fits, slope, hessian

        rotations, fits, widths = climb(derivatives, first, move)
        quaternions = rotations.as_quat().reshape(*start.shape, 4)
        return Located(quaternions, fits.reshape(start.shape), widths.reshape(start.shape))

    def separation(self, motions: Floats, others: Floats) -> Floats:
        """Angle of the rotation that leads from one to the other."""
        cosine = np.abs(np.sum(motions * others, axis=-1))
        return np.degrees(2 * np.arccos(np.minimum(cosine, 1.0)))

    def by_name(self, motions: Floats) -> MotionArray:
        """Quaternions."""
        return MotionArray(quaternions=motions)


def super_fibonacci(count: int) -> Floats:
    """Quaternions (count, 4) spread evenly over all rotations (Alexa, CVPR 2022)."""
    golden, psi = np.sqrt(2), 1.533751168755204288118041  # psi^4 = psi + 4
    s = np.arange(count) + 0.5
    r, t, alpha, beta = np.sqrt(s / count), np.sqrt(1 - s / count), 2 * np.pi * s / golden, 2 * np.pi * s / psi
    return np.stack([r * np.sin(alpha), r * np.cos(alpha), t * np.sin(beta), t * np.cos(beta)], axis=1)


def find_motions(symmetry: str | None, signals: Any, transformer: Any = None, kind: str | None = None) -> Motions:
    """Motions of a symmetry for signals of one size; coefficients are those of the transformer if possible."""
    kinds = {"so3": ("sphere",), "so3-shapes": ("clouds", "volumes")}.get(symmetry or "", ("images", "vectors"))
    if kind not in (None, *kinds) and getattr(transformer, "symmetry", None) != symmetry:
        known = "is for planar images" if "images" in kinds else f"needs a Dataset of the kind {' or '.join(kinds)}"
        raise InputError(f"poses(symmetry={symmetry!r}) {known}, but the kind of this one is {kind!r}.")
    if symmetry in ("rotation", "rotation-reflection"):
        own = isinstance(transformer, PolarSpectrum) and transformer.symmetry == symmetry
        spectrum = transformer if own else PolarSpectrum(symmetry=symmetry).fit(signals[:1])
        orbits = [part for part in getattr(transformer, "parts_", [transformer]) if isinstance(part, Orbit)]
        cyclic = [part for part in orbits if part.symmetry == symmetry == "rotation" and part.group_.order > 1]
        return OrbitMotions(spectrum, cyclic[0]) if cyclic else PlanarMotions(spectrum)
    if symmetry in ("rotation-translation", "rotation-reflection-translation"):
        return CentredMotions(PolarSpectrum(symmetry=symmetry.removesuffix("-translation")).fit(signals[:1]))
    if symmetry == "d4":
        if signals.shape[1] != signals.shape[2]:
            height, width = signals.shape[1:3]
            raise InputError(f"images are {height} x {width}, but quarter turns need square ones; resize them.")
        return PlanarMotions(PolarSpectrum(symmetry="rotation-reflection").fit(signals[:1]), discrete=True)
    if symmetry == "translation":
        return Shifts(signals)
    if symmetry == "so3":
        sphere = transformer if isinstance(transformer, SphereBispectrum) else SphereBispectrum().fit(signals[:1])
        return SpatialMotions(sphere.harmonic_coefficients, sphere.lmax)
    if symmetry == "so3-shapes":
        shells = transformer if isinstance(transformer, ShellBispectrum) else ShellBispectrum().fit(signals)
        return SpatialMotions(shells.shell_coefficients, shells.lmax)
    given = "features without a symmetry" if symmetry in (None, "none") else f"the symmetry {symmetry!r}"
    fix = "name another one, such as poses(symmetry='rotation') for images or 'translation' for signals"
    raise InputError(f"poses are undefined for {given}; {fix}.")


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
