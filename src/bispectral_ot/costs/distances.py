"""Pairwise distances between two feature matrices, tile by tile.

Features are never copied or scaled as a whole: weights are applied in the kernels, so that memory holds the features
once. Memory-mapped features are read a tile at a time and released again.
"""

from __future__ import annotations

import mmap
from abc import ABC, abstractmethod
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.checks import check_choice
from bispectral_ot.costs._typing import Floats, Pairs
from bispectral_ot.errors import DataWarning, InputError, warn
from bispectral_ot.literals import Metric

METRICS: tuple[Metric, ...] = get_args(Metric)
Rows = NDArray[np.float32]
Vector = NDArray[np.float64]

# Below this share of the norms, float32 inner products have lost half of their digits to cancellation.
CANCELLATION = 1e-3
# Features further from 0 than so many times their spread are shifted before they are rounded to float32.
_LOST_IN_FLOAT32 = 1e3
# Size of the rows of the target that are read at a time from a memory map.
_MAPPED_BYTES = 64 * 2**20
# Rows whose norms or finiteness are found at a time.
_ROWS_AT_ONCE = 1024


class Distance(ABC):
    """Distances between n sources and m targets, computed by blocks of rows.

    A subclass of your own needs ``shape``, ``metric`` (a name for reports) and :meth:`rows`;
    :meth:`Cost.from_distance <bispectral_ot.Cost.from_distance>` does the rest.

    Attributes
    ----------
    shape : (n, m)
    metric : name of the distance
    rows_at_once : rows that make a good block
    feature_bytes : memory that the distance itself keeps
    """

    shape: tuple[int, int]
    metric: str
    rows_at_once: int = 64
    feature_bytes: int = 0

    @abstractmethod
    def rows(self, start: int, stop: int) -> NDArray[np.float32]:
        """Distances (stop - start, m) of the sources ``start`` to ``stop``; called from several threads."""

    def check_finite(self) -> None:  # noqa: B027 (a subclass may do without)
        """Raise an :class:`InputError` that names the element at fault where a distance came out NaN or infinite."""


