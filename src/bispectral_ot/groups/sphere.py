"""Rotation-invariant features of signals on the sphere."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from bispectral_ot.checks import check_integer
from bispectral_ot.errors import InputError
from bispectral_ot.groups.harmonics import analysis_matrix, equiangular_grid
from bispectral_ot.groups.so3 import TripleInvariants, sphere_triples
from bispectral_ot.transformer import BatchTransformer, columns_table, take_out_sizes, write_scaled


class SphereBispectrum(BatchTransformer):
    """SO(3) bispectrum of real signals on the sphere, invariant to rotations.

    ``b[l1, l2, l3] = sum_m <l1 m1 l2 m2 | l3 m3> a[l1, m1] a[l2, m2] conj(a[l3, m3])`` with the spherical harmonic
    coefficients a of the signal up to degree lmax. For a real signal b is real or imaginary, hence one column, and
    independent of the order of the degrees up to its sign and a factor: ``l1 <= l2 <= l3`` is kept. From lmax = 10 on
    the columns determine a generic signal locally, up to a rotation; below there are too few of them.

    Parameters
    ----------
    lmax : int
        Highest degree of the spherical harmonics; there are about ``lmax ** 3 / 12`` columns (121 for 10).
    points : array of shape (n_points, 3), optional
        Directions of the samples; a signal is then a row of n_points values. By default signals are arrays
        (n_theta, n_phi) on the equiangular grid of :func:`~bispectral_ot.groups.harmonics.equiangular_grid`.
    normalize : bool
        Divide each bispectrum by its L2 norm, which removes the scale of the signal.

    Notes
    -----
    Signals may have channels in a last axis; they turn together, and products are taken across them. ``index_map_`` has
    the fields l1, l2, l3 and the channels s1, s2, s3. ``feature_weights_`` counts the orders of the three pairs (l, s);
    weighted L2 and cosine distances are those between the complete bispectra of appendix C.

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.features import SphereBispectrum
    >>> signals = np.random.default_rng(0).random((2, 16, 32))
    >>> bispectrum = SphereBispectrum(lmax=5).fit(signals)
    >>> turned = np.roll(signals, 5, axis=2)  # about the poles
    >>> np.allclose(bispectrum.transform(turned), bispectrum.transform(signals), atol=1e-6)
    True
    """

    symmetries = ("so3",)

    def __init__(
        self,
        *,
        lmax: int = 10,
        points: ArrayLike | None = None,
        normalize: bool = True,
    ) -> None:
        self.lmax = lmax
        self.points = points
        self.normalize = normalize

    def _shape_of_row(self, n_columns: int) -> tuple[int, ...]:
        if self.points is None:
            raise InputError(
                f"rows of {n_columns} numbers are no grid; give signals as (n, n_theta, n_phi), or give points."
            )
        return (n_columns,)

    def _prepare(self) -> tuple[NDArray[np.void], NDArray[np.float32]]:
        lmax = check_integer("lmax", self.lmax, minimum=0)
        points, weights = self._read_points()
        self.analysis_ = analysis_matrix(points, weights, lmax)
        n_signals = self.n_features_in_ // len(points)
        triples = sphere_triples(lmax, n_signals)
        self.invariants_ = TripleInvariants(triples, lmax)
        return columns_table(**triples.columns()), triples.multiplicities().astype(np.float32)

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
        return write_scaled(values, out, self.feature_weights_, sizes, degree=3, normalize=self.normalize)
