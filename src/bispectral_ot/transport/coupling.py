"""A coupling: who goes where, kept as potentials (or a sparse plan) and read in row blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from bispectral_ot.checks import check_integer
from bispectral_ot.costs import Cost, EncodedRows
from bispectral_ot.engines import core_count, run_blocks, split_rows
from bispectral_ot.errors import InputError
from bispectral_ot.progress import Progress, silent

Vector = NDArray[np.float64]
LOG2_E = float(np.log2(np.e))


@dataclass(frozen=True)
class Summary:
    """What one pass over the plan P (n, m) tells.

    Attributes
    ----------
    transport_cost : ``sum P * C`` in the features' units
    entropy : ``-sum P log P``
    marginal_error : ``|P 1 - p|_1 + |P^T 1 - q|_1``
    top_indices, top_masses : (n, k) the best targets of each source, best first, and their mass
    source_class_mass : (n, classes) mass that each source sends to each target class, or None
    target_class_mass : (classes, m) mass that each target gets from each source class, or None
    """

    transport_cost: float
    entropy: float
    marginal_error: float
    top_indices: NDArray[np.int64] = field(repr=False)
    top_masses: Vector = field(repr=False)
    source_class_mass: Vector | None = field(repr=False)
    target_class_mass: Vector | None = field(repr=False)


@dataclass(repr=False)
class Coupling(ABC):
    """A transport plan between two weighted sets, and how well it was solved for.

    Attributes
    ----------
    cost : the :class:`~bispectral_ot.costs.Cost` it was solved for
    source_weights, target_weights : (n,) and (m,)
    tol : the marginal error that was asked for
    iterations : passes over the cost (or updates) that the solver made; 0 where it does not tell
    history : (reg, marginal error) after each pass, for a convergence curve
    marginal_error, converged, transport_cost, entropy : measured at the end in float64 from the plan itself
    """

    cost: Cost
    source_weights: Vector
    target_weights: Vector
    tol: float
    iterations: int = 0
    history: list[tuple[float, float]] = field(default_factory=list)
    marginal_error: float = field(default=float("nan"), init=False)
    transport_cost: float = field(default=float("nan"), init=False)
    entropy: float = field(default=float("nan"), init=False)

    def __post_init__(self) -> None:
        measured = self.summary(k=0)
        self.marginal_error = measured.marginal_error
        self.transport_cost = measured.transport_cost
        self.entropy = measured.entropy

    def __repr__(self) -> str:
        n, m = self.shape
        state = "converged" if self.converged else "NOT converged"
        return (
            f"{type(self).__name__}({n:,} x {m:,}, transport cost {self.transport_cost:.6g}, {state}: "
            f"marginal error {self.marginal_error:.1e})"
        )

    @property
    def shape(self) -> tuple[int, int]:
        """(n, m)."""
        return self.cost.shape

    @property
    def converged(self) -> bool:
        """Whether the measured marginal error is within the tolerance."""
        return bool(self.marginal_error <= self.tol)

    @abstractmethod
    def rows(self, start: int, stop: int) -> Vector:
        """Rows ``start`` to ``stop`` of the plan, (stop - start, m) in float64."""

    @abstractmethod
    def _entropy(self, row_sums: Vector, column_sums: Vector, transport_cost: float) -> float: ...

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
        sources, source_classes = _as_labels(source_labels, n, "source_labels")
        targets, target_classes = _as_labels(target_labels, m, "target_labels")
        row_sums, source_mass = np.empty(n), np.zeros((n, target_classes))
        top_indices, top_masses = np.zeros((n, k), np.int64), np.zeros((n, k))

        def work(start: int, stop: int) -> tuple[float, Vector, Vector]:
            transported, column_sums, target_mass = 0.0, np.zeros(m), np.zeros((source_classes, m))
            for first, last in split_rows(stop - start, block_rows=self.cost.rows_at_once):
                part = slice(start + first, start + last)
                transported += self._read(
                    part,
                    self.cost.encoded(part.start, part.stop),
                    sources[part],
                    targets,
                    row_sums[part],
                    column_sums,
                    top_indices[part],
                    top_masses[part],
                    source_mass[part],
                    target_mass,
                )
            return transported, column_sums, target_mass

        # Distances that are computed again are the solver's to the last bit only in blocks that start where its do.
        at_once = self.cost.rows_at_once if self.cost.storage == "recompute" else 1
        blocks = split_rows(n, block_rows=at_once * -(-n // (4 * core_count() * at_once)))
        parts = run_blocks(work, blocks, stage="summary", progress=progress)
        transported = float(sum(part[0] for part in parts))
        column_sums: Vector = np.sum([part[1] for part in parts], axis=0)
        target_mass: Vector = np.sum([part[2] for part in parts], axis=0)
        return Summary(
            transport_cost=transported,
            entropy=self._entropy(row_sums, column_sums, transported),
            marginal_error=float(
                np.abs(row_sums - self.source_weights).sum() + np.abs(column_sums - self.target_weights).sum()
            ),
            top_indices=top_indices,
            top_masses=top_masses,
            source_class_mass=source_mass if target_classes else None,
            target_class_mass=target_mass if source_classes else None,
        )

    def _read(self, part: slice, cost: EncodedRows, *places: NDArray[Any]) -> float:
        """Read some rows of the plan into ``places`` (see ``kernels.read_plan``); returns their ``sum P * C``."""
        from bispectral_ot.transport import kernels

        rows = self.rows(part.start, part.stop)
        return float(kernels.read_plan(rows, cost.codes, cost.offsets, cost.steps, *places))


@dataclass(repr=False)
class EntropicCoupling(Coupling):
    """A plan given by potentials: ``P[i, j] = exp((f[i] + g[j] - C[i, j] / max C) / reg)``.

    ``source_potential`` f (n,) and ``target_potential`` g (m,) are in units of the scaled cost; -inf where an
    element has no mass.
    """

    reg: float = 0.01
    source_potential: Vector = field(default_factory=lambda: np.empty(0))
    target_potential: Vector = field(default_factory=lambda: np.empty(0))

    def rows(self, start: int, stop: int) -> Vector:
        """Rows ``start`` to ``stop`` of the plan, (stop - start, m) in float64."""
        from bispectral_ot.transport import kernels

        unit = LOG2_E / self.reg
        encoded = self.cost.encoded(start, stop)
        out = np.empty((stop - start, self.shape[1]))
        kernels.plan_rows(
            encoded.codes,
            encoded.offsets,
            encoded.steps,
            unit / self.cost.scale,
            self.source_potential[start:stop] * unit,
            finite(self.target_potential * unit),
            out,
        )
        return out

    def _read(self, part: slice, cost: EncodedRows, *places: NDArray[Any]) -> float:
        from bispectral_ot.transport import kernels

        unit = LOG2_E / self.reg
        f, g = self.source_potential[part] * unit, finite(self.target_potential * unit)
        scaled = unit / self.cost.scale
        return float(kernels.read_potentials(scaled, f, g, cost.codes, cost.offsets, cost.steps, *places))

    def _entropy(self, row_sums: Vector, column_sums: Vector, transport_cost: float) -> float:
        # log P = (f + g - C) / reg, so the entropy follows from the sums that were measured
        f, g = finite(self.source_potential), finite(self.target_potential)
        mean = f @ np.where(row_sums > 0, row_sums, 0) + g @ np.where(self.target_weights > 0, column_sums, 0)
        return float(-(mean - transport_cost / self.cost.scale) / self.reg)


@dataclass(repr=False)
class SparseCoupling(Coupling):
    """A plan given by its few entries, as exact transport gives it, and whether it is the best one."""

    plan: csr_array = field(default_factory=lambda: csr_array((0, 0)))
    optimal: bool = True

    @property
    def converged(self) -> bool:
        """Whether the plan is the best one and its measured marginal error within the tolerance."""
        return self.optimal and super().converged

    def rows(self, start: int, stop: int) -> Vector:
        """Rows ``start`` to ``stop`` of the plan, (stop - start, m) in float64."""
        dense: Vector = self.plan[start:stop].toarray()
        return dense

    def _entropy(self, row_sums: Vector, column_sums: Vector, transport_cost: float) -> float:
        masses = self.plan.data[self.plan.data > 0]
        return float(-(masses * np.log(masses)).sum())


def finite(potential: Vector) -> Vector:
    """A potential with a very low number in place of -inf, which compiled code may not see."""
    return np.where(np.isneginf(potential), -1e30, potential)


def _as_labels(labels: NDArray[np.int64] | None, size: int, name: str) -> tuple[NDArray[np.int64], int]:
    if labels is None:
        return np.full(size, -1), 0
    array = np.ascontiguousarray(labels)
    if array.shape != (size,):
        raise InputError(f"{name} has shape {array.shape} but there are {size} elements; give one label for each.")
    if array.dtype.kind not in "iu" or array.min() < -1:
        raise InputError(f"{name} must be class numbers 0, 1, 2, ... (or -1 for none), got {array.dtype}.")
    return array.astype(np.int64), int(array.max()) + 1
