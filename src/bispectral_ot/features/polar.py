"""Polar grids: Fourier coefficients of rings that rotate with the image, and the global bispectrum, their invariant."""

import itertools
import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.fft
import scipy.ndimage
from numpy.typing import NDArray

from bispectral_ot.checks import check_choice, check_integer, check_positive
from bispectral_ot.compiled import njit
from bispectral_ot.errors import InputError
from bispectral_ot.features.kernels import ROUNDING, compress, edge_fields, interpolate, multiply, normalize_rows
from bispectral_ot.transformer import BatchTransformer, Columns, Rows, columns_table, scaled_channels, unit_weights

SAMPLINGS = ("bilinear", "nearest")
PAIR, TRIPLE, MIRRORED = 0, 1, 2  # kinds of columns of the global bispectrum
N_EDGE_FIELDS = 5
# Widths of the Gaussians, in units of the distance of two rings (chosen as described in docs/coupled.md).
_INTENSITY_BLUR, _EDGE_BLUR, _EDGE_POOLING = 0.35, 0.5, 0.7
_LEAST_EDGE_BLUR = 0.7  # a derivative needs a few pixels, however fine the rings
# Finer images are averaged over cells of whole pixels, so that as many cells are left between two samples along a ray
# or around the outermost ring: with fewer, rotations would show interpolation errors; more would only cost time.
_LEAST_SPACING = 2.5
_COMPILED = ("uint8", "uint16", "float32", "float64")  # others are copied to float64 first, a block at a time
Filter = tuple[Rows, Rows]  # matrices (height, height) and (width, width)
Edges = NDArray[np.float64]  # of the cells along a side (n, 2)
Index = NDArray[np.int64]


class PolarSampler(NamedTuple):
    """Rings of given radii r, in pixels, by K angles ``t = 2 pi k / K``; 0 outside the image.

    - ``"bilinear"`` interpolates about the exact centre, row ``(height - 1) / 2`` and column ``(width - 1) / 2``: a
      quarter turn of the image shifts the samples exactly if 4 divides K.
    - ``"nearest"``, as in the paper: the pixel at ``floor(width / 2 + r cos t)``, ``floor(height / 2 + r sin t)``.

    A sample is the sum of four ``pixels`` (4, n_rings * n_angles) times ``weights``, which include that of the ring.
    """

    pixels: NDArray[np.int64]
    weights: Rows
    n_rings: int
    n_angles: int

    @classmethod
    def build(
        cls, height: int, width: int, *, radii: Any, n_angles: int, sampling: str = "bilinear", ring_weights: Any = 1.0
    ) -> Self:
        """Sampler for an image size; ``radii`` and ``ring_weights``, which multiply the rings, are (n_rings,)."""
        angles = [2 * math.pi * k / n_angles for k in range(n_angles)]
        # the C library's functions: NumPy's own differ in the last bit between processors
        cosine, sine = (np.array([function(t) for t in angles]) for function in (math.cos, math.sin))
        n_rings, radius, nearest = len(radii), radii[:, None], sampling == "nearest"
        x, y = ((size - (not nearest)) / 2 + radius * wave for size, wave in ((width, cosine), (height, sine)))
        left, top = np.floor(x), np.floor(y)
        x, y = (left, top) if nearest else (x, y)
        columns, rows = np.stack([left, left + 1, left, left + 1]), np.stack([top, top, top + 1, top + 1])
        right, below = x - left, y - top
        weights = np.stack([(1 - right) * (1 - below), right * (1 - below), (1 - right) * below, right * below])
        weights *= np.broadcast_to(ring_weights, n_rings)[:, None]
        inside = (columns >= 0) & (columns < width) & (rows >= 0) & (rows < height)
        pixels = np.where(inside, rows * width + columns, 0).astype(np.int64)
        weights = np.where(inside, weights, 0).astype(np.float32)
        return cls(pixels.reshape(4, -1), weights.reshape(4, -1), n_rings, n_angles)

    def sample(self, images: Rows) -> Rows:
        """Images (n, height * width) to rings (n, n_rings, n_angles)."""
        rings = np.empty((len(images), self.n_rings * self.n_angles), dtype=np.float32)
        interpolate(self.pixels, self.weights, images, rings)
        return rings.reshape(len(images), self.n_rings, self.n_angles)


