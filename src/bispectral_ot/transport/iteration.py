"""Sinkhorn iteration: the one loop of balanced, relaxed, grouped, symmetric and batched solves, and Newton steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bispectral_ot import runtime
from bispectral_ot.transport.anderson import Anderson
from bispectral_ot.transport.coupling import EntropicCoupling, Vector, finite
from bispectral_ot.transport.marginals import LOG2_E, NO_MASS, Constraints
from bispectral_ot.transport.newton import newton
from bispectral_ot.transport.saved import SavedSolve

if TYPE_CHECKING:
    from bispectral_ot.transport.sinkhorn import Sinkhorn

# Passes after which Newton steps are tried even at an easy regularisation: some plans fall nearly into parts.
PATIENCE = 200
# Marginal error at which an annealing stage has done its work.
STAGE_TOL = 1e-2
# Below this regularisation so few entries carry mass that Newton steps cost little: stages end with some.
_SHARP_REG = 1e-3
_PASSES_BEFORE_NEWTON = 20
_FOLLOWED_TOL = 1e-4
# Active entries pay off below this share of all, or if the plan is so small that all may count as active.
_ACTIVE_DENSITY = 0.05
_ALL_ACTIVE = 2**18
# Once a potential has moved by half the exponent at which entries are cut, they are gathered again, so many times.
_ACTIVE_ROUNDS = 100


class Iteration:
    """State of a solve: potentials (in the units of the cost) and error, updated by passes over the cost."""

    def __init__(
        self,
        solver: Sinkhorn,
        cost: Any,
        constraints: Constraints,
        f: Vector,
        g: Vector,
        saved: SavedSolve | None = None,
        resumed_at: int = 0,
    ) -> None:
        # a Cost, or what has its ``shape``, ``scale`` and ``sweep``
        self.solver, self.cost, self.constraints, self.saved = solver, cost, constraints, saved
        self.p, self.q = constraints.source.weights, constraints.target.weights
        self.f, self.g, self.reg, self.resumed_at = f, g, np.inf, resumed_at
        self.history: list[tuple[float, float]] = []
        self.error = np.inf  # smallest of the latest run

    @property
    def is_small(self) -> bool:
        """Whether all entries may count as active."""
        return bool(np.prod(self.cost.shape) <= _ALL_ACTIVE)

    def unit(self, reg: float) -> float:
        """Exponent of 2 for each unit of the cost."""
        return LOG2_E / (reg * float(self.cost.scale))

    def run(self, reg: float, tol: float, dtype: type, *, passes: float = np.inf) -> None:
        """Sinkhorn iteration with Anderson acceleration until the column error is at most ``tol``."""
        self.reg, cost, asked = reg, self.cost, self.constraints
        unit, epsilon, limit = self.unit(reg), reg * cost.scale, len(self.history) + passes
        damping, has_mass = asked.source.damping(epsilon), asked.target.has_mass
        anderson = Anderson()
        f, state = finite(self.f * unit), self.g * unit
        without_mass = (1 - asked.target.mask) * NO_MASS
        self.error, best = np.inf, (f, state)
        while True:
            # large penalties make large constants, in which float32 would lose the rest; f takes them up
            level = 0.0 if asked.balanced or dtype is np.float64 else float(np.median(state[has_mass]))
            g = state - level + without_mass
            found = cost.sweep(f + damping * level, g, self.p, unit=unit, damping=damping, dtype=dtype)
            f, column_sums = found.f - damping * level, found.column_sums * 2.0 ** ((1 - damping) * level)
            error = asked.error(state, column_sums, epsilon=epsilon)
            self.history.append((reg, error))
            self._report_progress(error)
            if error < self.error:
                self.error, best = error, (f, state)
                if self.saved is not None:
                    self.saved.write(reg, self.resumed_at + len(self.history), f / unit, state / unit)
            elif error > 2 * self.error:
                anderson.reset()  # the extrapolation failed: plain steps are safe
            if error <= tol or self.exhausted or len(self.history) >= limit:
                break
            if dtype is np.float32 and self._stalled(error, reg):
                break
            state = anderson.next(state, asked.image(f, state, column_sums, epsilon=epsilon))
        self.f, self.g = np.where(self.p > 0, best[0] / unit, -np.inf), best[1] / unit

    def approach(self, regs: list[float], *, careful: bool, resumed: bool = False) -> None:
        """Follow the solution down through some regularisations, each half of the one before.

        Where few elements have nearly all mass, or the plan falls into parts that hardly touch, an error of
        ``STAGE_TOL`` says nothing of the light ones: their potentials go astray, in exponents twice as far with every
        halving. Newton steps keep all of them on the way; they are made where they cost little, and wherever
        possible if ``careful``. On that way potentials are nearly linear in the regularisation. It begins at 0, or
        at the potentials that are there if it is ``resumed``.
        """
        self.g, earlier = self.g if resumed else np.zeros_like(self.g), None
        for reg in regs:
            self.reg, here = reg, self.g
            if self.exhausted:
                break
            if earlier is not None:
                self.g = 1.5 * here - 0.5 * earlier
            with_newton = self.constraints.balanced and (careful or reg < _SHARP_REG)
            passes = _PASSES_BEFORE_NEWTON if with_newton else PATIENCE
            self.run(reg, max(STAGE_TOL, self.solver.tol), np.float32, passes=passes)
            if with_newton:
                self.polish(reg, min(_FOLLOWED_TOL, self.solver.tol), points=PATIENCE)
            earlier = None if reg == regs[0] else here

    def polish(self, reg: float, tol: float, *, points: float = np.inf) -> None:
        """Newton steps on the active entries, gathered again as potentials move; none if those are too many."""
        limit = len(self.history) + points
        for _ in range(_ACTIVE_ROUNDS if self.constraints.balanced and not self.constraints.symmetric else 0):
            if self.exhausted or len(self.history) >= limit or not self.run_active(reg, tol, limit):
                break

    def run_active(self, reg: float, tol: float, limit: float) -> bool:
        """Newton steps on the entries that are active now.

        Returns whether that changed anything: not if the plan is right, active entries are too many, or no step helps.
        """
        self.reg = reg
        unit = self.unit(reg)
        g = np.where(self.q > 0, self.g * unit, NO_MASS)
        f, column_sums = self.cost.sweep(finite(self.f * unit), g, self.p, unit=unit)
        self.f = np.where(self.p > 0, f / unit, -np.inf)
        if np.abs(column_sums - self.q).sum() <= tol:
            return False
        log2_cut = -np.inf if self.is_small else float(np.log2(1e-5 * self.solver.tol / max(self.cost.shape)))
        low_rows, low_columns = (np.log2(np.maximum(mass, 1e-300)) + log2_cut for mass in (self.p, column_sums))
        density = 1.0 if self.is_small else _ACTIVE_DENSITY
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
            constraints=self.constraints,
            resumed_at=self.resumed_at,
        )

    @property
    def exhausted(self) -> bool:
        """Whether the passes are used up; the last is kept for the final regularisation, so that its plan is there."""
        return len(self.history) + (self.reg > self.solver.reg) >= self.solver.max_iter

    def _stalled(self, error: float, reg: float) -> bool:
        """Whether float32 rounding stops progress: no better error within the last 20 passes."""
        recent = [e for r, e in self.history[-20:] if r == reg]
        return len(recent) == 20 and error < 0.1 and min(recent) > self.error

    def _report_progress(self, error: float) -> None:
        # Errors fall geometrically, so the share of decades done is a fair estimate of the work done.
        tol = self.solver.tol if self.reg == self.solver.reg else STAGE_TOL
        share = 1.0 - np.log(max(error, tol) / tol) / np.log(2.0 / tol) if error < 2 else 0.0
        runtime.progress("transport", round(1000 * share), 1000)
