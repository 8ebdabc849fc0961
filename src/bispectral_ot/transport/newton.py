"""Newton steps at a small regularisation, where fixed-point steps are slow and few entries carry any mass.

The full plan is measured afterwards, and entries are gathered again if it does not agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, cg

Vector = NDArray[np.float64]

# Largest change of an exponent in one step: beyond it the quadratic model means nothing.
_TRUST = 14.0
_MAX_DAMPING = 1e6
# Smaller column sums have lost their digits to underflow.
_LEAST_MASS = 1e-290
# Rounding of the dual value, relative to its size: below it only the error can tell two points apart.
_ROUNDING = 1e-13


class _Point(NamedTuple):
    """Potentials of which f makes rows exact, column sums and their error, dual value, and masses of the entries."""

    f: Vector
    g: Vector
    columns: Vector
    error: float
    value: float
    masses: Vector


def newton(
    active: csr_array,
    g: Vector,
    p: Vector,
    q: Vector,
    tol: float,
    *,
    reach: float,
    record: Callable[[float], bool],
) -> tuple[Vector, Vector]:
    """Damped Newton (Levenberg-Marquardt) on the semi-dual, over the active entries of the plan P.

    With f chosen so that rows sum to p, the columns c = P^T 1 should equal q. The step x solves
    ``(diag((1 + damping) c) - P^T diag(1/p) P) x = c log(q / c)`` by conjugate gradients: Newton's step for
    ``log c = log q``, which is also right for columns that are off by many powers of two. The damping falls after a
    step that raises the dual value ``<p, f> + <q, g>``, which is concave, and rises after one that does not.

    ``active`` has costs as exponents of 2, and g (m,) is finite. ``record`` is called with the column error of every
    point tried, and stops by False, as does a potential that has moved by ``reach``: other entries may matter then.
    Returns f and g of the best point, by its dual value.
    """
    rows = np.repeat(np.arange(len(p)), np.diff(active.indptr))
    filled, has_mass = np.diff(active.indptr) > 0, q > 0
    firsts = active.indptr[:-1][filled]
    row_scale, goal = 1.0 / np.sqrt(np.where(p > 0, p, 1.0)), np.where(has_mass, q, 1.0)
    log_p = np.log2(np.where(p > 0, p, 1.0))

    def at(g: Vector) -> _Point:
        heights, highest, sums = g[active.indices] - active.data, np.zeros(len(p)), np.ones(len(p))
        highest[filled] = np.maximum.reduceat(heights, firsts)
        masses = np.exp2(heights - highest[rows])
        sums[filled] = np.add.reduceat(masses, firsts)
        masses *= (p / sums)[rows]
        f = log_p - np.log2(sums) - highest
        columns = np.bincount(active.indices, masses, minlength=len(q)).astype(np.float64)
        return _Point(f, g, columns, float(np.abs(columns - q).sum()), float(p @ f + q @ g), masses)

    start, here = g, at(g)
    # Parts of the plan that hardly touch are balanced by a step of size error / damping.
    damping = min(1e-2, here.error)
    go_on = record(here.error)
    while go_on and here.error > tol and damping < _MAX_DAMPING and np.abs((here.g - start)[has_mass]).max() < reach:
        shares = csr_array((here.masses * row_scale[rows], active.indices, active.indptr), shape=active.shape)
        transposed = shares.T.tocsr()
        own = np.bincount(active.indices, shares.data**2, minlength=len(q))
        at_least = np.maximum(here.columns, _LEAST_MASS)
        residual = np.where(has_mass, at_least * np.log(goal / at_least), 0.0)
        while go_on and damping < _MAX_DAMPING:
            diagonal = np.where(has_mass, (1.0 + damping) * at_least, 1.0)
            scale = 1.0 / np.sqrt(np.maximum(diagonal - own, 1e-3 * damping * diagonal))
            step = _solve(shares, transposed, diagonal, residual, scale)
            # each on its own: an element that is far off must not hold up all others
            new = at(here.g + np.clip(step, -_TRUST, _TRUST) * np.log2(np.e))
            go_on = record(new.error)
            rounding = _ROUNDING * float(p @ np.abs(new.f) + q @ np.abs(new.g))
            gain = new.value - here.value
            if gain > rounding or (gain > -rounding and new.error < here.error):
                here, damping = new, max(damping / 5, 1e-15)
                break
            damping *= 4
    return here.f, here.g


def _solve(shares: csr_array, transposed: csr_array, diagonal: Vector, right: Vector, scale: Vector) -> Vector:
    """Solve ``(diag(diagonal) - shares^T shares) x = right`` roughly, scaled since weights differ by many decades."""

    def apply(y: Vector) -> Vector:
        x = scale * y
        image: Vector = scale * (diagonal * x - transposed @ (shares @ x))
        return image

    operator = LinearOperator((len(right), len(right)), matvec=apply, dtype=float)
    solution: Vector = scale * cg(operator, scale * right, rtol=1e-2, maxiter=500)[0]
    return solution
