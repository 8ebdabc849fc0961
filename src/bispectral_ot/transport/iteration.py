"""Sinkhorn iteration: the one loop of balanced, relaxed, grouped, symmetric and batched solves, and Newton steps."""

import time
import zipfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, cg

from bispectral_ot import runtime
from bispectral_ot.errors import InputError
from bispectral_ot.store import content_hash, read_record, write_record
from bispectral_ot.transport.marginals import LOG2_E, NO_MASS, Constraints, Vector

# Passes after which Newton steps are tried at any regularization: some plans nearly decompose into parts.
PATIENCE = 200
# Marginal error at which a stage before the final regularization ends.
STAGE_TOL = 1e-2
_MAX_DAMPING = 1e6
# Passes over active entries only: least size of the cost, largest error, and mass of a negligible entry in tolerances
# spread over a row or a column (all negligible entries together have a tenth of the tolerance).
_LARGE, _LOCALIZED, _NEGLIGIBLE = 2**23, 0.1, 10.0
# Seconds between two writes of the state.
EVERY = 10.0


class Iteration:
    """Potentials f and g (in the units of the cost) and errors of a solve, updated by passes over the cost.

    ``cost`` is a Cost, or has its ``shape``, ``scale`` and ``sweep``; ``reg``, ``tol`` and ``max_iter`` are the final
    regularization, the marginal error to reach there, and the maximum number of passes.
    """

    def __init__(
        self, cost: Any, constraints: Constraints, f: Vector, g: Vector, *, reg: float, tol: float, max_iter: int
    ) -> None:
        self.cost, self.constraints = cost, constraints
        self.final_reg, self.tol, self.max_iter = reg, tol, max_iter
        self.p, self.q = constraints.source.weights, constraints.target.weights
        self.f, self.g, self.reg = f, g, np.inf
        self.history: list[tuple[float, float]] = []
        self.error = np.inf  # smallest of the latest run
        self.resumed_at = 0
        self._state: tuple[Path, str] | None = None
        self._written = time.monotonic()
        self.is_small = bool(np.prod(cost.shape) <= 2**18)  # all entries may count as active

    @property
    def exhausted(self) -> bool:
        """Whether the passes are used up; the last is reserved for the final regularization, whose plan is returned."""
        return len(self.history) + (self.reg > self.final_reg) >= self.max_iter

    def resume(self, path: Path, options: str) -> float | None:
        """Regularization of an interrupted solve in a file, which is continued and written; None without a file."""
        facts = list(self.cost.shape), self.cost.metric, f"{self.cost.scale:.4g}", options
        problem = content_hash(*facts, self.p, self.q)
        self._state = path, problem
        try:
            found = read_record(path)
            same = found["problem"] == problem
            reg, iteration = float(found["reg"]), int(found["iteration"])
            f, g = (np.asarray(found[name], dtype=np.float64) for name in ("f", "g"))
        except FileNotFoundError:
            return None
        except (OSError, KeyError, ValueError, TypeError, EOFError, RecursionError, zipfile.BadZipFile) as error:
            raise InputError(f"{path} is not the state of a solve ({error}); remove it, or name another.") from None
        if not same or (f.shape, g.shape) != (self.f.shape, self.g.shape) or np.isnan([*f, *g]).any():
            raise InputError(f"{path} is the state of another solve, of other sets or options; remove or rename it.")
        self.f, self.g, self.resumed_at = f, g, iteration
        runtime.message(f"transport: resumed at iteration {iteration:,}")
        return reg

    def run(self, reg: float, tol: float, dtype: type, *, passes: float = np.inf) -> None:
        """Sinkhorn iteration with Anderson acceleration until the column error is at most ``tol``."""
        cost, asked = self.cost, self.constraints
        self.reg = reg
        self.error = np.inf
        epsilon = reg * cost.scale
        unit = LOG2_E / epsilon
        limit = len(self.history) + passes
        damping = 1 / (1 + epsilon / asked.source.lam)
        without_mass = (1 - asked.target.mask) * NO_MASS
        anderson = Anderson()
        over = cost  # or its active entries
        gathers = 3 if np.prod(cost.shape) > _LARGE and hasattr(cost, "active") else 0
        f, state = np.maximum(self.f * unit, NO_MASS), self.g * unit
        best = f, state
        while True:
            # large penalties make large constants, in which float32 would lose the rest; f takes them up
            level = 0.0 if asked.balanced or dtype is np.float64 else float(np.median(state[asked.target.has_mass]))
            g = state - level + without_mass
            f, column_sums = over.sweep(f + damping * level, g, self.p, unit=unit, damping=damping, dtype=dtype)
            f, column_sums = f - damping * level, column_sums * 2.0 ** ((1 - damping) * level)
            image, error = asked.step(f, state, column_sums, epsilon=epsilon)
            self._record(error)
            if error < self.error:
                self.error, best = error, (f, state)
                if self._state is not None and time.monotonic() - self._written >= EVERY:
                    path, problem = self._state
                    done = {"reg": reg, "iteration": self.resumed_at + len(self.history)}
                    write_record(path, {"problem": problem, **done, "f": f / unit, "g": state / unit})
                    self._written = time.monotonic()
            elif error > 2 * self.error:
                anderson.reset()  # the extrapolation failed: plain steps are safe
            # rounding stops progress if no error of the last 20 passes was better
            recent = [e for r, e in self.history[-20:] if r == reg] if dtype is np.float32 and error < 0.1 else []
            stalled = len(recent) == 20 and min(recent) > self.error
            if self.exhausted or len(self.history) >= limit or (over is cost and (error <= tol or stalled)):
                break
            if over is not cost and (error <= 0.9 * tol or stalled):
                over, anderson, self.error = cost, Anderson(), np.inf  # the final error is that of all entries
                continue
            if over is cost and gathers > 0 and error <= _LOCALIZED:
                cut = np.log2(_NEGLIGIBLE * tol / max(cost.shape))
                rows, columns = np.where(self.p > 0, self.p, 1e300), np.maximum(column_sums, 1e-300)
                low_rows, low_columns = (np.log2(mass) + cut for mass in (rows, columns))
                over = cost.active(f, state + without_mass, low_rows, low_columns, unit=unit) or cost
                gathers = 0 if over is cost else gathers - 1
            state = anderson.next(state, image)
        self.f, self.g = np.where(self.p > 0, best[0] / unit, -np.inf), best[1] / unit

    def approach(self, regs: list[float], *, careful: bool) -> None:
        """Follow the solution down through some regularizations, each half of the one before.

        If few elements have nearly all mass, or the plan falls into parts that hardly touch, an error of ``STAGE_TOL``
        does not constrain the light elements, and their potentials drift away. Newton steps prevent this; they are
        made if they cost little, or whenever possible if ``careful``.
        """
        earlier = None
        for reg in regs:
            self.reg, here = reg, self.g
            if self.exhausted:
                break
            if earlier is not None:
                self.g = 1.5 * here - 0.5 * earlier  # potentials are nearly linear in the regularization
            with_newton = self.constraints.balanced and (careful or reg < 1e-3)  # few entries carry mass then
            self.run(reg, max(STAGE_TOL, self.tol), np.float32, passes=20 if with_newton else PATIENCE)
            if with_newton:
                self.polish(reg, min(1e-4, self.tol), points=PATIENCE)
            earlier = None if reg == regs[0] else here

    def polish(self, reg: float, tol: float, *, points: float = np.inf) -> None:
        """Newton steps on the active entries, if few, gathered again once a potential has moved by half their cut."""
        limit = len(self.history) + points
        for _ in range(100 if self.constraints.balanced and not self.constraints.symmetric else 0):
            if self.exhausted or len(self.history) >= limit or not self._run_active(reg, tol, limit):
                break

    def _run_active(self, reg: float, tol: float, limit: float) -> bool:
        """Newton steps on the entries that are active now; whether they changed anything."""
        self.reg, unit = reg, LOG2_E / (reg * self.cost.scale)
        g = np.where(self.q > 0, self.g * unit, NO_MASS)
        f, column_sums = self.cost.sweep(np.maximum(self.f * unit, NO_MASS), g, self.p, unit=unit)
        self.f = np.where(self.p > 0, f / unit, -np.inf)
        self.error = float(np.abs(column_sums - self.q).sum())
        if self.error <= tol:
            return False
        log2_cut = -np.inf if self.is_small else float(np.log2(1e-5 * self.tol / max(self.cost.shape)))
        low_rows, low_columns = (np.log2(np.maximum(mass, 1e-300)) + log2_cut for mass in (self.p, column_sums))
        density = 1.0 if self.is_small else 0.05  # Newton steps on more entries take longer than passes
        active = self.cost.gather(f, g, low_rows, low_columns, unit=unit, max_density=density)
        if active is None:
            return False

        def record(error: float) -> bool:
            self._record(error)
            self.error = min(self.error, error)
            return not self.exhausted and len(self.history) < limit

        f, new_g = newton(active, g, self.p, self.q, tol, reach=-log2_cut / 2, record=record)
        self.f, self.g = np.where(self.p > 0, f / unit, -np.inf), new_g / unit
        return not np.array_equal(g, new_g)

    def _record(self, error: float) -> None:
        self.history.append((self.reg, error))
        # Errors fall geometrically, so the share of decades done is a fair estimate of the work done.
        tol = self.tol if self.reg == self.final_reg else STAGE_TOL
        share = 1.0 - np.log(max(error, tol) / tol) / np.log(2.0 / tol) if error < 2 else 0.0
        runtime.progress("transport", round(1000 * share), 1000)


