"""Transport plans, kept as potentials or as a sparse matrix and read in row blocks."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import entr

from bispectral_ot import runtime
from bispectral_ot.checks import check_integer
from bispectral_ot.costs import Cost, PlanSummary
from bispectral_ot.errors import InputError, NotConvergedWarning, warn
from bispectral_ot.transport.marginals import LOG2_E, NO_MASS, Constraints, Marginal, Vector

Labels = NDArray[np.int64]


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class Coupling(ABC):
    """Transport plan P between two weighted sets, with its marginal error, measured in float64.

    Attributes
    ----------
    cost : the :class:`~bispectral_ot.costs.Cost` it was solved for
    source_weights, target_weights : (n,) and (m,)
    tol : the tolerance of the solver
    iterations : passes over the cost (or updates) of the solver; 0 if it does not count them
    history : (reg, marginal error) after each pass
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
        name, cost = f"{type(self).__name__}({n:,} x {m:,}", f"transport cost {self.transport_cost:.6g}"
        return f"{name}, {cost}, {state}: marginal error {self.marginal_error:.1e})"

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
        row_error = np.abs(self.measured.row_sums - self.source_weights).sum()
        return float(row_error + np.abs(self.measured.column_sums - self.target_weights).sum())

    @property
    def transport_cost(self) -> float:
        """``sum P * C`` in the units of the cost."""
        return self.measured.transport_cost

    @property
    def mass(self) -> float:
        """Total transported mass, ``sum P``."""
        return float(self.measured.row_sums.sum())

    @property
    @abstractmethod
    def entropy(self) -> float:
        """``-sum P log P``."""

    @cached_property
    def measured(self) -> PlanSummary:
        """Sums of rows and columns and transport cost, measured once."""
        return self.summary(k=0)

    @abstractmethod
    def rows(self, start: int, stop: int) -> Vector:
        """Rows ``start`` to ``stop`` of the plan, (stop - start, m) in float64."""

    def to_dense(self) -> Vector:
        """Whole plan (n, m): 8 n m bytes."""
        return self.rows(0, self.shape[0])

    def summary(
        self, *, k: int = 10, source_labels: Labels | None = None, target_labels: Labels | None = None
    ) -> PlanSummary:
        """Sums, costs, k best targets and class masses of the plan, in one streamed pass.

        Labels are integer classes (n,) and (m,); -1 for none.
        """
        classes, (n, m) = [], self.cost.shape
        for name, size, labels in (("source", n, source_labels), ("target", m, target_labels)):
            array = np.full(size, -1) if labels is None else np.asarray(labels)
            if array.shape != (size,) or array.dtype.kind not in "iu" or array.min() < -1:
                wanted = f"{size} class numbers 0, 1, 2, ... (or -1 for none)"
                raise InputError(f"{name}_labels must be {wanted}, got {array.dtype} of shape {array.shape}.")
            classes.append(array.astype(np.int64))
        return self._read(min(check_integer("k", k, minimum=0), m), *classes)

    @abstractmethod
    def _read(self, k: int, sources: Labels, targets: Labels) -> PlanSummary: ...

    def checked(self) -> Self:
        """Return the coupling, with a :class:`NotConvergedWarning` if it misses its tolerance."""
        if not self.converged:
            found = f"marginal error {self.marginal_error:.2e} after {self.iterations} iterations"
            advice = "allow more iterations, a larger tol or a larger reg"
            warn(f"not converged: {found}, above the tolerance {self.tol:.1e}; {advice}.", NotConvergedWarning)
        return self


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class EntropicCoupling(Coupling):
    """Transport plan given by potentials: ``P[i, j] = exp((f[i] + g[j] - C[i, j]) / epsilon)``."""

    reg: float  # relative to the scale of the cost
    source_potential: Vector  # f and g in the units of the cost; -inf for elements without mass
    target_potential: Vector
    constraints: Constraints | None = None  # if marginals are not exact
    resumed_at: int = 0  # iteration at which an interrupted solve was resumed; 0 for none

    @property
    def epsilon(self) -> float:
        """Regularization in the units of the cost."""
        return self.reg * self.cost.scale

    @property
    def marginal_error(self) -> float:
        """``|P 1 - p|_1 + |P^T 1 - q|_1``; of relaxed marginals, the residual of the fixed point."""
        asked = self.constraints or Constraints(Marginal(self.source_weights), Marginal(self.target_weights))
        (f, g, _), found = self._exponents(), self.measured
        sums = {"column_sums": found.column_sums, "row_sums": found.row_sums}
        return asked.step(np.maximum(f, NO_MASS), g, **sums, epsilon=self.epsilon)[1]

    @property
    def entropy(self) -> float:
        """``-sum P log P``."""
        # log P = (f + g - C) / epsilon, so the entropy follows from the sums that were measured
        found = self.measured
        rows = np.where(self.source_weights > 0, found.row_sums, 0) @ np.maximum(self.source_potential, NO_MASS)
        columns = np.where(self.target_weights > 0, found.column_sums, 0) @ np.maximum(self.target_potential, NO_MASS)
        return float(-(rows + columns - found.transport_cost) / self.epsilon)

    def rows(self, start: int, stop: int) -> Vector:
        """Rows ``start`` to ``stop`` of the plan, (stop - start, m) in float64."""
        f, g, unit = self._exponents()
        exponents = -unit * self.cost.block(start, stop, dtype=np.float64)
        exponents += f[start:stop, None]
        exponents += g
        return np.exp2(exponents, out=exponents)

    @classmethod
    def of_potential(cls, cost: Cost, potential: Vector, *, reg: float, tol: float) -> Self:
        """Plan of other sources, of equal mass, by a known target potential: ``P_ij ~ exp((g_j - C_ij) / epsilon)``."""
        n, unit = cost.shape[0], LOG2_E / (reg * cost.scale)
        weights = np.full(n, 1 / n)
        f, sums = cost.sweep(np.zeros(n), np.maximum(potential * unit, NO_MASS), weights, unit=unit)
        solved: Any = {"source_potential": f / unit, "target_potential": potential, "reg": reg, "tol": tol}
        return cls(cost=cost, source_weights=weights, target_weights=sums, **solved)

    def _exponents(self) -> tuple[Vector, Vector, float]:
        """Potentials as exponents of 2, and the exponent for each unit of the cost."""
        unit = LOG2_E / self.epsilon
        return self.source_potential * unit, np.maximum(self.target_potential * unit, NO_MASS), unit

    def _read(self, k: int, sources: Labels, targets: Labels) -> PlanSummary:
        f, g, unit = self._exponents()
        return self.cost.read(f, g, unit=unit, k=k, source_labels=sources, target_labels=targets)


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class SparseCoupling(Coupling):
    """Transport plan given by its few nonzero entries, the result of exact transport."""

    plan: csr_array  # (n, m) masses
    optimal: bool = True  # whether it is known to be the best plan

    @property
    def converged(self) -> bool:
        """Whether the plan is the best one and its measured marginal error within the tolerance."""
        return self.optimal and super().converged

    def rows(self, start: int, stop: int) -> Vector:
        """Rows ``start`` to ``stop`` of the plan, (stop - start, m) in float64."""
        return self.plan[start:stop].toarray()

    @property
    def entropy(self) -> float:
        """``-sum P log P``."""
        return float(entr(self.plan.data).sum())

    def _read(self, k: int, sources: Labels, targets: Labels) -> PlanSummary:
        n, cost, mass = self.shape[0], self.cost.block(0, self.shape[0]), self.to_dense()
        source_classes, target_classes = (side[:, None] == np.arange(side.max() + 1) for side in (sources, targets))
        top = np.argsort(-mass, axis=1, kind="stable")[:, :k]
        runtime.progress("summary", n, n)
        return PlanSummary(
            row_sums=mass.sum(axis=1),
            row_costs=np.einsum("ij,ij->i", mass, cost),
            top_indices=top,
            top_masses=np.take_along_axis(mass, top, axis=1),
            top_costs=np.take_along_axis(cost, top, axis=1),
            nearest=cost.argmin(axis=1) if k else np.zeros(n, np.int64),
            nearest_costs=cost.min(axis=1) if k else np.zeros(n),
            source_class_mass=mass @ target_classes,
            column_sums=mass.sum(axis=0),
            target_class_mass=source_classes.T @ mass,
        )
