"""Solvers: Sinkhorn iteration, one plan at a time or batched, and exact transport by the network simplex of POT."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from bispectral_ot import runtime
from bispectral_ot.checks import check_integer, check_positive
from bispectral_ot.costs import Cost
from bispectral_ot.engines import Threads, row_blocks
from bispectral_ot.errors import InputError, NotConvergedWarning, warn
from bispectral_ot.transport.coupling import EntropicCoupling, SparseCoupling
from bispectral_ot.transport.iteration import PATIENCE, STAGE_TOL, Iteration
from bispectral_ot.transport.marginals import LOG2_E, NO_MASS, Constraints, Marginal, Vector, as_weights

Matrix = NDArray[np.float64]
# Above this regularization the iteration converges from anywhere; below, it is approached by halving from here.
_EASY_REG = 0.02


@dataclass(frozen=True, kw_only=True)
class Sinkhorn:
    """Entropic optimal transport: ``min <P, C> - reg * scale * H(P)`` over plans with given marginals.

    ``scale`` is that of the cost. With ``unbalanced`` the marginal constraints are replaced by KL penalties, relative
    to the weights p and q of the two sides:
    ``min <P, C> + scale * (reg KL(P | p q^T) + lam_source KL(P 1 | p) + lam_target KL(P^T 1 | q))``, where
    ``KL(x | w) = sum x log(x / w) - x + w``: elements without counterpart send and receive less.

    Each iteration is one pass over the cost, with Anderson acceleration; small regularizations are approached by
    halving, with Newton steps on the few entries that carry mass. ``converged`` depends on the measured error.

    Parameters
    ----------
    reg : Regularization relative to the scale of the cost (its largest entry, unless another was given).
    tol
        Marginal error to reach: ``|P 1 - p|_1 + |P^T 1 - q|_1``. If marginals are relaxed, p and q stand for the
        sums after one more half-step of their side, and the error is relative to the total mass.
    max_iter : Maximum number of passes over the cost.
    unbalanced
        Penalty on marginals that differ from the weights, in the units of ``reg`` (and the same at every ``reg``): one
        for both sides, or (source, target), None for an exact side. Weights need not sum to one then.

    Examples
    --------
    The third source has no counterpart and sends little mass:

    >>> cost = [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    >>> Sinkhorn(reg=0.1, unbalanced=0.1).solve(cost).to_dense().sum(axis=1).round(3).tolist()
    [0.302, 0.302, 0.003]
    """

    reg: float = 0.01
    tol: float = 1e-4
    max_iter: int = 10_000
    unbalanced: float | tuple[float | None, float | None] | None = None

    def __post_init__(self) -> None:
        check_positive("reg", self.reg, "for none take the solver exact (ExactTransport)")
        check_positive("tol", self.tol, "give the marginal error to reach, such as 1e-4")
        check_integer("max_iter", self.max_iter, minimum=1)
        for lam in self._penalties:
            if lam is not None:
                check_positive("unbalanced", lam, "give a penalty such as 0.1, or None for exact marginals")

    @property
    def _penalties(self) -> tuple[Any, Any]:
        both: Any = self.unbalanced
        if not isinstance(both, tuple):
            return both, both
        if len(both) != 2:
            raise InputError(f"unbalanced must be a number, a pair (source, target) or None, got {both!r}.")
        return both

    def extra_bytes(self, shape: tuple[int, int]) -> int:
        """Memory of a solve in addition to the cost: vectors only, which are not counted."""
        return 0

    def solve(
        self,
        cost: "Cost | ArrayLike",
        source_weights: "ArrayLike | None" = None,
        target_weights: "ArrayLike | None" = None,
        *,
        target_groups: tuple[NDArray[np.int64], Vector] | None = None,
        symmetric: bool = False,
        state: str | Path | None = None,
    ) -> EntropicCoupling:
        """Compute the plan; if ``tol`` is missed, the best plan with a :class:`NotConvergedWarning`.

        Parameters
        ----------
        cost : Cost (n, m), or a matrix of costs.
        source_weights, target_weights : (n,) and (m,), each of sum one unless marginals are relaxed; default: uniform.
        target_groups
            Groups 0, 1, ... of the targets (m,), such as classes, and penalties (groups,) on the deviation of each
            total from the sum of its weights, in the units of ``reg``, 0 for none; for a relaxed target side.
        symmetric
            Whether a set is transported to itself, with a symmetric cost and the source weights: f and g are the same.
        state : File that gets the potentials every few seconds, to resume an interrupted solve; removed at the end.
        """
        cost = cost if isinstance(cost, Cost) else Cost.from_matrix(cost)
        constraints = self._constraints(cost, (source_weights, target_weights), target_groups, symmetric)
        # for a set and itself, the potential of a cost of 0 is a better start than 0
        level = constraints.target.log_weights * (self.reg * cost.scale / LOG2_E)
        start = np.zeros(cost.shape[0]), level if symmetric else np.zeros(cost.shape[1])
        iteration = Iteration(cost, constraints, *start, reg=self.reg, tol=self.tol, max_iter=self.max_iter)
        halvings = int(np.log2(_EASY_REG / self.reg)) if 2 * self.reg < _EASY_REG and not symmetric else 0
        stages = [self.reg * 2.0**k for k in range(halvings, 0, -1)]
        with runtime.one_blas_thread():
            resumed_reg = None if state is None else iteration.resume(Path(state), repr(self))
            left = [reg for reg in stages if resumed_reg is None or reg < resumed_reg]
            iteration.approach(left, careful=iteration.is_small)
            again = constraints.balanced and not (iteration.is_small and resumed_reg is None)
            attempts = self._attempts(iteration, stages if again else [])
            best: EntropicCoupling | None = None
            for attempt in attempts:
                attempt()
                if iteration.error > 2 * self.tol and attempt is not attempts[-1] and not iteration.exhausted:
                    continue  # a measurement would take as long as some passes
                f, g = iteration.f, np.where(iteration.q > 0, iteration.g, -np.inf)
                if symmetric:
                    f = g = (f + g) / 2  # f = T g and g are equal at the solution
                coupling = EntropicCoupling(
                    cost=cost,
                    source_weights=iteration.p,
                    target_weights=iteration.q,
                    tol=self.tol,
                    iterations=len(iteration.history),
                    history=tuple(iteration.history),
                    reg=iteration.reg,
                    source_potential=f,
                    target_potential=g,
                    constraints=constraints,
                    resumed_at=iteration.resumed_at,
                )
                if best is None or coupling.marginal_error < best.marginal_error:
                    best = coupling
                if best.converged or iteration.exhausted:
                    break
        if state is not None:
            Path(state).unlink(missing_ok=True)
        assert best is not None
        return best.checked()

    def _attempts(self, iteration: Iteration, stages: list[float]) -> list[Callable[[], None]]:
        """Steps at the final regularization, each more thorough than the one before."""
        aim = 0.9 * self.tol
        # Potentials of size 1/reg in float32 leave about this error; below it float64 has to take over.
        float32_aim = max(aim, 2.0**-22 / self.reg)
        rough = max(STAGE_TOL, aim) if 2 * self.reg < _EASY_REG else float32_aim
        first = partial(iteration.run, self.reg, rough, np.float32, passes=PATIENCE)
        polish = partial(iteration.polish, self.reg, aim)
        last = [partial(iteration.run, self.reg, float32_aim, np.float32), polish]
        last.append(partial(iteration.run, self.reg, aim, np.float64))
        if not stages:
            return [first, polish, *last]

        def approach_with_care() -> None:
            iteration.g = np.zeros_like(iteration.g)
            iteration.approach(stages, careful=True)
            first()
            polish(points=PATIENCE)

        return [first, partial(polish, points=50), approach_with_care, *last]

    def _constraints(self, cost: Cost, weights: tuple[Any, Any], groups: Any, symmetric: bool) -> Constraints:
        normalized = self.unbalanced is None
        p = as_weights(weights[0], cost.shape[0], "source_weights", normalized=normalized)
        source, target = (np.inf if lam is None else lam * cost.scale for lam in self._penalties)
        if symmetric:
            if cost.shape[0] != cost.shape[1] or source != target:
                found = f"shape {cost.shape} and unbalanced={self.unbalanced!r}"
                raise InputError(f"symmetric needs a square cost and the same penalty on both sides, got {found}.")
            side = Marginal(p, source)
            return Constraints(side, side, symmetric=True)
        q = as_weights(weights[1], cost.shape[1], "target_weights", normalized=normalized)
        if groups is None:
            return Constraints(Marginal(p, source), Marginal(q, target))
        labels, lam = np.asarray(groups[0], dtype=np.int64), np.asarray(groups[1], dtype=np.float64)
        numbered = len(labels) == len(q) and labels.min() >= 0 and labels.max() < len(lam)
        if np.isinf(target) or not (numbered and (lam >= 0).all() and np.isfinite(lam).all()):
            wanted = f"a label 0, 1, ... for each of the {len(q)} targets, and a finite penalty >= 0 for each group"
            raise InputError(f"target_groups need a relaxed target side, {wanted}.")
        return Constraints(Marginal(p, source), Marginal(q, target, labels, lam * cost.scale))


@dataclass(frozen=True, kw_only=True)
class ExactTransport:
    """Solve ``min <P, C>`` over plans with the given marginals, without regularization (network simplex).

    For up to a few thousand elements: the cost is stored in float64, and time grows with the cube of the size.

    ``tol`` is the marginal error ``|P 1 - p|_1 + |P^T 1 - q|_1`` to accept, ``max_iter`` the maximum number of steps.

    Examples
    --------
    >>> ExactTransport().solve([[0.0, 1.0], [1.0, 0.0]]).to_dense().tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """

    tol: float = 1e-9
    max_iter: int = 10_000_000

    def __post_init__(self) -> None:
        check_positive("tol", self.tol, "give the marginal error to accept, such as 1e-9")
        check_integer("max_iter", self.max_iter, minimum=1)

    def extra_bytes(self, shape: tuple[int, int]) -> int:
        """Memory that a solve takes in addition to the cost: five float64 matrices and a byte per entry (measured)."""
        return 41 * shape[0] * shape[1]

    def solve(
        self,
        cost: "Cost | ArrayLike",
        source_weights: "ArrayLike | None" = None,
        target_weights: "ArrayLike | None" = None,
    ) -> SparseCoupling:
        """Compute the plan; see :meth:`Sinkhorn.solve`."""
        import ot

        cost = cost if isinstance(cost, Cost) else Cost.from_matrix(cost)
        n, m = cost.shape
        p, q = as_weights(source_weights, n, "source_weights"), as_weights(target_weights, m, "target_weights")
        runtime.progress("transport", 0, 0)
        # shifted and scaled, which does not change the plan, so that POT's tolerances suit any numbers
        matrix = cost.block(0, n, dtype=np.float64)
        matrix -= matrix.min()
        matrix /= matrix.max() or 1.0
        with warnings.catch_warnings(action="ignore"):  # POT warns; the marginal error is measured instead
            plan, log = ot.emd(p, q, matrix, numItermax=self.max_iter, log=True)
        optimal = log["warning"] is None  # the marginals are correct long before the plan is optimal
        coupling = SparseCoupling(
            cost=cost,
            source_weights=p,
            target_weights=q,
            tol=self.tol,
            iterations=0 if optimal else self.max_iter,
            plan=csr_array(plan),
            optimal=optimal,
        )
        return coupling.checked()


class BatchedSinkhorn:
    """Debiased Sinkhorn divergences between weightings of one set of images of symmetric costs (N, N).

    With the potential ``a`` of all images against themselves, ``K = exp((a_i + a_j - C_ij) / epsilon)``. Weightings
    that are drawn from the images have potentials near ``a``, so that a few products with ``K`` are enough.
    """

    _tol, _max_iter = 1e-4, 1000

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
        options: Any = {"reg": self.epsilon, "tol": self._tol, "max_iter": self._max_iter}
        iteration = Iteration(cost, constraints, start, start / self._unit, **options)
        iteration.run(self.epsilon, self._tol, np.float64)
        if iteration.error > self._tol:
            found = f"marginal error {iteration.error:.1e} after {self._max_iter} steps"
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
        exponents = [np.maximum(each * self._unit, NO_MASS) - side.log_weights for side, each in sides]
        values = [(side.weights * each).sum(axis=0) for (side, _), each in zip(sides, exponents, strict=True)]
        return np.asarray(values[0] + values[1]) / self._unit