class Anderson:
    """Anderson acceleration of an iteration ``x <- F(x)``, from 12 differences of residuals ``r = F(x) - x``.

    The next point is ``F(x) - dF t`` with ``t = argmin |r - dR t|^2``, slightly regularized and bounded.
    """

    # Largest extrapolation beyond the plain step, as an exponent of 2. Where costs are tied, residuals hardly change
    # from step to step, and without a bound the extrapolation may diverge.
    _TRUST = 16.0

    def __init__(self) -> None:
        self._images: deque[Vector] = deque(maxlen=12)
        self._residuals: deque[Vector] = deque(maxlen=12)
        self._last: tuple[Vector, Vector] | None = None
        self._pause, self._plain_steps = 1, 0

    def reset(self) -> None:
        """Forget all earlier steps and continue with plain ones, twice as many each time, which ends any cycle."""
        if self._plain_steps == 0:
            self._pause *= 2
            self._plain_steps = self._pause
        self._images.clear()
        self._residuals.clear()
        self._last = None

    def next(self, x: Vector, image: Vector) -> Vector:
        """Next point to evaluate, given ``image = F(x)``; arrays of any one shape."""
        residual = image - x
        if self._last is not None:
            self._images.append(image - self._last[0])
            self._residuals.append(residual - self._last[1])
        self._last = image, residual
        if self._plain_steps > 0 or not self._residuals:
            self._plain_steps = max(self._plain_steps - 1, 0)
            return image
        differences = np.stack(self._residuals).reshape(len(self._residuals), -1)
        gram = differences @ differences.T
        gram[np.diag_indices_from(gram)] += 1e-8 * np.trace(gram) + np.finfo(float).tiny
        mix = np.linalg.solve(gram, differences @ residual.ravel())
        move = np.tensordot(mix, np.stack(self._images), axes=1)
        if not np.isfinite(move).all():
            return image
        return image - move * (self._TRUST / max(float(np.abs(move).max()), self._TRUST))


