"""3-D shapes up to rotation: densities on concentric spheres, and their SO(3) invariants."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from bispectral_ot.checks import check_integer
from bispectral_ot.datasets.clouds import cloud_points, sample_surface, volume_points
from bispectral_ot.engines import Threads, row_blocks
from bispectral_ot.errors import InputError
from bispectral_ot.groups.sphere import TripleInvariants, real_harmonics, sphere_triples
from bispectral_ot.transformer import SCRATCH_BYTES, BatchTransformer, columns_table

_BANDS, _TRIPLE_LMAX = 2, 6  # bands of shells and highest degree of the bispectrum
_POWER = 0.5  # compression of magnitudes
_POINTS_AT_A_TIME, _SHAPES_AT_A_TIME = 8192, 16


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
