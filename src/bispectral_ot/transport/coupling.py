"""A coupling: who goes where, kept as potentials (or a sparse plan) and read in row blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from bispectral_ot import display
from bispectral_ot.checks import check_integer
from bispectral_ot.costs import Cost, Reading, RowsRead
from bispectral_ot.engines import row_blocks
from bispectral_ot.errors import InputError
from bispectral_ot.progress import Progress, silent
from bispectral_ot.transport.constraints import LOG2_E, Constraints
from bispectral_ot.transport.marginals import Exact

Vector = NDArray[np.float64]
# Rows of a sparse plan that are read at a time.
_BLOCK_ROWS = 256


@dataclass(frozen=True)
class Summary:
    """What one pass over the plan P (n, m) finds.

    Attributes
    ----------
    transport_cost : ``sum P * C`` in the units of the cost
    entropy : ``-sum P log P``
    marginal_error : ``|P 1 - p|_1 + |P^T 1 - q|_1``
    row_sums, column_sums : ``P 1`` (n,) and ``P^T 1`` (m,)
    top_indices, top_masses, top_costs : (n, k) the best targets of each source, best first, their mass and their cost
    nearest, nearest_costs : (n,) the target of lowest cost and that cost; zeros where k is 0
    source_class_mass : (n, classes) mass that each source sends to each target class; None without target labels
    target_class_mass : (classes, m) mass that each target gets from each source class; None without source labels
    """

    transport_cost: float
    entropy: float
    marginal_error: float
    row_sums: Vector = field(repr=False)
    column_sums: Vector = field(repr=False)
    top_indices: NDArray[np.int64] = field(repr=False)
    top_masses: Vector = field(repr=False)
    top_costs: Vector = field(repr=False)
    nearest: NDArray[np.int64] = field(repr=False)
    nearest_costs: Vector = field(repr=False)
    source_class_mass: Vector | None = field(repr=False)
    target_class_mass: Vector | None = field(repr=False)


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class Coupling(ABC):
    """A transport plan between two weighted sets, and how well it was solved for.

    Attributes
    ----------
    cost : the :class:`~bispectral_ot.costs.Cost` it was solved for
    source_weights, target_weights : (n,) and (m,)
    tol : the marginal error that was asked for
    iterations : passes over the cost (or updates) that the solver made; 0 where it does not count them
    history : (reg, marginal error) after each pass, for a convergence curve
    marginal_error, converged, transport_cost, entropy : measured in float64 from the plan itself
    """

    cost: Cost
    source_weights: Vector
    target_weights: Vector
    tol: float
    iterations: int = 0
    history: tuple[tuple[float, float], ...] = ()

    def __repr__(self) -> str:
        n, m = self.shape
        state = "converged" if self.converged else "NOT converged"
        return (
            f"{type(self).__name__}({n:,} x {m:,}, transport cost {self.transport_cost:.6g}, {state}: "
            f"marginal error {self.marginal_error:.1e})"
        )

    def _repr_html_(self) -> str:
        n, m = self.shape
        state = "yes" if self.converged else "NO"
        facts = {
            "transport cost": f"{self.transport_cost:.6g} ({self.cost.metric})",
            "converged": f"{state}, marginal error {self.marginal_error:.1e} ({self.tol:g} asked for)",
            "iterations": self.iterations,
        }
        return display.panel(f"{type(self).__name__} {n:,} x {m:,}", facts, display.curve([e for _, e in self.history]))

    @property
    def shape(self) -> tuple[int, int]:
        """(n, m)."""
        return self.cost.shape

    @property
    def converged(self) -> bool:
        """Whether the measured marginal error is within the tolerance."""
        return bool(self.marginal_error <= self.tol)

    @property
    def marginal_error(self) -> float:
        """``|P 1 - p|_1 + |P^T 1 - q|_1``."""
        return self._measured.marginal_error

    @property
    def transport_cost(self) -> float:
        """``sum P * C`` in the units of the cost."""
        return self._measured.transport_cost

    @property
    def entropy(self) -> float:
        """``-sum P log P``."""
        return self._measured.entropy

    @cached_property
    def _measured(self) -> Summary:
        return self.summary(k=0)

    @abstractmethod
    def rows(self, start: int, stop: int) -> Vector:
        """Rows ``start`` to ``stop`` of the plan, (stop - start, m) in float64."""

    def to_dense(self) -> Vector:
        """The whole plan (n, m): 8 n m bytes."""
        return self.rows(0, self.shape[0])

    def summary(
        self,
        *,
        k: int = 10,
        source_labels: NDArray[np.int64] | None = None,
        target_labels: NDArray[np.int64] | None = None,
        progress: Progress = silent,
    ) -> Summary:
        """Read cost, entropy, marginal error, best matches and class masses off the plan in one streamed pass.

        Parameters
        ----------
        k
            How many best targets to keep for each source.
        source_labels, target_labels
            Integer classes (n,) and (m,); -1 where there is none.
        progress
            Called as row blocks are done.
        """
        n, m = self.shape
        k = min(check_integer("k", k, minimum=0), m)
        sources = _as_labels(source_labels, n, "source_labels")
        targets = _as_labels(target_labels, m, "target_labels")
        found = self._read(k, sources, targets, progress)
        return Summary(
            transport_cost=found.transport_cost,
            entropy=self._entropy(found),
            marginal_error=self._marginal_error(found),
            row_sums=found.row_sums,
            column_sums=found.column_sums,
            top_indices=found.top_indices,
            top_masses=found.top_masses,
            top_costs=found.top_costs,
            nearest=found.nearest,
            nearest_costs=found.nearest_costs,
            source_class_mass=None if targets is None else found.source_class_mass,
            target_class_mass=None if sources is None else found.target_class_mass,
        )

    @abstractmethod
    def _read(
        self, k: int, sources: NDArray[np.int64] | None, targets: NDArray[np.int64] | None, progress: Progress
    ) -> Reading: ...

    @abstractmethod
    def _entropy(self, found: Reading) -> float: ...

    def _marginal_error(self, found: Reading) -> float:
        errors = found.row_sums - self.source_weights, found.column_sums - self.target_weights
        return float(sum(np.abs(error).sum() for error in errors))


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class EntropicCoupling(Coupling):
    """A plan given by potentials: ``P[i, j] = exp((f[i] + g[j] - C[i, j]) / epsilon)``.

    Attributes
    ----------
    reg : regularisation relative to the scale of the cost; ``epsilon = reg * cost.scale``
    source_potential, target_potential : f (n,) and g (m,) in the units of the cost; -inf where an element has no mass
    constraints : what was asked of the marginals, where they are not exact; ``marginal_error`` is then the difference
        to what the marginals would be after one more half-step, 0 at the solution

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot import Sinkhorn
    >>> coupling = Sinkhorn(reg=0.5).solve([[0.0, 1.0], [1.0, 0.0]])
    >>> f, g = coupling.source_potential, coupling.target_potential
    >>> cost = coupling.cost.block(0, 2)
    >>> bool(np.allclose(coupling.to_dense(), np.exp((f[:, None] + g - cost) / coupling.epsilon)))
    True
    """

    reg: float
    source_potential: Vector
    target_potential: Vector
    constraints: Constraints | None = None

    @property
    def epsilon(self) -> float:
        """The regularisation in the units of the cost."""
        return self.reg * self.cost.scale

    @property
    def regularized_cost(self) -> float:
        """``sum P * C - epsilon * H(P)``: the value that was minimised, in the units of the cost."""
        return self.transport_cost - self.epsilon * self.entropy

    @property
    def mass(self) -> float:
        """``sum P``: all that goes over."""
        return float(self._measured.row_sums.sum())

    @property
    def duality_gap(self) -> float:
        """How far the value of the plan may be from the best one, in the units of the cost: 0 at the solution.

        For exact marginals it is ``|<f, P 1 - p>| + |<g, P^T 1 - q>|``; a plan that has them exactly is optimal.
        """
        f, g, _ = self._exponents()
        sums = self._measured.row_sums, self._measured.column_sums
        return self._asked.gap(finite(f), g, *sums, epsilon=self.epsilon)

    @property
    def _asked(self) -> Constraints:
        return self.constraints or Constraints(Exact(self.source_weights), Exact(self.target_weights))

    def _marginal_error(self, found: Reading) -> float:
        f, g, _ = self._exponents()
        return self._asked.residual(finite(f), g, found.row_sums, found.column_sums, epsilon=self.epsilon)

    def rows(self, start: int, stop: int) -> Vector:
        """Rows ``start`` to ``stop`` of the plan, (stop - start, m) in float64."""
        f, g, unit = self._exponents()
        return self.cost.plan_rows(f, g, start, stop, unit=unit)

    def read_rows(
        self, *, k: int = 5, target_labels: NDArray[np.int64] | None = None, progress: Progress = silent
    ) -> Iterator[RowsRead]:
        """Best targets and class masses of the sources as in :meth:`summary`, block by block in their order."""
        f, g, unit = self._exponents()
        k = min(check_integer("k", k, minimum=1), self.shape[1])
        labels = _as_labels(target_labels, self.shape[1], "target_labels")
        return self.cost.read_rows(f, g, unit=unit, k=k, target_labels=labels, progress=progress)

    @classmethod
    def of_potential(cls, cost: Cost, potential: Vector, *, reg: float, tol: float) -> EntropicCoupling:
        """The plan of any sources by a target potential (m,) that was solved for with others, at the same scale.

        Each source has the same mass and sends all of it: ``P[i, j]`` is proportional to
        ``exp((g[j] - C[i, j]) / epsilon)``.
        """
        n, m = cost.shape
        if potential.shape != (m,):
            raise InputError(f"the potential must have an entry for each of the {m} targets, got {potential.shape}.")
        unit = LOG2_E / (reg * cost.scale)
        weights = np.full(n, 1 / n)
        f, sums = cost.sweep(np.zeros(n), finite(potential * unit), weights, unit=unit)
        return cls(
            cost=cost,
            source_weights=weights,
            target_weights=sums,
            tol=tol,
            reg=reg,
            source_potential=f / unit,
            target_potential=potential,
        )

    def _exponents(self) -> tuple[Vector, Vector, float]:
        """Potentials as exponents of 2, and the exponent for each unit of the cost."""
        unit = LOG2_E / self.epsilon
        return self.source_potential * unit, finite(self.target_potential * unit), unit

    def _read(
        self, k: int, sources: NDArray[np.int64] | None, targets: NDArray[np.int64] | None, progress: Progress
    ) -> Reading:
        f, g, unit = self._exponents()
        return self.cost.read(f, g, unit=unit, k=k, source_labels=sources, target_labels=targets, progress=progress)

    def _entropy(self, found: Reading) -> float:
        # log P = (f + g - C) / epsilon, so the entropy follows from the sums that were measured
        f, g = finite(self.source_potential), finite(self.target_potential)
        rows, columns = (
            np.where(self.source_weights > 0, found.row_sums, 0),
            np.where(self.target_weights > 0, found.column_sums, 0),
        )
        return float(-(f @ rows + g @ columns - found.transport_cost) / self.epsilon)


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class SparseCoupling(Coupling):
    """A plan given by its few entries, as exact transport gives it.

    Attributes
    ----------
    plan : (n, m) masses
    source_potential, target_potential : (n,) and (m,) dual variables in the units of the cost, where they are known:
        ``f_i + g_j <= C_ij``, with equality where mass goes
    optimal : whether it is known to be the best plan
    """

    plan: csr_array
    source_potential: Vector | None = None
    target_potential: Vector | None = None
    optimal: bool = True

    @property
    def converged(self) -> bool:
        """Whether the plan is the best one and its measured marginal error within the tolerance."""
        return self.optimal and super().converged

    def rows(self, start: int, stop: int) -> Vector:
        """Rows ``start`` to ``stop`` of the plan, (stop - start, m) in float64."""
        dense: Vector = self.plan[start:stop].toarray()
        return dense

    def _read(
        self, k: int, sources: NDArray[np.int64] | None, targets: NDArray[np.int64] | None, progress: Progress
    ) -> Reading:
        n, m = self.shape
        plan, transported = self.plan, 0.0
        indices, masses, costs = np.zeros((n, k), dtype=np.int64), np.zeros((n, k)), np.zeros((n, k))
        nearest, nearest_costs = np.zeros(n, dtype=np.int64), np.zeros(n)
        # solved from a dense matrix, so that rows of one fit into memory again
        for block in row_blocks(n, block_rows=_BLOCK_ROWS):
            rows = slice(block.start, block.stop)
            cost, mass = self.cost.block(rows.start, rows.stop), self.rows(rows.start, rows.stop)
            transported += float(np.vdot(mass, cost))
            if k:
                indices[rows] = np.argsort(-mass, axis=1, kind="stable")[:, :k]
                masses[rows] = np.take_along_axis(mass, indices[rows], axis=1)
                costs[rows] = np.take_along_axis(cost, indices[rows], axis=1)
                nearest[rows], nearest_costs[rows] = cost.argmin(axis=1), cost.min(axis=1)
            progress("summary", rows.stop, n)
        return Reading(
            transported,
            np.asarray(plan.sum(axis=1)),
            np.asarray(plan.sum(axis=0)),
            indices,
            masses,
            costs,
            nearest,
            nearest_costs,
            plan @ _indicator(targets, m),
            (plan.T @ _indicator(sources, n)).T,
        )

    def _entropy(self, found: Reading) -> float:
        masses = self.plan.data[self.plan.data > 0]
        return float(-(masses * np.log(masses)).sum())


def finite(potential: Vector) -> Vector:
    """A potential with a very low number in place of -inf, which compiled code may not see."""
    return np.where(np.isneginf(potential), -1e30, potential)


def _indicator(labels: NDArray[np.int64] | None, size: int) -> Vector:
    """(size, classes) 1 where an element is of a class."""
    if labels is None:
        return np.zeros((size, 0))
    indicator: Vector = (labels[:, None] == np.arange(labels.max() + 1)).astype(np.float64)
    return indicator


def _as_labels(labels: NDArray[np.int64] | None, size: int, name: str) -> NDArray[np.int64] | None:
    if labels is None:
        return None
    array = np.ascontiguousarray(labels)
    if array.shape != (size,):
        raise InputError(f"{name} has shape {array.shape} but there are {size} elements; give one label for each.")
    if array.dtype.kind not in "iu" or array.min() < -1:
        raise InputError(f"{name} must be class numbers 0, 1, 2, ... (or -1 for none), got {array.dtype}.")
    return array.astype(np.int64)
