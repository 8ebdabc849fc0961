"""Rotation-invariant features of signals on the sphere, and images as such signals."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import map_coordinates
from scipy.spatial.transform import Rotation
from sklearn.utils.validation import check_is_fitted

from bispectral_ot.checks import check_integer
from bispectral_ot.datasets.dataset import check_images
from bispectral_ot.engines import Block, fill_rows
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
    weights : array of shape (n_points,), optional
        Area that each point stands for; equal by default.
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
    >>> from bispectral_ot.features import SphereBispectrum, project_to_sphere
    >>> signals = project_to_sphere(np.random.default_rng(0).random((2, 8, 8)))
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
        weights: ArrayLike | None = None,
        normalize: bool = True,
    ) -> None:
        self.lmax = lmax
        self.points = points
        self.weights = weights
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
            if self.weights is not None:
                raise InputError(
                    "weights belong to points; the equiangular grid has its own. Give points, or no weights."
                )
            grid, areas = equiangular_grid(*self.image_shape_[:2])
            return grid.reshape(-1, 3), areas.ravel()
        points = np.asarray(self.points, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != 3 or not np.isfinite(points).all() or not points.any(axis=1).all():
            raise InputError(f"points must be finite directions of shape (n_points, 3), not zero; got {points.shape}.")
        if self.image_shape_[0] != len(points):
            raise InputError(f"signals have {self.image_shape_[0]} values, but there are {len(points)} points.")
        weights = np.ones(len(points)) if self.weights is None else np.asarray(self.weights, dtype=np.float64)
        if weights.shape != (len(points),) or not np.isfinite(weights).all() or not (weights > 0).all():
            raise InputError(f"weights must be {len(points)} positive numbers, one per point; got {weights.shape}.")
        return points, weights

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


def project_to_sphere(
    images: ArrayLike,
    *,
    shape: tuple[int, int] = (32, 64),
    angle: float = 90.0,
    rotations: Rotation | None = None,
    seed: int | None = None,
) -> NDArray[np.float32]:
    """Stereographic projection of images onto the sphere around the north pole, sampled on the equiangular grid.

    Values between pixels are interpolated bilinearly; outside the image they are 0.

    Parameters
    ----------
    images : array of shape (n, height, width) or (n, height, width, channels)
        Images.
    shape : (n_theta, n_phi)
        Size of the grid.
    angle : float
        Degrees from the pole to the middle of the image's edges.
    rotations : scipy.spatial.transform.Rotation, optional
        One rotation, or one per image, applied after the projection.
    seed : int, optional
        Draw a rotation for each image, uniformly from SO(3).

    """
    pixels = check_images(images, what="images")
    n = len(pixels)
    if not 0 < angle < 180:
        raise InputError(f"angle must be between 0 and 180 degrees, got {angle!r}.")
    if rotations is not None and seed is not None:
        raise InputError("give rotations or a seed to draw them, not both.")
    if seed is not None:
        rotations = Rotation.random(n, rng=np.random.default_rng(seed))
    if rotations is not None and not rotations.single and len(rotations) != n:
        raise InputError(f"there are {len(rotations)} rotations for {n} images; give one each, or one for all.")
    turns = np.broadcast_to((rotations or Rotation.identity()).as_matrix(), (n, 3, 3))
    planes = pixels.reshape(*pixels.shape[:3], -1).astype(np.float32)
    grid = equiangular_grid(*shape)[0].reshape(-1, 3)
    out = np.empty((n, len(grid), planes.shape[3]), dtype=np.float32)
    signals = fill_rows(_sample_on_sphere, out, block_rows=64, rows=(planes, turns), shared=(grid, angle))
    return signals.reshape(n, *shape, *pixels.shape[3:])


def _sample_on_sphere(
    _block: Block,
    planes: NDArray[np.float32],
    turns: NDArray[np.float64],
    grid: NDArray[np.float64],
    angle: float,
) -> NDArray[np.float32]:
    """Samples (n, points, channels) of images (n, height, width, channels)."""
    n, height, width, channels = planes.shape
    signals = np.empty((n, len(grid), channels), dtype=np.float32)
    for signal, image, turn in zip(signals, planes, turns, strict=True):
        x, y, z = (grid @ turn).T  # a row times a rotation matrix is turned by its inverse
        # the south pole is at infinity; tiny denominators only move it farther away
        stretch = 1 / (np.maximum(1 + z, 1e-9) * np.tan(np.radians(angle) / 2))
        where = (height - 1) / 2 - y * stretch * height / 2, (width - 1) / 2 + x * stretch * width / 2
        for channel in range(channels):
            signal[:, channel] = map_coordinates(image[..., channel], where, order=1)
    return signals
