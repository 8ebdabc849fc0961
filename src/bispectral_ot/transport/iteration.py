"""The state of a Sinkhorn solve, and the ways to move it on."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from bispectral_ot.costs import Cost
from bispectral_ot.progress import Progress
from bispectral_ot.transport.anderson import Anderson
from bispectral_ot.transport.constraints import LOG2_E, Constraints
from bispectral_ot.transport.coupling import EntropicCoupling, Vector, finite
from bispectral_ot.transport.newton import newton
from bispectral_ot.transport.saved import SavedSolve

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


class Goal(Protocol):
    """What is to be reached, and with how much effort: options of :class:`~bispectral_ot.Sinkhorn`."""

    @property
    def reg(self) -> float: ...  # noqa: D102
    @property
    def tol(self) -> float: ...  # noqa: D102
    @property
    def max_iter(self) -> int: ...  # noqa: D102
    @property
    def lookback(self) -> int: ...  # noqa: D102


class Iteration:
    """The state of a solve: potentials (in the units of the cost) and error, moved on by passes over the cost."""

    def __init__(
        self,
        goal: Goal,
        cost: Cost,
        constraints: Constraints,
        f: Vector,
        g: Vector,
        progress: Progress,
        saved: SavedSolve | None = None,
    ) -> None:
        self.goal, self.cost, self.constraints, self.progress = goal, cost, constraints, progress
        self.saved = saved
        self.p, self.q = constraints.source.weights, constraints.target.weights
        self.f, self.g, self.reg = f, g, np.inf
        self.history: list[tuple[float, float]] = []
        # the best pair seen so far at the current regularisation: (error, f, g)
        self.best = (np.inf, f, g)

    @property
    def is_small(self) -> bool:
        """Whether all entries may count as active."""
        return self.cost.shape[0] * self.cost.shape[1] <= _ALL_ACTIVE

    def unit(self, reg: float) -> float:
        """Exponent of 2 for each unit of the cost."""
        return LOG2_E / (reg * self.cost.scale)

    def run(self, reg: float, tol: float, dtype: type, *, passes: float = np.inf) -> None:
        """Sinkhorn with Anderson steps until the column error is below ``tol`` or the passes are used up."""
        self.reg = reg
        unit, epsilon, limit = self.unit(reg), reg * self.cost.scale, len(self.history) + passes
        anderson = Anderson(self.goal.lookback) if self.goal.lookback else None
        f, state = finite(self.f * unit), self.constraints.begin(self.g, unit=unit)
        self.best = (np.inf, self.f, self.g)
        while True:
            f, column_sums = self.constraints.sweep(self.cost, f, state, epsilon=epsilon, dtype=dtype)
            error = self.constraints.error(state, column_sums, epsilon=epsilon)
            self.history.append((reg, error))
            self._report_progress(error)
            if error < self.best[0]:
                self.constraints, g = self.constraints.end(state, unit=unit)
                self.best = (error, np.where(self.p > 0, f / unit, -np.inf), g)
                if self.saved is not None:
                    self.saved.write(reg, *self.best[1:])
            elif anderson is not None and error > 2 * self.best[0]:
                anderson.reset()  # the extrapolation went astray: plain steps are safe
            if error <= tol or self.exhausted or len(self.history) >= limit:
                break
            if dtype is np.float32 and self._stalled(error, reg):
                break
            image = self.constraints.image(f, state, column_sums, epsilon=epsilon)
            state = anderson.next(state, image) if anderson is not None else image
        _, self.f, self.g = self.best

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
            self.run(reg, max(STAGE_TOL, self.goal.tol), np.float32, passes=passes)
            if with_newton:
                self.polish(reg, min(_FOLLOWED_TOL, self.goal.tol), points=PATIENCE)
            earlier = None if reg == regs[0] else here

    def polish(self, reg: float, tol: float, *, points: float = np.inf) -> None:
        """Newton steps on the active entries, gathered again as potentials move; none if those are too many."""
        limit = len(self.history) + points
        for _ in range(_ACTIVE_ROUNDS if self.constraints.balanced else 0):
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
        log2_cut = -np.inf if self.is_small else float(np.log2(1e-5 * self.goal.tol / max(self.cost.shape)))
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
            tol=self.goal.tol,
            iterations=len(self.history),
            history=tuple(self.history),
            reg=self.reg,
            source_potential=self.f,
            target_potential=np.where(self.q > 0, self.g, -np.inf),
            constraints=self.constraints,
        )

    @property
    def exhausted(self) -> bool:
        """Whether the passes are used up; the last is kept for the final regularisation, so that its plan is there."""
        return len(self.history) + (self.reg > self.goal.reg) >= self.goal.max_iter

    def _stalled(self, error: float, reg: float) -> bool:
        """Whether float32 rounding stops progress: no better error within the last 20 passes."""
        recent = [e for r, e in self.history[-20:] if r == reg]
        return len(recent) == 20 and error < 0.1 and min(recent) > self.best[0]

    def _report_progress(self, error: float) -> None:
        # Errors fall geometrically, so the share of decades done is a fair estimate of the work done.
        tol = self.goal.tol if self.reg == self.goal.reg else STAGE_TOL
        share = 1.0 - np.log(max(error, tol) / tol) / np.log(2.0 / tol) if error < 2 else 0.0
        self.progress("transport", round(1000 * share), 1000)
