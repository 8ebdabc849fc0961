"""Marginal constraints of the two sides of a plan: weights, relaxed weights, and relaxed totals of groups.

Potentials are exponents of 2, as in the passes over a cost; ``epsilon`` and penalties are in units of the cost.
Weights, potentials and masses are (n,), or (n, k) for k weightings that are solved together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bispectral_ot.errors import InputError

Vector = NDArray[np.float64]
LOG2_E = float(np.log2(np.e))
# Exponent of an element without mass.
NO_MASS = -1e30
# Floor of a mass before its logarithm is taken.
_TINY = 1e-300


def finite(potential: Vector) -> Vector:
    """Potential with a very low number in place of -inf, which compiled code may not see."""
    return np.where(np.isneginf(potential), NO_MASS, potential)


class Marginal:
    """Constraint on the mass x of one side of a plan: equal to the weights w, or near them.

    The penalty is ``lam KL(x | w) + sum_c group_lam[c] KL(sum of x in c | W_c)``, W_c the weight of the group c and
    ``KL(x | w) = sum x log(x / w) - x + w``; an infinite ``lam`` means exact marginals. ``groups`` (n,) are numbered
    from 0, and ``group_lam`` (groups,) is 0 where a total is free.
    """

    def __init__(
        self,
        weights: Vector,
        lam: float = np.inf,
        groups: NDArray[np.int64] | None = None,
        group_lam: Vector | None = None,
    ) -> None:
        self.weights, self.lam, self.groups, self.group_lam = weights, lam, groups, group_lam
        self.exact = bool(np.isinf(lam))
        self.has_mass = weights > 0  # the others are left out
        self.mask: Vector = self.has_mass.astype(np.float64)
        self.log_weights: Vector = np.log2(np.where(self.has_mass, weights, 1.0))

    def damping(self, epsilon: float) -> float:
        """``lam / (lam + epsilon)``: factor of a step that would restore the weights; 1 for exact marginals."""
        return 1.0 if self.exact else self.lam / (self.lam + epsilon)

    def relative(self, potential: Vector) -> Vector:
        """Potential relative to the weights; 0 where there is no weight."""
        return (potential - self.log_weights) * self.mask

    def step(self, potential: Vector, mass: Vector, epsilon: float) -> Vector:
        """Optimal potential for a fixed potential of the other side, given the mass of the present one.

        It is ``log w - damping * log s``, with s the mass without the potential, relative to the weights; in groups
        plus ``log(W_c / Y_c) group_lam / (group_lam + lam + epsilon)``, Y_c the mass of the group after that.
        """
        log_sums = self._log_sums(potential, mass)
        new: Vector = self.log_weights - self.damping(epsilon) * log_sums
        if self.groups is None or self.group_lam is None:
            return new
        totals, weights = (
            np.bincount(self.groups, weights=each, minlength=len(self.group_lam))
            for each in (np.exp2(new + log_sums) * self.mask, self.weights)
        )
        ratio = np.where(weights > 0, np.log2(np.maximum(weights, _TINY) / np.maximum(totals, _TINY)), 0.0)
        return new + (ratio * self.group_lam / (self.group_lam + self.lam + epsilon))[self.groups]

    def error(self, potential: Vector, mass: Vector, epsilon: float) -> Vector:
        """``|mass - wanted mass|_1``, where the wanted mass is that after a step."""
        wanted = self.weights
        if not self.exact:
            wanted = np.exp2(self.step(potential, mass, epsilon) + self._log_sums(potential, mass)) * self.mask
        return np.abs(mass - wanted).sum(axis=0)

    def _log_sums(self, potential: Vector, mass: Vector) -> Vector:
        return (np.log2(np.maximum(mass, _TINY)) - potential) * self.mask


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

    def image(self, f: Vector, state: Vector, column_sums: Vector, *, epsilon: float) -> Vector:
        """State after a plain step; for a set and itself ``(a + T a) / 2``, which at least halves the error."""
        if self.symmetric:
            return (f + state) * (0.5 * self.target.mask)
        g = self.target.step(state, column_sums, epsilon)
        return g if self.balanced or self.target.groups is not None else g - self._translation(f, g, epsilon)

    def error(self, state: Vector, column_sums: Vector, *, epsilon: float) -> float:
        """``|mass - wanted mass|_1`` of the targets (the largest of k); that of the sources is 0 after a pass."""
        return self._relative(self.target.error(state, column_sums, epsilon), column_sums)

    def residual(self, f: Vector, g: Vector, row_sums: Vector, column_sums: Vector, *, epsilon: float) -> float:
        """``|mass - wanted mass|_1`` of both sides, relative to the total mass unless both are exact."""
        error = self.source.error(f, row_sums, epsilon) + self.target.error(g, column_sums, epsilon)
        return self._relative(error, column_sums)

    def _relative(self, error: Vector, column_sums: Vector) -> float:
        return float(np.max(error if self.balanced else error / np.maximum(column_sums.sum(axis=0), _TINY)))

    def _translation(self, f: Vector, g: Vector, epsilon: float) -> Vector:
        """Constant k that is optimal in f + k and g - k (Sejourne, Vialard and Peyre, 2022): it saves many passes."""
        totals = []
        for side, potential in ((self.source, f), (self.target, g)):
            # wanted mass as a function of the constant, as exponents of 2
            exponents = side.log_weights - side.relative(potential) * (epsilon / side.lam)
            totals.append(np.logaddexp2.reduce(np.where(side.has_mass, exponents, -np.inf), axis=0))
        return (totals[0] - totals[1]) / (epsilon / self.source.lam + epsilon / self.target.lam)


def as_weights(weights: ArrayLike | None, size: int, name: str, *, normalized: bool = True) -> Vector:
    """Uniform weights, or the given ones after checking: (size,), not negative, summing to one if ``normalized``."""
    if weights is None:
        return np.full(size, 1.0 / size)
    array: NDArray[Any] = np.asarray(weights)
    if array.shape != (size,):
        raise InputError(f"{name} has shape {array.shape} but there are {size} elements; give one weight for each.")
    if array.dtype.kind not in "buif":
        raise InputError(f"{name} must be numbers, got an array of {array.dtype}.")
    # float32 weights sum to one only to about 1e-7 per element; what is left over is spread in float64
    tolerance = 1e-8 if array.dtype == np.float64 else 1e-4
    array = array.astype(np.float64)
    bad = np.flatnonzero(~((array >= 0) & (array < np.inf)))
    if len(bad):
        raise InputError(f"{name} must be finite and not negative, but entry {bad[0]} is {array[bad[0]]:g}.")
    total = float(array.sum())
    if not normalized:
        if total == 0.0:
            raise InputError(f"{name} are all 0; some element must have mass.")
        return array
    if abs(total - 1.0) > tolerance:
        raise InputError(f"{name} must sum to one but sums to {total:.9g}; divide it by its sum.")
    return array / total