class _Point(NamedTuple):
    """Potentials of which f makes rows exact, column sums and their error, dual value, and masses of the entries."""

    f: Vector
    g: Vector
    columns: Vector
    error: float
    value: float
    masses: Vector


def newton(
    active: csr_array, g: Vector, p: Vector, q: Vector, tol: float, *, reach: float, record: Callable[[float], bool]
) -> tuple[Vector, Vector]:
    """Damped Newton (Levenberg-Marquardt) on the semi-dual, over the active entries of the plan P.

    With f chosen so that rows sum to p, the columns c = P^T 1 should equal q. The step x solves
    ``(diag((1 + damping) c) - P^T diag(1/p) P) x = c log(q / c)`` by conjugate gradients: Newton's step for
    ``log c = log q``, which is also right for columns that are off by many powers of two. The damping falls after a
    step that raises the dual value ``<p, f> + <q, g>``, which is concave, and rises after one that does not.

    ``active`` has costs as exponents of 2. ``record`` gets the column error of every point tried, and stops by False,
    as does a potential that has moved by ``reach``: other entries may matter then. Returns f and g of the best point.
    """
    rows = np.repeat(np.arange(len(p)), np.diff(active.indptr))
    filled, has_mass = np.diff(active.indptr) > 0, q > 0
    firsts = active.indptr[:-1][filled]
    row_scale, goal = 1.0 / np.sqrt(np.where(p > 0, p, 1.0)), np.where(has_mass, q, 1.0)
    log_p = np.log2(np.where(p > 0, p, 1.0))

    def at(g: Vector) -> _Point:
        heights = g[active.indices] - active.data
        highest, sums = np.zeros(len(p)), np.ones(len(p))
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
        at_least = np.maximum(here.columns, 1e-290)  # smaller ones have lost their digits to underflow
        residual = np.where(has_mass, at_least * np.log(goal / at_least), 0.0)
        while go_on and damping < _MAX_DAMPING:
            diagonal = np.where(has_mass, (1.0 + damping) * at_least, 1.0)
            scale = 1.0 / np.sqrt(np.maximum(diagonal - own, 1e-3 * damping * diagonal))
            step = _solve(shares, transposed, diagonal, residual, scale)
            # beyond 14 the quadratic model is invalid; clipped one by one, so that no component delays the others
            new = at(here.g + np.clip(step, -14.0, 14.0) * np.log2(np.e))
            go_on = record(new.error)
            # of the dual value; below it only the error distinguishes two points
            rounding = 1e-13 * float(p @ np.abs(new.f) + q @ np.abs(new.g))
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
        return scale * (diagonal * x - transposed @ (shares @ x))

    operator = LinearOperator((len(right), len(right)), matvec=apply, dtype=float)
    return scale * cg(operator, scale * right, rtol=1e-2, maxiter=500)[0]
