"""Batched Sinkhorn: many pairs of weightings of one symmetric cost, solved together by matrix products."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.costs import Cost
from bispectral_ot.engines import Threads, row_blocks
from bispectral_ot.errors import NotConvergedWarning, warn
from bispectral_ot.transport.iteration import Iteration
from bispectral_ot.transport.marginals import LOG2_E, Constraints, Marginal, finite
from bispectral_ot.transport.solvers import Sinkhorn

Matrix = NDArray[np.float64]

_TOL, _MAX_ITER = 1e-4, 1000


class BatchedSinkhorn:
    """Debiased Sinkhorn divergences between weightings of one set of images of symmetric costs (N, N).

    With the potential ``a`` of all images against themselves, ``K = exp((a_i + a_j - C_ij) / epsilon)``. Weightings
    that are drawn from the images have potentials near ``a``, so that a few products with ``K`` are enough.
    """

    def __init__(self, cost: NDArray[np.floating], *, epsilon: float) -> None:
        self.epsilon, self._unit = epsilon, LOG2_E / epsilon
        symmetric = (cost.astype(np.float64) + cost.T) / 2
        whole = Cost.from_matrix(symmetric.astype(np.float32), scale=1.0)
        pool = Sinkhorn(reg=epsilon, tol=0.01).solve(whole, symmetric=True)  # any nearby potential is sufficient
        potential = pool.target_potential / epsilon + np.log(len(cost))
        kernel = np.exp(potential[:, None] + potential - symmetric / epsilon)
        self._potential = potential[:, None] * LOG2_E
        # float32 is twice as fast and good to 1e-7 of epsilon, within its range
        self._kernel: NDArray[Any] = kernel.astype(np.float32) if kernel.min() > 1e-20 else kernel

    def divergences(self, source: Matrix, target: Matrix) -> NDArray[np.float64]:
        """Debiased divergences (k,) between the columns of two matrices of weights (N, k), in the units of the cost."""
        # cores share the columns, since threads of BLAS would wait for each other; more than 32 together are not faster
        blocks = row_blocks(source.shape[1], block_rows=32)
        found = Threads().map(self._at_once, blocks, rows=(source.T, target.T), stage="divergences")
        return np.concatenate(list(found))

    def _at_once(self, _block: Any, source_rows: Matrix, target_rows: Matrix) -> NDArray[np.float64]:
        source, target, count = source_rows.T, target_rows.T, len(source_rows)
        both = Marginal(np.concatenate([source, target], axis=1))
        own = self._solve(Constraints(both, both, symmetric=True), self._potential + both.log_weights)
        within = self._value(own) / 2
        across = self._solve(Constraints(Marginal(source), Marginal(target)), own.g[:, count:] * self._unit)
        # equal weights are at 0, also in the last digit
        same = (source == target).all(axis=0)
        return np.where(same, 0.0, self._value(across) - within[:count] - within[count:])

    def _solve(self, constraints: Constraints, start: Matrix) -> Iteration:
        cost = SimpleNamespace(shape=self._kernel.shape, scale=1.0, sweep=partial(self._sweep, constraints))
        potential = start / self._unit
        iteration = Iteration(cost, constraints, start, potential, reg=self.epsilon, tol=_TOL, max_iter=_MAX_ITER)
        iteration.run(self.epsilon, _TOL, np.float64)
        if iteration.error > _TOL:
            found = f"marginal error {iteration.error:.1e} after {_MAX_ITER} steps"
            warn(f"not converged: {found}; take a larger reg.", NotConvergedWarning)
        return iteration

    def _sweep(
        self, asked: Constraints, _f: Matrix, g: Matrix, _weights: Matrix, *, damping: float, **_: Any
    ) -> tuple[Matrix, Matrix]:
        """One Sinkhorn iteration for all k weightings (N, k) of the rows; see :meth:`Cost.sweep`."""
        columns = self._exponential(g)
        sums = self._product(columns)
        new = asked.source.log_weights - damping * (np.log2(sums) - self._potential)
        if asked.symmetric:  # column sums of the symmetric plan take one product less
            return new, columns * sums
        return new, columns * self._product(self._exponential(new) * asked.source.mask)

    def _exponential(self, exponents: Matrix) -> Matrix:
        return np.exp(np.maximum((exponents - self._potential) / LOG2_E, -600.0))  # exp is slow far below

    def _product(self, masses: Matrix) -> Matrix:
        sums = self._kernel @ masses.astype(self._kernel.dtype)
        # a point that no weight reaches has a sum of 0; its potential is never used, but must be finite
        return np.maximum(sums, np.finfo(sums.dtype).tiny).astype(np.float64)

    def _value(self, found: Iteration) -> NDArray[np.float64]:
        """Dual value (k,), in the units of the cost: of second order in the marginal error."""
        sides = (found.constraints.source, found.f), (found.constraints.target, found.g)
        values = [(side.weights * (finite(each * self._unit) - side.log_weights)).sum(axis=0) for side, each in sides]
        return np.asarray(values[0] + values[1]) / self._unit
