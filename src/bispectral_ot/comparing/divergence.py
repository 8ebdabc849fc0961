"""Entropic transport values with a bound on their error, and what each element contributes to a divergence.

With ``P_ij = p_i q_j exp((f_i + g_j - C_ij) / epsilon)``, any pair of potentials gives a lower bound

    D(f, g) = <p, f> + <q, g> - epsilon log(sum P)  <=  OT(p, q) = min <P, C> + epsilon KL(P | p x q).

D is concave and its gradient is the error of the marginals, so that ``OT - D`` is at most half the marginal error
times the ranges of the potentials and of those at the optimum, which no range of the cost exceeds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.costs import Cost
from bispectral_ot.errors import NotConvergedWarning, warn
from bispectral_ot.progress import Progress, silent
from bispectral_ot.transport import EntropicCoupling, Sinkhorn

Vector = NDArray[np.float64]
_LOG2_E = float(np.log2(np.e))
_MOST_STEPS = 2000


@dataclass(frozen=True)
class SelfTerm:
    """The transport of a set to itself.

    Attributes
    ----------
    potential : (n,) its one potential, in the units of the cost: ``value = 2 * potential.mean()``
    value : OT(p, p), a lower bound that is at most ``error`` too small
    error : see there
    converged : whether the tolerance was met
    """

    potential: Vector
    value: float
    error: float
    converged: bool = True


def solve_self(cost: Cost, *, reg: float, tol: float, progress: Progress = silent) -> SelfTerm:
    """Solve for the one potential ``a`` of a set against itself, by ``a <- (a + T a) / 2``.

    ``T a = -epsilon log(mean_j exp((a_j - C_ij) / epsilon))`` is one pass over the cost. Its derivative has
    eigenvalues between -1 and 0, so that each step halves the error at least, where alternating steps may stall.

    Parameters
    ----------
    cost
        (n, n), symmetric.
    reg
        Regularisation relative to the scale of the cost.
    tol
        Marginal error to reach.
    """
    n = cost.shape[0]
    epsilon = reg * cost.scale
    unit = _LOG2_E / epsilon
    weights, level = np.full(n, 1.0 / n), np.log2(n)
    a = np.zeros(n)
    dtype: type = np.float32
    # float32 exponents of this size leave about such an error; below it float64 takes over
    float32_tol = max(tol, 2.0**-21 / reg)
    with cost.engine.session():
        for _ in range(_MOST_STEPS):
            image, column_sums = cost.sweep(a - level, a - level, weights, unit=unit, dtype=dtype)
            image += level
            error = float(np.abs(column_sums - weights).sum())
            progress("self-term", round(1000 * _decades(error, tol)), 1000)
            if dtype is np.float64 and error <= tol:
                break
            if error <= float32_tol:
                dtype = np.float64
            a = (a + image) / 2
        else:
            warn(
                f"not converged: a set against itself has a marginal error of {error:.1e} after {_MOST_STEPS} passes, "
                f"{tol:.1e} was asked for; allow a larger tol or a larger reg.",
                NotConvergedWarning,
            )
    a, image = a / unit, image / unit
    # rows are exact for (T a, a), so the mass is one
    bound = _bound(cost, 0.0, error, image, a)
    return SelfTerm((a + image) / 2, float((a + image).mean()), bound, error <= tol)


@dataclass(frozen=True)
class CrossTerm:
    """The transport of one set to another.

    Attributes
    ----------
    source_potential, target_potential : (n,) and (m,) in the units of the cost
    value : ``source_potential.mean() + target_potential.mean()``, a lower bound that is at most ``error`` too small
    error : see there
    nearest_targets, nearest_sources : (n,) and (m,) the element of the other set that gets most of each one's mass
    """

    source_potential: Vector
    target_potential: Vector
    value: float
    error: float
    converged: bool
    nearest_targets: NDArray[np.int64]


def solve_cross(cost: Cost, solver: Sinkhorn, *, progress: Progress = silent) -> CrossTerm:
    """Solve for the potentials of two sets of uniform weights."""
    coupling = solver.solve(cost, progress=progress)
    return cross_term(coupling)


def cross_term(coupling: EntropicCoupling) -> CrossTerm:
    """Value and bound of a solved problem of uniform weights."""
    cost, epsilon = coupling.cost, coupling.epsilon
    n, m = coupling.shape
    found = coupling.summary(k=1)
    mass = float(found.row_sums.sum())
    # in units in which the weights are in front of the exponential; all mass is one, which is the best D
    f = coupling.source_potential + epsilon * (np.log(n) - np.log(mass))
    g = coupling.target_potential + epsilon * np.log(m)
    row_error = float(np.abs(found.row_sums / mass - 1 / n).sum())
    column_error = float(np.abs(found.column_sums / mass - 1 / m).sum())
    return CrossTerm(
        f,
        g,
        float(f.mean() + g.mean()),
        _bound(cost, row_error, column_error, f, g),
        coupling.converged,
        found.top_indices[:, 0],
    )


def _bound(cost: Cost, row_error: float, column_error: float, f: Vector, g: Vector) -> float:
    """How much D may be below the transport value of the distances as they were before they were stored."""
    largest = cost.maximum
    gap = 0.5 * (row_error * (largest + np.ptp(f)) + column_error * (largest + np.ptp(g)))
    return float(gap + cost.storage_error)


def _decades(error: float, tol: float) -> float:
    """Share of the work that is done: errors fall geometrically."""
    return float(np.clip(1.0 - np.log(max(error, tol) / tol) / np.log(2.0 / tol), 0.0, 1.0))
