"""The cost of moving one element of a to one of b: row blocks, stored or recomputed within a byte budget."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bispectral_ot.checks import check_choice
from bispectral_ot.costs._typing import Codes, Floats
from bispectral_ot.costs.distances import Distance, Metric, as_float32
from bispectral_ot.engines import core_count, run_blocks, split_rows
from bispectral_ot.errors import InputError, MemoryBudgetError
from bispectral_ot.memory import default_budget, format_bytes, parse_bytes
from bispectral_ot.progress import Progress, silent

Storage = Literal["float32", "compact", "recompute"]
STORAGES: tuple[Storage, ...] = get_args(Storage)

# Room for the solver's vectors, the interpreter and the libraries beside what is counted exactly.
_OVERHEAD = 64 * 2**20


@dataclass(frozen=True)
class EncodedRows:
    """Rows of a cost as they are stored: ``cost[i, j] = offsets[i] + steps[i] * codes[i, j]``."""

    codes: Codes
    offsets: NDArray[np.float64]
    steps: NDArray[np.float64]

    def decode(self) -> NDArray[np.float32]:
        """The rows as float32."""
        if self.codes.dtype == np.float32:
            return self.codes  # type: ignore[return-value]
        rows = self.codes.astype(np.float32)
        rows *= self.steps[:, None].astype(np.float32)
        rows += self.offsets[:, None].astype(np.float32)
        return rows


class Cost:
    """Pairwise distances between two feature matrices, computed once or again on every visit.

    Parameters
    ----------
    xa, xb
        Features (n, k) and (m, k), one row per element; NumPy arrays or float32 memory maps.
    metric
        ``"l1"``, ``"l2"``, ``"sqeuclidean"`` or ``"cosine"``.
    weights
        A weight for each column (the multiplicities of folded features, ``feature_weights_``).
    working_memory
        Byte budget for features and cost together, as ``"4GB"`` or a number. It decides how the cost is kept:
        ``float32`` if that fits, else ``compact`` (16 bits, see ``storage_error``), else ``recompute``.
        By default 70 % of the memory that is free now.
    storage
        Ask for one of the three by name instead.
    progress
        Called as blocks are computed.

    Attributes
    ----------
    shape : (n, m)
    maximum : the largest distance, as stored
    storage : how the cost is kept
    storage_error : bound on ``|stored - computed|`` of any entry; 0 where nothing is rounded
    """

    def __init__(
        self,
        xa: Floats,
        xb: Floats,
        metric: Metric = "l1",
        *,
        weights: Floats | None = None,
        working_memory: str | int | float | None = None,
        storage: Storage | None = None,
        progress: Progress = silent,
    ) -> None:
        distance = Distance(xa, xb, metric, weights)
        self._keep(distance, working_memory=working_memory, storage=storage, progress=progress)

    def __repr__(self) -> str:
        n, m = self.shape
        return f"{type(self).__name__}({n:,} x {m:,}, {self.metric}, {self.storage}, maximum {self.maximum:.6g})"

    def _keep(
        self,
        distance: Distance,
        *,
        working_memory: str | int | float | None,
        storage: Storage | None,
        progress: Progress,
    ) -> None:
        """Choose a storage for the distances and fill it; any kind of distance will do."""
        self._distance: Distance | None = distance
        self.metric: str = distance.metric
        self.shape: tuple[int, int] = (distance.xa.shape[0], distance.xb.shape[0])
        in_memory = [x for x in (distance.xa, distance.xb) if not isinstance(x, np.memmap)]
        self.storage: Storage = choose_storage(
            self.shape,
            feature_bytes=sum(x.nbytes for x in in_memory),
            block_rows=distance.rows_at_once,
            working_memory=working_memory,
            storage=storage,
        )
        self._progress = progress
        self._fill()

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> Cost:
        """Use a cost matrix (n, m) that the caller has computed."""
        values = as_float32(matrix, "the cost matrix")
        if values.ndim != 2 or values.size == 0:
            raise InputError(f"a cost must be a non-empty matrix, got shape {values.shape}.")
        if not np.isfinite(values).all():
            row, column = np.argwhere(~np.isfinite(values))[0]
            raise InputError(f"the cost matrix has a NaN or infinite entry at [{row}, {column}].")
        if values.min() < 0:
            raise InputError("a cost must not be negative; shift it, since a constant does not change the plan.")
        cost = cls.__new__(cls)
        cost._distance, cost.metric, cost.shape, cost.storage = None, "precomputed", values.shape, "float32"
        cost._codes, cost._offsets, cost._steps = values, np.zeros(len(values)), np.ones(len(values))
        cost.maximum, cost.storage_error = float(values.max()), 0.0
        return cost

    @property
    def scale(self) -> float:
        """What the solvers divide by: the maximum, or 1 where all distances are 0."""
        return self.maximum or 1.0

    @property
    def rows_at_once(self) -> int:
        """Rows per block that keep a core busy and its caches full."""
        if self.storage == "recompute" and self._distance is not None:
            return self._distance.rows_at_once
        return max(1, min(64, self.shape[0] // (2 * core_count())))

    def block(self, start: int, stop: int) -> NDArray[np.float32]:
        """Distances (stop - start, m) of rows ``start`` to ``stop``, in the features' units."""
        if not 0 <= start <= stop <= self.shape[0]:
            raise InputError(f"rows {start} to {stop} are not within 0 to {self.shape[0]}.")
        rows = self.encoded(start, stop).decode()
        return rows.copy() if self.storage == "float32" else rows  # what the caller does to it is his own

    def scaled_block(self, start: int, stop: int) -> NDArray[np.float32]:
        """The same, divided by the maximum, as the solvers see it."""
        rows = self.block(start, stop)
        rows /= np.float32(self.scale)
        return rows

    def encoded(self, start: int, stop: int) -> EncodedRows:
        """Rows as they are stored (a view), for kernels that decode on the fly."""
        if self.storage == "recompute":
            return EncodedRows(self._compute(start, stop), self._zeros[start:stop], self._ones[start:stop])
        return EncodedRows(self._codes[start:stop], self._offsets[start:stop], self._steps[start:stop])

    @cached_property
    def _zeros(self) -> NDArray[np.float64]:
        return np.zeros(self.shape[0])

    @cached_property
    def _ones(self) -> NDArray[np.float64]:
        return np.ones(self.shape[0])

    def _compute(self, start: int, stop: int) -> NDArray[np.float32]:
        assert self._distance is not None
        out = np.empty((stop - start, self.shape[1]), dtype=np.float32)
        self._distance.rows(start, stop, out)
        return out

    def _fill(self) -> None:
        """Compute every row once: keep it if it is stored, and find the maximum."""
        assert self._distance is not None
        distance, (n, m) = self._distance, self.shape
        if self.storage == "float32":
            self._codes: Codes = np.empty((n, m), dtype=np.float32)
            self._offsets, self._steps = self._zeros, self._ones
        elif self.storage == "compact":
            self._codes = np.empty((n, m), dtype=np.uint16)
            self._offsets, self._steps = np.empty(n), np.empty(n)

        def work(start: int, stop: int) -> float:
            if self.storage == "float32":
                rows: NDArray[np.float32] = self._codes[start:stop]  # type: ignore[assignment]
                distance.rows(start, stop, rows)
            else:
                rows = self._compute(start, stop)
            if self.storage == "compact":
                from bispectral_ot.costs import kernels

                kernels.quantise_rows(rows, self._codes[start:stop], self._offsets[start:stop], self._steps[start:stop])
            return float(rows.max())

        blocks = split_rows(n, block_rows=distance.rows_at_once)
        self.maximum = float(np.max(run_blocks(work, blocks, stage="cost", progress=self._progress)))
        if not np.isfinite(self.maximum):
            distance.check_finite()
            raise InputError(f"{self.metric} distances go beyond the range of float32; scale the features first.")
        self.storage_error = 0.0
        if self.storage == "compact":
            # half a step, and the roundings of the decoded float32: of the step, the product and the sum
            self.storage_error = float(self._steps.max()) / 2 + 2**-22 * self.maximum
        if self.storage != "recompute":
            self._distance = None  # the features are not needed any more


