"""Cost matrices in blocks of rows, their storage within a memory budget, and the passes that solvers make over them."""

import itertools
import math
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from bispectral_ot import runtime
from bispectral_ot.checks import Metric, Storage, check_choice, check_positive
from bispectral_ot.costs.distances import Distance, FeatureDistance, Floats, Vector, as_real
from bispectral_ot.engines import Block, Engine, Threads, core_count, joined, row_blocks
from bispectral_ot.errors import InputError, MemoryBudgetError
from bispectral_ot.memory import format_bytes

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Labels = NDArray[np.int64]
STORAGES: tuple[Storage, ...] = get_args(Storage)
BYTES_PER_ENTRY: dict[str, int] = {"float32": 4, "compact": 2, "recompute": 0, "float64": 8}

_OVERHEAD = 64 * 2**20  # bytes of the solver's vectors, the interpreter and the libraries
_MOST_FLOAT32 = 2**28  # entries stored as float32; larger costs are read faster in 16 bits and take half of the memory
_MOST_ACTIVE = 0.15  # of the entries; with more, a sweep takes longer than it saves
_ONE_BLOCK = 2**15  # entries of a cost that is one block: threads would only wait for each other
# Rows of a stored block: few enough that all cores end together, many enough that column sums cost little.
_FEWEST_ROWS, _MOST_ROWS, _BLOCKS = 16, 256, 32
_SAFE_FLOAT32 = (1e-30, 1e30)  # numbers outside are shifted and scaled like float64 ones
# Results of rows of a pass; the others are sums over all rows.
_ROW_RESULTS = {"sweep": 1, "sweep_active": 1, "gather": 5, "read": 8, "class_kernels": 2}


class StoragePlan(NamedTuple):
    """Storage of a cost, and whether the features have to be in memory maps for it."""

    storage: Storage
    mapped_features: bool


def plan_storage(
    shape: tuple[int, int],
    *,
    feature_bytes: int,
    may_map: bool = False,
    solver_bytes: int = 0,
    block_rows: int = 256,
    storage: Storage | None = None,
    engine: Engine | None = None,
) -> StoragePlan:
    """Storage of a cost that fits the memory budget together with the features.

    It is float32 up to 1 GB, then compact, which is as fast, then recompute. ``shape`` is that of the largest cost,
    ``may_map`` is whether features may be in memory maps, which do not count, and ``block_rows`` is the number of rows
    of a block in work. On a cluster, every worker holds the features, and all workers together hold the cost.
    """
    engine = engine or Threads()
    if storage is not None:
        check_choice("storage", storage, STORAGES)
        if runtime.current().memory is None and not solver_bytes and not may_map:
            return StoragePlan(storage, False)
    budget = engine.budget()
    feature_bytes *= engine.processes
    others = (engine.processes - 1) * storage_bytes(shape, feature_bytes=0, block_rows=block_rows)["recompute"]
    needs = storage_bytes(shape, feature_bytes=solver_bytes + others, block_rows=block_rows)
    by_size = STORAGES if shape[0] * shape[1] <= _MOST_FLOAT32 else STORAGES[1:]
    needs = {name: needs[name] for name in (by_size if storage is None else (storage,))}
    for candidate, need in needs.items():
        for mapped in (False, True) if may_map else (False,):
            if need + (0 if mapped else feature_bytes) <= budget:
                return StoragePlan(candidate, mapped)
    size = f"{shape[0]:,} x {shape[1]:,}"
    if solver_bytes:
        found = f"this solver forms dense matrices of {size} entries and needs {format_bytes(solver_bytes)} for them"
        found += f", {format_bytes(min(needs.values()))} with the cost, but has a working memory of"
        advice = "Use Sinkhorn, which forms none, allow more memory, or use fewer elements."
        raise MemoryBudgetError(f"{found} {format_bytes(budget)}. {advice}")
    features = 0 if may_map else feature_bytes
    said = " or ".join(f"{format_bytes(need + features)} ({name})" for name, need in needs.items())
    found = f"a {size} cost does not fit into a working memory of {format_bytes(budget)}: it needs {said}, of which"
    advice = "Allow more working memory, use fewer elements, or reduce the features (pca)."
    raise MemoryBudgetError(f"{found} {format_bytes(features)} are features. {advice}")


