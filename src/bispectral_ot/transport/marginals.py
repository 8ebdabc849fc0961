"""What is asked of the mass on one side of a plan: exactly the weights, about the weights, or at most the weights.

A side has weights w, a potential, and mass (its sums over the plan). With the potential relative to the weights,
``u = potential - epsilon log w``, each kind of side states three things:

- ``step``: the potential that is best while the other side's stays, one half of a Sinkhorn iteration;
- ``wanted``: the mass after that step; a plan is a solution where the mass of both sides is the wanted one;
- ``gap``: ``F(mass) + F*(-u) + <u, mass>``, with F the penalty on this side's mass: never negative, 0 at a solution.
  The two sides' gaps add up to the duality gap.

Potentials are exponents of 2 here, as in the passes over a cost; ``epsilon`` and penalties are in units of the cost.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
LN_2 = float(np.log(2.0))
# Mass of a column that lost it all: it gets it back in steps that can be represented.
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Marginal(ABC):
    """One side of a plan: weights (n,), and how far its mass may be from them."""

    weights: Vector

    @property
    def has_mass(self) -> NDArray[np.bool_]:
        """Which elements have weight; the others are left out."""
        return self.weights > 0

    @property
    def log_weights(self) -> Vector:
        """``log2 w``; 0 where there is none."""
        return np.log2(np.where(self.has_mass, self.weights, 1.0))

    def damping(self, epsilon: float) -> float:
        """``lam / (lam + epsilon)``: what is left of a step that would restore the weights."""
        return 1.0

    def relative(self, potential: Vector) -> Vector:
        """The potential relative to the weights, u; 0 where there is no weight."""
        return np.where(self.has_mass, potential - self.log_weights, 0.0)

    @abstractmethod
    def step(self, potential: Vector, mass: Vector, epsilon: float) -> Vector:
        """The best potential, given the mass that the present one leads to."""

    def wanted(self, potential: Vector, mass: Vector, epsilon: float) -> Vector:
        """The mass after that step."""
        after = self.step(potential, mass, epsilon) + self._log_sums(potential, mass)
        return np.where(self.has_mass, np.exp2(after), 0.0)

    @abstractmethod
    def gap(self, potential: Vector, mass: Vector, epsilon: float) -> float:
        """Part of the duality gap that is due to this side, in units of the cost."""

    def _log_sums(self, potential: Vector, mass: Vector) -> Vector:
        """``log2`` of the mass without the potential and relative to the weights."""
        return np.where(self.has_mass, np.log2(np.maximum(mass, _TINY)) - potential, 0.0)


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
        totals = self._totals(np.where(self.has_mass, np.exp2(new + self._log_sums(potential, mass)), 0.0))
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


@dataclass(frozen=True, eq=False)
class AtMost(Marginal):
    """Mass of at most the weights: no potential is above the ceiling (in units of the cost), and those of elements with
    mass left over are there.
    """

    ceiling: float = 0.0

    def step(self, potential: Vector, mass: Vector, epsilon: float) -> Vector:  # noqa: D102
        return np.minimum(self._highest(epsilon), self.log_weights - self._log_sums(potential, mass))

    def gap(self, potential: Vector, mass: Vector, epsilon: float) -> float:  # noqa: D102
        below = np.where(self.has_mass, potential - self._highest(epsilon), 0.0)
        return float(abs(below @ (mass - self.weights))) * epsilon * LN_2

    def _highest(self, epsilon: float) -> float:
        """The ceiling as an exponent of 2."""
        return self.ceiling / (epsilon * LN_2)


def _divergence(mass: Vector, weights: Vector) -> float:
    """``sum x log(x / w) - x + w`` over elements that have weight."""
    kept = weights > 0
    x, w = mass[kept], weights[kept]
    return float((x * np.log(np.maximum(x, _TINY) / w) - x + w).sum())
