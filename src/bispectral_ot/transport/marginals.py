"""Marginal constraints: exact marginals, KL-penalized marginals, and penalized totals of groups.

A side of the plan has weights w, a potential, and mass (its sums over the plan). With the potential relative to the
weights, ``u = potential - epsilon log w``, each kind of constraint defines

- ``step``: the optimal potential for a fixed potential of the other side, one half of a Sinkhorn iteration;
- ``wanted``: the mass after that step; a plan is a solution where the mass of both sides is the wanted one;
- ``gap``: ``F(mass) + F*(-u) + <u, mass>``, with F the penalty on this side's mass: never negative, 0 at a solution.
  The gaps of the two sides add up to the duality gap.

Potentials are exponents of 2, as in the passes over a cost; ``epsilon`` and penalties are in units of the cost.
Weights, potentials and masses are (n,), or (n, k) for k weightings that are solved together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
LN_2 = float(np.log(2.0))
LOG2_E = float(np.log2(np.e))
# Exponent of an element without mass.
NO_MASS = -1e30
# Floor of a mass before its logarithm is taken.
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Marginal(ABC):
    """Constraint on the mass of one side of a plan, with weights (n,) or (n, k)."""

    weights: Vector

    @cached_property
    def has_mass(self) -> NDArray[np.bool_]:
        """Elements of positive weight; the others are left out."""
        return self.weights > 0

    @cached_property
    def mask(self) -> Vector:
        """1 for elements of positive weight, else 0; a product with it is far faster than a choice."""
        return self.has_mass.astype(np.float64)

    @cached_property
    def log_weights(self) -> Vector:
        """``log2 w``; 0 where there is none."""
        return np.log2(np.where(self.has_mass, self.weights, 1.0))

    def damping(self, epsilon: float) -> float:
        """``lam / (lam + epsilon)``: factor of a step that would restore the weights; 1 for exact marginals."""
        return 1.0

    def relative(self, potential: Vector) -> Vector:
        """The potential relative to the weights, u; 0 where there is no weight."""
        return (potential - self.log_weights) * self.mask

    @abstractmethod
    def step(self, potential: Vector, mass: Vector, epsilon: float) -> Vector:
        """The best potential, given the mass that the present one leads to."""

    def wanted(self, potential: Vector, mass: Vector, epsilon: float) -> Vector:
        """The mass after that step."""
        after = self.step(potential, mass, epsilon) + self._log_sums(potential, mass)
        wanted: Vector = np.exp2(after) * self.mask
        return wanted

    @abstractmethod
    def gap(self, potential: Vector, mass: Vector, epsilon: float) -> float:
        """Part of the duality gap that is due to this side, in units of the cost."""

    def _log_sums(self, potential: Vector, mass: Vector) -> Vector:
        """``log2`` of the mass without the potential and relative to the weights."""
        sums: Vector = (np.log2(np.maximum(mass, _TINY)) - potential) * self.mask
        return sums


@dataclass(frozen=True, eq=False)
class Exact(Marginal):
    """Mass equal to the weights."""

    def step(self, potential: Vector, mass: Vector, epsilon: float) -> Vector:  # noqa: D102
        return self.log_weights - self._log_sums(potential, mass)

    def wanted(self, potential: Vector, mass: Vector, epsilon: float) -> Vector:  # noqa: D102
        return self.weights

    def gap(self, potential: Vector, mass: Vector, epsilon: float) -> float:  # noqa: D102
        return float(abs(self.relative(potential) @ (mass - self.weights))) * epsilon * LN_2


@dataclass(frozen=True, eq=False)
class Relaxed(Marginal):
    """Mass near the weights: the penalty is ``lam * KL(mass | w)``, ``KL(x | w) = sum x log(x / w) - x + w``.

    ``step`` is ``u = -tau * epsilon * log s`` with s the sums without u, and ``tau = lam / (lam + epsilon)``.
    """

    lam: float

    def damping(self, epsilon: float) -> float:  # noqa: D102
        return self.lam / (self.lam + epsilon)

    def step(self, potential: Vector, mass: Vector, epsilon: float) -> Vector:  # noqa: D102
        return self.log_weights - self.damping(epsilon) * self._log_sums(potential, mass)

    def gap(self, potential: Vector, mass: Vector, epsilon: float) -> float:  # noqa: D102
        u = self.relative(potential) * epsilon * LN_2
        return self.lam * _divergence(mass, self.weights) - self.dual(u) + float(u @ mass)

    def dual(self, u: Vector) -> float:
        """``-F*(-u) = lam * sum w (1 - exp(-u / lam))``."""
        return float(-self.lam * (self.weights @ np.expm1(-u / self.lam)))


@dataclass(frozen=True, eq=False)
class Grouped(Relaxed):
    """Mass near the weights, and the total of each group near that of its weights, some more firmly than others.

    The penalty is ``lam * KL(mass | w) + sum_c group_lam[c] * KL(sum of c | W_c)``. ``step`` is that of
    :class:`Relaxed` plus ``tau_c * epsilon * log(W_c / Y_c)``, Y_c the group's mass after that step and
    ``tau_c = group_lam / (group_lam + lam + epsilon)``.

    Attributes
    ----------
    groups : (n,) the group of each element, 0, 1, 2, ...
    group_lam : (groups,) penalties on the totals; 0 leaves a total free
    """

    groups: NDArray[np.int64]
    group_lam: Vector

    def step(self, potential: Vector, mass: Vector, epsilon: float) -> Vector:  # noqa: D102
        new = super().step(potential, mass, epsilon)
        totals = self._totals(np.exp2(new + self._log_sums(potential, mass)) * self.mask)
        firmness = self.group_lam / (self.group_lam + self.lam + epsilon)
        return new + (firmness * self._log_ratio(totals))[self.groups]

    def gap(self, potential: Vector, mass: Vector, epsilon: float) -> float:  # noqa: D102
        u = self.relative(potential) * epsilon * LN_2
        totals, weights = self._totals(mass), self._totals(self.weights)
        loose = self.group_lam > 0
        penalty = self.lam * _divergence(mass, self.weights)
        penalty += sum(
            lam * _divergence(x, w) for lam, x, w in zip(self.group_lam, totals[:, None], weights[:, None], strict=True)
        )
        shifts = self._shifts(u)
        dual = self.dual(u - shifts[self.groups])
        dual -= float((self.group_lam * weights)[loose] @ np.expm1(-shifts[loose] / self.group_lam[loose]))
        return float(penalty - dual + u @ mass)

    def _shifts(self, u: Vector) -> Vector:
        """The part of u that belongs to totals: ``w exp(-(u - shift) / lam)`` sums to ``W exp(-shift / group_lam)``."""
        # log-sum-exp, group by group, since u / lam may be large
        exponents = -u / self.lam
        highest = np.full(len(self.group_lam), -np.inf)
        np.maximum.at(highest, self.groups[self.has_mass], exponents[self.has_mass])
        highest = np.where(np.isfinite(highest), highest, 0.0)
        sums = self._totals(self.weights * np.exp(exponents - highest[self.groups]))
        shifts: Vector = self._log_ratio(sums) * LN_2 - highest
        shifts *= self.lam * self.group_lam / (self.lam + self.group_lam)
        return shifts

    def _log_ratio(self, totals: Vector) -> Vector:
        """``log2(W_c / total)``; 0 for a group without weight."""
        weights = self._totals(self.weights)
        return np.where(weights > 0, np.log2(np.maximum(weights, _TINY) / np.maximum(totals, _TINY)), 0.0)

    def _totals(self, values: Vector) -> Vector:
        totals: Vector = np.bincount(self.groups, weights=values, minlength=len(self.group_lam)).astype(np.float64)
        return totals


def _divergence(mass: Vector, weights: Vector) -> float:
    """``sum x log(x / w) - x + w`` over elements that have weight."""
    kept = weights > 0
    x, w = mass[kept], weights[kept]
    return float((x * np.log(np.maximum(x, _TINY) / w) - x + w).sum())


@dataclass(frozen=True, eq=False)
class Constraints:
    """Marginal constraints of both sides; the state of an iteration is the target's potential, as exponents of 2.

    Attributes
    ----------
    source, target : constraints of the rows and of the columns
    symmetric : whether both sides are the same elements with the same potential (the transport of a set to itself)
    """

    source: Marginal
    target: Marginal
    symmetric: bool = False

    @property
    def balanced(self) -> bool:
        """Whether both sides are exact."""
        return isinstance(self.source, Exact) and isinstance(self.target, Exact)

    def image(self, f: Vector, state: Vector, column_sums: Vector, *, epsilon: float) -> Vector:
        """State after a plain step.

        For a set and itself it is ``(a + T a) / 2``: the derivative of T has eigenvalues between -1 and 0, so that the
        average at least halves the error, where alternating steps may stall.
        """
        if self.symmetric:
            return (f + state) * (0.5 * self.target.mask)
        g = self.target.step(state, column_sums, epsilon)
        kinds = {type(self.source), type(self.target)}
        return g - self._translation(f, g, epsilon) if kinds in ({Relaxed}, {Exact, Relaxed}) else g

    def error(self, state: Vector, column_sums: Vector, *, epsilon: float) -> float:
        """``|mass - wanted mass|_1`` of the targets (the largest of k); that of the sources is 0 after a pass."""
        return self._relative(_difference(self.target, state, column_sums, epsilon), column_sums)

    def residual(self, f: Vector, g: Vector, row_sums: Vector, column_sums: Vector, *, epsilon: float) -> float:
        """``|mass - wanted mass|_1`` of both sides, relative to the total mass unless both are exact."""
        error = _difference(self.source, f, row_sums, epsilon) + _difference(self.target, g, column_sums, epsilon)
        return self._relative(error, column_sums)

    def gap(self, f: Vector, g: Vector, row_sums: Vector, column_sums: Vector, *, epsilon: float) -> float:
        """Duality gap in units of the cost."""
        return self.source.gap(f, row_sums, epsilon) + self.target.gap(g, column_sums, epsilon)

    def _relative(self, error: Vector, column_sums: Vector) -> float:
        return float(np.max(error if self.balanced else error / np.maximum(column_sums.sum(axis=0), _TINY)))

    def _translation(self, f: Vector, g: Vector, epsilon: float) -> Vector:
        """The constant k that is best in f + k and g - k (Sejourne, Vialard and Peyre, 2022).

        Plain steps change the total mass by a factor of the dampings: without this, large penalties need many passes.
        """
        softness, totals = 0.0, []
        for side, potential in ((self.source, f), (self.target, g)):
            # wanted mass as a function of the constant, as exponents of 2
            ratio = epsilon / side.lam if isinstance(side, Relaxed) else 0.0
            exponents = np.where(side.has_mass, side.log_weights - side.relative(potential) * ratio, -np.inf)
            totals.append(np.logaddexp2.reduce(exponents, axis=0))
            softness += ratio
        translation: Vector = (totals[0] - totals[1]) / softness
        return translation


def _difference(side: Marginal, potential: Vector, mass: Vector, epsilon: float) -> Vector:
    difference: Vector = np.abs(mass - side.wanted(potential, mass, epsilon)).sum(axis=0)
    return difference