def storage_bytes(shape: tuple[int, int], *, feature_bytes: int, block_rows: int = 256) -> dict[Storage, int]:
    """Bytes that each storage needs, features and room to work in included."""
    fixed = feature_bytes + _OVERHEAD + core_count() * block_rows * shape[1] * 4
    return {storage: fixed + BYTES_PER_ENTRY[storage] * shape[0] * shape[1] for storage in STORAGES}


class PlanSummary(NamedTuple):
    """Statistics of a plan P (n, m) from one pass; those of its rows first, then sums over all rows."""

    row_sums: Vector  # (n,) sum_j P_ij
    row_costs: Vector  # (n,) sum_j P_ij C_ij
    top_indices: Labels  # (n, k) best targets of each source, best first, their mass and their cost
    top_masses: Vector
    top_costs: Vector
    nearest: Labels  # (n,) target of lowest cost and that cost; zeros if k is 0
    nearest_costs: Vector
    source_class_mass: Vector  # (n, classes) mass that each source sends to each target class; none without labels
    column_sums: Vector  # (m,) sum_i P_ij
    target_class_mass: Vector  # (classes, m) mass that each target gets from each source class

    @property
    def transport_cost(self) -> float:
        """``sum P * C`` in the units of the cost."""
        return float(self.row_costs.sum())


class EncodedRows(NamedTuple):
    """Rows of a cost: ``cost[i, j] = offsets[i] + steps[i] * codes[i, j]``; codes (n, m) float32, float64 or uint16."""

    codes: NDArray[Any]
    offsets: Vector
    steps: Vector


class ActiveRows(NamedTuple):
    """Some entries of rows of a cost: their number (n,), then columns and codes of all, and how these are decoded."""

    counts: Labels
    columns: NDArray[np.int32]
    codes: NDArray[Any]
    offsets: Vector
    steps: Vector


def encode(rows: NDArray[Any], storage: str) -> EncodedRows:
    """Rows as codes: 65,535 steps for ``compact``, from 0 to 1 for ``float64`` (for passes in float32), else as is."""
    if storage == "compact":
        from bispectral_ot.costs import cost_kernels

        low = rows.min(axis=1).astype(np.float64)
        steps = (rows.max(axis=1) - low) / 65535
        codes = np.empty(rows.shape, dtype=np.uint16)  # not in the kernel: large arrays of NumPy have large pages
        cost_kernels.quantize_rows(rows, low, np.where(steps > 0, steps, 1), codes)
        return EncodedRows(codes, low, steps)
    if storage != "float64":
        return EncodedRows(rows, np.zeros(len(rows)), np.ones(len(rows)))
    low = rows.min(axis=1)
    # halves, because the difference of two finite numbers can be infinite
    half = rows.max(axis=1) / 2 - low / 2
    steps = np.where(half > 0, half, 1.0)
    with np.errstate(under="ignore"):
        codes = (rows / 2 - low[:, None] / 2) / steps[:, None]
    return EncodedRows(codes, low, 2 * steps)


