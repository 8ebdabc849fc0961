"""Third-order SO(3) invariants of signals on the sphere, from real harmonic coefficients.

For real coefficients ``a[s, l, :]`` of signals s = 0, 1, ... (shells, channels) the invariants are
``b = sum_ijk W[i, j, k] a[s1, l1, i] a[s2, l2, j] a[s3, l3, k]``, one for each triple of pairs (l, s) whose degrees
fulfil the triangle inequality. Permuting the three pairs multiplies b by ``(-1)^(l1 + l2 + l3)`` or leaves it: one
order is kept, and for an odd sum of degrees only triples of different pairs, as the others vanish.
"""

from fractions import Fraction
from functools import lru_cache
from itertools import combinations_with_replacement
from math import comb, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from bispectral_ot.checks import check_integer
from bispectral_ot.compiled import njit
from bispectral_ot.errors import InputError
from bispectral_ot.groups.harmonics import analysis_matrix, equiangular_grid
from bispectral_ot.transformer import BatchTransformer, columns_table, take_out_sizes, write_scaled

Floats = NDArray[np.float64]
Index = NDArray[np.int64]


@lru_cache(maxsize=4096)
def wigner_3j(l1: int, l2: int, l3: int) -> Floats:
    """Wigner 3j symbols of three degrees, shape (2 l1 + 1, 2 l2 + 1, 2 l3 + 1), orders m from -l to l."""
    symbols = np.zeros((2 * l1 + 1, 2 * l2 + 1, 2 * l3 + 1))
    if not abs(l1 - l2) <= l3 <= l1 + l2:
        return symbols
    a, b, c = l1 + l2 - l3, l1 - l2 + l3, -l1 + l2 + l3
    common = Fraction(comb(2 * l1, a) * comb(2 * l2, a), comb(l1 + l2 + l3 + 1, a) * (2 * l3 + 1))
    for m1 in range(-l1, l1 + 1):
        for m2 in range(max(-l2, -l3 - m1), min(l2, l3 - m1) + 1):
            m3, first, last = -m1 - m2, max(0, l1 - m1 - b, l2 + m2 - c), min(a, l1 - m1, l2 + m2)
            # over integers nothing cancels: each symbol has the accuracy of one square root
            total = sum(
                (-1) ** k * comb(a, k) * comb(b, l1 - m1 - k) * comb(c, l2 + m2 - k) for k in range(first, last + 1)
            )
            square = common * total**2 / (comb(2 * l1, l1 - m1) * comb(2 * l2, l2 - m2) * comb(2 * l3, l3 + m3))
            sign = (1 if total > 0 else -1) * (-1) ** (l1 - l2 - m3)
            symbols[m1 + l1, m2 + l2, m3 + l3] = sign * sqrt(square)
    symbols.flags.writeable = False
    return symbols


@lru_cache(maxsize=4096)
def invariant_tensor(l1: int, l2: int, l3: int) -> Floats:
    """Rotation-invariant tensor of three real harmonic vectors, of unit norm, shape (2 l1 + 1, 2 l2 + 1, 2 l3 + 1).

    ``sum W[i, j, k] a_i b_j c_k`` is invariant to a rotation of the real harmonic coefficients a, b, c of degrees l1,
    l2, l3. Exchanging two of the degrees multiplies W by ``(-1)^(l1 + l2 + l3)``.
    """
    bases = map(_to_complex, (l1, l2, l3))
    product = np.einsum("ijk,ai,bj,ck->abc", wigner_3j(l1, l2, l3), *bases, optimize=True)
    # real for an even sum of degrees, imaginary for an odd one
    tensor: Floats = np.ascontiguousarray(product.real if (l1 + l2 + l3) % 2 == 0 else product.imag)
    tensor.flags.writeable = False
    return tensor


def _to_complex(degree: int) -> NDArray[np.complex128]:
    """Rows: real harmonics of one degree, m from -l to l, in terms of the complex ones."""
    matrix = np.zeros((2 * degree + 1, 2 * degree + 1), dtype=np.complex128)
    matrix[degree, degree] = 1
    for m in range(1, degree + 1):
        sign = (-1) ** m
        matrix[degree + m, [degree - m, degree + m]] = np.array([1, sign]) / sqrt(2)
        matrix[degree - m, [degree - m, degree + m]] = np.array([1j, -1j * sign]) / sqrt(2)
    return matrix


