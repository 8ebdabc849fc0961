"""Global bispectrum, a complete rotation invariant of images: products of coefficients across all rings."""

import itertools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from bispectral_ot.checks import check_integer
from bispectral_ot.errors import InputError
from bispectral_ot.features.kernels import compress, multiply, normalize_rows
from bispectral_ot.features.polar import SteerableTransformer
from bispectral_ot.transformer import Columns, Rows, columns_table

Index = NDArray[np.int64]
PAIR, TRIPLE, MIRRORED = 0, 1, 2  # kinds of columns


class _Products(NamedTuple):
    """Products of two or three coefficients: positions (2 or 3, n) in a row of coefficients, the real ones first."""

    positions: Index
    n_real: int
    index_map: NDArray[np.void]
    weights: Rows

    @classmethod
    def of(cls, positions: Any, is_complex: NDArray[np.bool_], weights: Index, **fields: Any) -> Self:
        """Sort the real products to the front, and add columns for the imaginary parts of the others."""
        order, n_real = np.argsort(is_complex, kind="stable"), int((~is_complex).sum())
        of_columns = np.concatenate([order, order[n_real:]])
        columns = columns_table(**fields, part=0)[of_columns]
        columns["part"][len(order) :] = 1
        return cls(np.stack(positions)[:, order], n_real, columns, weights[of_columns].astype(np.float32))

    def fill(self, values: NDArray[np.complex64], out: Rows, first: int) -> None:
        """Products of rows of coefficients, followed by their conjugates, of which the last factor is one."""
        places = self.positions.copy()
        places[-1] += values.shape[1] // 2
        multiply(values, places, self.n_real, out, first)


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
        position = np.arange(math.prod(sizes)).reshape(sizes)[:, fields].reshape(sizes[0], -1)
        r, s = np.triu_indices(position.shape[1])
        positions = position[:, r].ravel(), position[:, s].ravel()
        k, r, s = np.repeat(np.arange(sizes[0]), len(r)), np.tile(r, sizes[0]), np.tile(s, sizes[0])
        weights = np.where(r == s, 1, 2) * np.where(k == 0, 1, 2)
        is_complex = (r != s) & (k > 0)
        return _Products.of(positions, is_complex, weights, kind=PAIR, field=number, i=k, j=-1, r=r, s=s, t=-1)

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
        return _Products.of(positions, j > 0, weights, kind=TRIPLE, field=0, i=i, j=j, r=a, s=b, t=c)

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
            self._parts[0].fill(compress(means, 2 * self.power / 3), products, 0)
            products[:, : stops[0]] *= np.float32(self.triple_weight)
        both = compress(np.ascontiguousarray(coefficients).reshape(n, -1), self.power)
        for pairs, start in zip(self._parts[1:], stops[:-1], strict=True):
            pairs.fill(both, products, int(start))
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
