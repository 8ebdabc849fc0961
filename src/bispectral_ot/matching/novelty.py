"""Elements without counterpart: farther from the other set than its own elements are from each other.

A relaxed plan leaves behind what is far from everything. Its potential is a soft distance to the other set that knows
which elements are near to everything, and counts them less. The elements of the other set have the same distance to
each other, each left out: that is what a distance is compared with.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.costs import Cost, Distance
from bispectral_ot.progress import Progress, silent
from bispectral_ot.transport import EntropicCoupling, Sinkhorn

Vector = NDArray[np.float64]

# Regularisation and penalty of the relaxed plan, relative to the scale of the cost; from 0.1 to 0.4 little changes.
_REG, _PENALTY, _TOL = 0.01, 0.2, 1e-3
_BLOCK = 256
# Elements of each set for a first impression, the fewest that allow one, and the score that it counts.
IMPRESSION, _FEWEST, _LOW_SCORE = 1024, 20, 0.1


class Unmatched(NamedTuple):
    """Elements of one set without counterpart in the other.

    Attributes
    ----------
    indices : (k,) those whose score is below the share that was asked for, the least matched first
    scores : (n,) share of the other set's elements that are at least as far from each other as this one is from them;
        of elements that do have a counterpart, about a share s has a score below s
    """

    indices: NDArray[np.int64]
    scores: Vector

    def __repr__(self) -> str:
        mean = self.scores.mean()
        return f"Unmatched({len(self.indices):,} of {len(self.scores):,} elements, scores {mean:.3f} on average)"


def relaxed_plan(cost: Cost, *, progress: Progress = silent) -> EntropicCoupling:
    """The plan that shows what has a counterpart."""
    return Sinkhorn(reg=_REG, tol=_TOL, unbalanced=_PENALTY).solve(cost, progress=progress)


def soft_distances(plan: EntropicCoupling, side: str) -> Vector:
    """``-epsilon log sum_j exp((g_j - c_ij) / epsilon)`` of the sources, or the same of the targets."""
    potential, weights = (
        (plan.source_potential, plan.source_weights)
        if side == "source"
        else (plan.target_potential, plan.target_weights)
    )
    damping = _PENALTY / (_PENALTY + _REG)
    relative = np.where(weights > 0, potential - plan.epsilon * np.log(np.where(weights > 0, weights, 1.0)), np.inf)
    distances: Vector = relative / damping
    return distances


def own_distances(within: Distance, positions: NDArray[np.int64], potential: Vector, epsilon: float) -> Vector:
    """The same distances of some elements to the other elements of their own set.

    Parameters
    ----------
    within
        Distances (k, m) of these elements to all of the set.
    positions
        Where these elements are in the set (k,).
    potential
        Of the set in the relaxed plan, (m,).
    """
    k, m = within.shape
    found = np.full(k, np.inf)
    if m == 1:
        return found
    for start in range(0, k, _BLOCK):
        rows = np.arange(start, min(start + _BLOCK, k))
        exponents = (potential - within.rows(start, rows[-1] + 1)) / epsilon
        exponents[rows - start, positions[rows]] = -np.inf
        # the others stand for all: what the element itself would have added is made up for
        found[rows] = -epsilon * (np.logaddexp.reduce(exponents, axis=1) - np.log1p(-1 / m))
    return found


def unmatched_share(between: Distance, within: Distance, *, scale: float) -> float:
    """Estimated share of the sources that have no counterpart, from a few of both sets.

    A share s of the sources that have one gets a score below s; what is in excess of that has none.
    """
    if min(between.shape) < _FEWEST:
        return 0.0
    plan = relaxed_plan(Cost.from_distance(between, scale=scale, storage="float32"))
    own = own_distances(within, np.arange(within.shape[0]), plan.target_potential, plan.epsilon)
    low = float((rank(soft_distances(plan, "source"), own) < _LOW_SCORE).mean())
    return max(0.0, (low - _LOW_SCORE) / (1 - _LOW_SCORE))


def rank(distances: Vector, reference: Vector) -> Vector:
    """Share of the reference that is at least as large, each element counted with it: ``(1 + count) / (1 + size)``."""
    ordered = np.sort(reference)
    return (1 + len(ordered) - np.searchsorted(ordered, distances, side="left")) / (1 + len(ordered))