def sphere_triples(lmax: int, n_signals: int) -> dict[str, Index]:
    """Degrees ``l1 <= l2 <= l3`` up to lmax and signals s1, s2, s3 of all invariants, as fields of an index map."""
    pairs = [(degree, s) for degree in range(lmax + 1) for s in range(n_signals)]
    kept = []
    for triple in combinations_with_replacement(pairs, 3):
        l1, l2, l3 = (degree for degree, _ in triple)  # increasing
        if l3 <= l1 + l2 and ((l1 + l2 + l3) % 2 == 0 or len(set(triple)) == 3):
            kept.append(triple)
    table = np.array(kept, dtype=np.int64).transpose(2, 1, 0).reshape(6, -1)
    return dict(zip(("l1", "l2", "l3", "s1", "s2", "s3"), table, strict=True))


class TripleInvariants:
    """Values of a set of triples for a batch of coefficients.

    Each invariant is scaled by the root mean square of ``sqrt(2 l + 1)`` over its three degrees, so that with
    multiplicities as weights the squares sum up to the squared norm of the bispectrum
    ``(a_l1 (x) a_l2) C [(+) a_l3^H] C^H`` of all pairs of degrees.

    The nonzero terms of the sums are ``owner`` (n_terms,), the triple of each; ``entries`` (n_terms, 3), the positions
    of its factors in the flat row of coefficients; and ``values``.
    """

    def __init__(self, triples: dict[str, Index], lmax: int) -> None:
        degrees, signals = np.stack(list(triples.values())).reshape(2, 3, -1).transpose(0, 2, 1)
        self.n_triples = len(degrees)
        terms = [_terms(*each) for each in degrees.tolist()]
        self.owner = np.repeat(np.arange(self.n_triples), [len(values) for _, values in terms])
        starts = signals * (lmax + 1) ** 2 + degrees**2
        self.entries = starts[self.owner] + np.concatenate([places for places, _ in terms])
        self.values = np.concatenate([values for _, values in terms])

    def evaluate(self, coefficients: Floats) -> Floats:
        """Invariants (n, n_triples) of real harmonic coefficients (n, n_signals, (lmax + 1) ** 2)."""
        columns = np.ascontiguousarray(coefficients.reshape(len(coefficients), -1).T)
        out = np.zeros((self.n_triples, len(coefficients)))
        add_products(columns, self.owner, self.entries, self.values, out)
        return out.T


@lru_cache(maxsize=4096)
def _terms(l1: int, l2: int, l3: int) -> tuple[Index, Floats]:
    """Places (n, 3) and scaled values of the nonzero entries of an invariant tensor."""
    tensor = invariant_tensor(l1, l2, l3)
    places = np.argwhere(np.abs(tensor) > 1e-14)
    return places, sqrt((2 * (l1 + l2 + l3) + 3) / 3) * tensor[tuple(places.T)]


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
def add_products(columns: Floats, owner: Index, entries: Index, values: Floats, out: Floats) -> None:
    """``out[owner[e]] += values[e] x y z`` with rows x, y, z of ``columns``; the batch runs along the last axis."""
    for e in range(len(owner)):
        row, value = out[owner[e]], values[e]
        first, second, third = columns[entries[e, 0]], columns[entries[e, 1]], columns[entries[e, 2]]
        for n in range(len(row)):
            row[n] += value * first[n] * second[n] * third[n]


