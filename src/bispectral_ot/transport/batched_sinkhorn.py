"""Batched Sinkhorn: many pairs of weightings of one symmetric cost, solved together by matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.costs import Cost
from bispectral_ot.engines import Block, Threads, row_blocks
from bispectral_ot.errors import NotConvergedWarning, warn
from bispectral_ot.transport.iteration import Iteration
from bispectral_ot.transport.marginals import LOG2_E, Constraints, Marginal, finite
from bispectral_ot.transport.solvers import Sinkhorn

Matrix = NDArray[np.float64]

# Pairs of weightings that are solved together: more do not make the products faster.
_TOGETHER = 32
_TOL, _MAX_ITER = 1e-4, 1000
_FLOAT32_RANGE = 1e-20
# Exponent that stands for no mass: exp is slow far below it.
_LOWEST = -600.0
# Marginal error of the potential that the kernel is stabilized by: any that is near will do.
_POOL_TOL = 0.01


class BatchedSinkhorn:
    """Debiased Sinkhorn divergences between weightings of one set of images of symmetric costs (N, N).

    With the potential ``a`` of all images against themselves, ``K = exp((a_i + a_j - C_ij) / epsilon)``. Weightings
    that are drawn from the images have potentials near ``a``, so that a few products with ``K`` are enough.
    """

    def __init__(self, cost: NDArray[np.floating], *, epsilon: float) -> None:
        self.epsilon, self._unit = epsilon, LOG2_E / epsilon
        symmetric = (cost.astype(np.float64) + cost.T) / 2
        whole = Cost.from_matrix(symmetric.astype(np.float32), scale=1.0)
        pool = Sinkhorn(reg=epsilon, tol=_POOL_TOL).solve(whole, symmetric=True)
        potential = pool.target_potential / epsilon + np.log(len(cost))
        kernel = np.exp(potential[:, None] + potential - symmetric / epsilon)
        self._potential = potential[:, None] * LOG2_E
        # float32 is twice as fast and good to 1e-7 of epsilon, where its range is not left
        self._kernel: NDArray[Any] = kernel.astype(np.float32) if kernel.min() > _FLOAT32_RANGE else kernel

    def divergences(self, source: Matrix, target: Matrix) -> NDArray[np.float64]:
        """Debiased divergences (k,) between the columns of two matrices of weights (N, k), in the units of the cost."""
        # the cores share the columns: threads of BLAS that wait for each other cost far more than they save
        blocks = row_blocks(source.shape[1], block_rows=_TOGETHER)
        found = Threads().map(_divergences, blocks, rows=(source.T, target.T), shared=(self,), stage="divergences")
        return np.concatenate(list(found))

    def at_once(self, source: Matrix, target: Matrix) -> NDArray[np.float64]:
        """Divergences on one core, all columns together."""
        count = source.shape[1]
        both = Marginal(np.concatenate([source, target], axis=1))
        own = self._solve(Constraints(both, both, symmetric=True), self._potential + both.log_weights)
        within = self._value(own) / 2
        across = self._solve(Constraints(Marginal(source), Marginal(target)), own.g[:, count:] * self._unit)
        # equal weights are at 0, also in the last digit
        same = (source == target).all(axis=0)
        return np.where(same, 0.0, self._value(across) - within[:count] - within[count:])

    def _solve(self, constraints: Constraints, start: Matrix) -> Iteration:
        kernel = _Kernel(self._kernel, self._potential, constraints)
        potential = start / self._unit
        iteration = Iteration(kernel, constraints, start, potential, reg=self.epsilon, tol=_TOL, max_iter=_MAX_ITER)
        iteration.run(self.epsilon, _TOL, np.float64)
        if iteration.error > _TOL:
            words = f"not converged: marginal error {iteration.error:.1e} after {_MAX_ITER} steps; take a larger reg."
            warn(words, NotConvergedWarning)
        return iteration

    def _value(self, found: Iteration) -> NDArray[np.float64]:
        """Dual value (k,), in the units of the cost: of second order in the marginal error."""
        sides = (found.constraints.source, found.f), (found.constraints.target, found.g)
        values = [(side.weights * side.relative(finite(each * self._unit))).sum(axis=0) for side, each in sides]
        return np.asarray(values[0] + values[1]) / self._unit


class _Kernel:
    """Cost in the form of a stabilized kernel ``K = 2 ** (a_i + a_j - unit C_ij)``, for :class:`Iteration`."""

    scale = 1.0

    def __init__(self, kernel: NDArray[Any], potential: Matrix, constraints: Constraints) -> None:
        self.kernel, self.potential, self.constraints = kernel, potential, constraints
        self.shape = kernel.shape

    def sweep(
        self, f: Matrix, g: Matrix, weights: Matrix, *, unit: float, damping: float = 1.0, dtype: type = np.float64
    ) -> tuple[Matrix, Matrix]:
        """One Sinkhorn iteration for all k weightings (N, k) of the rows; see :meth:`Cost.sweep`."""
        source = self.constraints.source
        columns = self._exponential(g)
        sums = self._product(columns)
        new = source.log_weights - damping * (np.log2(sums) - self.potential)
        if self.constraints.symmetric:  # column sums of the symmetric plan take one product less
            return new, columns * sums
        return new, columns * self._product(self._exponential(new) * source.mask)

    def _exponential(self, exponents: Matrix) -> Matrix:
        return np.exp(np.maximum((exponents - self.potential) / LOG2_E, _LOWEST))

    def _product(self, masses: Matrix) -> Matrix:
        sums = self.kernel @ masses.astype(self.kernel.dtype)
        # a point that no weight reaches has a sum of 0; its potential is never used, but must be finite
        return np.maximum(sums, np.finfo(sums.dtype).tiny).astype(np.float64)


def _divergences(block: Block, source: Matrix, target: Matrix, kernel: BatchedSinkhorn) -> NDArray[np.float64]:
    return kernel.at_once(source.T, target.T)
