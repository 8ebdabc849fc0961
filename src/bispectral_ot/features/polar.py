"""Polar grids: rings, fields of intensity and edges that turn with the image, and their Fourier coefficients."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.fft
import scipy.ndimage
import scipy.sparse
from numpy.typing import NDArray

from bispectral_ot.checks import check_choice, check_integer, check_positive
from bispectral_ot.compiled import njit
from bispectral_ot.errors import InputError
from bispectral_ot.features.kernels import ROUNDING, edge_fields, normalize_rows
from bispectral_ot.transformer import BatchTransformer, Columns, Rows, columns_table, scaled_channels, unit_weights

SAMPLINGS = ("bilinear", "nearest")
N_EDGE_FIELDS = 5
# Widths of the Gaussians, in units of the distance of two rings (docs/coupled.md says how they were chosen).
_INTENSITY_BLUR, _EDGE_BLUR, _EDGE_POOLING = 0.35, 0.5, 0.7
# A derivative needs a few pixels, however fine the rings.
_LEAST_EDGE_BLUR = 0.7
# Finer images are averaged over cells of whole pixels, so that as many cells are left between two samples along a ray
# or around the outermost ring: with fewer, interpolation would show under turns; more would only cost time.
_LEAST_SPACING = 2.5
_ODD_EDGE_FIELDS = (2, 4)  # fields that change sign in a mirror: sin 2p and sin 4p, counted from the first edge field
_COMPILED = ("uint8", "uint16", "float32", "float64")  # others are copied to float64 first, a block at a time
Filter = tuple[Rows, Rows]  # matrices (height, height) and (width, width)


@dataclass(frozen=True)
class PolarSampler:
    """Rings of given radii r, in pixels, by K angles ``t = 2 pi k / K``, as one sparse matrix; 0 outside the image.

    - ``"bilinear"`` interpolates about the exact centre, row ``(height - 1) / 2`` and column ``(width - 1) / 2``: a
      quarter turn of the image shifts the samples exactly if 4 divides K.
    - ``"nearest"`` takes the pixel at column ``floor(width / 2 + r cos t)`` and row ``floor(height / 2 + r sin t)``,
      as the paper's program does.

    ``matrix`` (n_rings * n_angles, height * width) has interpolation weights, times the weight of the ring.
    """

    matrix: Any
    n_rings: int
    n_angles: int

    @classmethod
    def build(
        cls,
        height: int,
        width: int,
        *,
        radii: NDArray[Any],
        n_angles: int,
        sampling: str = "bilinear",
        ring_weights: NDArray[np.float64] | float = 1.0,
    ) -> Self:
        """Make the matrix; ``radii`` and ``ring_weights`` (n_rings,), which multiply the rings."""
        angles = [2 * math.pi * k / n_angles for k in range(n_angles)]
        # the C library's functions: NumPy's own differ in the last bit between processors
        cosine = np.array([math.cos(t) for t in angles])
        sine = np.array([math.sin(t) for t in angles])
        n_rings, radius = len(radii), radii[:, None]
        if sampling == "nearest":
            x = np.floor(width / 2 + radius * cosine)
            y = np.floor(height / 2 + radius * sine)
        else:
            x = (width - 1) / 2 + radius * cosine
            y = (height - 1) / 2 + radius * sine
        left, top = np.floor(x), np.floor(y)
        ring_weights = np.broadcast_to(ring_weights, n_rings)[:, None]
        samples, pixels, weights = [], [], []
        for column, weight_x in ((left, 1 - (x - left)), (left + 1, x - left)):
            for row, weight_y in ((top, 1 - (y - top)), (top + 1, y - top)):
                weight = weight_x * weight_y * ring_weights
                seen = (weight != 0) & (column >= 0) & (column < width) & (row >= 0) & (row < height)
                samples.append(np.flatnonzero(seen))
                pixels.append((row[seen] * width + column[seen]).astype(np.int64))
                weights.append(weight[seen].astype(np.float32))
        places = np.concatenate(samples), np.concatenate(pixels)
        shape = (n_rings * n_angles, height * width)
        return cls(scipy.sparse.csr_array((np.concatenate(weights), places), shape=shape), n_rings, n_angles)

    def sample(self, images: Rows) -> Rows:
        """Images (n, height * width) to rings (n, n_rings, n_angles)."""
        rings = np.empty((len(images), self.n_rings * self.n_angles), dtype=np.float32)
        weigh(self.matrix.indptr, self.matrix.indices, self.matrix.data, images, rings)
        return rings.reshape(len(images), self.n_rings, self.n_angles)


@dataclass(frozen=True)
class PolarFields:
    """Real fields ``f(r, t)`` of an image; turning the image by an angle shifts them all along t.

    The intensity of each channel, and with the gradient ``m e^{i p}`` of the smoothed image, summed over channels
    and pooled over a small neighbourhood, the strength of edges ``m^(1/2)`` and its products with ``cos`` and
    ``sin`` of ``2 (p - t)`` and ``4 (p - t)``: the angle between edges and the ray from the centre.

    Large images are averaged over square cells of whole pixels first. Everything outside the image is background: in
    each channel the median of the largest circle inside the image, which is subtracted first.
    """

    cells: tuple[NDArray[np.float64], NDArray[np.float64]] | None  # edges of the cells (n, 2); None for single pixels
    inside: Rows  # (height * width,) fraction of each cell that is image; the rest of it is background
    border: PolarSampler  # circle that gives the background
    sampler: PolarSampler
    blur: Filter  # Gaussian filters of intensity, of gradients (along and across) and of edges
    slope: Filter
    smooth: Filter
    pool: Filter
    edges: bool  # whether edge fields follow the intensities

    @classmethod
    def build(
        cls, size: tuple[int, int], cell: int, *, radii: NDArray[Any], spacing: float, n_angles: int, edges: bool
    ) -> Self:
        """Tables for images of one size; other lengths are in cells, ``spacing`` is the resolution along a ray."""
        down, across = (cell_edges(each, cell) for each in size)
        height, width = len(down), len(across)
        variance = (1 - 1 / cell**2) / 12  # along an axis of the pixels of a cell, by which averaging widens a blur

        def gaussian(width_wanted: float, order: int = 0) -> Filter:
            sigma = math.sqrt(width_wanted**2 - variance)
            rows, columns = (
                scipy.ndimage.gaussian_filter1d(np.eye(each), sigma, axis=0, order=order, mode="constant")
                for each in (height, width)
            )
            return rows.astype(np.float32), columns.astype(np.float32)

        edge_blur = max(_LEAST_EDGE_BLUR, _EDGE_BLUR * spacing)
        circle = np.array([(min(size) - 1) / 2 / cell])
        return cls(
            cells=None if cell == 1 else (down, across),
            inside=(np.outer(np.ptp(down, axis=1), np.ptp(across, axis=1)) / cell**2).astype(np.float32).ravel(),
            border=PolarSampler.build(height, width, radii=circle, n_angles=n_angles),
            sampler=PolarSampler.build(height, width, radii=radii, n_angles=n_angles),
            blur=gaussian(_INTENSITY_BLUR * spacing),
            slope=gaussian(edge_blur, order=1),
            smooth=gaussian(edge_blur),
            pool=gaussian(_EDGE_POOLING * spacing),
            edges=edges,
        )

    def sample(self, rows: NDArray[Any], channels: int) -> Rows:
        """Rows of images (n, pixels * channels) to fields (n, channels [+ 5], n_rings, n_angles)."""
        n, size, n_pixels = len(rows), (len(self.blur[0]), len(self.blur[1])), len(self.inside)
        # one power of two for all channels of an image, which keeps their balance
        if self.cells is None:
            images = scaled_channels(rows, 1).reshape(n, n_pixels, channels).transpose(0, 2, 1)
        else:
            means = area_means(rows, *self.cells, channels)
            images = scaled_channels(means.reshape(n, -1), 1).reshape(n, channels, n_pixels)
        images = np.ascontiguousarray(images)
        border = self.border.sample(images.reshape(n * channels, n_pixels))
        contents = (images - np.median(border, axis=2).reshape(n, channels, 1)) * self.inside
        contents[np.abs(contents) < ROUNDING] = 0  # or the square root would make edges of it
        planes = contents.reshape(n, channels, *size)
        fields = np.empty((n, channels + (N_EDGE_FIELDS if self.edges else 0), *size), dtype=np.float32)
        fields[:, :channels] = self.blur[0] @ (planes @ self.blur[1].T)
        if self.edges:
            gradient = self.smooth[0] @ (planes @ self.slope[1].T), self.slope[0] @ (planes @ self.smooth[1].T)
            edges = np.empty((n, N_EDGE_FIELDS, *size), dtype=np.float32)
            edge_fields(*(each.reshape(n, channels, -1) for each in gradient), edges.reshape(n, N_EDGE_FIELDS, -1))
            fields[:, channels:] = self.pool[0] @ (edges @ self.pool[1].T)
        samples = self.sampler.sample(fields.reshape(-1, n_pixels))
        samples = samples.reshape(n, -1, self.sampler.n_rings, self.sampler.n_angles)
        if self.edges:  # turn the vectors (cosine, sine) back to the ray
            angles = 2 * np.pi * np.arange(self.sampler.n_angles) / self.sampler.n_angles
            for place, multiple in ((channels + 1, 2), (channels + 3, 4)):
                c, s = (part.astype(np.float32) for part in (np.cos(multiple * angles), np.sin(multiple * angles)))
                cosine, sine = samples[:, place], samples[:, place + 1]
                cosine[:], sine[:] = cosine * c + sine * s, sine * c - cosine * s
        return samples


class SteerableTransformer(BatchTransformer):
    """Images to complex coefficients by angular frequency, field and ring.

    The fields of :class:`PolarFields` are Fourier transformed along the angle. Turning the image by an angle multiplies
    the coefficients of frequency k by ``e^{-i k angle}``, and a mirror image has the conjugate coefficients. Rings lie
    at the middle of equal steps and count with ``sqrt(r)``, for their area.
    """

    symmetries = ("rotation", "rotation-reflection")
    default_metric = "sqeuclidean"  # it kept classes together best

    symmetry: str = symmetries[0]
    cell_: int
    fields_: PolarFields

    def __init__(
        self,
        *,
        symmetry: str = "rotation",
        n_rings: int = 10,
        max_frequency: int = 9,
        n_angles: int = 40,
        radius: float = 1.04,
        edge_weight: float = 2.0,
    ) -> None:
        self.symmetry = symmetry
        self.n_rings = n_rings
        self.max_frequency = max_frequency
        self.n_angles = n_angles
        self.radius = radius
        self.edge_weight = edge_weight

    def _prepare_coefficients(self) -> None:
        height, width = self.image_shape_[:2]
        check_choice("symmetry", self.symmetry, self.symmetries)
        n_rings = check_integer("n_rings", self.n_rings, minimum=1)
        max_frequency = check_integer("max_frequency", self.max_frequency, minimum=0)
        n_angles = check_integer("n_angles", self.n_angles, minimum=1)
        if n_angles < 2 * max_frequency + 1:
            raise InputError(
                f"{n_angles} angles resolve frequencies up to {(n_angles - 1) // 2}; "
                f"give n_angles of at least {2 * max_frequency + 1}, or a smaller max_frequency."
            )
        check_positive("radius", self.radius, "1 is the largest disk inside the image")
        if not (self.edge_weight >= 0 and math.isfinite(self.edge_weight)):
            raise InputError(f"edge_weight must be at least 0 and finite, got {self.edge_weight!r}.")
        if min(height, width) < 2:
            raise InputError(f"{height} x {width} images are too small to turn; give at least 2 x 2 pixels.")
        radius = self.radius * min(height, width) / 2
        # the finer of the distances between two rings and between two samples of the outermost ring
        finest = radius * min(1 / n_rings, 2 * math.pi / n_angles)
        self.cell_ = max(1, math.floor(finest / _LEAST_SPACING))
        spacing = radius / self.cell_ / n_rings
        middles, edges = np.arange(n_rings) + 0.5, self.edge_weight > 0
        self.fields_ = PolarFields.build(
            (height, width), self.cell_, radii=middles * spacing, spacing=spacing, n_angles=n_angles, edges=edges
        )
        self._n_fields = self._channels + (N_EDGE_FIELDS if edges else 0)
        self._ring_weights = np.sqrt(middles / n_rings).astype(np.float32)

    def _scratch_per_row(self) -> int:
        samples, pixels = self._n_fields * self.n_rings * self.n_angles, len(self.fields_.inside)
        line = 8 * self.image_shape_[1] * self._channels
        return line + 32 * self._channels * pixels + 28 * self._n_fields * pixels + 24 * samples

    def _coefficients(self, samples: Rows) -> NDArray[np.complex64]:
        """Fields (n, n_fields, n_rings, n_angles) to coefficients (n, n_frequencies, n_fields, n_rings)."""
        spectra = scipy.fft.rfft(samples)[..., : self.max_frequency + 1].transpose(0, 3, 1, 2)
        coefficients: NDArray[np.complex64] = spectra * (self._ring_weights / np.float32(self.n_angles))
        if self.edge_weight > 0:
            for odd in _ODD_EDGE_FIELDS:  # times i, so that mirrors conjugate all coefficients alike
                coefficients[:, :, self._channels + odd] *= np.complex64(1j)
        return coefficients


class PolarSpectrum(SteerableTransformer):
    """The coefficients themselves, for distances that find the best rotation of each pair.

    They are *not* invariant: :class:`~bispectral_ot.costs.AlignedDistance` turns every pair of rows to its best fit.
    Intensities and edges have unit norm each (before ``edge_weight``), and so has the whole row.

    Parameters
    ----------
    symmetry : {"rotation", "rotation-reflection"}
        With the latter, the best fit is sought among mirror images as well.
    n_rings, max_frequency, n_angles, radius, edge_weight
        As in :class:`~bispectral_ot.GlobalBispectrum`. Without edges (0), distances are those of the images.

    Notes
    -----
    ``index_map_`` has the fields frequency, part (0 real, 1 imaginary), field (channels, then five edge fields) and
    ring. Columns of frequency k > 0 stand for -k as well and are multiplied by ``sqrt(2)``, so that the
    Euclidean distance of two rows is that of the band-limited fields.
    """

    metrics = ("l2", "sqeuclidean", "cosine")
    aligns = True

    def _prepare(self) -> Columns:
        self._prepare_coefficients()
        sizes = (self.max_frequency + 1, 2, self._n_fields, self.n_rings)
        frequency, part, field, ring = np.ix_(*map(range, sizes))
        return unit_weights(columns_table(frequency=frequency, part=part, field=field, ring=ring))

    def _fill(self, rows: NDArray[Any], out: Rows) -> int:
        coefficients = self._coefficients(self.fields_.sample(rows, self._channels))
        coefficients[:, 1:] *= np.float32(math.sqrt(2))
        n = len(rows)
        vanishing = np.empty(n, dtype=np.bool_)
        for fields, weight in ((slice(self._channels), 1.0), (slice(self._channels, None), self.edge_weight)):
            if weight > 0:
                block = np.ascontiguousarray(coefficients[:, :, fields])
                plain = block.view(np.float32).reshape(n, -1)
                length = weight / math.hypot(1, self.edge_weight)
                normalize_rows(plain, np.ones(plain.shape[1], dtype=np.float32), vanishing, length)
                coefficients[:, :, fields] = block
        out[:] = np.stack([coefficients.real, coefficients.imag], axis=2).reshape(n, -1)
        return int((~out.any(axis=1)).sum())


def cell_edges(size: int, cell: int) -> NDArray[np.float64]:
    """Edges (n, 2) of the cells of ``cell`` pixels that cover a line of pixels, symmetric about its middle."""
    n_cells = math.ceil(size / cell)
    start = (size - n_cells * cell) / 2 + cell * np.arange(n_cells)
    return np.clip(np.stack([start, start + cell], axis=1), 0, size)


def area_means(
    rows: NDArray[Any], down: NDArray[np.float64], across: NDArray[np.float64], channels: int
) -> NDArray[np.float64]:
    """Means of images (n, height * width * channels) over cells with edges (n, 2): (n, channels, n_down, n_across)."""
    if rows.dtype.name not in _COMPILED:
        rows = rows.astype(np.float64)
    out = np.zeros((len(rows), channels, len(down), len(across)))
    average(rows.reshape(len(rows), round(down[-1, 1]), -1), down, across, out)
    return out


# NumPy's reductions know no cells that begin at half a pixel, and would copy the image to floats first.
@njit(nogil=True, cache=True)
def average(
    images: NDArray[Any], rows: NDArray[np.float64], columns: NDArray[np.float64], out: NDArray[np.float64]
) -> None:
    """Add the mean of each cell of images (n, height, width * channels) to ``out`` (n, channels, n_rows, n_columns)."""
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


# SciPy's product wants one image a column and copies the batch to that order: three times the work itself.
@njit(nogil=True, cache=True)
def weigh(starts: NDArray[Any], columns: NDArray[Any], weights: Rows, rows: Rows, out: Rows) -> None:
    """Write the products of a sparse matrix (compressed rows) with each of ``rows`` to ``out``."""
    for n in range(len(rows)):
        for sample in range(len(starts) - 1):
            total = np.float32(0)
            for entry in range(starts[sample], starts[sample + 1]):
                total += weights[entry] * rows[n, columns[entry]]
            out[n, sample] = total
