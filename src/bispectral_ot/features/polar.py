"""Fields of an image on a polar grid: area means, rings, and intensity and edges that turn with the image."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.ndimage
import scipy.sparse
from numpy.typing import NDArray

from bispectral_ot.compiled import njit
from bispectral_ot.features.products import ROUNDING, Floats, edge_fields
from bispectral_ot.transformer import scaled_channels

SAMPLINGS = ("bilinear", "nearest")
N_EDGE_FIELDS = 5
# Widths of the Gaussians, in units of the distance of two rings (docs/coupled.md says how they were chosen).
_INTENSITY_BLUR, _EDGE_BLUR, _EDGE_POOLING = 0.35, 0.5, 0.7
# A derivative needs a few pixels, however fine the rings.
_LEAST_EDGE_BLUR = 0.7
_COMPILED = ("uint8", "uint16", "float32", "float64")  # others are copied to float64 first, a block at a time
Filter = tuple[Floats, Floats]  # matrices (height, height) and (width, width)


@dataclass(frozen=True)
class PolarSampler:
    """Rings of given radii r, in pixels, by K angles ``t = 2 pi k / K``, as one sparse matrix; 0 outside the image.

    - ``"bilinear"`` interpolates about the exact centre, row ``(height - 1) / 2`` and column ``(width - 1) / 2``: a
      quarter turn of the image shifts the samples exactly if 4 divides K.
    - ``"nearest"`` takes the pixel at column ``floor(width / 2 + r cos t)`` and row ``floor(height / 2 + r sin t)``,
      as the paper's program does. Where a side is even, samples on the axes lie between two pixels, and rounding of
      sine and cosine in double precision decides.

    Attributes
    ----------
    matrix : sparse array of shape (n_rings * n_angles, height * width), float32
        Interpolation weights, times the weight of the ring.

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.features import PolarSampler
    >>> grid = PolarSampler.build(5, 5, radii=np.array([1, 2]), n_angles=4)
    >>> grid.sample(np.arange(25, dtype=np.float32)[None])  # right, below, left, above the centre
    array([[[13., 17., 11.,  7.],
            [14., 22., 10.,  2.]]], dtype=float32)
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

    def sample(self, images: Floats) -> Floats:
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

    Large images are averaged over square cells about the centre first, of whole pixels, which turn with the image by
    quarters. Everything outside the image is background: in each channel the median of the largest circle inside the
    image, which is subtracted first.

    Attributes
    ----------
    cells : edges of the cells (n, 2) down and across, in pixels; None where a cell is a pixel
    inside : (height * width,) fraction of each cell that is image; the rest of it is background
    border, sampler : the circle that gives the background, and the polar grid
    blur, slope, smooth, pool : Gaussian filters of intensity, of gradients (along and across) and of edges
    edges : whether edge fields follow the intensities
    """

    cells: tuple[NDArray[np.float64], NDArray[np.float64]] | None
    inside: Floats
    border: PolarSampler
    sampler: PolarSampler
    blur: Filter
    slope: Filter
    smooth: Filter
    pool: Filter
    edges: bool

    @classmethod
    def build(
        cls, size: tuple[int, int], cell: int, *, radii: NDArray[Any], spacing: float, n_angles: int, edges: bool
    ) -> Self:
        """Tables for images of one size in pixels.

        Other lengths are in cells of ``cell`` pixels; ``spacing`` is the resolution that is wanted along a ray.
        """
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

    def sample(self, rows: NDArray[Any], channels: int) -> Floats:
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


def cell_edges(size: int, cell: int) -> NDArray[np.float64]:
    """Edges (n, 2) of the cells of ``cell`` pixels that cover a line of pixels, symmetric about its middle.

    Those at the ends are cut off at the border of the image.
    """
    n_cells = math.ceil(size / cell)
    start = (size - n_cells * cell) / 2 + cell * np.arange(n_cells)
    return np.clip(np.stack([start, start + cell], axis=1), 0, size)


def area_means(
    rows: NDArray[Any], down: NDArray[np.float64], across: NDArray[np.float64], channels: int
) -> NDArray[np.float64]:
    """Means of images (n, height * width * channels), channels last, over cells: (n, channels, n_down, n_across).

    ``down`` (n_down, 2) and ``across`` (n_across, 2) are the edges of the cells in pixels.

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.features.polar import area_means, cell_edges
    >>> area_means(np.array([[1, 2, 3, 4, 5, 6, 7, 8]]), cell_edges(2, 2), cell_edges(4, 2), 1)
    array([[[[3.5, 5.5]]]])
    """
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
def weigh(starts: NDArray[Any], columns: NDArray[Any], weights: Floats, rows: Floats, out: Floats) -> None:
    """Write the products of a sparse matrix (compressed rows) with each of ``rows`` to ``out``."""
    for n in range(len(rows)):
        for sample in range(len(starts) - 1):
            total = np.float32(0)
            for entry in range(starts[sample], starts[sample + 1]):
                total += weights[entry] * rows[n, columns[entry]]
            out[n, sample] = total
