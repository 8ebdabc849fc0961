"""A distance between two feature matrices, tile by tile.

Features are never copied or scaled as a whole: weights ride along in the kernels, so that memory holds the
features once. Memory-mapped features are read a tile at a time and let go again.
"""

from __future__ import annotations

import copy
import mmap
import warnings
from abc import ABC, abstractmethod
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.checks import check_choice
from bispectral_ot.choices import Metric
from bispectral_ot.costs._typing import Floats
from bispectral_ot.errors import DataWarning, InputError

METRICS: tuple[Metric, ...] = get_args(Metric)

# Below this share of the norms, float32 inner products have lost half of their digits to cancellation.
CANCELLATION = 1e-3
# Features further from 0 than so many times their spread are shifted before they are rounded to float32.
_LOST_IN_FLOAT32 = 1e3
# Differences between float64 numbers, relative to the largest of a column, that are taken for rounding.
_FLOAT64_NOISE = 1e-12
# Rows of the target read at a time from a memory map.
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

    def __getitem__(self, rows: slice) -> Distance:
        """The distances of some sources, which can be sent elsewhere without the others."""
        return _SomeRows(self, *rows.indices(self.shape[0])[:2])

    def check_finite(self) -> None:  # noqa: B027 (a subclass may do without)
        """Raise an :class:`InputError` that names the element at fault where a distance came out NaN or infinite."""


class _SomeRows(Distance):
    """Some rows of a distance that does not say how to be cut."""

    def __init__(self, whole: Distance, start: int, stop: int) -> None:
        self.whole, self.start, self.shape = whole, start, (stop - start, whole.shape[1])
        self.metric, self.rows_at_once = whole.metric, whole.rows_at_once

    def rows(self, start: int, stop: int) -> NDArray[np.float32]:
        return self.whole.rows(self.start + start, self.start + stop)


class FeatureDistance(Distance):
    """Distances between the rows of ``source`` (n, k) and ``target`` (m, k).

    ``l1``: ``sum_k w_k |x_k - y_k|``; ``l2``: ``sqrt(sum_k w_k (x_k - y_k)^2)``; ``sqeuclidean``: its square;
    ``cosine``: ``1 - <x, y>_w / (|x|_w |y|_w)``.

    Features are rounded to float32. Those that lie far from 0 are shifted together first, where the distance does not
    see that; a :class:`~bispectral_ot.DataWarning` says where float32 cannot distinguish rows.
    """

    # Whether a row that is added to all sources and targets changes nothing (but for cosine, which it always changes).
    _ignores_shifts = True

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
        self.rows_at_once = 512 if isinstance(self.target, np.memmap) else 64 if metric == "l1" else 256

    def rows(self, start: int, stop: int) -> NDArray[np.float32]:
        """Distances (stop - start, m) of the sources ``start`` to ``stop``."""
        m = self.shape[1]
        out = np.empty((stop - start, m), dtype=np.float32)
        step = max(1, _MAPPED_BYTES // (4 * self.target.shape[1])) if isinstance(self.target, np.memmap) else m
        for first in range(start, stop, self.rows_at_once):
            rows = slice(first, min(first + self.rows_at_once, stop))
            source = _read(self.source, rows.start, rows.stop)
            for left in range(0, m, step):
                columns = slice(left, min(left + step, m))
                target = _read(self.target, columns.start, columns.stop)
                self._tile(source, target, rows, columns, out[rows.start - start : rows.stop - start, columns])
        return out

    def __getitem__(self, rows: slice) -> FeatureDistance:
        """The distances of some sources, without the features of the others."""
        part = copy.copy(self)
        part.source = self.source[rows]
        part.shape = len(part.source), self.shape[1]
        if self.metric != "l1":
            part._source_norms = self._source_norms[rows]
        return part

    def check_finite(self) -> None:
        """Name the first row with a NaN or infinite feature in an :class:`InputError`, if there is one.

        Memory maps are checked only where distances come out wrong, to read them one time less.
        """
        for x, name in ((self.source, "source"), (self.target, "target")):
            for start in range(0, x.shape[0], _ROWS_AT_ONCE):
                _check_finite(_read(x, start, min(start + _ROWS_AT_ONCE, x.shape[0])), name, first_row=start)

    def _tile(
        self,
        source: NDArray[np.float32],
        target: NDArray[np.float32],
        rows: slice,
        columns: slice,
        out: NDArray[np.float32],
    ) -> None:
        """Distances between some ``rows`` of the source and ``columns``, which are rows of the target."""
        # numba takes half a second to load, and only work needs it
        from bispectral_ot.costs import distance_kernels

        if self.metric == "l1":
            distance_kernels.l1_block(source, target, self.weights, out)
            return
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is summed again by the kernels
            products = np.matmul(source * self.weights, target.T, out=out if out.flags.c_contiguous else None)
        norms = self._source_norms[rows], self._target_norms[columns]
        if self.metric == "cosine":
            distance_kernels.finish_cosine(products, source, target, *norms, self.weights, CANCELLATION)
        else:
            root = self.metric == "l2"
            distance_kernels.finish_squared(products, source, target, *norms, self.weights, CANCELLATION, root)
        if products is not out:
            out[:] = products


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
    far_from_zero = size > _LOST_IN_FLOAT32 * spread
    if may_shift and far_from_zero.any():
        middle = np.where(far_from_zero, low / 2 + high / 2, 0.0)
        rounded = (exact[0] - middle).astype(np.float32), (exact[1] - middle).astype(np.float32)
    elif not may_shift and np.linalg.norm(size) > _LOST_IN_FLOAT32 * np.linalg.norm(spread) > 0:
        warnings.warn(
            "the features are so much further from 0 than from each other that float32 loses what distinguishes them; "
            "subtract what they have in common first, or take the metric l2.",
            DataWarning,
            stacklevel=4,
        )
        return rounded
    _warn_of_merged_rows(exact, rounded, _FLOAT64_NOISE * size)
    return rounded


def _warn_of_merged_rows(
    exact: tuple[NDArray[np.float64], ...], rounded: tuple[NDArray[np.float32], ...], noise: NDArray[np.float64]
) -> None:
    """Warn where rows that differ by more than ``noise`` (k,) are identical in float32."""
    seen: dict[int, NDArray[np.float64]] = {}
    merged = 0
    for exact_rows, rounded_rows in zip(exact, rounded, strict=True):
        for row, key in zip(exact_rows, rounded_rows, strict=True):
            first = seen.setdefault(hash(key.tobytes()), row)
            merged += first is not row and bool((np.abs(row - first) > noise).any())
    if merged:
        warnings.warn(
            f"{merged} rows of the features differ from others by less than float32 can hold and have distance 0 to "
            "them; subtract what all have in common, or scale the columns.",
            DataWarning,
            stacklevel=5,
        )


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
