"""A distance between two feature matrices, tile by tile.

Features are never copied or scaled as a whole: weights ride along in the kernels, so that memory holds the
features once. Memory-mapped features are read a tile at a time and let go again.
"""

from __future__ import annotations

import mmap
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.checks import check_choice
from bispectral_ot.costs._typing import Floats
from bispectral_ot.engines import core_count
from bispectral_ot.errors import InputError

Metric = Literal["l1", "l2", "sqeuclidean", "cosine"]
METRICS: tuple[Metric, ...] = get_args(Metric)

# Below this share of the norms, float32 inner products have lost half of their digits to cancellation.
CANCELLATION = 1e-3
# Rows of b read at a time from a memory map.
_MAPPED_BYTES = 64 * 2**20
# Rows whose norms or finiteness are found at a time.
_ROWS_AT_ONCE = 1024


class Distance:
    """Distances between the rows of ``xa`` (n, k) and ``xb`` (m, k).

    ``l1``: ``sum_k w_k |x_k - y_k|``; ``l2``: ``sqrt(sum_k w_k (x_k - y_k)^2)``; ``sqeuclidean``: its square;
    ``cosine``: ``1 - <x, y>_w / (|x|_w |y|_w)``.
    """

    def __init__(self, xa: Floats, xb: Floats, metric: Metric, weights: Floats | None) -> None:
        self.xa, self.xb, self.metric = _as_features(xa, "xa"), _as_features(xb, "xb"), metric
        if self.xa.shape[1] != self.xb.shape[1]:
            raise InputError(
                f"xa has {self.xa.shape[1]} columns but xb has {self.xb.shape[1]}; "
                "both must come from the same transformer."
            )
        check_choice("metric", metric, METRICS)
        self.weights = _as_weights(weights, self.xa.shape[1])
        if metric != "l1":
            self._a_norms = _squared_norms(self.xa, self.weights)
            self._b_norms = _squared_norms(self.xb, self.weights)

    @property
    def rows_at_once(self) -> int:
        """How many rows of ``xa`` make a good block: more where BLAS or memory maps gain from it."""
        if isinstance(self.xb, np.memmap):
            return 512
        if self.metric != "l1":
            return 256
        # a few blocks for every core, so that all end at the same time; whole tiles of 4 rows
        return min(64, 4 * -(-int(self.xa.shape[0]) // (16 * core_count())))

    def rows(self, start: int, stop: int, out: NDArray[np.float32]) -> None:
        """Fill ``out`` (stop - start, m) with the distances of rows ``start`` to ``stop`` of ``xa``."""
        a = _read(self.xa, start, stop)
        m = self.xb.shape[0]
        step = max(1, _MAPPED_BYTES // (4 * self.xb.shape[1])) if isinstance(self.xb, np.memmap) else m
        for first in range(0, m, step):
            last = min(first + step, m)
            b = _read(self.xb, first, last)
            self._tile(a, b, slice(start, stop), slice(first, last), out[:, first:last])

    def check_finite(self) -> None:
        """Name the first row with a NaN or infinite feature in an :class:`InputError`, if there is one.

        Memory maps are checked only where distances come out wrong, to read them one time less.
        """
        for x, name in ((self.xa, "xa"), (self.xb, "xb")):
            for start in range(0, x.shape[0], _ROWS_AT_ONCE):
                _check_finite(_read(x, start, min(start + _ROWS_AT_ONCE, x.shape[0])), name, first_row=start)

    def _tile(
        self,
        a: NDArray[np.float32],
        b: NDArray[np.float32],
        rows: slice,
        columns: slice,
        out: NDArray[np.float32],
    ) -> None:
        """Distances between ``rows`` of ``xa`` and ``columns``, which are rows of ``xb``."""
        # numba takes half a second to load, and only work needs it
        from bispectral_ot.costs import kernels

        if self.metric == "l1":
            kernels.l1_block(a, b, self.weights, out)
            return
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is summed again by the kernels
            products = np.matmul(a * self.weights, b.T, out=out if out.flags.c_contiguous else None)
        a_norms, b_norms = self._a_norms[rows], self._b_norms[columns]
        if self.metric == "cosine":
            kernels.finish_cosine(products, a, b, a_norms, b_norms, self.weights, CANCELLATION)
        else:
            root = self.metric == "l2"
            kernels.finish_squared(products, a, b, a_norms, b_norms, self.weights, CANCELLATION, root)
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


def _as_features(x: Floats, name: str) -> NDArray[np.float32]:
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
