"""Marginal constraints of the two sides of a plan: weights, relaxed weights, and relaxed totals of groups.

Potentials are exponents of 2, as in the passes over a cost; ``epsilon`` and penalties are in units of the cost.
Weights, potentials and masses are (n,), or (n, k) for k weightings that are solved together.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bispectral_ot.errors import InputError

Vector = NDArray[np.float64]
LOG2_E = float(np.log2(np.e))
# Exponent of an element without mass, in place of -inf, which compiled code does not support.
NO_MASS = -1e30
# Floor of a mass before its logarithm is taken.
_TINY = 1e-300


class Marginal:
    """Constraint on the mass x of one side of a plan: equal to the weights w, or near them.

    The penalty is ``lam KL(x | w) + sum_c group_lam[c] KL(sum of x in c | W_c)``, W_c the weight of the group c and
    ``KL(x | w) = sum x log(x / w) - x + w``; an infinite ``lam`` means exact marginals. ``groups`` (n,) are numbered
    from 0, and ``group_lam`` (groups,) is 0 for a free total; by default all elements are one such group.
    """

    def __init__(
        self, weights: Vector, lam: float = np.inf, groups: NDArray[np.int64] | None = None, group_lam: Any = (0.0,)
    ) -> None:
        self.weights, self.lam, self.group_lam = weights, lam, np.asarray(group_lam, dtype=np.float64)
        self.groups = np.zeros(len(weights), dtype=np.int64) if groups is None else groups
        self.exact = bool(np.isinf(lam))
        self.has_mass = weights > 0  # the others are left out
        self.mask: Vector = self.has_mass.astype(np.float64)
        self.log_weights: Vector = np.log2(np.where(self.has_mass, weights, 1.0))

    def step(self, potential: Vector, mass: Vector, epsilon: float) -> tuple[Vector, Vector]:
        """Optimal potential for a fixed potential of the other side, and the L1 distance of the mass to that after it.

        The potential is ``log w - log s lam / (lam + epsilon)``, with s the mass without the potential, relative to the
        weights; in groups plus ``log(W_c / Y_c) group_lam / (group_lam + lam + epsilon)``, Y_c their mass after that.
        """
        log_sums = (np.log2(np.maximum(mass, _TINY)) - potential) * self.mask
        new: Vector = self.log_weights - log_sums / (1 + epsilon / self.lam)
        if self.exact:
            return new, np.abs(mass - self.weights).sum(axis=0)
        ratio = self._log_totals(self.weights) - self._log_totals(np.exp2(new + log_sums))
        new = new + (ratio * self.group_lam / (self.group_lam + self.lam + epsilon))[self.groups]
        return new, np.abs(mass - np.exp2(new + log_sums) * self.mask).sum(axis=0)

    def optimal_totals(self, potential: Vector, epsilon: float) -> tuple[Vector, Vector]:
        """Masses of the groups that are optimal for a potential, as exponents of 2, and how they fall with a constant.

        They are ``S_c (W_c / S_c) ** (group_lam / (group_lam + lam))``, S_c the sum of ``w exp(-potential / lam)``.
        """
        exponents = self.log_weights - (potential - self.log_weights) * (epsilon / self.lam)
        highest = exponents[self.has_mass].max()
        totals = self._log_totals(np.exp2(np.minimum(exponents - highest, 0))) + highest
        totals += (self._log_totals(self.weights) - totals) * (self.group_lam / (self.group_lam + self.lam))
        return totals, epsilon / (self.group_lam + self.lam)

    def _log_totals(self, masses: Vector) -> Vector:
        return np.log2(np.maximum(np.bincount(self.groups, masses * self.mask, len(self.group_lam)), _TINY))


@dataclass(frozen=True, eq=False)
class Constraints:
    """Marginal constraints of rows and columns; the state of an iteration is the target's potential, as exponents of 2.

    ``symmetric`` if both sides are the same elements with the same potential (the transport of a set to itself).
    """

    source: Marginal
    target: Marginal
    symmetric: bool = False

    @property
    def balanced(self) -> bool:
        """Whether both sides are exact."""
        return self.source.exact and self.target.exact

    def step(
        self, f: Vector, state: Vector, column_sums: Vector, *, epsilon: float, row_sums: Vector | None = None
    ) -> tuple[Vector, float]:
        """State after a plain step, and the error before it: ``|mass - wanted mass|_1``, the largest of k.

        The error is relative to the mass unless both sides are exact. After a pass that of the sources is 0; else their
        ``row_sums`` are given. For a set and itself the state is ``(a + T a) / 2``, which at least halves the error.
        """
        g, error = self.target.step(state, column_sums, epsilon)
        if row_sums is not None:
            error = error + self.source.step(f, row_sums, epsilon)[1]
        if self.symmetric:
            g = (f + state) * (0.5 * self.target.mask)
        elif not self.balanced:
            g = g - self._translation(f, g, epsilon)
        return g, float(np.max(error if self.balanced else error / np.maximum(column_sums.sum(axis=0), _TINY)))

    def _translation(self, f: Vector, g: Vector, epsilon: float) -> float:
        """Constant k that is optimal in f + k and g - k (Sejourne, Vialard and Peyre, 2022): it saves many passes."""
        (ours, falls), (theirs, rises) = self.source.optimal_totals(f, epsilon), self.target.optimal_totals(g, epsilon)
        k = 0.0
        for _ in range(20):  # the two sides have the same total mass; without groups one step is exact
            source, target = (np.logaddexp2.reduce(each) for each in (ours - falls * k, theirs + rises * k))
            if abs(source - target) < 1e-12:
                break
            slope = falls @ np.exp2(ours - falls * k - source) + rises @ np.exp2(theirs + rises * k - target)
            k += float((source - target) / slope)
        return k


def as_weights(weights: ArrayLike | None, size: int, name: str, *, normalized: bool = True) -> Vector:
    """Uniform weights, or the given ones after checking: (size,), not negative, summing to one if ``normalized``."""
    if weights is None:
        return np.full(size, 1.0 / size)
    array: NDArray[Any] = np.asarray(weights)
    if array.shape != (size,):
        raise InputError(f"{name} has shape {array.shape} but there are {size} elements; give one weight for each.")
    if array.dtype.kind not in "buif":
        raise InputError(f"{name} must be numbers, got an array of {array.dtype}.")
    # float32 weights sum to one only to about 1e-7 per element; the rest is distributed in float64
    tolerance = 1e-8 if array.dtype == np.float64 else 1e-4
    array = array.astype(np.float64)
    bad = np.flatnonzero(~((array >= 0) & (array < np.inf)))
    if len(bad):
        raise InputError(f"{name} must be finite and not negative, but entry {bad[0]} is {array[bad[0]]:g}.")
    total = float(array.sum())
    if not normalized:
        if total == 0.0:
            raise InputError(f"{name} are all 0; at least one element must have mass.")
        return array
    if abs(total - 1.0) > tolerance:
        raise InputError(f"{name} must sum to one but sums to {total:.9g}; divide it by its sum.")
    return array / total