class FeatureDistance(Distance):
    """Distances between the rows of ``source`` (n, k) and ``target`` (m, k).

    ``l1``: ``sum_k w_k |x_k - y_k|``; ``l2``: ``sqrt(sum_k w_k (x_k - y_k)^2)``; ``sqeuclidean``: its square;
    ``cosine``: ``1 - <x, y>_w / (|x|_w |y|_w)``.

    Features are rounded to float32. Columns far from 0 are shifted first, where that does not change the distance;
    else a :class:`~bispectral_ot.DataWarning` is given.
    """

    # Whether a row that is added to all sources and targets changes nothing (but for cosine, which it always changes).
    _ignores_shifts = True
    # Targets of a tile: product and conversion are done while it is in the cache.
    _columns_at_once = 1024

    def __init__(self, source: Floats, target: Floats, metric: Metric, weights: Floats | None = None) -> None:
        check_choice("metric", metric, METRICS)
        self.source, self.target = _as_features(source, target, self._ignores_shifts and metric != "cosine")
        self.metric = metric
        self.shape = self.source.shape[0], self.target.shape[0]
        self.weights = _as_weights(weights, self.source.shape[1])
        if metric != "l1":
            self._source_norms = _squared_norms(self.source, self.weights)
            self._target_norms = _squared_norms(self.target, self.weights)
        self.feature_bytes = sum(x.nbytes for x in (self.source, self.target) if not isinstance(x, np.memmap))
        # BLAS and memory maps gain from more rows; for L1 the rows of a block stay in the cache
        mapped = isinstance(self.target, np.memmap)
        self.rows_at_once = 512 if mapped else 64 if metric == "l1" else 256
        if mapped:
            self._columns_at_once = max(1, _MAPPED_BYTES // (4 * self.target.shape[1]))
        elif metric == "l1":
            self._columns_at_once = self.shape[1]

    def rows(self, start: int, stop: int) -> Rows:
        """Distances (stop - start, m) of the sources ``start`` to ``stop``."""
        m, out = self.shape[1], np.empty((stop - start, self.shape[1]), dtype=np.float32)
        for first in range(start, stop, self.rows_at_once):
            rows = slice(first, min(first + self.rows_at_once, stop))
            source = _read(self.source, rows.start, rows.stop)
            part = out[rows.start - start : rows.stop - start]
            for left in range(0, m, self._columns_at_once):
                columns = slice(left, min(left + self._columns_at_once, m))
                self._tile(source, _read(self.target, columns.start, columns.stop), rows, columns, part[:, columns])
        return out

    def check_finite(self) -> None:
        """Name the first row with a NaN or infinite feature in an :class:`InputError`, if there is one.

        Memory maps are checked only where distances come out wrong, to read them one time less.
        """
        for x, name in ((self.source, "source"), (self.target, "target")):
            for start in range(0, x.shape[0], _ROWS_AT_ONCE):
                _check_finite(_read(x, start, min(start + _ROWS_AT_ONCE, x.shape[0])), name, first_row=start)

    def _tile(self, source: Rows, target: Rows, rows: slice, columns: slice, out: Rows) -> None:
        """Distances between some ``rows`` of the source and ``columns``, which are rows of the target."""
        # numba takes half a second to load, and only work needs it
        from bispectral_ot.costs import distance_kernels

        if self.metric == "l1":
            distance_kernels.l1_block(source, target, self.weights, out)
            return
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is summed again
            products = self._products(source, target)
        a_norms, b_norms = self._source_norms[rows], self._target_norms[columns]
        cosine, root = self.metric == "cosine", self.metric == "l2"
        if distance_kernels.finish(products, a_norms, b_norms, CANCELLATION, cosine, root):
            self._sum_again(products, source, target, a_norms, b_norms)
        out[:] = products

    def _products(self, source: Rows, target: Rows) -> Rows:
        """Inner products (n, m) of some rows."""
        products: Rows = np.matmul(source * self.weights, target.T)
        return products

    def _squared(self, source: Rows, target: Rows, pairs: Pairs) -> Vector:
        """Squared distances (k,) of some pairs of scaled rows, term by term in float64."""
        from bispectral_ot.costs import distance_kernels

        return distance_kernels.squared_pairs(source, target, pairs, self.weights)  # type: ignore[no-any-return]

    def _sum_again(self, distances: Rows, source: Rows, target: Rows, a_norms: Vector, b_norms: Vector) -> None:
        """Replace NaN by distances that are summed term by term: equal rows get exactly 0, nothing becomes negative.

        For cosine, ``|x/|x| - y/|y||^2 / 2``; a zero row has distance 1 to every other row and 0 to another zero row.
        """
        i, j = np.nonzero(np.isnan(distances))
        a, b = a_norms[i], b_norms[j]
        if self.metric != "cosine":
            squared = self._squared(source, target, Pairs(i, j, np.ones(len(i)), np.ones(len(i))))
            distances[i, j] = np.sqrt(squared) if self.metric == "l2" else squared
            return
        a_scales, b_scales = (1 / np.sqrt(np.where(norms > 0, norms, 1.0)) for norms in (a, b))
        halves = np.minimum(self._squared(source, target, Pairs(i, j, a_scales, b_scales)) / 2, 2.0)
        distances[i, j] = np.where((a == 0) | (b == 0), a != b, halves)


def as_float32(x: Any, name: str) -> NDArray[np.float32]:
    """``x`` as a contiguous array; what is beyond float32 becomes infinite, for the caller to name."""
    try:
        array = np.asarray(x)
        if array.dtype.kind != "c":
            with np.errstate(over="ignore"):
                return np.ascontiguousarray(array, dtype=np.float32)
    except (TypeError, ValueError) as error:  # texts, lists of different lengths
        raise InputError(f"{name} must be an array of numbers: {error}.") from None
    raise InputError(f"{name} is complex; give real numbers (of features, both parts as columns).")


def _as_features(source: Floats, target: Floats, may_shift: bool) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    rounded = _as_matrix(source, "source"), _as_matrix(target, "target")
    columns = rounded[0].shape[1], rounded[1].shape[1]
    if columns[0] != columns[1]:
        raise InputError(
            f"source has {columns[0]} columns but target has {columns[1]}; both must come from the same transformer."
        )
    if all(np.can_cast(np.asarray(x).dtype, np.float32) for x in (source, target)):
        return rounded
    if any(isinstance(x, np.memmap) for x in rounded):  # too large for a second look
        return rounded
    exact = np.asarray(source, dtype=np.float64), np.asarray(target, dtype=np.float64)
    low, high = (find([find(x, axis=0) for x in exact], axis=0) for find in (np.min, np.max))
    size, spread = np.maximum(np.abs(low), np.abs(high)), high - low
    far = size > _LOST_IN_FLOAT32 * spread
    if may_shift and far.any():
        middle = np.where(far, low / 2 + high / 2, 0.0)
        return (exact[0] - middle).astype(np.float32), (exact[1] - middle).astype(np.float32)
    if not may_shift and np.linalg.norm(size) > _LOST_IN_FLOAT32 * np.linalg.norm(spread) > 0:
        warn(
            "the features are so much further from 0 than from each other that float32 loses what distinguishes them; "
            "subtract what they have in common first, or take the metric l2.",
            DataWarning,
        )
    return rounded


def _as_matrix(x: Floats, name: str) -> NDArray[np.float32]:
    if isinstance(x, np.memmap) and x.dtype == np.float32 and x.ndim == 2 and x.flags.c_contiguous:
        return x
    array = as_float32(x, name)
    if array.ndim != 2 or array.shape[0] == 0 or array.shape[1] == 0:
        raise InputError(
            f"{name} must be a non-empty matrix, one row of features per element, got shape {array.shape}."
        )
    _check_finite(array, name)
    return array


def _check_finite(rows: NDArray[np.float32], name: str, *, first_row: int = 0) -> None:
    bad = np.flatnonzero(~np.isfinite(rows.sum(axis=1, dtype=np.float64)))
    if len(bad):
        raise InputError(
            f"row {first_row + bad[0]} of {name} has a NaN or infinite feature; repair it or leave it out."
        )


def _as_weights(weights: Floats | None, n_features: int) -> NDArray[np.float32]:
    if weights is None:
        return np.ones(n_features, dtype=np.float32)
    array = as_float32(weights, "weights")
    if array.shape != (n_features,):
        raise InputError(f"weights has shape {array.shape} but the features have {n_features} columns.")
    if not np.isfinite(array).all() or (array < 0).any():
        raise InputError("feature weights must be finite and not negative.")
    return array


def _read(x: NDArray[np.float32], start: int, stop: int) -> NDArray[np.float32]:
    if not isinstance(x, np.memmap):
        return x[start:stop]
    rows = np.array(x[start:stop])
    # Pages of the map count as this process's memory until they are let go. Those of a private copy
    # (mode "c") may hold what is nowhere else.
    if hasattr(mmap, "MADV_DONTNEED") and x._mmap is not None and x.mode != "c":  # type: ignore[attr-defined]
        x._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]
    return rows


def _squared_norms(x: NDArray[np.float32], weights: NDArray[np.float32]) -> NDArray[np.float64]:
    norms = np.empty(x.shape[0])
    for start in range(0, x.shape[0], _ROWS_AT_ONCE):
        rows = _read(x, start, min(start + _ROWS_AT_ONCE, x.shape[0]))
        norms[start : start + len(rows)] = np.einsum("ij,ij,j->i", rows, rows, weights, dtype=np.float64)
    return norms