@dataclass(kw_only=True, repr=False, eq=False)
class SteerableTransformer(BatchTransformer):
    """Images to complex coefficients by angular frequency, field and ring.

    Fields are the intensity of each channel, and with the gradient ``m e^{i p}`` of the smoothed image, summed over
    channels and pooled over a small neighbourhood, the strength of edges ``m^(1/2)`` and its products with ``cos`` and
    ``sin`` of ``2 (p - t)`` and ``4 (p - t)``: the angle between edges and the ray at angle t. They are Fourier
    transformed along t. A rotation of the image by an angle multiplies the coefficients of frequency k by
    ``e^{-i k angle}``, and a mirror image has the conjugate ones. Rings lie at the middle of equal steps,
    with the weight ``sqrt(r)`` for their area.

    Large images are averaged over square cells of whole pixels first. Everything outside the image is background: in
    each channel the median of the largest circle inside the image, which is subtracted first.
    """

    symmetries = ("rotation", "rotation-reflection")
    default_metric = "sqeuclidean"  # best class preservation

    symmetry: str = "rotation"
    n_rings: int = 10
    max_frequency: int = 9
    n_angles: int = 40
    radius: float = 1.04
    edge_weight: float = 2.0

    def _prepare_coefficients(self) -> None:
        """Check the parameters, and build the filters and samplers; lengths are in cells."""
        check_choice("symmetry", self.symmetry, self.symmetries)
        for name, least in (("n_rings", 1), ("max_frequency", 0), ("n_angles", 1)):
            check_integer(name, getattr(self, name), minimum=least)
        if self.n_angles < 2 * self.max_frequency + 1:
            problem = f"{self.n_angles} angles resolve frequencies up to {(self.n_angles - 1) // 2}"
            least = 2 * self.max_frequency + 1
            raise InputError(f"{problem}; give n_angles of at least {least}, or a smaller max_frequency.")
        check_positive("radius", self.radius, "1 is the largest disk inside the image")
        if not (self.edge_weight >= 0 and math.isfinite(self.edge_weight)):
            raise InputError(f"edge_weight must be at least 0 and finite, got {self.edge_weight!r}.")
        height, width = self.image_shape_[:2]
        if min(height, width) < 2:
            raise InputError(f"{height} x {width} images are too small to rotate; give at least 2 x 2 pixels.")

        side, n_angles = min(height, width), self.n_angles
        radius = self.radius * side / 2
        # the finer of the distances between two rings and between two samples of the outermost ring
        finest = radius * min(1 / self.n_rings, 2 * math.pi / n_angles)
        cell = self.cell_ = max(1, math.floor(finest / _LEAST_SPACING))
        spacing, middles = radius / cell / self.n_rings, np.arange(self.n_rings) + 0.5
        down, across = cell_edges(height, cell), cell_edges(width, cell)
        grid = len(down), len(across)
        variance = (1 - 1 / cell**2) / 12  # along an axis of the pixels of a cell, by which averaging widens a blur

        def gaussian(width_wanted: float, order: int = 0) -> Filter:
            sigma = math.sqrt(width_wanted**2 - variance)
            blur = partial(scipy.ndimage.gaussian_filter1d, sigma=sigma, axis=0, order=order, mode="constant")
            return blur(np.eye(grid[0])).astype(np.float32), blur(np.eye(grid[1])).astype(np.float32)

        edge_blur = max(_LEAST_EDGE_BLUR, _EDGE_BLUR * spacing)
        self.cells_: tuple[Edges, Edges] | None = None if cell == 1 else (down, across)
        # fraction of each cell (height * width,) that is image; the rest of it is background, the median of a circle
        self.inside_ = (np.outer(np.ptp(down, axis=1), np.ptp(across, axis=1)) / cell**2).astype(np.float32).ravel()
        self.border_ = PolarSampler.build(*grid, radii=np.array([(side - 1) / 2 / cell]), n_angles=n_angles)
        self.sampler_ = PolarSampler.build(*grid, radii=middles * spacing, n_angles=n_angles)
        self.filters_ = {  # of intensities, gradients and edges
            "blur": gaussian(_INTENSITY_BLUR * spacing),
            "slope": gaussian(edge_blur, order=1),
            "smooth": gaussian(edge_blur),
            "pool": gaussian(_EDGE_POOLING * spacing),
        }
        self._ring_weights = np.sqrt(middles / self.n_rings).astype(np.float32)
        self._n_fields = self._channels + (N_EDGE_FIELDS if self.edge_weight > 0 else 0)

    def _scratch_per_row(self) -> int:
        samples, pixels = self._n_fields * self.n_rings * self.n_angles, len(self.inside_)
        line = 8 * self.image_shape_[1] * self._channels
        return line + 16 * (self._channels + self._n_fields) * pixels + 16 * samples

    def _contents(self, rows: NDArray[Any]) -> Rows:
        """Rows of images (n, pixels * channels) to planes (n, channels, height, width) without their background."""
        n, n_pixels, channels = len(rows), len(self.inside_), self._channels
        # one power of two for all channels of an image, which keeps their balance
        if self.cells_ is None:
            images = scaled_channels(rows, 1).reshape(n, n_pixels, channels).transpose(0, 2, 1)
        else:
            means = area_means(rows, *self.cells_, channels)
            images = scaled_channels(means.reshape(n, -1), 1).reshape(n, channels, n_pixels)
        images = np.ascontiguousarray(images)
        border = self.border_.sample(images.reshape(n * channels, n_pixels))
        contents = (images - np.median(border, axis=2).reshape(n, channels, 1)) * self.inside_
        contents *= np.abs(contents) >= ROUNDING  # the square root would enlarge rounding errors
        return contents.reshape(n, channels, *map(len, self.filters_["blur"]))

    def _coefficients(self, rows: NDArray[Any]) -> NDArray[np.complex64]:
        """Rows of images (n, pixels * channels) to coefficients (n, n_frequencies, n_fields, n_rings)."""
        planes = self._contents(rows)
        n, channels, *grid = planes.shape
        (down, across), (slope_down, slope_across), (near_down, near_across), pool = self.filters_.values()
        fields = np.empty((n, self._n_fields, *grid), dtype=np.float32)
        fields[:, :channels] = down @ (planes @ across.T)
        if self._n_fields > channels:
            gradient = near_down @ (planes @ slope_across.T), slope_down @ (planes @ near_across.T)
            edges, scratch = np.zeros((n, N_EDGE_FIELDS, *grid), np.float32), np.empty((3, *grid), np.float32)
            flat = (each.reshape(*each.shape[:-2], -1) for each in (*gradient, scratch, edges))
            edge_fields(*flat)
            fields[:, channels:] = pool[0] @ (edges @ pool[1].T)
        samples = self.sampler_.sample(fields.reshape(n * self._n_fields, -1))
        samples = samples.reshape(n, self._n_fields, self.n_rings, self.n_angles)
        if self._n_fields > channels:
            angles = 2 * np.pi * np.arange(self.n_angles) / self.n_angles
            for place, multiple in ((channels + 1, 2), (channels + 3, 4)):
                c, s = (part.astype(np.float32) for part in (np.cos(multiple * angles), np.sin(multiple * angles)))
                cosine, sine = samples[:, place], samples[:, place + 1]
                cosine[:], sine[:] = cosine * c + sine * s, sine * c - cosine * s  # rotated back to the ray
        spectra = scipy.fft.rfft(samples)[..., : self.max_frequency + 1].transpose(0, 3, 1, 2)
        coefficients: NDArray[np.complex64] = spectra * (self._ring_weights / np.float32(self.n_angles))
        # the sines times i, so that mirrors conjugate all coefficients alike
        coefficients[:, :, channels + 2 :: 2] *= np.complex64(1j)
        return coefficients