class SphereBispectrum(BatchTransformer):
    """SO(3) bispectrum of real signals on the sphere, invariant to rotations.

    ``b[l1, l2, l3] = sum_m <l1 m1 l2 m2 | l3 m3> a[l1, m1] a[l2, m2] conj(a[l3, m3])`` with the spherical harmonic
    coefficients a of the signal up to degree lmax. For a real signal b is real or imaginary, hence one column, and
    independent of the order of the degrees up to its sign and a factor: ``l1 <= l2 <= l3`` is kept. From lmax = 10 on
    the columns determine a generic signal locally, up to a rotation; below there are too few of them.

    Parameters
    ----------
    lmax : Highest degree of the spherical harmonics; there are about ``lmax ** 3 / 12`` columns (121 for 10).
    points : array of shape (n_points, 3), optional
        Directions of the samples; a signal is then a row of n_points values. By default signals are arrays
        (n_theta, n_phi) on the equiangular grid of :func:`~bispectral_ot.groups.harmonics.equiangular_grid`.
    normalize : Divide each bispectrum by its L2 norm, which removes the scale of the signal.

    Notes
    -----
    Signals may have channels in a last axis; they rotate together, and products are taken across them. ``index_map_``
    has the fields l1, l2, l3 and the channels s1, s2, s3. ``feature_weights_`` counts the orders of the pairs (l, s);
    weighted L2 and cosine distances are those between the complete bispectra of appendix C.

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.features import SphereBispectrum
    >>> signals = np.random.default_rng(0).random((2, 16, 32))
    >>> bispectrum = SphereBispectrum(lmax=5).fit(signals)
    >>> rotated = np.roll(signals, 5, axis=2)  # about the poles
    >>> np.allclose(bispectrum.transform(rotated), bispectrum.transform(signals), atol=1e-6)
    True
    """

    symmetries = ("so3",)

    def __init__(self, *, lmax: int = 10, points: ArrayLike | None = None, normalize: bool = True) -> None:
        self.lmax, self.points, self.normalize = lmax, points, normalize

    def _shape_of_row(self, n_columns: int) -> tuple[int, ...]:
        if self.points is None:
            raise InputError(f"rows of {n_columns} values are not a grid; give signals (n, n_theta, n_phi) or points.")
        return (n_columns,)

    def _prepare(self) -> tuple[NDArray[np.void], NDArray[np.float32]]:
        lmax = check_integer("lmax", self.lmax, minimum=0)
        points, weights = self._read_points()
        self.analysis_ = analysis_matrix(points, weights, lmax)
        n_signals = self.n_features_in_ // len(points)
        triples = sphere_triples(lmax, n_signals)
        self.invariants_ = TripleInvariants(triples, lmax)
        # number of orders of the three pairs (l, s)
        pairs = np.stack(list(triples.values())).reshape(2, 3, -1)
        equal = (pairs[:, 1:] == pairs[:, :-1]).all(axis=0).sum(axis=0)
        return columns_table(**triples), np.array([6, 3, 1], dtype=np.float32)[equal]

    def _read_points(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if self.points is None:
            grid, areas = equiangular_grid(*self.image_shape_[:2])
            return grid.reshape(-1, 3), areas.ravel()
        points = np.asarray(self.points, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != 3 or not np.isfinite(points).all() or not points.any(axis=1).all():
            raise InputError(f"points must be finite directions of shape (n_points, 3), not zero; got {points.shape}.")
        if self.image_shape_[0] != len(points):
            raise InputError(f"signals have {self.image_shape_[0]} values, but there are {len(points)} points.")
        return points, np.ones(len(points))

    def _scratch_per_row(self) -> int:
        return 8 * (2 * self.n_features_in_ + 4 * self.n_features_out_ + 4 * (2 * self.lmax + 1) ** 2)

    def harmonic_coefficients(self, X: ArrayLike) -> NDArray[np.float64]:
        """Real harmonic coefficients, shape (n, n_channels, (lmax + 1) ** 2), degree by degree, m from -l to l."""
        check_is_fitted(self)
        rows, _ = self._read(X, reset=False)
        return self._analyse(rows.astype(np.float64))

    def _analyse(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        n_points, n_harmonics = self.analysis_.shape
        samples = rows.reshape(len(rows), n_points, -1).transpose(0, 2, 1)
        return (samples.reshape(-1, n_points) @ self.analysis_).reshape(len(rows), -1, n_harmonics)

    def _fill(self, rows: NDArray[Any], out: NDArray[np.float32]) -> int:
        coefficients = self._analyse(rows.astype(np.float64))
        sizes = take_out_sizes(coefficients)
        values = self.invariants_.evaluate(coefficients)
        return write_scaled(values, out, self.feature_weights_, sizes, normalize=self.normalize)
