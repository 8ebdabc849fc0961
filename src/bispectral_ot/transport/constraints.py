"""What a solve asks of both sides of the plan together, and the iteration that follows from it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bispectral_ot.costs import Cost, Sweep
from bispectral_ot.transport.marginals import AtMost, Exact, Marginal, Relaxed, Vector

LOG2_E = float(np.log2(np.e))


@dataclass(frozen=True, eq=False)
class Constraints:
    """Marginals of the two sides. The state of an iteration is the target's potential, as exponents of 2."""

    source: Marginal
    target: Marginal

    @property
    def balanced(self) -> bool:
        """Whether both sides are exact."""
        return isinstance(self.source, Exact) and isinstance(self.target, Exact)

    def begin(self, g: Vector, *, unit: float) -> Vector:
        """The state to begin with, from a target potential in the units of the cost."""
        return g * unit

    def end(self, state: Vector, *, unit: float) -> tuple[Constraints, Vector]:
        """The constraints and the target potential that a state stands for, in the units of the cost."""
        return self, state / unit

    def sweep(self, cost: Cost, f: Vector, state: Vector, *, epsilon: float, dtype: type) -> Sweep:
        """One pass over the cost: the best source potential, and the mass of the targets that it leads to."""
        damping, weights = self.source.damping(epsilon), self.source.weights
        # large penalties make large constants, in which float32 would lose the rest; f takes them up
        level = 0.0 if self.balanced else float(np.median(state[self.target.has_mass]))
        g = np.where(self.target.has_mass, state - level, -1e30)
        found = cost.sweep(f + damping * level, g, weights, unit=LOG2_E / epsilon, damping=damping, dtype=dtype)
        return Sweep(found.f - damping * level, found.column_sums * 2.0 ** ((1 - damping) * level))

    def image(self, f: Vector, state: Vector, column_sums: Vector, *, epsilon: float) -> Vector:
        """The state after a plain step."""
        g = self.target.step(state, column_sums, epsilon)
        kinds = {type(self.source), type(self.target)}
        return g - self._translation(f, g, epsilon) if kinds in ({Relaxed}, {Exact, Relaxed}) else g

    def error(self, state: Vector, column_sums: Vector, *, epsilon: float) -> float:
        """``|mass - wanted mass|_1`` of the targets; that of the sources is 0 after a sweep."""
        return self._in_proportion(_difference(self.target, state, column_sums, epsilon), column_sums)

    def residual(self, f: Vector, g: Vector, row_sums: Vector, column_sums: Vector, *, epsilon: float) -> float:
        """``|mass - wanted mass|_1`` of both sides, relative to the mass that goes over where that is not given."""
        error = _difference(self.source, f, row_sums, epsilon) + _difference(self.target, g, column_sums, epsilon)
        return self._in_proportion(error, column_sums)

    def _in_proportion(self, error: float, column_sums: Vector) -> float:
        return error if self.balanced else error / max(float(column_sums.sum()), 1e-300)

    def gap(self, f: Vector, g: Vector, row_sums: Vector, column_sums: Vector, *, epsilon: float) -> float:
        """Duality gap in units of the cost."""
        return self.source.gap(f, row_sums, epsilon) + self.target.gap(g, column_sums, epsilon)

    def _translation(self, f: Vector, g: Vector, epsilon: float) -> float:
        """The constant k that is best in f + k and g - k (Sejourne, Vialard and Peyre, 2022).

        Plain steps change the mass in all by a factor of the dampings: without this, large penalties need many passes.
        """
        softness, totals = 0.0, []
        for side, potential in ((self.source, f), (self.target, g)):
            # what a constant changes: the mass that is wanted, as exponents of 2
            ratio = epsilon / side.lam if isinstance(side, Relaxed) else 0.0
            totals.append(np.logaddexp2.reduce((side.log_weights - side.relative(potential) * ratio)[side.has_mass]))
            softness += ratio
        return float((totals[0] - totals[1]) / softness)


@dataclass(frozen=True, eq=False)
class PartialConstraints(Constraints):
    """At most the weights on both sides, and a given mass in all.

    The plan is ``2 ** (f + g + k - c)`` with f and g of at most 0; the constant k belongs to the mass. The state has
    k as its last entry, and the source potential includes it: its ceiling is k.
    """

    source: AtMost
    target: AtMost
    mass: float

    def begin(self, g: Vector, *, unit: float) -> Vector:  # noqa: D102
        return np.append(np.minimum(g, 0.0), self.source.ceiling) * unit

    def end(self, state: Vector, *, unit: float) -> tuple[Constraints, Vector]:  # noqa: D102
        source = replace(self.source, ceiling=float(state[-1]) / unit)
        return replace(self, source=source), np.minimum(state[:-1], 0.0) / unit

    def sweep(self, cost: Cost, f: Vector, state: Vector, *, epsilon: float, dtype: type) -> Sweep:  # noqa: D102
        g = np.where(self.target.has_mass, np.minimum(state[:-1], 0.0), -1e30)
        ceiling = float(state[-1])
        return cost.sweep(f, g, self.source.weights, unit=LOG2_E / epsilon, ceiling=ceiling, dtype=dtype)

    def image(self, f: Vector, state: Vector, column_sums: Vector, *, epsilon: float) -> Vector:  # noqa: D102
        old = np.minimum(state[:-1], 0.0)
        g = self.target.step(old, column_sums, epsilon)
        total = float((column_sums * np.exp2(g - old))[self.target.has_mass].sum())
        return np.append(g, state[-1] + np.log2(self.mass / total))

    def error(self, state: Vector, column_sums: Vector, *, epsilon: float) -> float:  # noqa: D102
        missing = abs(float(column_sums.sum()) / self.mass - 1)
        return super().error(np.minimum(state[:-1], 0.0), column_sums, epsilon=epsilon) + missing

    def residual(self, f: Vector, g: Vector, row_sums: Vector, column_sums: Vector, *, epsilon: float) -> float:  # noqa: D102
        missing = abs(float(row_sums.sum()) / self.mass - 1)
        return super().residual(f, g, row_sums, column_sums, epsilon=epsilon) + missing


def _difference(side: Marginal, potential: Vector, mass: Vector, epsilon: float) -> float:
    wanted = np.where(side.has_mass, side.wanted(potential, mass, epsilon), 0.0)
    return float(np.abs(mass - wanted).sum())
