"""Entropic optimal transport at the speed of memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bispectral_ot.checks import check_integer, check_positive
from bispectral_ot.costs import Cost, as_cost
from bispectral_ot.errors import InputError
from bispectral_ot.progress import Progress, silent
from bispectral_ot.transport.anderson import Anderson
from bispectral_ot.transport.coupling import LOG2_E, EntropicCoupling, Vector, finite
from bispectral_ot.transport.newton import newton
from bispectral_ot.transport.solver import warn_unless_converged
from bispectral_ot.transport.weights import as_weights

# Above this regularisation (of the scaled cost) the iteration converges from anywhere; below, annealing starts here.
_EASY_REG = 0.02
# Passes after which Newton steps are tried even at an easy regularisation: some plans fall nearly into parts.
_PATIENCE = 200
# Marginal error at which an annealing stage has done its work.
_STAGE_TOL = 1e-2
# Below this regularisation so few entries carry mass that Newton steps cost little: stages end with some.
_SHARP_REG = 1e-3
_PASSES_BEFORE_NEWTON = 20
_FOLLOWED_TOL = 1e-4
# Newton steps at the final regularisation after which it is approached again, with more care.
_NEWTON_POINTS = 50
# Active entries pay off below this share of all, or if the plan is so small that all may count as active.
_ACTIVE_DENSITY = 0.05
_ALL_ACTIVE = 2**18
# Once a potential has moved by half the exponent at which entries are cut, they are gathered again, so many times.
_ACTIVE_ROUNDS = 100


@dataclass(frozen=True, kw_only=True)
class Sinkhorn:
    """Solve ``min <P, C> - reg * scale * H(P)`` over plans with the given marginals; ``scale`` is the cost's.

    Each iteration is one fused pass over the cost (rows and columns together), accelerated by Anderson's
    extrapolation; small regularisations are approached by halving from an easy one, with Newton steps on the few
    entries that carry mass, which also find the last digits. The passes run in float32 until its rounding shows, then
    in float64. The result is measured in float64 over all entries, and ``converged`` is that measurement.

    Parameters
    ----------
    reg
        Regularisation relative to the scale of the cost (its largest entry, unless another was given).
    tol
        Marginal error to reach: ``|P 1 - p|_1 + |P^T 1 - q|_1``.
    max_iter
        Passes over the cost at most.
    anneal
        Whether to approach a small ``reg`` from larger ones.
    lookback
        Steps that Anderson's extrapolation looks back on; 0 gives the plain iteration.

    Examples
    --------
    >>> from bispectral_ot import Sinkhorn
    >>> coupling = Sinkhorn(reg=0.1).solve([[0.0, 1.0], [1.0, 0.0]])
    >>> coupling.converged
    True
    """

    reg: float = 0.01
    tol: float = 1e-4
    max_iter: int = 10_000
    anneal: bool = True
    lookback: int = 8

    def __post_init__(self) -> None:
        check_positive("reg", self.reg, "for none take the solver exact (ExactTransport)")
        check_positive("tol", self.tol, "give the marginal error to reach, such as 1e-4")
        check_integer("max_iter", self.max_iter, minimum=1)
        check_integer("lookback", self.lookback, minimum=0)

    def extra_bytes(self, shape: tuple[int, int]) -> int:
        """Memory that a solve takes in addition to the cost: none that counts."""
        return 0

    def solve(
        self,
        cost: Cost | ArrayLike,
        source_weights: ArrayLike | None = None,
        target_weights: ArrayLike | None = None,
        *,
        potentials: tuple[ArrayLike, ArrayLike] | None = None,
        progress: Progress = silent,
    ) -> EntropicCoupling:
        """Find the plan; where ``tol`` is not met a :class:`NotConvergedWarning` is given, and the best plan returned.

        Parameters
        ----------
        cost
            The cost (n, m), or a matrix of costs.
        source_weights, target_weights
            (n,) and (m,), each summing to one; uniform by default.
        potentials
            A warm start: ``(source_potential, target_potential)`` of an earlier, similar solve.
        progress
            Called after each pass.
        """
        cost = as_cost(cost)
        n, m = cost.shape
        p = as_weights(source_weights, n, "source_weights")
        q = as_weights(target_weights, m, "target_weights")
        f, g = _starting_potentials(potentials, self.reg * cost.scale, cost.scale, q, n)
        with cost.engine.session():
            iteration = _Iteration(self, cost, p, q, f, g, progress)
            stages, is_small = self._stages() if self.anneal else [], n * m <= _ALL_ACTIVE
            if potentials is None:
                iteration.approach(stages, careful=is_small)
            aim = 0.9 * self.tol
            # Potentials of size 1/reg in float32 leave about this error; below it float64 has to take over.
            float32_aim = max(aim, 2.0**-22 / self.reg)
            rough = max(_STAGE_TOL, aim) if 2 * self.reg < _EASY_REG else float32_aim
            iteration.run(self.reg, rough, np.float32, passes=_PATIENCE)
            coupling = iteration.coupling()

            def approach_with_care() -> None:
                iteration.approach(stages, careful=True)
                iteration.run(self.reg, rough, np.float32, passes=_PATIENCE)
                iteration.polish(self.reg, aim, points=_PATIENCE)

            further: list[Callable[[], None]] = [
                lambda: iteration.run(self.reg, float32_aim, np.float32),
                lambda: iteration.polish(self.reg, aim),
                lambda: iteration.run(self.reg, aim, np.float64),
            ]
            if stages and not (is_small and potentials is None):
                further = [lambda: iteration.polish(self.reg, aim, points=_NEWTON_POINTS), approach_with_care, *further]
            else:
                further = [lambda: iteration.polish(self.reg, aim), *further]
            for go_on in further:
                if coupling.converged or iteration.exhausted:
                    break
                go_on()
                coupling = min(coupling, iteration.coupling(), key=lambda each: each.marginal_error)
        return warn_unless_converged(coupling)

    def _stages(self) -> list[float]:
        """Regularisations before the final one."""
        halvings = int(np.log2(_EASY_REG / self.reg)) if 2 * self.reg < _EASY_REG else 0
        return [self.reg * 2.0**k for k in range(halvings, 0, -1)]


class _Iteration:
    """The state of a solve: potentials (in the units of the cost) and error, moved on by passes over the cost."""

    def __init__(
        self, solver: Sinkhorn, cost: Cost, p: Vector, q: Vector, f: Vector, g: Vector, progress: Progress
    ) -> None:
        self.solver, self.cost, self.p, self.q, self.progress = solver, cost, p, q, progress
        self.f, self.g, self.reg = f, g, np.inf
        self.history: list[tuple[float, float]] = []
        # the best pair seen so far at the current regularisation: (error, f, g)
        self.best = (np.inf, f, g)

    def unit(self, reg: float) -> float:
        """Exponent of 2 for each unit of the cost."""
        return LOG2_E / (reg * self.cost.scale)

    def run(self, reg: float, tol: float, dtype: type, *, passes: float = np.inf) -> None:
        """Sinkhorn with Anderson steps until the column error is below ``tol`` or the passes are used up."""
        self.reg = reg
        unit, limit = self.unit(reg), len(self.history) + passes
        anderson = Anderson(self.solver.lookback) if self.solver.lookback else None
        f, g = finite(self.f * unit), self.g * unit
        self.best = (np.inf, self.f, self.g)
        has_mass = self.q > 0
        while True:
            f, column_sums = self.cost.sweep(f, np.where(has_mass, g, -1e30), self.p, unit=unit, dtype=dtype)
            error = float(np.abs(column_sums - self.q).sum())
            self.history.append((reg, error))
            self._report_progress(error)
            if error < self.best[0]:
                self.best = (error, np.where(self.p > 0, f / unit, -np.inf), g / unit)
            elif anderson is not None and error > 2 * self.best[0]:
                anderson.reset()  # the extrapolation went astray: plain steps are safe
            if error <= tol or self.exhausted or len(self.history) >= limit:
                break
            if dtype is np.float32 and self._stalled(error, reg):
                break
            image = g.copy()
            # a column that lost all its mass gets it back in steps that can be represented
            image[has_mass] += np.log2(self.q[has_mass] / np.maximum(column_sums[has_mass], 1e-300))
            g = anderson.next(g, image) if anderson is not None else image
        _, self.f, self.g = self.best

    def approach(self, regs: list[float], *, careful: bool) -> None:
        """Follow the solution down through some regularisations, each half of the one before.

        Where few elements have nearly all mass, or the plan falls into parts that hardly touch, an error of
        ``_STAGE_TOL`` says nothing of the light ones: their potentials go astray, in exponents twice as far with every
        halving. Newton steps keep all of them on the way; they are made where they cost little, and wherever
        possible if ``careful``. On that way potentials are nearly linear in the regularisation.
        """
        self.g, earlier = np.zeros_like(self.g), None
        for reg in regs:
            self.reg, here = reg, self.g
            if self.exhausted:
                break
            if earlier is not None:
                self.g = 1.5 * here - 0.5 * earlier
            with_newton = careful or reg < _SHARP_REG
            passes = _PASSES_BEFORE_NEWTON if with_newton else _PATIENCE
            self.run(reg, max(_STAGE_TOL, self.solver.tol), np.float32, passes=passes)
            if with_newton:
                self.polish(reg, min(_FOLLOWED_TOL, self.solver.tol), points=_PATIENCE)
            earlier = None if reg == regs[0] else here

    def polish(self, reg: float, tol: float, *, points: float = np.inf) -> None:
        """Newton steps on the active entries, gathered again as potentials move; none if those are too many."""
        limit = len(self.history) + points
        for _ in range(_ACTIVE_ROUNDS):
            if self.exhausted or len(self.history) >= limit or not self.run_active(reg, tol, limit):
                break

    def run_active(self, reg: float, tol: float, limit: float) -> bool:
        """Newton steps on the entries that are active now.

        Returns whether that changed anything: not if the plan is right, active entries are too many, or no step helps.
        """
        self.reg = reg
        unit = self.unit(reg)
        g = np.where(self.q > 0, self.g * unit, -1e30)
        f, column_sums = self.cost.sweep(finite(self.f * unit), g, self.p, unit=unit)
        self.f = np.where(self.p > 0, f / unit, -np.inf)
        if np.abs(column_sums - self.q).sum() <= tol:
            return False
        n, m = self.cost.shape
        is_small = n * m <= _ALL_ACTIVE
        log2_cut = -np.inf if is_small else float(np.log2(1e-5 * self.solver.tol / max(n, m)))
        low_rows, low_columns = (np.log2(np.maximum(mass, 1e-300)) + log2_cut for mass in (self.p, column_sums))
        density = 1.0 if is_small else _ACTIVE_DENSITY
        active = self.cost.gather(f, g, low_rows, low_columns, unit=unit, max_density=density)
        if active is None:
            return False

        def record(error: float) -> bool:
            self.history.append((reg, error))
            self._report_progress(error)
            return not self.exhausted and len(self.history) < limit

        f, new_g = newton(active, f, g, self.p, self.q, tol, reach=-log2_cut / 2, record=record)
        self.f, self.g = np.where(self.p > 0, f / unit, -np.inf), new_g / unit
        return not np.array_equal(g, new_g)

    def coupling(self) -> EntropicCoupling:
        """The best pair of potentials as a coupling, measured in float64."""
        return EntropicCoupling(
            cost=self.cost,
            source_weights=self.p,
            target_weights=self.q,
            tol=self.solver.tol,
            iterations=len(self.history),
            history=tuple(self.history),
            reg=self.reg,
            source_potential=self.f,
            target_potential=np.where(self.q > 0, self.g, -np.inf),
        )

    @property
    def exhausted(self) -> bool:
        """Whether the passes are used up; the last is kept for the final regularisation, so that its plan is there."""
        return len(self.history) + (self.reg > self.solver.reg) >= self.solver.max_iter

    def _stalled(self, error: float, reg: float) -> bool:
        """Whether float32 rounding stops progress: no better error within the last 20 passes."""
        recent = [e for r, e in self.history[-20:] if r == reg]
        return len(recent) == 20 and error < 0.1 and min(recent) > self.best[0]

    def _report_progress(self, error: float) -> None:
        # Errors fall geometrically, so the share of decades done is a fair estimate of the work done.
        tol = self.solver.tol if self.reg == self.solver.reg else _STAGE_TOL
        share = 1.0 - np.log(max(error, tol) / tol) / np.log(2.0 / tol) if error < 2 else 0.0
        self.progress("transport", round(1000 * share), 1000)


def _starting_potentials(
    potentials: tuple[ArrayLike, ArrayLike] | None, epsilon: float, scale: float, q: Vector, n: int
) -> tuple[Vector, Vector]:
    m = len(q)
    if potentials is None:
        return np.zeros(n), np.zeros(m)
    f, g = (np.array(potential, dtype=np.float64) for potential in potentials)
    if f.shape != (n,) or g.shape != (m,):
        raise InputError(f"potentials have shapes {f.shape} and {g.shape}; the cost needs ({n},) and ({m},).")
    f, g = np.nan_to_num(f, neginf=0.0), np.nan_to_num(g, neginf=0.0)
    # The solution's g - epsilon log q spreads no wider than the cost, so a start outside would only lose passes.
    level = epsilon * np.log(np.where(q > 0, q, 1.0))
    middle = np.median((g - level)[q > 0])
    return f, np.clip(g - level, middle - scale, middle + scale) + level
