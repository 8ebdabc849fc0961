"""Newton steps for the last digits at a small regularisation, where fixed-point steps crawl."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, cg

from bispectral_ot.costs import SparseCost

Vector = NDArray[np.float64]

# Largest change of an exponent in one step: beyond it the quadratic model means nothing.
_TRUST = 14.0
_MAX_DAMPING = 1e6
# Smaller column sums have lost their digits to underflow.
_LEAST_MASS = 1e-290
# Rounding of the dual value, relative to its size: below it only the error can tell two points apart.
_ROUNDING = 1e-13


def newton(
    active: SparseCost,
    f: Vector,
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
    ``log c = log q``, which is right for columns that are off by many powers of two, too. The damping falls after a
    step that raises the dual value ``<p, f> + <q, g>`` and rises after one that does not. That value is concave, so
    that some damping always helps; the error alone may have to rise first.

    Parameters
    ----------
    f, g
        Potentials in units of the exponent (base 2), finite.
    reach
        Stop once a potential has moved so far that other entries may matter.
    record
        Called with the column error of every point tried; False stops.

    Returns
    -------
    f, g : the best point, by its dual value
    """
    rows = np.repeat(np.arange(len(p)), np.diff(active.starts))
    has_mass, shape = q > 0, (len(p), len(q))
    row_scale, goal = 1.0 / np.sqrt(np.where(p > 0, p, 1.0)), np.where(has_mass, q, 1.0)
    start = g
    f, columns = active.sweep(f, g, p)
    error = float(np.abs(columns - q).sum())
    value = float(p @ f + q @ g)
    # Parts of the plan that hardly touch are balanced by a step of size error / damping.
    damping = min(1e-2, error)
    go_on = record(error)
    while go_on and error > tol and damping < _MAX_DAMPING and np.abs((g - start)[has_mass]).max() < reach:
        masses = np.exp2(f[rows] + g[active.columns] - active.exponents)
        shares = csr_array((masses * row_scale[rows], active.columns, active.starts), shape=shape)
        transposed = shares.T.tocsr()
        own = np.bincount(active.columns, shares.data**2, minlength=len(q))
        at_least = np.maximum(columns, _LEAST_MASS)
        residual = np.where(has_mass, at_least * np.log(goal / at_least), 0.0)
        while go_on and damping < _MAX_DAMPING:
            diagonal = np.where(has_mass, (1.0 + damping) * at_least, 1.0)
            scale = 1.0 / np.sqrt(np.maximum(diagonal - own, 1e-3 * damping * diagonal))
            step = _solve(shares, transposed, diagonal, residual, scale)
            # each on its own: an element that is far off must not hold up all others
            new_g = g + np.clip(step, -_TRUST, _TRUST) * np.log2(np.e)
            new_f, new_columns = active.sweep(f, new_g, p)
            new_error = float(np.abs(new_columns - q).sum())
            new_value = float(p @ new_f + q @ new_g)
            go_on = record(new_error)
            rounding = _ROUNDING * float(p @ np.abs(new_f) + q @ np.abs(new_g))
            if new_value > value + rounding or (new_value > value - rounding and new_error < error):
                f, g, columns, error, value = new_f, new_g, new_columns, new_error, new_value
                damping = max(damping / 5, 1e-15)
                break
            damping *= 4
    return f, g


def _solve(shares: csr_array, transposed: csr_array, diagonal: Vector, right: Vector, scale: Vector) -> Vector:
    """Solve ``(diag(diagonal) - shares^T shares) x = right`` roughly, by conjugate gradients on ``x / scale``.

    The scale brings the diagonal to 1: weights may differ by hundreds of powers of two.
    """

    def apply(y: Vector) -> Vector:
        x = scale * y
        image: Vector = scale * (diagonal * x - transposed @ (shares @ x))
        return image

    operator = LinearOperator((len(right), len(right)), matvec=apply, dtype=float)
    solution: Vector = scale * cg(operator, scale * right, rtol=1e-2, maxiter=500)[0]
    return solution
