"""Terms of a debiased divergence: transport values by element, with a bound on their error.

With ``P_ij = p_i q_j exp((f_i + g_j - C_ij) / epsilon)``, any pair of potentials gives a lower bound

    D(f, g) = <p, f> + <q, g> - epsilon log(sum P)  <=  OT(p, q) = min <P, C> + epsilon KL(P | p x q).

D is concave and its gradient is the error of the marginals, so that ``OT - D`` is at most half the marginal error
times the ranges of the potentials and of those at the optimum, which no range of the cost exceeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.costs import Cost
from bispectral_ot.transport import EntropicCoupling, ExactTransport, Sinkhorn
from bispectral_ot.transport.batched_sinkhorn import BatchedSinkhorn, Pool
from bispectral_ot.transport.exact import PooledExact

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class SelfTerm:
    """Transport of a set to itself.

    Attributes
    ----------
    values : (n,) half of the contribution of each element, in the units of the cost: ``OT(p, p) = 2 * values.mean()``
    error : bound on the error of that value
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
    """Transport of one set to another.

    Attributes
    ----------
    source_potential, target_potential : f (n,) and g (m,) in the units of the cost: ``OT(p, q) = f.mean() + g.mean()``;
        most mass of i goes to the j where ``g_j - C_ij`` is largest
    error : bound on the error of that value
    converged : whether the tolerance was met
    """

    source_potential: Vector
    target_potential: Vector
    error: float
    converged: bool

    @property
    def value(self) -> float:
        """OT(p, q)."""
        return float(self.source_potential.mean() + self.target_potential.mean())


class Divergence(Protocol):
    """Divergence between sets of uniform weights."""

    def extra_bytes(self, shape: tuple[int, int]) -> int:
        """Memory of a solve in addition to the cost."""

    def self_term(self, cost: Cost) -> SelfTerm:
        """Transport of a set to itself; its cost is symmetric."""

    def cross_term(self, cost: Cost) -> CrossTerm:
        """Transport of one set to another."""

    def pool(self, costs: NDArray[np.floating], *, scale: float) -> Pool:
        """Divergences between many weightings of a few images, whose costs (N, N) are given."""


@dataclass(frozen=True, kw_only=True)
class SinkhornDivergence:
    """Divergence by entropic transport.

    Attributes
    ----------
    reg : regularisation relative to the scale of the cost
    tol : tolerance on the marginal error
    """

    reg: float
    tol: float = 1e-6

    def extra_bytes(self, shape: tuple[int, int]) -> int:  # noqa: D102
        return Sinkhorn().extra_bytes(shape)

    def self_term(self, cost: Cost) -> SelfTerm:
        """Solve for the one potential of a set against itself."""
        coupling = Sinkhorn(reg=self.reg, tol=self.tol).self_term(cost)
        f, g, error = _potentials(coupling)
        return SelfTerm((f + g) / 2, error, coupling.converged)

    def cross_term(self, cost: Cost) -> CrossTerm:
        """Solve for the potentials of two sets."""
        coupling = Sinkhorn(reg=self.reg, tol=self.tol).solve(cost)
        return CrossTerm(*_potentials(coupling), coupling.converged)

    def pool(self, costs: NDArray[np.floating], *, scale: float) -> BatchedSinkhorn:  # noqa: D102
        return BatchedSinkhorn(costs, epsilon=self.reg * scale)


@dataclass(frozen=True)
class ExactDivergence:
    """Divergence by exact transport, ``OT(p, q) = min <P, C>``: for some thousands of images at most."""

    def extra_bytes(self, shape: tuple[int, int]) -> int:  # noqa: D102
        return ExactTransport().extra_bytes(shape)

    def self_term(self, cost: Cost) -> SelfTerm:
        """Zero: the self-term of exact transport."""
        return SelfTerm(np.zeros(cost.shape[0]), 0.0)

    def cross_term(self, cost: Cost) -> CrossTerm:
        """Solve the linear programme; the potentials are its dual variables."""
        coupling = ExactTransport().solve(cost)
        f, g = coupling.source_potential, coupling.target_potential
        assert f is not None
        assert g is not None
        error = abs(coupling.transport_cost - float(f.mean() + g.mean())) + cost.storage_error
        return CrossTerm(f, g, error, coupling.converged)

    def pool(self, costs: NDArray[np.floating], *, scale: float) -> PooledExact:  # noqa: D102
        return PooledExact(costs)


def _potentials(coupling: EntropicCoupling) -> tuple[Vector, Vector, float]:
    """Potentials relative to the weights, and a bound on the error of the transport value."""
    cost, (n, m), epsilon = coupling.cost, coupling.shape, coupling.epsilon
    found, mass = coupling.measured, coupling.mass
    f = coupling.source_potential + epsilon * (np.log(n) - np.log(mass))  # a total mass of one gives the best D
    g = coupling.target_potential + epsilon * np.log(m)
    row_error = float(np.abs(found.row_sums / mass - 1 / n).sum())
    column_error = float(np.abs(found.column_sums / mass - 1 / m).sum())
    gap = 0.5 * (row_error * (cost.maximum + np.ptp(f)) + column_error * (cost.maximum + np.ptp(g)))
    return f, g, float(gap + cost.storage_error)
