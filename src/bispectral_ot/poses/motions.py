"""What a pose is sought among: the motions of a symmetry, and how well each brings one signal onto another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.engines import Block, Threads, row_blocks

Rows = NDArray[np.float32]
Floats = NDArray[np.float64]
_NEWTON_STEPS = 5
# Of a peak, in inverse square radians: its width is then 180 degrees.
LEAST_CURVATURE = np.pi**-2
_BLOCK_PIXELS = 2**22
# A motion that is off by less than this is the right one, if not exact (degrees).
TOLERANCE = 30.0


class Located(NamedTuple):
    """The best motion near a start.

    Attributes
    ----------
    motions : (..., q) parameters of the motions
    fits : (...) correlation of the moved signal with the other one, at most 1
    widths : (...) degrees over which the fit would fall by 1/2 if its peak were a parabola; NaN for discrete motions
    """

    motions: Floats
    fits: Floats
    widths: Floats


@dataclass(frozen=True, eq=False)
class MotionArray:
    """Motions by name; what the symmetry does not have is None.

    A signal is mirrored left to right first, then turned, then moved.

    Attributes
    ----------
    angles : degrees, counter-clockwise as displayed, in (-180, 180]
    mirrored : whether it is mirrored first
    shifts : (..., 2) pixels down and to the right
    quaternions : (..., 4) of a rotation in space, the scalar last as SciPy has it
    """

    angles: Floats | None = None
    mirrored: NDArray[np.bool_] | None = None
    shifts: Floats | None = None
    quaternions: Floats | None = None

    @property
    def rotations(self) -> Any:
        """``scipy.spatial.transform.Rotation``, for rotations in space; identities where nothing is known."""
        from scipy.spatial.transform import Rotation

        if self.quaternions is None:
            return None
        known = np.isfinite(self.quaternions[..., :1])
        return Rotation.from_quat(np.where(known, self.quaternions, [0.0, 0.0, 0.0, 1.0]).reshape(-1, 4))


class Motions(Protocol):
    """The motions of a symmetry.

    The ``products`` of the coefficients of two signals are numbers in which the fit of every motion is linear. So the
    products with several targets can be averaged, and the best motion of the average is the one that fits them
    best together.

    Attributes
    ----------
    grid : (g, q) the motions that are tried before the best one is refined
    unit : what one degree of separation is in the units of the motions: 1, or pixels for shifts
    """

    @property
    def grid(self) -> Floats: ...  # noqa: D102
    @property
    def unit(self) -> float: ...  # noqa: D102

    def coefficients(self, signals: NDArray[Any]) -> Rows:
        """Signals to rows (n, c) of unit norm; zeros where a signal has no content."""

    def practice(self, signals: NDArray[Any], *, seed: int) -> tuple[NDArray[Any], Floats]:
        """Signals moved at random, and the motions (n, q) that undo it."""

    def products(self, source: Rows, target: Rows, indices: NDArray[np.int64]) -> Rows:
        """Rows (n, c) and (m, c) to products (n, k, p) of each source with the targets at ``indices`` (n, k)."""

    def fits(self, products: Rows) -> Rows:
        """Products (..., p) to the fits (..., g) of the motions of the grid."""

    def locate(self, products: Rows, start: NDArray[np.int64]) -> Located:
        """The best motion near ``grid[start]`` for products (..., p) and positions (...)."""

    def separation(self, motions: Floats, others: Floats) -> Floats:
        """Degrees between motions (..., q) and others, broadcast."""

    def by_name(self, motions: Floats) -> MotionArray:
        """Motions (..., q) as what they are called."""


def climb(
    derivatives: Callable[[Any], tuple[Floats, Floats, Floats]], start: Any, move: Callable[[Any, Floats], Any]
) -> tuple[Any, Floats, Floats]:
    """Newton's method towards a peak of the fit; returns the point, its fit and the width of the peak in degrees.

    ``derivatives`` gives fits (...), slopes (..., q) and downward curvatures (..., q, q) at a point, in radians;
    ``move(point, step)`` takes a step, within reach of the start.
    """
    point = start
    for _ in range(_NEWTON_STEPS):
        _, slope, hessian = derivatives(point)
        step: Floats = np.linalg.solve(_uphill(hessian), slope[..., None])[..., 0].astype(np.float64)
        point = move(point, step)
    fits, _, hessian = derivatives(point)
    curvature = np.linalg.eigvalsh(_uphill(hessian))[..., 0]
    return point, fits, np.degrees(1 / np.sqrt(np.maximum(curvature, LEAST_CURVATURE)))


def _uphill(hessian: Floats) -> Floats:
    """Downward curvatures made positive, so that steps lead up."""
    values, vectors = np.linalg.eigh(hessian)
    values = np.maximum(np.abs(values), 1e-6 * np.maximum(np.abs(values).max(axis=-1, keepdims=True), 1e-12))
    positive: Floats = (vectors * values[..., None, :]) @ vectors.swapaxes(-1, -2)
    return positive


def low_frequencies(
    signals: NDArray[Any], channels: int, transform: Callable[[NDArray[np.float32]], NDArray[Any]]
) -> Rows:
    """Images (n, height, width[, channels]) to transformed rows of unit norm; zeros for constant images.

    ``transform`` takes images (n, channels, height, width) of mean 0 and largest value 1.
    """
    planes = signals.reshape(*signals.shape[:3], channels)
    blocks = row_blocks(len(signals), block_rows=max(1, _BLOCK_PIXELS // max(1, planes[0].size)))
    return np.concatenate(list(Threads().map(_unit_rows, blocks, rows=[planes], shared=[transform], stage="features")))


def _unit_rows(_block: Block, planes: NDArray[Any], transform: Callable[[NDArray[np.float32]], NDArray[Any]]) -> Rows:
    images = planes.transpose(0, 3, 1, 2).astype(np.float32)
    images -= images.mean(axis=(2, 3), keepdims=True)
    peaks = np.abs(images).max(axis=(1, 2, 3), keepdims=True)
    images /= np.where(peaks > 0, peaks, 1)
    rows = transform(images).reshape(len(planes), -1)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.ascontiguousarray(rows / np.where(norms > 1e-5 * np.sqrt(rows.shape[1]), norms, np.inf), dtype=np.float32)


def wrapped(degrees: Floats) -> Floats:
    """Angles brought to (-180, 180].

    Examples
    --------
    >>> wrapped(np.array([-180.0, 190.0])).tolist()
    [180.0, -170.0]
    """
    wrapped_angles: Floats = 180.0 - (180.0 - degrees) % 360.0
    return wrapped_angles


def flat_separation(motions: Floats, others: Floats) -> Floats:
    """Degrees between motions (angle, mirrored) of the plane; as far as can be where only one is mirrored."""
    apart = np.abs(wrapped(motions[..., 0] - others[..., 0]))
    return np.where(motions[..., 1] == others[..., 1], apart, 180.0)
