"""Many divergences between parts of one pool of images: one kernel, all weight vectors solved together."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.engines import Block, Threads, row_blocks
from bispectral_ot.errors import NotConvergedWarning, warn
from bispectral_ot.progress import Progress, silent

Matrix = NDArray[np.float64]

# Pairs of weight vectors that are solved together: more do not make the products faster.
_TOGETHER = 32
_MOST_STEPS = 1000
_FLOAT32_RANGE = 1e-20


class Pool(Protocol):
    """Images of which many parts are compared with each other."""

    def divergences(self, source: Matrix, target: Matrix, *, progress: Progress = silent) -> NDArray[np.float64]:
        """Divergences (k,) between the columns of two matrices of weights (N, k), in the units of the cost."""


class PooledKernel:
    """The kernel of all images of a pool, for debiased divergences between weightings of it.

    With the potential ``a`` of the pool against itself, ``K = exp((a_i + a_j - C_ij) / epsilon)``. Weightings that
    are drawn from the pool have potentials near ``a``: they are solved for relative to it, so that a few products with
    ``K`` are enough, and what a divergence is the small difference of cancels exactly.

    Parameters
    ----------
    cost
        (N, N) costs between all images of the pool; symmetric.
    epsilon
        Regularisation in the units of the cost.
    penalty
        On marginals that differ from the weights, in the units of the cost; None for exact ones.
    tol
        Marginal error to reach; that of a divergence is of second order in it.

    Examples
    --------
    >>> import numpy as np
    >>> points = np.array([0.0, 1.0, 2.0, 3.0])
    >>> kernel = PooledKernel((points[:, None] - points) ** 2, epsilon=1.0)
    >>> first, second = np.array([[0.5, 0.5, 0, 0]]).T, np.array([[0, 0, 0.5, 0.5]]).T
    >>> kernel.divergences(first, second).round(3)
    array([4.])
    >>> kernel.divergences(first, first)
    array([0.])
    """

    def __init__(
        self, cost: NDArray[np.floating], *, epsilon: float, penalty: float | None = None, tol: float = 1e-4
    ) -> None:
        self.epsilon, self.tol = epsilon, tol
        # in units of epsilon
        self._penalty = None if penalty is None else penalty / epsilon
        scaled = (cost.astype(np.float64) + cost.T) / (2 * epsilon)
        potential = scaled.mean(axis=1) / 2
        for _ in range(_MOST_STEPS):
            exponents = potential - scaled
            top = exponents.max(axis=1)
            image = -np.log(np.exp(exponents - top[:, None]).mean(axis=1)) - top
            step = image - potential
            potential = potential + step / 2
            if np.abs(np.expm1(-step)).mean() <= 0.01:  # any potential that is near will do
                break
        self._potential = potential[:, None]
        kernel = np.exp(potential + self._potential - scaled)
        # float32 is twice as fast and good to 1e-7 of epsilon, where its range is not left
        self._kernel: NDArray[Any] = kernel.astype(np.float32) if kernel.min() > _FLOAT32_RANGE else kernel

    def divergences(self, source: Matrix, target: Matrix, *, progress: Progress = silent) -> NDArray[np.float64]:
        """Debiased divergences (k,) between the columns of two matrices of weights (N, k), in the units of the cost."""
        engine, blocks = Threads(), row_blocks(source.shape[1], block_rows=_TOGETHER)
        # the cores share the columns: threads of BLAS that wait for each other cost far more than they save
        with engine.session():
            rows = source.T, target.T
            found = engine.map(_divergences, blocks, rows=rows, shared=(self,), stage="divergences", progress=progress)
            return np.concatenate(list(found))

    def divergences_at_once(self, source: Matrix, target: Matrix) -> NDArray[np.float64]:
        """The same on one core, all columns together."""
        count = source.shape[1]
        both = np.concatenate([source, target], axis=1)
        own, own_image = self._own_potentials(both)
        within = self._dual(both, own_image, both, own) / 2
        u, v = self._potentials(source, target, own[:, count:])
        across = self._dual(source, u, target, v)
        # equal weights are at 0, also in the last digit
        same = (source == target).all(axis=0)
        return np.where(same, 0.0, self.epsilon * (across - within[:count] - within[count:]))

    def _dual(self, source: Matrix, u: Matrix, target: Matrix, v: Matrix) -> NDArray[np.float64]:
        """The dual value (k,) of potentials of which u is the image of v, in units of epsilon."""
        if self._penalty is None:
            # relative to the potential of the pool, which adds as much to what is subtracted
            return np.asarray((source * u).sum(axis=0) + (target * v).sum(axis=0))
        lam = self._penalty
        # the plan has the mass of its rows, which are exact
        rows = -(lam + 1) * np.expm1(-(u + self._potential) / lam)
        columns = -lam * np.expm1(-(v + self._potential) / lam)
        return np.asarray((source * rows).sum(axis=0) + (target * columns).sum(axis=0))

    def _own_potentials(self, weights: Matrix) -> tuple[Matrix, Matrix]:
        """Potentials (N, k) of weightings against themselves, in units of epsilon and relative to the pool's.

        Their image under one more step is returned, too.
        """
        own = np.zeros_like(weights)
        for _ in range(_MOST_STEPS):
            image = self._transformed(weights, own)
            error = (weights * _relative_error(own - image)).sum(axis=0).max()
            if error <= self.tol:
                return own, image
            own = (own + image) / 2
        self._warn(error)
        return own, image

    def _potentials(self, source: Matrix, target: Matrix, start: Matrix) -> tuple[Matrix, Matrix]:
        v = start
        for _ in range(_MOST_STEPS):
            u = self._transformed(target, v)
            image = self._transformed(source, u)
            error = (target * _relative_error(v - image)).sum(axis=0).max()
            if error <= self.tol:
                return u, v
            v = image
        self._warn(error)
        return u, v

    def _transformed(self, weights: Matrix, potentials: Matrix) -> Matrix:
        """``-log(K (w * exp(potential)))``, column by column; damped where marginals are relaxed."""
        masses = weights * np.exp(potentials)
        sums = self._kernel @ masses.astype(self._kernel.dtype)
        # a point that no weight reaches has a sum of 0; its potential is never used, but must be finite
        image: Matrix = -np.log(np.maximum(sums, np.finfo(sums.dtype).tiny).astype(np.float64))
        if self._penalty is None:
            return image
        damping = self._penalty / (self._penalty + 1)
        damped: Matrix = damping * image - (1 - damping) * self._potential
        return damped

    def _warn(self, error: float) -> None:
        warn(
            f"not converged: marginal error {error:.1e} after {_MOST_STEPS} steps, {self.tol:.1e} was asked for; "
            "take a larger reg.",
            NotConvergedWarning,
        )


class PooledExact:
    """Exact transport values between weightings of a pool, one after the other.

    Examples
    --------
    >>> import numpy as np
    >>> points = np.array([0.0, 1.0, 2.0, 3.0])
    >>> first, second = np.array([[0.5, 0.5, 0, 0]]).T, np.array([[0, 0, 0.5, 0.5]]).T
    >>> PooledExact((points[:, None] - points) ** 2).divergences(first, second)
    array([4.])
    """

    def __init__(self, cost: NDArray[np.floating]) -> None:
        self._cost = (cost.astype(np.float64) + cost.T) / 2

    def divergences(self, source: Matrix, target: Matrix, *, progress: Progress = silent) -> NDArray[np.float64]:
        """``min <P, C>`` (k,) between the columns of two matrices of weights (N, k)."""
        import ot

        found = np.zeros(source.shape[1])
        for column, (p, q) in enumerate(zip(source.T, target.T, strict=True)):
            rows, columns = np.flatnonzero(p), np.flatnonzero(q)
            found[column] = ot.emd2(p[rows], q[columns], self._cost[np.ix_(rows, columns)])
            progress("divergences", column + 1, len(found))
        return found


def _divergences(block: Block, source: Matrix, target: Matrix, kernel: PooledKernel) -> NDArray[np.float64]:
    return kernel.divergences_at_once(source.T, target.T)


def _relative_error(exponents: Matrix) -> Matrix:
    """``|exp(x) - 1|``, bounded: at the start of a solve it may be anything."""
    error: Matrix = np.abs(np.expm1(np.minimum(exponents, 30.0)))
    return error
