"""Cost matrices in blocks of rows, and the passes that solvers make over them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from bispectral_ot.checks import check_positive
from bispectral_ot.costs.distances import Distance, FeatureDistance, Floats, Rows, Vector, as_real
from bispectral_ot.costs.storage import BYTES_PER_ENTRY, plan_storage
from bispectral_ot.engines import Block, Engine, Threads, row_blocks
from bispectral_ot.errors import InputError
from bispectral_ot.literals import Metric, Storage

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Labels = NDArray[np.int64]
# Costs of so few entries are one block: threads would only wait for each other.
_ONE_BLOCK = 2**15
# Rows of a stored block: few enough that all cores end together, many enough that column sums cost little.
_FEWEST_ROWS, _MOST_ROWS, _BLOCKS = 16, 256, 32
# float32 numbers outside of this range are shifted and scaled like float64 ones.
_SAFE_FLOAT32 = (1e-30, 1e30)


class Sweep(NamedTuple):
    """New row potentials (n,) of one pass, and the column sums (m,) of the plan that has them."""

    f: Vector
    column_sums: Vector


class PlanSummary(NamedTuple):
    """Statistics of a plan P (n, m) from one pass; those of its rows first, then sums over all rows.

    Attributes
    ----------
    row_sums, row_costs : (n,) ``sum_j P_ij`` and ``sum_j P_ij C_ij``
    top_indices, top_masses, top_costs : (n, k) best targets of each source, best first, their mass and their cost
    nearest, nearest_costs : (n,) target of lowest cost and that cost; zeros where k is 0
    source_class_mass : (n, classes) mass that each source sends to each target class; (n, 0) without target labels
    column_sums : (m,) ``sum_i P_ij``
    target_class_mass : (classes, m) mass that each target gets from each source class; (0, m) without source labels
    """

    row_sums: Vector
    row_costs: Vector
    top_indices: Labels
    top_masses: Vector
    top_costs: Vector
    nearest: Labels
    nearest_costs: Vector
    source_class_mass: Vector
    column_sums: Vector
    target_class_mass: Vector

    @property
    def transport_cost(self) -> float:
        """``sum P * C`` in the units of the cost."""
        return float(self.row_costs.sum())


_N_ROW_FIELDS = 8


class EncodedRows(NamedTuple):
    """Rows of a cost: ``cost[i, j] = offsets[i] + steps[i] * codes[i, j]``; codes (n, m) float32, float64 or uint16."""

    codes: NDArray[Any]
    offsets: Vector
    steps: Vector

    @classmethod
    def plain(cls, rows: NDArray[Any]) -> EncodedRows:
        """Rows that are their own codes."""
        return cls(rows, np.zeros(len(rows)), np.ones(len(rows)))

    @classmethod
    def quantized(cls, rows: Rows) -> EncodedRows:
        """Rows in 16 bits: each is cut into 65,535 steps between its smallest and its largest entry."""
        from bispectral_ot.costs import distance_kernels

        found = cls(np.empty(rows.shape, dtype=np.uint16), np.empty(len(rows)), np.empty(len(rows)))
        distance_kernels.quantize_rows(rows, *found)
        return found

    @classmethod
    def shifted(cls, rows: Vector) -> EncodedRows:
        """Float64 rows shifted to 0 and scaled to 1, so that passes in float32 see the differences within a row."""
        low = rows.min(axis=1)
        # halves, because the difference of two finite numbers can be infinite
        half = rows.max(axis=1) / 2 - low / 2
        steps = np.where(half > 0, half, 1.0)
        with np.errstate(under="ignore"):
            codes = (rows / 2 - low[:, None] / 2) / steps[:, None]
        return cls(codes, low, 2 * steps)

    def decoded(self, dtype: DTypeLike) -> NDArray[Any]:
        """The rows themselves, never a view."""
        rows: NDArray[Any] = self.codes.astype(dtype)
        if not (self.steps == 1).all():
            rows = rows * self.steps[:, None].astype(dtype)
        if self.offsets.any():
            rows = rows + self.offsets[:, None].astype(dtype)
        return rows


class Cost:
    """Pairwise distances between two feature matrices, computed once or again on every visit.

    Parameters
    ----------
    source, target
        Features (n, k) and (m, k), one row per element; NumPy arrays or float32 memory maps.
    metric
        ``"l1"``, ``"l2"``, ``"sqeuclidean"`` or ``"cosine"``.
    weights
        Weight of each column (the multiplicities of folded features, ``feature_weights_``).
    scale
        Unit of a regularisation: ``reg=0.01`` means ``0.01 * scale``. The largest distance by default; give one number
        to several costs to make their distances comparable.
    storage
        ``float32``, ``compact`` (16 bits, see ``storage_error``) or ``recompute``; by default the first of them that
        fits the memory budget (:func:`bispectral_ot.runtime.running`).

    Attributes
    ----------
    shape : (n, m)
    metric : name of the distance
    maximum : the largest distance, as stored
    scale : see above; 1 where all distances are 0
    storage : see above; ``"float64"`` for a given matrix of such numbers
    storage_error : bound on ``|stored - computed|`` of any entry; 0 where nothing is rounded

    Examples
    --------
    >>> import numpy as np
    >>> cost = Cost(np.array([[0.0], [1.0]]), np.array([[0.0], [3.0]]), metric="l1")
    >>> cost.block(0, 2).tolist()
    [[0.0, 3.0], [1.0, 2.0]]
    >>> cost.maximum
    3.0
    """

    shape: tuple[int, int]
    metric: str
    maximum: float
    scale: float
    storage: str
    storage_error: float
    engine: Engine

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
        cls,
        distance: Distance,
        *,
        scale: float | None = None,
        storage: Storage | None = None,
        engine: Engine | None = None,
    ) -> Cost:
        """Cost of distances of any kind, such as an :class:`~bispectral_ot.costs.AlignedDistance`.

        Blocks are kept and worked on by ``engine``; by the threads of this machine by default.

        Examples
        --------
        >>> import numpy as np
        >>> from bispectral_ot.costs import Distance
        >>> class Hamming(Distance):
        ...     metric = "hamming"
        ...     def __init__(self, source, target):
        ...         self.source, self.target, self.shape = source, target, (len(source), len(target))
        ...     def rows(self, start, stop):
        ...         return (self.source[start:stop, None] != self.target).sum(axis=2).astype(np.float32)
        >>> words = np.array([[0, 1, 1], [0, 0, 0]])
        >>> Cost.from_distance(Hamming(words, words)).block(0, 2).tolist()
        [[0.0, 2.0], [2.0, 0.0]]
        """
        cost = cls.__new__(cls)
        cost._keep(distance, scale, storage, engine)
        return cost

    @classmethod
    def from_matrix(cls, matrix: ArrayLike, *, scale: float | None = None, engine: Engine | None = None) -> Cost:
        """Cost from a matrix (n, m), which is copied; float64 numbers keep their digits."""
        values = _as_matrix(matrix)
        cost = cls.__new__(cls)
        cost.metric, cost.shape, cost.engine = "precomputed", values.shape, engine or Threads()
        cost.storage, cost.storage_error = str(values.dtype), 0.0
        cost.maximum, cost.scale = float(values.max()), _check_scale(scale, float(values.max()))
        blocks = _blocks(cost.shape, _MOST_ROWS)
        cost._blocks = cost.engine.place(
            _keep_given, blocks, rows=(values,), row_bytes=values.itemsize * values.shape[1]
        )
        return cost

    def _keep(self, distance: Distance, scale: float | None, storage: Storage | None, engine: Engine | None) -> None:
        """Choose a storage for the distances, and compute every row once: to keep it, and to find the maximum."""
        self.metric, self.shape, self.engine = distance.metric, distance.shape, engine or Threads()
        plan = plan_storage(
            self.shape,
            feature_bytes=distance.feature_bytes,
            block_rows=distance.rows_at_once,
            storage=storage,
            engine=self.engine,
        )
        self.storage = plan.storage
        self._blocks = self.engine.place(
            _keep,
            _blocks(self.shape, distance.rows_at_once if plan.storage == "recompute" else _MOST_ROWS),
            shared=(distance, plan.storage),
            row_bytes=BYTES_PER_ENTRY[plan.storage] * self.shape[1],
            stage="cost",
        )
        found = np.array(list(self.engine.map(_extent, self._blocks)))
        self.maximum = float(found[:, 0].max())
        if not np.isfinite(self.maximum):
            distance.check_finite()
            raise InputError(f"{self.metric} distances go beyond the range of float32; scale the features first.")
        self.scale = _check_scale(scale, self.maximum)
        # half a step, and the roundings of the decoded float32: of the step, the product and the sum
        rounding = float(found[:, 1].max()) / 2 + 2**-22 * self.maximum
        self.storage_error = rounding if plan.storage == "compact" else 0.0

    def __repr__(self) -> str:
        n, m = self.shape
        return f"Cost({n:,} x {m:,}, {self.metric}, {self.storage}, maximum {self.maximum:.6g})"

    def block(self, start: int, stop: int, *, dtype: DTypeLike | None = None) -> NDArray[Any]:
        """Distances (stop - start, m) of the sources ``start`` to ``stop``, in their own units; never a view.

        In float32 unless another ``dtype`` is given; in float64 where the storage is.
        """
        if not 0 <= start <= stop <= self.shape[0]:
            raise InputError(f"rows {start} to {stop} are not within 0 to {self.shape[0]}.")
        dtype = np.dtype(dtype or (np.float64 if self.storage == "float64" else np.float32)).str
        blocks = [b for b in self._blocks if b.start < stop and start < b.stop]
        parts = self.engine.map(_decoded, blocks, shared=(start, stop, dtype)) if start < stop else ()
        return np.concatenate([np.empty((0, self.shape[1]), dtype), *parts])

    def sweep(
        self, f: Vector, g: Vector, weights: Vector, *, unit: float, damping: float = 1.0, dtype: type = np.float64
    ) -> Sweep:
        """One Sinkhorn iteration: both half-steps of a row, while its costs are in the cache.

        Parameters
        ----------
        f, g
            Potentials (n,) and (m,) as exponents of 2; finite. ``f`` only gives an order of magnitude.
        weights
            Mass of the rows (n,).
        unit
            Exponent of 2 for each unit of the cost: ``P = 2 ** (f + g - unit * C)``.
        damping
            1 makes rows sum to their weights; less relaxes them: ``f = log2(w) - damping * log2(sum 2^(g - unit C))``.
        dtype
            Precision of the work: ``np.float32`` is twice as fast.
        """
        shared: tuple[Any, ...] = (g.astype(dtype), unit, damping)
        found = self.engine.reduce(_sweep, self._blocks, rows=(f.astype(dtype), weights), shared=shared)
        return Sweep(found.rows[0], found.totals[0])

    def gather(
        self, f: Vector, g: Vector, low_rows: Vector, low_columns: Vector, *, unit: float, max_density: float
    ) -> csr_array | None:
        """Entries ``unit * C`` whose exponent is above the mark of their row or column; None if they are too many.

        Parameters
        ----------
        f, g, unit
            As for :meth:`sweep`.
        low_rows, low_columns
            Exponents (n,) and (m,) below which an entry does not matter.
        max_density
            Maximum fraction of the entries of a block.
        """
        from scipy.sparse import csr_array

        limit = int(max_density * self.shape[1]) + 8
        found = self.engine.reduce(_gather, self._blocks, rows=(f, low_rows), shared=(g, low_columns, unit, limit))
        counts, columns, exponents = found.rows
        if len(columns) < counts.sum():
            return None
        return csr_array((exponents, columns, np.concatenate([[0], np.cumsum(counts)])), shape=self.shape)

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
        """Sums, best targets and class masses of the plan of these potentials, in one pass.

        Parameters
        ----------
        f, g, unit
            As for :meth:`sweep`; -inf in ``f`` where an element has no mass.
        k
            Number of best targets of each source; 0 also leaves out the nearest ones.
        source_labels, target_labels
            Integer classes (n,) and (m,) from 0; -1 where there is none.
        """
        given = zip((source_labels, target_labels), self.shape, strict=True)
        sources, targets = (np.full(size, -1) if labels is None else labels for labels, size in given)
        shared = (g, unit, targets, k, int(sources.max()) + 1, int(targets.max()) + 1)
        found = self.engine.reduce(_read, self._blocks, rows=(f, sources), shared=shared, stage="summary")
        return PlanSummary(*found.rows, *found.totals)


def as_cost(cost: Cost | ArrayLike) -> Cost:
    """Return a :class:`Cost` as it is, anything else as a matrix of costs."""
    return cost if isinstance(cost, Cost) else Cost.from_matrix(cost)


def _check_scale(scale: float | None, maximum: float) -> float:
    if scale is None:
        return maximum or 1.0
    check_positive("scale", scale, "leave it out to use the largest cost")
    return float(scale)


def _as_matrix(matrix: ArrayLike) -> NDArray[Any]:
    """Return a checked cost matrix; float32 where that loses nothing, else float64."""
    is_float32 = getattr(matrix, "dtype", None) == np.float32
    values = as_real(matrix, "the cost matrix", np.float32 if is_float32 else np.float64)
    if values.ndim != 2 or values.size == 0:
        raise InputError(f"the cost must be a non-empty matrix, got shape {values.shape}.")
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise InputError(f"the cost matrix has a NaN or infinite entry at [{row}, {column}].")
    if values.min() < 0:
        raise InputError("a cost must not be negative; shift it, since a constant does not change the plan.")
    low, high = _SAFE_FLOAT32
    if is_float32 and not (low < values.max() < high or values.max() == 0):
        return values.astype(np.float64)
    return values


def _blocks(shape: tuple[int, int], most_rows: int) -> list[Block]:
    n, m = shape
    return row_blocks(n, block_rows=min(n if n * m <= _ONE_BLOCK else max(n // _BLOCKS, _FEWEST_ROWS), most_rows))


class _Kept(NamedTuple):
    """Rows of a block (or their distance, to compute them again), largest entry, and largest step of the codes."""

    rows: EncodedRows | Distance
    largest: float
    step: float


def _keep(block: Block, distance: Distance, storage: Storage) -> _Kept:
    rows = distance.rows(block.start, block.stop)
    if storage == "recompute":
        return _Kept(distance, float(rows.max()), 0.0)
    encoded = EncodedRows.plain(rows) if storage == "float32" else EncodedRows.quantized(rows)
    return _Kept(encoded, float(rows.max()), float(encoded.steps.max()))


def _keep_given(block: Block, values: NDArray[Any]) -> _Kept:
    # a copy, because the matrix is the caller's
    is_float32 = values.dtype == np.float32
    return _Kept(EncodedRows.plain(values.copy()) if is_float32 else EncodedRows.shifted(values), 0.0, 0.0)


def _extent(block: Block) -> tuple[float, float]:
    return block.content.largest, block.content.step


def _encoded(block: Block, start: int = 0, stop: int = sys.maxsize) -> EncodedRows:
    """Rows of a block that are between ``start`` and ``stop``, as they are kept or computed again."""
    first, last = max(start, block.start), min(stop, block.stop)
    kept = block.content.rows
    if isinstance(kept, EncodedRows):
        return EncodedRows(*(values[first - block.start : last - block.start] for values in kept))
    return EncodedRows.plain(kept.rows(first, last))


def _decoded(block: Block, start: int, stop: int, dtype: DTypeLike) -> NDArray[Any]:
    return _encoded(block, start, stop).decoded(dtype)


def _sweep(
    block: Block, f: Vector, weights: Vector, g: NDArray[Any], unit: float, damping: float
) -> tuple[tuple[Vector], tuple[Vector]]:
    # numba takes half a second to load, and only work needs it
    from bispectral_ot.costs import pass_kernels

    new_f, column_sums = f.astype(np.float64), np.zeros(len(g))
    pass_kernels.sweep(_encoded(block), unit, g, weights, damping, new_f, column_sums)
    return (new_f,), (column_sums,)


def _gather(
    block: Block, f: Vector, low_rows: Vector, g: Vector, low_columns: Vector, unit: float, limit: int
) -> tuple[tuple[NDArray[Any], ...], tuple[()]]:
    from bispectral_ot.costs import pass_kernels

    counts = np.zeros(len(f), dtype=np.int64)
    columns, exponents = np.empty(len(f) * limit, dtype=np.int32), np.empty(len(f) * limit)
    n_found = pass_kernels.gather(_encoded(block), unit, f, g, low_rows, low_columns, counts, columns, exponents)
    if n_found < counts.sum():  # too many: nobody will use them
        n_found = 0
    return (counts, columns[:n_found].copy(), exponents[:n_found].copy()), ()


def _read(
    block: Block,
    f: Vector,
    source_labels: Labels,
    g: Vector,
    unit: float,
    target_labels: Labels,
    k: int,
    n_source_classes: int,
    n_target_classes: int,
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    from bispectral_ot.costs import pass_kernels

    n, m = len(f), len(g)
    found = PlanSummary(
        row_sums=np.empty(n),
        row_costs=np.empty(n),
        top_indices=np.zeros((n, k), dtype=np.int64),
        top_masses=np.zeros((n, k)),
        top_costs=np.zeros((n, k)),
        nearest=np.zeros(n, dtype=np.int64),
        nearest_costs=np.zeros(n),
        source_class_mass=np.zeros((n, n_target_classes)),
        column_sums=np.zeros(m),
        target_class_mass=np.zeros((n_source_classes, m)),
    )
    pass_kernels.read(_encoded(block), unit, f, g, source_labels, target_labels, found)
    return found[:_N_ROW_FIELDS], found[_N_ROW_FIELDS:]