def as_cost(cost: Cost | ArrayLike) -> Cost:
    """A :class:`Cost` as it is, anything else as a matrix of costs."""
    return cost if isinstance(cost, Cost) else Cost.from_matrix(cost)


def choose_storage(
    shape: tuple[int, int],
    *,
    feature_bytes: int,
    block_rows: int = 256,
    working_memory: str | int | float | None = None,
    storage: Storage | None = None,
) -> Storage:
    """The most exact storage that fits the budget together with the features.

    Raises
    ------
    MemoryBudgetError
        If not even recomputation fits; the message says what each storage would need.
    """
    needs = storage_bytes(shape, feature_bytes=feature_bytes, block_rows=block_rows)
    if storage is not None:
        check_choice("storage", storage, STORAGES)
        if working_memory is None or needs[storage] <= parse_bytes(working_memory):
            return storage
        candidates: tuple[Storage, ...] = (storage,)
    else:
        candidates = STORAGES
    budget = default_budget() if working_memory is None else parse_bytes(working_memory)
    for candidate in candidates:
        if needs[candidate] <= budget:
            return candidate
    raise MemoryBudgetError(
        f"a {shape[0]:,} x {shape[1]:,} cost does not fit into a working memory of {format_bytes(budget)}: it needs "
        + " or ".join(f"{format_bytes(needs[candidate])} ({candidate})" for candidate in candidates)
        + f", of which {format_bytes(feature_bytes)} are features and "
        f"{format_bytes(needs['recompute'] - feature_bytes)} room to work in (libraries, the solver, blocks of "
        "distances). Allow more working memory, take fewer elements, or reduce the features (pca)."
    )


def storage_bytes(shape: tuple[int, int], *, feature_bytes: int, block_rows: int = 256) -> dict[Storage, int]:
    """Bytes that each storage needs, features and scratch included."""
    n, m = shape
    scratch = _OVERHEAD + core_count() * block_rows * m * 4
    return {
        "float32": feature_bytes + scratch + 4 * n * m,
        "compact": feature_bytes + scratch + 2 * n * m,
        "recompute": feature_bytes + scratch,
    }
