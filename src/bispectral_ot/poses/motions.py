"""What a pose is sought among: the motions of a symmetry, and how well each brings one signal onto another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.progress import Progress

Rows = NDArray[np.float32]
Floats = NDArray[np.float64]
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

    def coefficients(self, signals: NDArray[Any], *, progress: Progress) -> Rows:
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
