"""Real spherical harmonics, and SO(3) invariants of signals on the sphere and of 3-D shapes from their coefficients.

For real coefficients ``a[s, l, :]`` of signals s = 0, 1, ... (shells, channels) the invariants are
``b = sum_ijk W[i, j, k] a[s1, l1, i] a[s2, l2, j] a[s3, l3, k]``, one for each triple of pairs (l, s) whose degrees
fulfil the triangle inequality. Permuting the three pairs multiplies b by ``(-1)^(l1 + l2 + l3)`` or leaves it: one
order is kept, and for an odd sum of degrees only triples of different pairs, as the others vanish.
"""

from collections.abc import Sequence
from dataclasses import dataclass
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
from bispectral_ot.datasets.clouds import cloud_points, sample_surface, volume_points
from bispectral_ot.engines import Threads, row_blocks
from bispectral_ot.errors import InputError
from bispectral_ot.transformer import SCRATCH_BYTES, BatchTransformer, columns_table, take_out_sizes, write_scaled

Floats = NDArray[np.float64]
Index = NDArray[np.int64]
_BANDS, _TRIPLE_LMAX = 2, 6  # bands of shells and highest degree of the bispectrum
_POWER = 0.5  # compression of magnitudes
_POINTS_AT_A_TIME, _SHAPES_AT_A_TIME = 8192, 16


def equiangular_grid(n_theta: int, n_phi: int) -> tuple[Floats, Floats]:
    """Unit vectors (n_theta, n_phi, 3) and quadrature weights (n_theta, n_phi) of an equiangular grid.

    ``theta = pi (j + 1/2) / n_theta`` from the north pole, ``phi = 2 pi k / n_phi``. The weights (Fejer's first rule)
    integrate polynomials of degree below ``min(n_theta, n_phi)`` exactly and sum to 4 pi.
    """
    theta, phi = np.pi * (np.arange(n_theta)[:, None] + 0.5) / n_theta, 2 * np.pi * np.arange(n_phi) / n_phi
    k = np.arange(1, n_theta // 2 + 1)
    rule = 2 / n_theta * (1 - 2 * np.sum(np.cos(2 * k * theta) / (4 * k**2 - 1), axis=1, keepdims=True))
    x, y, z = np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta) + 0 * phi
    return np.stack([x, y, z], axis=-1), np.repeat(rule * 2 * np.pi / n_phi, n_phi, axis=1)


def real_harmonics(points: ArrayLike, lmax: int) -> Floats:
    """Orthonormal real spherical harmonics (..., (lmax + 1) ** 2) of directions (..., 3); column ``l * l + l + m``.

    By the recurrence ``Y[l] = a z Y[l - 1] - b Y[l - 2]``, from ``Y[m] ~ (x + iy)^m`` on (30 times as fast as
    ``scipy.special.sph_harm_y_all``). The zero vector only has its degree 0.
    """
    directions = np.asarray(points, dtype=np.float64)
    lengths = np.linalg.norm(directions, axis=-1)
    x, y, z = np.moveaxis(directions, -1, 0) / np.where(lengths > 0, lengths, 1)
    values = np.zeros((lmax + 1, 2 * lmax + 1, *lengths.shape))  # degree, order (negative ones from the end)
    power = np.full(lengths.shape, np.sqrt(1 / (4 * np.pi)), dtype=np.complex128)
    for m in range(lmax + 1):
        if m:
            power *= np.sqrt((2 * m + 1) / (2 * m) * (2 if m == 1 else 1)) * (x + 1j * y)
        orders = [m, -m] if m else [0]
        values[m, orders] = [power.real, power.imag][: len(orders)]
        for degree in range(m + 1, lmax + 1):
            a = np.sqrt((4 * degree**2 - 1) / (degree**2 - m**2))
            b = a * np.sqrt(((degree - 1) ** 2 - m**2) / (4 * (degree - 1) ** 2 - 1))
            values[degree, orders] = a * z * values[degree - 1, orders] - b * values[degree - 2, orders]
    values[1:, :, lengths == 0] = 0
    degrees = [values[degree, np.arange(-degree, degree + 1)] for degree in range(lmax + 1)]
    return np.moveaxis(np.concatenate(degrees), 0, -1)


def analysis_matrix(points: ArrayLike, weights: ArrayLike, lmax: int) -> Floats:
    """Matrix from samples to harmonic coefficients, shape (n_points, (lmax + 1) ** 2).

    Coefficients are the weighted least-squares fit ``(Y^T W Y)^-1 Y^T W f``; for exact weights, this is ``Y^T W f``.
    """
    harmonics = real_harmonics(points, lmax)
    n_points, n_harmonics = harmonics.shape
    roots = np.sqrt(np.asarray(weights, dtype=np.float64))[:, None]
    left, values, right = np.linalg.svd(roots * harmonics, full_matrices=False)
    if n_points < n_harmonics or values[-1] < 1e-6 * values[0]:
        which = f"the {n_harmonics} harmonics up to degree {lmax}; give more points, spread over the whole sphere"
        raise InputError(f"{n_points} points do not determine {which}, or a smaller lmax.")
    return roots * (left / values) @ right