class PolarSpectrum(SteerableTransformer):
    """Fourier coefficients of rings, for distances at the best rotation of each pair.

    They are *not* invariant: :class:`~bispectral_ot.costs.AlignedDistance` compares every pair at its best rotation.
    Intensities and edges have unit norm each (before ``edge_weight``), and so has the whole row.

    Parameters
    ----------
    symmetry : {"rotation", "rotation-reflection"}; with the latter, mirror images are compared as well.
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
        coefficients, n = self._coefficients(rows), len(rows)
        coefficients[:, 1:] *= np.float32(math.sqrt(2))
        vanishing = np.empty(n, dtype=np.bool_)
        for fields, weight in ((slice(self._channels), 1.0), (slice(self._channels, None), self.edge_weight)):
            if weight > 0:
                block = np.ascontiguousarray(coefficients[:, :, fields])
                plain = block.view(np.float32).reshape(n, -1)
                length = weight / math.hypot(1, self.edge_weight)
                normalize_rows(plain, np.ones(plain.shape[1], dtype=np.float32), vanishing, length, 0)
                coefficients[:, :, fields] = block
        out[:] = np.stack([coefficients.real, coefficients.imag], axis=2).reshape(n, -1)
        return int((~out.any(axis=1)).sum())


class _Products(NamedTuple):
    """Products of two or three coefficients, of which the last one is conjugated; the real products come first."""

    positions: Index  # (2 or 3, n) in a row of coefficients
    factors: Index  # the same in a row of coefficients followed by their conjugates
    n_real: int
    index_map: NDArray[np.void]
    weights: Rows

    @classmethod
    def of(cls, positions: Any, n_values: int, is_complex: NDArray[np.bool_], weights: Index, **fields: Any) -> Self:
        """Sort the real products to the front, and add columns for the imaginary parts of the others."""
        order, n_real = np.argsort(is_complex, kind="stable"), int((~is_complex).sum())
        of_columns = np.concatenate([order, order[n_real:]])
        columns = columns_table(**fields, part=0)[of_columns]
        columns["part"][len(order) :] = 1
        positions = np.stack(positions)[:, order]
        factors = positions.copy()
        factors[-1] += n_values
        return cls(positions, factors, n_real, columns, weights[of_columns].astype(np.float32))


@dataclass(kw_only=True, repr=False, eq=False)
class GlobalBispectrum(SteerableTransformer):
    """Second- and third-order invariants across rings: complete for rotations of an image; see docs/coupled.md.

    With ``F[r, k]`` the Fourier coefficient of ring r at angular frequency k, and G the means over bands of rings:

    - pairs ``F[r, k] conj(F[s, k])`` of the intensity and of the edges, raised to the power ``power``;
    - triples ``G[a, i] G[b, j] conj(G[c, i + j])`` with i, j > 0, ``i + j <= max_frequency`` or i = j = 0, likewise to
      ``2 power / 3``.

    Parameters
    ----------
    symmetry : {"rotation", "rotation-reflection"}; with the latter, mirror images have the same features.
    n_rings : Rings from the centre to ``radius``; also the resolution along a ray.
    max_frequency : Highest angular frequency.
    n_angles : Samples per ring.
    radius : Outer edge of the outermost ring; 1 is the largest disk inside the image. Pixels outside are background.
    edge_weight : Norm of the edge part relative to that of the intensity part; 0 leaves edges out.
    power : Compression of magnitudes, at most 1; 1 is none.
    n_bands : Bands of rings for the triples; 0 leaves triples out (and the invariant is not complete then).
    triple_weight : Factor of the triples relative to the intensity products.

    Notes
    -----
    Products are taken across channels as if they were more rings; triples take their mean, and edges are added up over
    them. ``index_map_`` has the fields kind (0: two coefficients, 1: three, 2: magnitudes of odd parts), field (0:
    intensity, 1 to 5: edges), i, j (frequencies; j is -1 for two), r, s, t (rings or bands; channel c counts from
    ``c * n_rings``), part. ``feature_weights_`` counts the products that are equal up to conjugation.

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.features import GlobalBispectrum
    >>> images = np.random.default_rng(0).random((2, 28, 28))
    >>> bispectrum = GlobalBispectrum().fit(images)
    >>> np.allclose(bispectrum.transform(np.rot90(images, axes=(1, 2))), bispectrum.transform(images), atol=1e-5)
    True
    """

    power: float = 0.5
    n_bands: int = 2
    triple_weight: float = 0.3

    def _prepare(self) -> Columns:
        self._prepare_coefficients()
        if not 0 < self.power <= 1:
            raise InputError(f"power must be above 0 and at most 1, got {self.power!r}.")
        if not (self.triple_weight >= 0 and math.isfinite(self.triple_weight)):
            raise InputError(f"triple_weight must be at least 0 and finite, got {self.triple_weight!r}.")
        n_bands = check_integer("n_bands", self.n_bands, minimum=0)
        if n_bands > self.n_rings:
            raise InputError(f"{self.n_rings} rings cannot make {n_bands} bands; give fewer bands or more rings.")
        channels, edges = self._channels, range(self._channels, self._n_fields)
        fields = [slice(channels), *(slice(field, field + 1) for field in edges)]
        pairs = (self._make_pairs(each, number) for number, each in enumerate(fields))
        parts = self._parts = (self._make_triples(n_bands), *pairs)
        self._stops = np.cumsum([len(part.weights) for part in parts])
        index_map = np.concatenate([part.index_map for part in parts])
        weights = self.product_weights_ = np.concatenate([part.weights for part in parts])
        if self.symmetry == "rotation":
            return index_map, weights
        is_odd = self.is_odd_ = index_map["part"] == 1
        n_odd = int(is_odd.sum())
        self.mirror_signs_ = np.random.default_rng(0).choice(np.array([-1, 1], dtype=np.float32), n_odd)
        magnitudes = np.zeros(2 * n_odd, dtype=index_map.dtype)
        magnitudes["kind"], magnitudes["r"] = MIRRORED, np.arange(2 * n_odd)
        ones = np.ones(2 * n_odd, dtype=np.float32)
        return np.concatenate([index_map[~is_odd], magnitudes]), np.concatenate([weights[~is_odd], ones])

    def _make_pairs(self, fields: slice, number: int) -> _Products:
        """All products of two coefficients of equal frequency within some fields."""
        sizes = (self.max_frequency + 1, self._n_fields, self.n_rings)
        n_values = math.prod(sizes)
        position = np.arange(n_values).reshape(sizes)[:, fields].reshape(sizes[0], -1)
        r, s = np.triu_indices(position.shape[1])
        positions = position[:, r].ravel(), position[:, s].ravel()
        k, r, s = np.repeat(np.arange(sizes[0]), len(r)), np.tile(r, sizes[0]), np.tile(s, sizes[0])
        weights = np.where(r == s, 1, 2) * np.where(k == 0, 1, 2)
        is_complex = (r != s) & (k > 0)
        columns = {"kind": PAIR, "field": number, "i": k, "j": -1, "r": r, "s": s, "t": -1}
        return _Products.of(positions, n_values, is_complex, weights, **columns)

    def _make_triples(self, n_bands: int) -> _Products:
        """All products G[a, i] G[b, j] conj(G[c, i + j]) with 0 < i <= j or 0 = i = j, each once."""
        n_frequencies = self.max_frequency + 1
        sizes = (n_frequencies, n_frequencies, n_bands, n_bands, n_bands)
        i, j, a, b, c = np.indices(sizes, dtype=np.int64).reshape(5, -1)
        keep = ((i > 0) | (j == 0)) & (i <= j) & (i + j < n_frequencies) & ((i < j) | (a <= b))
        i, j, a, b, c = (x[keep] for x in (i, j, a, b, c))
        # i and j change places, and all frequencies their signs
        weights = np.where((i == j) & (a == b), 1, 2) * np.where(j == 0, 1, 2)
        positions = tuple(frequency * n_bands + band for frequency, band in ((i, a), (j, b), (i + j, c)))
        columns = {"kind": TRIPLE, "field": 0, "i": i, "j": j, "r": a, "s": b, "t": c}
        return _Products.of(positions, n_frequencies * n_bands, j > 0, weights, **columns)

    def _scratch_per_row(self) -> int:
        return super()._scratch_per_row() + (4 if self.symmetry == "rotation" else 24) * len(self.product_weights_)

    def _fill(self, rows: NDArray[Any], out: Rows) -> int:
        n, stops = len(rows), self._stops
        coefficients = self._coefficients(rows)
        products = out if self.symmetry == "rotation" else np.empty((n, stops[-1]), dtype=np.float32)
        if self.n_bands:  # of the means over bands and channels
            radial = coefficients[:, :, : self._channels].mean(axis=2)
            edges = np.linspace(0, self.n_rings, self.n_bands + 1).astype(int)
            bands = [radial[:, :, start:stop].mean(axis=2) for start, stop in itertools.pairwise(edges)]
            means = np.stack(bands, axis=2).reshape(n, -1)
            triples = self._parts[0]
            multiply(compress(means, 2 * self.power / 3), triples.factors, triples.n_real, products, 0)
            products[:, : stops[0]] *= np.float32(self.triple_weight)
        both = compress(np.ascontiguousarray(coefficients).reshape(n, -1), self.power)
        for pairs, start in zip(self._parts[1:], stops[:-1], strict=True):
            multiply(both, pairs.factors, pairs.n_real, products, int(start))
        weights = self.product_weights_
        vanishing = np.empty((2, n), dtype=np.bool_)
        length = math.hypot(1, self.edge_weight)
        normalize_rows(products, weights[: stops[1]], vanishing[0], 1 / length, 0)
        normalize_rows(products, weights[stops[1] :], vanishing[1], self.edge_weight / length, int(stops[1]))
        if products is not out:  # odd parts, whose common sign a mirror changes, as magnitudes in two bases
            odd = products[:, self.is_odd_] * np.sqrt(weights[self.is_odd_] / 2)
            mixed = scipy.fft.dct(odd * self.mirror_signs_, norm="ortho")
            np.concatenate([products[:, ~self.is_odd_], np.abs(odd), np.abs(mixed)], axis=1, out=out)
        return int(vanishing.all(axis=0).sum())


def cell_edges(size: int, cell: int) -> Edges:
    """Edges (n, 2) of the cells of ``cell`` pixels that cover a line of pixels, symmetric about its middle."""
    n_cells = math.ceil(size / cell)
    start = (size - n_cells * cell) / 2 + cell * np.arange(n_cells)
    return np.clip(np.stack([start, start + cell], axis=1), 0, size)


def area_means(rows: NDArray[Any], down: Edges, across: Edges, channels: int) -> NDArray[np.float64]:
    """Means of images (n, height * width * channels) over cells with edges (n, 2): (n, channels, n_down, n_across)."""
    if rows.dtype.name not in _COMPILED:
        rows = rows.astype(np.float64)
    out = np.zeros((len(rows), channels, len(down), len(across)))
    average(rows.reshape(len(rows), round(down[-1, 1]), -1), down, across, out)
    return out


# NumPy's reductions have no cells that begin at half a pixel, and would copy the image to floats first.
@njit(nogil=True, cache=True)
def average(images: NDArray[Any], rows: Edges, columns: Edges, out: NDArray[np.float64]) -> None:
    """Add the mean of each cell of images (n, height, width * channels) to ``out`` (n, channels, n_rows, n_columns)."""
    n_channels, line = out.shape[1], np.empty(images.shape[2])
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
