"""Motions of a symmetry: the candidates for a pose, and the fit of each between two signals."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]
Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
TOLERANCE = 30.0  # degrees within which a pose counts as right


class Located(NamedTuple):
    """Best motions near a start."""

    motions: Floats  # (..., q)
    fits: Floats  # correlations
    widths: Floats  # degrees over which a parabola at the peak falls by 1/2; NaN for discrete motions


@dataclass(frozen=True, eq=False)
class MotionArray:
    """Motions by name: a signal is mirrored left to right, then rotated, then shifted; None for absent parts."""

    angles: Floats | None = None
    mirrored: NDArray[np.bool_] | None = None
    shifts: Floats | None = None
    quaternions: Floats | None = None

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """Columns of a table, with one row for each motion."""
        columns: dict[str, NDArray[Any] | None] = {"angle": self.angles, "mirrored": self.mirrored}
        if self.shifts is not None:
            columns |= dict(zip(("down", "right"), self.shifts.T, strict=True))
        if self.quaternions is not None:
            columns |= dict(zip("xyzw", self.quaternions.T, strict=True))
        return {name: values for name, values in columns.items() if values is not None}

    @property
    def rotations(self) -> Any:
        """``scipy.spatial.transform.Rotation``, for rotations in space; the identity if the pose is unknown."""
        from scipy.spatial.transform import Rotation

        if self.quaternions is None:
            return None
        known = np.isfinite(self.quaternions[..., :1])
        return Rotation.from_quat(np.where(known, self.quaternions, [0.0, 0.0, 0.0, 1.0]).reshape(-1, 4))


class Motions(ABC):
    """Motions of a symmetry.

    The ``products`` of the coefficients of two signals are numbers in which the fit of every motion is linear. So the
    products with several targets can be averaged: the best motion of the average fits all of them best.
    """

    grid: Floats  # (g, q) motions that are tried before the best one is refined
    identity: Any  # motion that changes nothing
    unit: float = 1.0  # one degree of separation in the unit of the motions: 1, or pixels for shifts
    scales: Sequence[Any] = (1,)  # factors of the coefficients; the one that finds most of the known poses is taken

    @abstractmethod
    def coefficients(self, signals: Any) -> Rows:
        """Signals to rows (n, c) of unit norm; zeros for a signal without content."""

    def practice(self, signals: Any, *, seed: int) -> tuple[Any, Floats]:
        """Signals moved at random, and the motions (n, q) that undo it; not moved if motions do not change the fit."""
        return signals, np.broadcast_to(np.asarray(self.identity, dtype=np.float64), (len(signals), self.grid.shape[1]))

    @abstractmethod
    def products(self, source: Rows, target: Rows, indices: Indices) -> Rows:
        """Rows (n, c) and (m, c) to products (n, k, p) of each source with the targets at ``indices`` (n, k)."""

    @abstractmethod
    def fits(self, products: Rows) -> Rows:
        """Products (..., p) to the fits (..., g) of the motions of the grid."""

    @abstractmethod
    def locate(self, products: Rows, start: Indices) -> Located:
        """Best motion near ``grid[start]`` for products (..., p) and positions (...)."""

    @abstractmethod
    def separation(self, motions: Floats, others: Floats) -> Floats:
        """Degrees between motions (..., q) and others, broadcast."""

    @abstractmethod
    def by_name(self, motions: Floats) -> MotionArray:
        """Motions (..., q) by name."""


def climb(
    derivatives: Callable[[Any], tuple[Floats, Floats, Floats]], start: Any, move: Callable[[Any, Floats], Any]
) -> tuple[Any, Floats, Floats]:
    """Newton's method towards a peak of the fit; the point, its fit and the width of the peak in degrees.

    ``derivatives`` gives fits (...), slopes (..., q) and downward curvatures (..., q, q), in radians.
    """
    point = start
    for _ in range(5):
        _, slope, hessian = derivatives(point)
        values, vectors = _positive(hessian)
        step = vectors @ ((vectors.swapaxes(-1, -2) @ slope[..., None]) / values[..., None])
        point = move(point, step[..., 0])
    fits, _, hessian = derivatives(point)
    curvature = np.maximum(_positive(hessian)[0].min(axis=-1), np.pi**-2)  # at most 180 degrees wide
    return point, fits, np.degrees(1 / np.sqrt(curvature))


def _positive(hessian: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues of downward curvatures, made positive so that steps lead up, and eigenvectors."""
    values, vectors = np.linalg.eigh(hessian)
    values = np.abs(values)
    return np.maximum(values, 1e-6 * np.maximum(values.max(axis=-1, keepdims=True), 1e-12)), vectors


def wrapped(degrees: Floats) -> Floats:
    """Angles in (-180, 180]."""
    return 180.0 - (180.0 - degrees) % 360.0