def wigner_matrices(rotations: Any, lmax: int) -> list[Floats]:
    """Wigner matrices (n, 2 l + 1, 2 l + 1) that rotate the real coefficients of each degree up to lmax.

    If f has the coefficients a, the rotated signal ``f(R^-1 p)`` has ``D_l(R) a_l``. With Euler angles
    ``R = Z(a) Y(b) Z(c)`` these are ``Z(a) J Z(b) J Z(c)``, where J is the half turn that exchanges the y and z axis.
    """
    matrix = rotations.as_matrix()
    sine = np.hypot(matrix[:, 0, 2], matrix[:, 1, 2])
    at_pole = sine < 1e-12  # only the sum or difference of two angles counts
    y, x = np.where(at_pole, [-matrix[:, 0, 1], matrix[:, 1, 1]], [matrix[:, 1, 2], matrix[:, 0, 2]])
    first, second = np.arctan2(y, x), np.arctan2(sine, matrix[:, 2, 2])
    third = np.where(at_pole, 0.0, np.arctan2(matrix[:, 2, 1], -matrix[:, 2, 0]))
    return [
        _about_z(first, degree) @ exchange @ _about_z(second, degree) @ exchange @ _about_z(third, degree)
        for degree, exchange in enumerate(_exchanges(lmax))
    ]


def generators(lmax: int) -> list[Floats]:
    """Derivatives (3, 2 l + 1, 2 l + 1) of the Wigner matrices for small rotations about the x, y and z axis."""
    found = []
    for degree, exchange in enumerate(_exchanges(lmax)):
        about_z = np.diag(-np.arange(-degree, degree + 1.0))[:, ::-1]
        about_y = exchange @ about_z @ exchange
        found.append(np.stack([about_y @ about_z - about_z @ about_y, about_y, about_z]))  # [L_y, L_z] = L_x
    return found


def _about_z(angles: Floats, degree: int) -> Floats:
    """Rotation about the z axis: orders m > 0 are ``cos m phi``, and -m ``sin m phi``."""
    order = np.arange(-degree, degree + 1)
    matrices = np.zeros((len(angles), len(order), len(order)))
    matrices[:, order + degree, degree - order] = np.sin(-np.multiply.outer(angles, order))
    matrices[:, order + degree, order + degree] = np.cos(np.multiply.outer(angles, order))
    return matrices


@lru_cache(maxsize=8)
def _exchanges(lmax: int) -> tuple[Floats, ...]:
    """Matrices of the half turn that exchanges the y and z axis, one per degree."""
    points, weights = (part.reshape(-1, *part.shape[2:]) for part in equiangular_grid(2 * lmax + 2, 2 * lmax + 2))
    turned = real_harmonics(points * [-1, 1, 1] @ np.eye(3)[[0, 2, 1]], lmax)
    whole = (turned.T @ analysis_matrix(points, weights, lmax)).T
    orders = [slice(degree**2, (degree + 1) ** 2) for degree in range(lmax + 1)]
    return tuple(whole[part, part] for part in orders)


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


@dataclass(kw_only=True, repr=False, eq=False)
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
        (n_theta, n_phi) on the equiangular grid of :func:`~bispectral_ot.groups.sphere.equiangular_grid`.
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

    lmax: int = 10
    points: ArrayLike | None = None
    normalize: bool = True

    def _shape_of_row(self, n_columns: int) -> tuple[int, ...]:
        if self.points is None:
            raise InputError(f"rows of {n_columns} values are not a grid; give signals (n, n_theta, n_phi) or points.")
        return (n_columns,)

    def _prepare(self) -> tuple[NDArray[np.void], NDArray[np.float32]]:
        lmax = check_integer("lmax", self.lmax, minimum=0)
        if self.points is None:
            grid, areas = equiangular_grid(*self.image_shape_[:2])
            points, weights = grid.reshape(-1, 3), areas.ravel()
        else:
            points = np.asarray(self.points, dtype=np.float64)
            if points.ndim != 2 or points.shape[1] != 3 or not (np.isfinite(points).all() and points.any(axis=1).all()):
                found = f"got {points.shape}"
                raise InputError(f"points must be finite directions of shape (n_points, 3), not zero; {found}.")
            if self.image_shape_[0] != len(points):
                raise InputError(f"signals have {self.image_shape_[0]} values, but there are {len(points)} points.")
            weights = np.ones(len(points))
        self.analysis_ = analysis_matrix(points, weights, lmax)
        n_signals = self.n_features_in_ // len(points)
        triples = sphere_triples(lmax, n_signals)
        self.invariants_ = TripleInvariants(triples, lmax)
        pairs = np.stack(list(triples.values())).reshape(2, 3, -1)
        equal = (pairs[:, 1:] == pairs[:, :-1]).all(axis=0).sum(axis=0)
        return columns_table(**triples), np.array([6, 3, 1], dtype=np.float32)[equal]

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


