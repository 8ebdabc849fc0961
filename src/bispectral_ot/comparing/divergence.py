"""Transport values with a bound on their error, and what each element adds to them.

With ``P_ij = p_i q_j exp((f_i + g_j - C_ij) / epsilon)``, any pair of potentials gives a lower bound

    D(f, g) = <p, f> + <q, g> - epsilon log(sum P)  <=  OT(p, q) = min <P, C> + epsilon KL(P | p x q).

D is concave and its gradient is the error of the marginals, so that ``OT - D`` is at most half the marginal error
times the ranges of the potentials and of those at the optimum, which no range of the cost exceeds.

Relaxed marginals are paid for, ``OT = min <P, C> + epsilon KL(P | p x q) + lam KL(P 1 | p) + lam KL(P^T 1 | q)``. Then

    D(f, g) = <p, w(f)> + <q, w(g)> - epsilon (sum P - 1),    w(f) = lam (1 - exp(-f / lam)),

and ``OT - D`` is at most the duality gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.comparing.pooled import Pool, PooledExact, PooledKernel
from bispectral_ot.costs import Cost
from bispectral_ot.errors import NotConvergedWarning, warn
from bispectral_ot.progress import Progress, silent
from bispectral_ot.transport import ExactTransport, Sinkhorn
from bispectral_ot.transport.marginals import Relaxed

Vector = NDArray[np.float64]
_LOG2_E = float(np.log2(np.e))
_MOST_STEPS = 2000


@dataclass(frozen=True)
class SelfTerm:
    """The transport of a set to itself.

    Attributes
    ----------
    values : (n,) half of what each element adds, in the units of the cost: ``OT(p, p) = 2 * values.mean()``
    error : by how much that may be too small
    converged : whether the tolerance was met
    """

    values: Vector
    error: float
    converged: bool = True

    @property
    def value(self) -> float:
        """OT(p, p)."""
        return float(2 * self.values.mean())


@dataclass(frozen=True)
class CrossTerm:
    """The transport of one set to another.

    Attributes
    ----------
    source_values, target_values : (n,) and (m,) what each element adds, in the units of the cost:
        ``OT(p, q) = source_values.mean() + target_values.mean()``
    source_potential, target_potential : (n,) and (m,); most mass of i goes to the j where ``g_j - C_ij`` is largest
    error : by how much the value may be too small
    converged : whether the tolerance was met
    """

    source_values: Vector
    target_values: Vector
    source_potential: Vector
    target_potential: Vector
    error: float
    converged: bool

    @property
    def value(self) -> float:
        """OT(p, q)."""
        return float(self.source_values.mean() + self.target_values.mean())


class Transport(Protocol):
    """How one set of uniform weights goes over to another: what a divergence is made of."""

    @property
    def floating(self) -> bool:
        """Whether values may be moved from all elements of one side to all of the other."""

    def extra_bytes(self, shape: tuple[int, int]) -> int:
        """Memory that a solve takes in addition to the cost."""

    def within(self, cost: Cost, *, progress: Progress = silent) -> SelfTerm:
        """The transport of a set to itself; its cost is symmetric."""

    def across(self, cost: Cost, *, progress: Progress = silent) -> CrossTerm:
        """The transport of one set to another."""

    def pool(self, costs: NDArray[np.floating], *, scale: float) -> Pool:
        """Divergences between many weightings of a few images, whose costs (N, N) are given."""


@dataclass(frozen=True, kw_only=True)
class EntropicTransport:
    """Sinkhorn's problem, balanced or relaxed.

    Attributes
    ----------
    reg : regularisation relative to the scale of the cost
    tol : marginal error to reach
    penalty : on marginals that differ from the weights, relative to the scale; None for exact marginals
    """

    reg: float
    tol: float = 1e-6
    penalty: float | None = None

    @property
    def floating(self) -> bool:  # noqa: D102
        return self.penalty is None

    def extra_bytes(self, shape: tuple[int, int]) -> int:  # noqa: D102
        return Sinkhorn().extra_bytes(shape)

    def within(self, cost: Cost, *, progress: Progress = silent) -> SelfTerm:
        """Solve for the one potential ``a`` of a set against itself, by ``a <- (a + T a) / 2``.

        ``T a = -tau epsilon log(mean_j exp((a_j - C_ij) / epsilon))`` is one pass over the cost, with ``tau = 1``, or
        ``lam / (lam + epsilon)`` where marginals are relaxed. Its derivative has eigenvalues between -1 and 0, so that
        each step halves the error at least, where alternating steps may stall.
        """
        n = cost.shape[0]
        epsilon = self.reg * cost.scale
        unit = _LOG2_E / epsilon
        weights, level = np.full(n, 1.0 / n), np.log2(n)
        side = None if self.penalty is None else Relaxed(weights, self.penalty * cost.scale)
        damping = 1.0 if side is None else side.damping(epsilon)
        a = np.zeros(n)
        dtype: type = np.float32
        # float32 exponents of this size leave about such an error; below it float64 takes over
        float32_tol = max(self.tol, 2.0**-21 / self.reg)
        with cost.engine.session():
            for _ in range(_MOST_STEPS):
                image, column_sums = cost.sweep(a - level, a - level, weights, unit=unit, damping=damping, dtype=dtype)
                image += level
                # the mass that the potential itself asks for
                wanted = weights if side is None else side.wanted(a - level, column_sums, epsilon)
                error = float(np.abs(column_sums - wanted).sum() / wanted.sum())
                progress("self-term", round(1000 * _decades(error, self.tol)), 1000)
                if dtype is np.float64 and error <= self.tol:
                    break
                if error <= float32_tol:
                    dtype = np.float64
                a = (a + image) / 2
            else:
                warn(
                    f"not converged: a set against itself has a marginal error of {error:.1e} after {_MOST_STEPS} "
                    f"passes, {self.tol:.1e} was asked for; allow a larger tol or a larger reg.",
                    NotConvergedWarning,
                )
        f, g = image / unit, a / unit
        if side is None:
            # rows are exact for (T a, a), so the mass is one
            values, bound = (f + g) / 2, _bound(cost, 0.0, error, f, g)
        else:
            # rows are exact, so their mass is that of the plan
            values = _relaxed_values(f, g, side.lam, epsilon)
            bound = max(side.gap(a - level, column_sums, epsilon), 0.0) + cost.storage_error
        return SelfTerm(values, bound, error <= self.tol)

    def across(self, cost: Cost, *, progress: Progress = silent) -> CrossTerm:
        """Solve for the potentials of two sets."""
        solver = Sinkhorn(reg=self.reg, tol=self.tol, unbalanced=self.penalty)
        coupling = solver.solve(cost, progress=progress)
        epsilon = coupling.epsilon
        n, m = cost.shape
        found = coupling.summary(k=1)
        mass = float(found.row_sums.sum())
        # in units in which the weights are in front of the exponential
        f = coupling.source_potential + epsilon * np.log(n)
        g = coupling.target_potential + epsilon * np.log(m)
        if self.penalty is None:
            f -= epsilon * np.log(mass)  # all mass is one, which is the best D
            row_error = float(np.abs(found.row_sums / mass - 1 / n).sum())
            column_error = float(np.abs(found.column_sums / mass - 1 / m).sum())
            return CrossTerm(f, g, f, g, _bound(cost, row_error, column_error, f, g), coupling.converged)
        lam = self.penalty * cost.scale
        sides = [-(lam + epsilon / 2) * np.expm1(-each / lam) for each in (f, g)]
        # that is D where rows and columns have the mass that the potentials ask for
        missing = sum(float(np.exp(-each / lam).mean()) - mass for each in (f, g)) * epsilon / 4
        error = max(coupling.duality_gap, 0.0) + cost.storage_error
        return CrossTerm(sides[0] + missing, sides[1] + missing, f, g, error, coupling.converged)

    def pool(self, costs: NDArray[np.floating], *, scale: float) -> PooledKernel:  # noqa: D102
        penalty = None if self.penalty is None else self.penalty * scale
        return PooledKernel(costs, epsilon=self.reg * scale, penalty=penalty)


@dataclass(frozen=True)
class PlainTransport:
    """Exact transport without regularisation, ``OT(p, q) = min <P, C>``: for some thousands of images at most."""

    @property
    def floating(self) -> bool:  # noqa: D102
        return True

    def extra_bytes(self, shape: tuple[int, int]) -> int:  # noqa: D102
        return ExactTransport().extra_bytes(shape)

    def within(self, cost: Cost, *, progress: Progress = silent) -> SelfTerm:
        """Staying costs nothing."""
        return SelfTerm(np.zeros(cost.shape[0]), 0.0)

    def across(self, cost: Cost, *, progress: Progress = silent) -> CrossTerm:
        """Solve the linear programme; the potentials are its dual variables."""
        coupling = ExactTransport().solve(cost, progress=progress)
        f, g = coupling.source_potential, coupling.target_potential
        assert f is not None
        assert g is not None
        error = abs(coupling.transport_cost - float(f.mean() + g.mean())) + cost.storage_error
        return CrossTerm(f, g, f, g, error, coupling.converged)

    def pool(self, costs: NDArray[np.floating], *, scale: float) -> PooledExact:  # noqa: D102
        return PooledExact(costs)


def _relaxed_values(f: Vector, g: Vector, lam: float, epsilon: float) -> Vector:
    """Halves of the summands of ``D(f, g)`` for a plan whose rows have the mass ``p exp(-f / lam)``."""
    values: Vector = -((lam + epsilon) * np.expm1(-f / lam) + lam * np.expm1(-g / lam)) / 2
    return values


def _bound(cost: Cost, row_error: float, column_error: float, f: Vector, g: Vector) -> float:
    """How much D may be below the transport value of the distances as they were before they were stored."""
    largest = cost.maximum
    gap = 0.5 * (row_error * (largest + np.ptp(f)) + column_error * (largest + np.ptp(g)))
    return float(gap + cost.storage_error)


def _decades(error: float, tol: float) -> float:
    """Share of the work that is done: errors fall geometrically."""
    return float(np.clip(1.0 - np.log(max(error, tol) / tol) / np.log(2.0 / tol), 0.0, 1.0))