class Cost:
    """Pairwise distances between two feature matrices, stored or recomputed in every pass.

    Parameters
    ----------
    source, target : Features (n, k) and (m, k), one row per element; NumPy arrays or float32 memory maps.
    metric : ``"l1"``, ``"l2"``, ``"sqeuclidean"`` or ``"cosine"``.
    weights : Weight of each column (the multiplicities of folded features, ``feature_weights_``).
    scale : Unit of a regularization: ``reg=0.01`` means ``0.01 * scale``. The largest distance by default.
    storage
        ``float32``, ``compact`` (16 bits, see ``storage_error``) or ``recompute``; chosen by size and memory budget by
        default (:func:`bispectral_ot.costs.plan_storage`).

    Attributes
    ----------
    shape : (n, m)
    metric, scale, storage : see above; a given matrix of float64 has the storage ``"float64"``
    maximum : the largest distance, as stored
    storage_error : bound on ``|stored - computed|`` of any entry; 0 if nothing is rounded

    Examples
    --------
    >>> import numpy as np
    >>> cost = Cost(np.array([[0.0], [1.0]]), np.array([[0.0], [3.0]]), metric="l1")
    >>> cost.block(0, 2).tolist()
    [[0.0, 3.0], [1.0, 2.0]]
    """

    _sweep = "sweep"  # the pass of an iteration

    def __init__(
        self,
        source: Floats,
        target: Floats,
        metric: Metric = "l1",
        *,
        weights: Floats | None = None,
        scale: float | None = None,
        storage: Storage | None = None,
    ) -> None:
        self._keep(FeatureDistance(source, target, metric, weights), scale, storage, None)

    @classmethod
    def from_distance(
        cls, distance: Distance, *, scale: float | None = None, storage: Storage | None = None, engine: Any = None
    ) -> Self:
        """Cost of a :class:`~bispectral_ot.costs.Distance` of any kind, on ``engine`` (threads by default)."""
        cost = cls.__new__(cls)
        cost._keep(distance, scale, storage, engine)
        return cost

    @classmethod
    def from_matrix(cls, matrix: "ArrayLike", *, scale: float | None = None, engine: Engine | None = None) -> Self:
        """Cost from a matrix (n, m), which is copied; float64 numbers keep their digits."""
        return cls.from_distance(_Given(matrix), scale=scale, engine=engine)

    def _keep(self, distance: Distance, scale: float | None, storage: Storage | None, engine: Engine | None) -> None:
        """Choose a storage for the distances, and compute every row once: to keep it, and to find the maximum."""
        self.metric, self.shape, self.engine = distance.metric, distance.shape, engine or Threads()
        size, rows = distance.feature_bytes, distance.rows_at_once
        plan = partial(plan_storage, self.shape, feature_bytes=size, block_rows=rows, engine=self.engine)
        self.storage: str = distance.stored_as or plan(storage=storage).storage
        needs: dict[Any, int] = storage_bytes(self.shape, feature_bytes=size, block_rows=rows)
        self._spare_bytes = self.engine.budget() - needs.get(self.storage, 2**63)
        n, m = self.shape
        most = rows if self.storage == "recompute" else _MOST_ROWS
        blocks = row_blocks(n, block_rows=min(n if n * m <= _ONE_BLOCK else max(n // _BLOCKS, _FEWEST_ROWS), most))
        row_bytes = m * BYTES_PER_ENTRY[self.storage]
        shared = distance, self.storage
        self._blocks = self.engine.place(_keep, blocks, shared=shared, row_bytes=row_bytes, stage="cost")
        largest, step = np.max(list(self.engine.map(lambda block: block.content[1:], self._blocks)), axis=0)
        self.maximum = float(largest)
        if not np.isfinite(self.maximum):
            distance.check_finite()
            raise InputError(f"{self.metric} distances go beyond the range of float32; scale the features first.")
        if scale is not None:
            check_positive("scale", scale, "leave it out to use the largest cost")
        self.scale = float(scale or self.maximum or 1.0)
        # half a step, and roundings to float32: of the step, its inverse, products, differences and sums
        self.storage_error = float(step) / 2 + 2**-21 * self.maximum if self.storage == "compact" else 0.0

    def __repr__(self) -> str:
        n, m = self.shape
        return f"Cost({n:,} x {m:,}, {self.metric}, {self.storage}, maximum {self.maximum:.6g})"

    def block(self, start: int, stop: int, *, dtype: DTypeLike | None = None) -> NDArray[Any]:
        """Distances (stop - start, m) of the sources ``start`` to ``stop``; always a copy."""
        if not 0 <= start <= stop <= self.shape[0]:
            raise InputError(f"rows {start} to {stop} are not within 0 to {self.shape[0]}.")
        dtype = np.dtype(dtype or (np.float64 if self.storage == "float64" else np.float32)).str
        blocks = [b for b in self._blocks if b.start < stop and start < b.stop]
        parts = self.engine.map(_decoded, blocks, shared=(start, stop, dtype)) if start < stop else ()
        return np.concatenate([np.empty((0, self.shape[1]), dtype), *parts])

    def sweep(
        self, f: Vector, g: Vector, weights: Vector, *, unit: float, damping: float = 1.0, dtype: type = np.float64
    ) -> tuple[Vector, Vector]:
        """One Sinkhorn iteration: new potentials f (n,), and column sums (m,) of the plan that has them.

        Potentials f, a guess, and g (m,) are finite exponents of 2, ``P = 2 ** (f + g - unit * C)``; the new ones are
        ``log2(w) - damping * log2(sum 2^(g - unit C))`` with the weights w (n,). Work in float32 is twice as fast.
        """
        shared: tuple[Any, ...] = unit, g.astype(dtype), damping, self._sweep
        found = self.engine.map(_pass, self._blocks, rows=(f.astype(dtype), weights), shared=shared, join=True)
        (new,), (column_sums,) = joined(found)
        return new, column_sums

    def gather(
        self, f: Vector, g: Vector, low_rows: Vector, low_columns: Vector, *, unit: float, max_density: float
    ) -> "csr_array | None":
        """Entries ``unit * C`` that matter; None if they are more than the fraction ``max_density`` of a block.

        Those are the entries whose exponent ``f + g - unit * C`` is above ``low_rows`` (n,) or ``low_columns`` (m,).
        """
        from scipy.sparse import csr_array

        part = self.active(f, g, low_rows, low_columns, unit=unit, max_density=max_density)
        if part is None:
            return None
        (counts, columns, exponents), _ = joined(self.engine.map(_exponents, part._blocks, shared=(unit,), join=True))
        return csr_array((exponents, columns, np.concatenate([[0], np.cumsum(counts)])), shape=self.shape)

    def active(
        self, f: Vector, g: Vector, low_rows: Vector, low_columns: Vector, *, unit: float, max_density: float = np.nan
    ) -> Self | None:
        """Cost restricted to the entries that :meth:`gather` selects; None if these are too many.

        By default, the limit is what saves time and fits into the memory that features and cost leave free.
        """
        if np.isnan(max_density):
            size = (4 + (BYTES_PER_ENTRY[self.storage] or 4)) * math.prod(self.shape)
            max_density = min(_MOST_ACTIVE, max(0, self._spare_bytes) / size)
        shared = unit, g, low_columns, int(max_density * self.shape[1]) + 8, "gather"
        part = copy(self)
        part._sweep = "sweep_active"
        for blocks in (self._blocks[:1], self._blocks):  # the first shows whether the others are worth it
            part._blocks = self.engine.place(_active, blocks, rows=(f, low_rows), shared=shared)
            missing = self.engine.map(lambda b: b.content[0].counts.sum() - len(b.content[0].columns), part._blocks)
            if any(missing):
                return None
        return part

    def read(
        self,
        f: Vector,
        g: Vector,
        *,
        unit: float,
        k: int = 0,
        source_labels: Labels | None = None,
        target_labels: Labels | None = None,
    ) -> PlanSummary:
        """Sums, k best targets and class masses of the plan of some potentials, see :meth:`sweep`, in one pass.

        ``f`` is -inf for an element without mass. Labels are integer classes (n,) and (m,); -1 for none.
        """
        given = zip((source_labels, target_labels), self.shape, strict=True)
        sources, targets = (np.full(size, -1) if labels is None else labels for labels, size in given)
        shared = unit, g, targets, k, int(sources.max()) + 1, int(targets.max()) + 1, "read"
        found = self.engine.map(_pass, self._blocks, rows=(f, sources), shared=shared, stage="summary", join=True)
        return PlanSummary(*itertools.chain(*joined(found)))

    def class_kernels(self, labels: Labels, n_classes: int, *, width: float) -> tuple[NDArray[np.float32], Vector]:
        """Kernel sums (n, n_classes, 3) over the columns of each class, and the smallest cost of each row (n,).

        Kernels are ``exp(-(C - smallest) / w)`` for the widths ``width / 9``, ``width / 3`` and ``width``: the first
        two are powers of the last, so one exponential is enough. ``labels`` (m,) are classes.
        """
        shared = labels, n_classes, 1 / (width * math.log(2)), "class_kernels"
        (sums, smallest), _ = joined(self.engine.map(_pass, self._blocks, shared=shared, stage="classes", join=True))
        return sums, smallest


class _Given(Distance):
    """Given matrix of costs: float32 if that loses nothing, else float64."""

    metric = "precomputed"

    def __init__(self, matrix: "ArrayLike") -> None:
        is_float32 = getattr(matrix, "dtype", None) == np.float32
        values = as_real(matrix, "the cost matrix", np.float32 if is_float32 else np.float64)
        if values.ndim != 2 or values.size == 0:
            raise InputError(f"the cost must be a non-empty matrix, got shape {values.shape}.")
        if not np.isfinite(values).all():
            row, column = np.argwhere(~np.isfinite(values))[0]
            raise InputError(f"the cost matrix has a NaN or infinite entry at [{row}, {column}].")
        if values.min() < 0:
            raise InputError("a cost must not be negative; add a constant, which does not change the plan.")
        safe = _SAFE_FLOAT32[0] < values.max() < _SAFE_FLOAT32[1] or values.max() == 0
        self.values, self.shape = values if safe else values.astype(np.float64), values.shape
        self.stored_as = str(self.values.dtype)

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        return self.values[start:stop].copy()  # the matrix is the caller's


def _keep(block: Block, distance: Distance, storage: str) -> tuple[EncodedRows | Distance, float, float]:
    """Rows of a block (or their distance, to compute them again), largest entry, and largest step of the codes."""
    rows = distance.rows(block.start, block.stop)
    if storage == "recompute":
        return distance, float(rows.max()), 0.0
    encoded = encode(rows, storage)
    return encoded, float(rows.max()), float(encoded.steps.max())


def _decoded(block: Block, start: int, stop: int, dtype: DTypeLike) -> NDArray[Any]:
    """Rows of a block that are between ``start`` and ``stop``."""
    first, last, kept = max(start, block.start), min(stop, block.stop), block.content[0]
    if isinstance(kept, Distance):
        return kept.rows(first, last).astype(dtype)
    codes, offsets, steps = (values[first - block.start : last - block.start] for values in kept)
    return (codes * steps[:, None] + offsets[:, None]).astype(dtype)


def _active(block: Block, *given: Any) -> tuple[ActiveRows, ...]:
    return (ActiveRows(*_pass(block, *given)[0]),)


def _exponents(block: Block, unit: float) -> tuple[tuple[Any, ...], Any]:
    """Numbers, columns and exponents of the active entries of a block."""
    counts, columns, codes, *decoding = block.content[0]
    offsets, steps = (np.repeat(each, counts) for each in decoding)
    return (counts, columns, (offsets + steps * codes) * unit), ()


def _pass(block: Block, *given: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """One pass over the rows of a block by the kernel named last: results of the rows, and sums over them."""
    from bispectral_ot.costs import cost_kernels  # numba takes half a second to load, and only work needs it

    kept, (*arguments, kernel) = block.content[0], given
    rows = encode(kept.rows(block.start, block.stop), "float32") if isinstance(kept, Distance) else kept
    found = getattr(cost_kernels, kernel)(rows, *arguments)
    return found[: _ROW_RESULTS[kernel]], found[_ROW_RESULTS[kernel] :]