@dataclass(kw_only=True, repr=False, eq=False)
class ShellBispectrum(BatchTransformer):
    """Invariants of 3-D shapes under translation, rotation and scaling, from densities on concentric spheres.

    A shape is centred at its centroid and used in two forms: unchanged, divided by its root mean square radius, and
    rounded, ``C^(-1/2) p`` with the covariance C of its points p, so that shapes of one class but different
    proportions are alike. The points of each form are assigned to ``n_shells`` concentric spheres (linearly between
    the two nearest), with harmonic coefficients ``a[s, l, m] = sqrt(4 pi) sum_p w(p) w_s(|p|) Y_lm(p / |p|)`` for
    masses w(p) that sum to 1: no grid is involved, so the invariance is exact. The columns are
    ``sum_m a[s, l, m] a[t, l, m]`` of both forms for all pairs of shells (the unchanged shape has weight 1/2), and the
    bispectrum of the rounded form, summed over an inner and an outer band of shells, up to degree 6, which also
    distinguishes mirror images. The norm of each ``a[s, l, :]`` is raised to the power 1/2 in pairs, 1/3 in triples.

    ``fit`` and ``transform`` take clouds as an array (n, n_points, 3), padded with rows of NaN; a list of clouds
    (n_points_i, 3); a list of meshes (vertices, faces), from which ``n_samples`` points are drawn evenly by area; or
    voxel volumes (n, depth, height, width).

    Parameters
    ----------
    n_shells : Number of spheres, at radii evenly spaced up to twice the root mean square radius.
    lmax : Highest degree of the spherical harmonics.
    n_samples : Points drawn from a mesh; the same ones for every call.

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.features import ShellBispectrum
    >>> clouds = np.random.default_rng(0).normal(size=(2, 100, 3))
    >>> shells = ShellBispectrum().fit(clouds)
    >>> moved = 3 * clouds[:, :, [1, 2, 0]] + 5  # rotated about a diagonal, scaled and moved
    >>> np.allclose(shells.transform(moved), shells.transform(clouds), atol=1e-5)
    True
    """

    symmetries = ("so3-shapes",)

    n_shells: int = 8
    lmax: int = 8
    n_samples: int = 4096

    def _read(self, X: Any, *, reset: bool, first: int = 0) -> tuple[list[tuple[int, Any]], tuple[int, ...]]:
        """Numbered shapes, and the number of their coefficients."""
        if reset:
            for name, minimum in (("n_shells", _BANDS), ("lmax", 0), ("n_samples", 1)):
                check_integer(name, getattr(self, name), minimum=minimum)
        if isinstance(X, np.ndarray) and not ((X.ndim == 3 and X.shape[2] == 3) or X.ndim == 4):
            wanted = "an array (n, n_points, 3) or (n, depth, height, width), or as a list of them"
            raise InputError(f"expected shapes as {wanted}; got {X.shape}.")
        if len(X) == 0:
            raise InputError("there are no shapes; give at least one.")
        return list(enumerate(X, first)), (2 * self.n_shells * (self.lmax + 1) ** 2,)

    def shell_coefficients(self, X: Any) -> NDArray[np.float64]:
        """Real harmonic coefficients (n, 2 * n_shells, (lmax + 1) ** 2) of shapes, unchanged and rounded."""
        check_is_fitted(self)
        shapes, _ = self._read(X, reset=False)
        blocks = row_blocks(len(shapes), block_rows=_SHAPES_AT_A_TIME)
        return np.concatenate(list(Threads().map(lambda _, part: self._coefficients(part), blocks, rows=(shapes,))))

    def _coefficients(self, shapes: Sequence[tuple[int, Any]]) -> NDArray[np.float64]:
        """Coefficients (n, 2 * n_shells, (lmax + 1) ** 2) of shapes, unchanged and rounded."""
        found = []
        for number, shape in shapes:
            points, masses = self._points_of(number, shape)
            variances, axes = np.linalg.eigh((points * masses[:, None]).T @ points)
            variances += 0.01 * variances.mean()  # least thickness
            rounded = points @ (axes / np.sqrt(variances)) @ axes.T  # of the same extent in all directions
            found.append(np.concatenate([self._on_shells(form, masses) for form in (points, rounded)]))
        return np.stack(found)

    def _on_shells(self, points: NDArray[np.float64], masses: NDArray[np.float64]) -> NDArray[np.float64]:
        sums, radii = np.zeros((self.n_shells, (self.lmax + 1) ** 2)), np.linalg.norm(points, axis=1)
        # position between the middles of the shells, at most the first and the last one, which ends at radius 2
        position = radii / np.sqrt(masses @ radii**2) * self.n_shells / 2 - 0.5
        position = np.clip(position, 0, self.n_shells - 1)
        for start in range(0, len(points), _POINTS_AT_A_TIME):
            part = slice(start, start + _POINTS_AT_A_TIME)
            shares = np.clip(1 - np.abs(position[part] - np.arange(self.n_shells)[:, None]), 0, 1)
            sums += (shares * masses[part]) @ real_harmonics(points[part], self.lmax)
        sums *= np.sqrt(4 * np.pi)
        return sums

    def _points_of(self, number: int, shape: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Centred points (n, 3) of a cloud, mesh or volume, and their masses, which sum to 1."""
        what = f"shape {number} (counting from 0)"
        if isinstance(shape, tuple) and len(shape) == 2:
            try:
                values = sample_surface(*shape, self.n_samples, rng=np.random.default_rng(0))
            except InputError as error:
                raise InputError(f"mesh {number} (counting from 0): {error}") from None
        else:
            values = np.asarray(shape, dtype=np.float64)
        if values.ndim == 2:
            values = cloud_points(values)
        if not (values.ndim == 3 or (values.ndim == 2 and values.shape[1] == 3)) or values.size == 0:
            wanted = "points (n_points, 3), a mesh as a tuple (vertices, faces), or voxels (depth, height, width)"
            raise InputError(f"{what} has shape {values.shape}; expected {wanted}.")
        if not np.isfinite(values).all():
            raise InputError(f"{what} contains NaN or infinity; repair it or leave it out.")
        points, weights = volume_points(values) if values.ndim == 3 else (values, np.ones(len(values)))
        if len(points) == 0:
            raise InputError(f"{what} has only background; leave it out.")
        masses = weights / weights.sum()
        centred = points - masses @ points
        if not np.sqrt(masses @ np.square(centred).sum(axis=1)) > 1e-12 * (1 + np.abs(points).max()):
            raise InputError(f"{what} has all its points at one position; leave it out.")
        return centred, masses

    def _prepare(self) -> tuple[NDArray[np.void], NDArray[np.float32]]:
        self.n_features_in_ = self.image_shape_[0]
        self._first, self._second = np.triu_indices(self.n_shells)
        degree = np.arange(self.lmax + 1)[:, None]
        pairs = {"l1": degree, "l2": degree, "l3": -1, "s1": self._first, "s2": self._second, "s3": -1}
        highest = min(_TRIPLE_LMAX, self.lmax)
        triples = sphere_triples(highest, _BANDS)
        self.invariants_ = TripleInvariants(triples, highest)
        tables = [columns_table(round=form, order=2, **pairs) for form in (0, 1)]
        tables.append(columns_table(round=1, order=3, **triples))
        weights = np.where(np.concatenate(tables)["round"] == 0, 0.5, 1.0)
        return np.concatenate(tables), weights.astype(np.float32)

    def _scratch_per_row(self) -> int:
        return SCRATCH_BYTES // _SHAPES_AT_A_TIME

    def _fill(self, rows: Sequence[tuple[int, Any]], out: NDArray[np.float32]) -> int:
        coefficients = self._coefficients(rows).reshape(len(rows), 2, self.n_shells, -1)
        width, starts = len(self._first) * (self.lmax + 1), np.arange(self.lmax + 1) ** 2
        for form, columns in enumerate((out[:, :width], out[:, width : 2 * width])):
            signals = _compressed(coefficients[:, form], _POWER)
            products = signals[:, self._first] * signals[:, self._second]
            columns[:] = np.add.reduceat(products, starts, axis=2).transpose(0, 2, 1).reshape(len(rows), -1)
        edges, highest = np.linspace(0, self.n_shells, _BANDS + 1).astype(int)[:-1], min(_TRIPLE_LMAX, self.lmax)
        bands = np.add.reduceat(coefficients[:, 1, :, : (highest + 1) ** 2], edges, axis=1)
        out[:, 2 * width :] = self.invariants_.evaluate(_compressed(bands, 2 * _POWER / 3))
        return 0


def _compressed(coefficients: NDArray[np.float64], power: float) -> NDArray[np.float64]:
    """Coefficients (n, n_signals, (lmax + 1) ** 2) with the norm of each degree raised to ``power``."""
    degrees = np.arange(int(np.sqrt(coefficients.shape[2])))
    norms = np.sqrt(np.add.reduceat(np.square(coefficients), degrees**2, axis=2))
    factors = np.where(norms > 0, norms, 1) ** (power - 1)
    return coefficients * np.repeat(factors, 2 * degrees + 1, axis=2)
