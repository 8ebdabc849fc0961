"""Pairwise distances between two feature matrices, tile by tile; memory maps are read and released by tiles."""

import itertools
import mmap
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.checks import METRICS, Metric, check_choice, detached
from bispectral_ot.errors import InputError, warn

ALIGNED_METRICS: tuple[Metric, ...] = ("l2", "sqeuclidean", "cosine")
Floats = NDArray[np.floating[Any]]
Rows = NDArray[np.float32]
Vector = NDArray[np.float64]

_CANCELLATION = 1e-3  # fraction of the norms below which float32 inner products have lost half of their digits
_LOST_IN_FLOAT32 = 1e3  # features farther from 0 than this multiple of their spread lose precision in float32
_MAPPED_BYTES = 64 * 2**20  # rows of the target that are read at a time from a memory map
_ROWS_AT_ONCE = 1024  # rows whose norms or finiteness are computed at a time
_NUMBERS_AT_ONCE = 2**16  # numbers of pairs summed term by term at a time: few enough for the cache


class Distance(ABC):
    """Distances between n sources and m targets, computed by blocks of rows.

    A subclass of your own needs ``shape``, ``metric`` (a name for reports) and :meth:`rows`;
    :meth:`Cost.from_distance <bispectral_ot.Cost.from_distance>` does the rest. ``rows_at_once`` is a good block size,
    and ``feature_bytes`` is the memory that the distance itself keeps; ``stored_as`` asks for one storage.
    """

    shape: tuple[int, int]
    metric: str
    rows_at_once: int = 64
    feature_bytes: int = 0
    stored_as: str = ""

    @abstractmethod
    def rows(self, start: int, stop: int) -> Rows:
        """Distances (stop - start, m) of the sources ``start`` to ``stop``; called from several threads."""

    def check_finite(self) -> None:  # noqa: B027 (a subclass may do without)
        """Raise an :class:`InputError` that names the element whose distance is NaN or infinite."""


class FeatureDistance(Distance):
    """Distances between the rows of ``source`` (n, k) and ``target`` (m, k).

    ``l1``: ``sum_k w_k |x_k - y_k|``; ``l2``: ``sqrt(sum_k w_k (x_k - y_k)^2)``; ``sqeuclidean``: its square;
    ``cosine``: ``1 - <x, y>_w / (|x|_w |y|_w)``.

    Features are rounded to float32; from float64 features a common row is subtracted first if no distance changes.
    """

    _ignores_shifts = True  # whether a row that is added to all changes no distance (it always changes cosines)
    _columns_at_once = 1024  # targets of a tile: product and conversion are done while it is in the cache

    def __init__(self, source: Floats, target: Floats, metric: Metric, weights: Floats | None = None) -> None:
        check_choice("metric", metric, METRICS)
        self.source, self.target = _as_features(source, target, self._ignores_shifts and metric != "cosine")
        self.metric = metric
        self.shape = self.source.shape[0], self.target.shape[0]
        self._weighted, n_columns = weights is not None, self.source.shape[1]
        self.weights = as_real(np.ones(n_columns) if weights is None else weights, "weights", np.float32)
        if self.weights.shape != (n_columns,):
            raise InputError(f"weights has shape {self.weights.shape} but the features have {n_columns} columns.")
        if not np.isfinite(self.weights).all() or (self.weights < 0).any():
            raise InputError("feature weights must be finite and not negative.")
        self._norms = [] if metric == "l1" else [_squared_norms(x, self.weights) for x in (self.source, self.target)]
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
        m = self.shape[1]
        out = np.empty((stop - start, m), dtype=np.float32)
        for first in range(start, stop, self.rows_at_once):
            rows = slice(first, min(first + self.rows_at_once, stop))
            source = _read(self.source, rows)
            part = out[rows.start - start : rows.stop - start]
            for left in range(0, m, self._columns_at_once):
                columns = slice(left, min(left + self._columns_at_once, m))
                self._tile(source, _read(self.target, columns), rows, columns, part[:, columns])
        return out

    def check_finite(self) -> None:
        """Raise an :class:`InputError` that names the first row with a NaN or infinite feature, if there is one."""
        _check_finite(self.source, "source")
        _check_finite(self.target, "target")

    def _tile(self, source: Rows, target: Rows, rows: slice, columns: slice, out: Rows) -> None:
        """Distances between some ``rows`` of the source and ``columns``, which are rows of the target."""
        # numba takes half a second to load, and only work needs it
        from bispectral_ot.costs import cost_kernels

        if self.metric == "l1":
            cost_kernels.l1_block(source, target, self.weights, out)
            return
        a_norms, b_norms = self._norms[0][rows], self._norms[1][columns]
        with np.errstate(over="ignore", invalid="ignore"):  # products that overflow are summed again, others refused
            products = self._products(source, target)
            kind = self.metric == "cosine", self.metric == "l2"
            if cost_kernels.finish(products, a_norms, b_norms, _CANCELLATION, *kind):
                self._sum_again(products, source, target, a_norms, b_norms)
        out[:] = products

    def _products(self, source: Rows, target: Rows) -> Rows:
        """Inner products (n, m) of some rows."""
        return np.matmul(source * self.weights if self._weighted else source, target.T)

    def _squared(self, x: Vector, y: Vector) -> Vector:
        """Squared distances (k,) of pairs of rows, term by term in float64."""
        return np.square(x - y) @ self.weights.astype(np.float64)

    def _sum_again(self, distances: Rows, source: Rows, target: Rows, a_norms: Vector, b_norms: Vector) -> None:
        """Replace NaN by distances that are summed term by term: equal rows get exactly 0, nothing becomes negative.

        For cosine, ``|x/|x| - y/|y||^2 / 2``; a zero row has distance 1 to every other row and 0 to another zero row.
        """
        pairs = np.argwhere(np.isnan(distances))
        step = max(1, _NUMBERS_AT_ONCE // source.shape[1])
        for start in range(0, len(pairs), step):
            i, j = pairs[start : start + step].T
            x, y = source[i].astype(np.float64), target[j].astype(np.float64)
            if self.metric != "cosine":
                squared = self._squared(x, y)
                distances[i, j] = np.sqrt(squared) if self.metric == "l2" else squared
                continue
            a, b = a_norms[i], b_norms[j]
            for rows, norms in ((x, a), (y, b)):
                rows /= np.sqrt(np.where(norms > 0, norms, 1.0))[:, None]
            halves = np.minimum(self._squared(x, y) / 2, 2.0)
            distances[i, j] = np.where((a == 0) | (b == 0), a != b, halves)


class AlignedDistance(FeatureDistance):
    """Distances ``min over g of |x - g y|``, g the rotations of the plane, with or without mirrors.

    x and y are steerable coefficients (:class:`~bispectral_ot.features.PolarSpectrum`): a rotation by an angle
    multiplies those of frequency k by ``e^{-i k angle}``, and a mirror conjugates them all. So ``<x, g y>`` is
    ``sum over k of Re(e^{i k angle} sum x_k conj(y_k))``: a matrix product for each frequency, and one for all angles.

    Parameters
    ----------
    source, target : Coefficients (n, c) and (m, c), one row per element.
    index_map : Frequency and part of the columns (c,), in this order (real, then as many imaginary ones).
    metric : ``"sqeuclidean"``, ``"l2"`` or ``"cosine"``, at the best of 4 rotations for each frequency (0 included).
    reflections : Whether mirror images of y count as well.
    """

    _ignores_shifts = False  # shifts do not rotate with the coefficients
    _columns_at_once = 256  # correlations of a tile with all rotations then stay near the core

    def __init__(
        self,
        source: Floats,
        target: Floats,
        index_map: NDArray[np.void],
        metric: Metric = "sqeuclidean",
        *,
        reflections: bool = False,
    ) -> None:
        check_choice("metric at the best rotation", metric, ALIGNED_METRICS)
        super().__init__(source, target, metric)
        n_columns = self.source.shape[1]
        if len(index_map) != n_columns or not {"frequency", "part"} <= set(index_map.dtype.names or ()):
            raise InputError(f"index_map must have a frequency and a part for each of the {n_columns} columns.")
        order, frequency = np.argsort(index_map[["frequency", "part"]], kind="stable"), index_map["frequency"]
        imaginary = np.bincount(frequency, index_map["part"])
        if (np.diff(order) < 0).any() or (np.bincount(frequency) != 2 * imaginary).any():
            raise InputError("columns must be ordered by frequency and then part, with as many imaginary as real ones.")
        starts = np.searchsorted(frequency, np.arange(frequency.max() + 2)).tolist()
        n_frequencies, n_rotations = len(starts) - 1, 4 * (len(starts) - 1)
        self.reflections = reflections
        self.rows_at_once = 512 if isinstance(self.target, np.memmap) else 64
        self._columns_at_once = min(self._columns_at_once, AlignedDistance._columns_at_once)
        self._blocks = list(itertools.pairwise(starts))
        # of x_real y_real + x_imag y_imag, and of x_imag y_real - x_real y_imag
        self._partners = np.concatenate([np.roll(np.arange(i, j), (j - i) // 2) for i, j in self._blocks])
        self._signs = np.where(index_map["part"] == 0, 1, -1).astype(np.float32)
        self._frequencies = frequency
        self.phases = np.exp(2j * np.pi * np.outer(np.arange(n_frequencies), np.arange(n_rotations)) / n_rotations)
        # an angle and its negative have the same cosines, and opposite sines
        half = self.phases[:, : n_rotations // 2 + 1].T
        self._cosines, self._sines = half.real.astype(np.float32), half.imag.astype(np.float32)

    def _products(self, source: Rows, target: Rows) -> Rows:
        partners = source[:, self._partners]
        products = self._best_products(source, partners * self._signs, target)
        if not self.reflections:
            return products
        return np.maximum(products, self._best_products(source * self._signs, partners, target))

    def _best_products(self, real_side: Rows, imaginary_side: Rows, target: Rows) -> Rows:
        """``max over g of <x, g y>`` for rows x of a tile and rows y of ``target``."""
        shape = (len(self._blocks), len(real_side), len(target))
        real, imaginary = np.empty(shape, dtype=np.float32), np.empty(shape, dtype=np.float32)
        for k, (start, stop) in enumerate(self._blocks):
            np.matmul(real_side[:, start:stop], target[:, start:stop].T, out=real[k])
            np.matmul(imaginary_side[:, start:stop], target[:, start:stop].T, out=imaginary[k])
        products = self._cosines @ real.reshape(shape[0], -1)
        odd = self._sines @ imaginary.reshape(shape[0], -1)
        products += np.abs(odd, out=odd)
        return products.max(axis=0).reshape(shape[1:])

    def _squared(self, x: Vector, y: Vector) -> Vector:
        """Squared distances (k,) of pairs of rows at the rotation of the largest product, in float64."""
        found = []
        for rows in (y, y * self._signs) if self.reflections else (y,):
            starts = [start for start, _ in self._blocks]
            real = np.add.reduceat(x * rows, starts, axis=1)
            imaginary = np.add.reduceat(x[:, self._partners] * self._signs * rows, starts, axis=1)
            turn = ((real + 1j * imaginary) @ self.phases).real.argmax(axis=1)
            phases = self.phases[:, turn][self._frequencies].T
            turned = rows * phases.real + rows[:, self._partners] * phases.imag * self._signs
            found.append(np.square(x - turned).sum(axis=1))
        return np.minimum.reduce(found)


def as_real(x: Any, name: str, dtype: Any) -> NDArray[Any]:
    """``x`` as a contiguous array of real numbers; those beyond the type become infinite, for the caller to name."""
    try:
        array = np.asarray(detached(x))
        if array.dtype.kind != "c":
            with np.errstate(over="ignore"):
                return np.ascontiguousarray(array, dtype=dtype)
    except (TypeError, ValueError) as error:  # texts, lists of different lengths
        raise InputError(f"{name} must be an array of numbers: {error}.") from None
    raise InputError(f"{name} is complex; give real numbers, with real and imaginary parts as separate columns.")


def _as_features(source: Floats, target: Floats, may_shift: bool) -> tuple[Rows, Rows]:
    rounded = _as_rows(source, "source"), _as_rows(target, "target")
    columns = rounded[0].shape[1], rounded[1].shape[1]
    if columns[0] != columns[1]:
        raise InputError(f"source has {columns[0]} columns but target has {columns[1]}; both need the same features.")
    exact = np.asarray(detached(source)), np.asarray(detached(target))
    mapped = any(isinstance(x, np.memmap) for x in rounded)  # too large for a second pass
    if mapped or all(np.can_cast(x.dtype, np.float32) for x in exact):
        return rounded
    low, high = (find([find(x, axis=0) for x in exact], axis=0).astype(np.float64) for find in (np.min, np.max))
    middle = low / 2 + high / 2
    if not may_shift:
        if np.linalg.norm(middle) > _LOST_IN_FLOAT32 * np.linalg.norm(high - low) > 0:
            warn("features are too far from 0 for cosine distances in float32; subtract their mean, or use l2.")
        return rounded
    return (exact[0] - middle).astype(np.float32), (exact[1] - middle).astype(np.float32)


def _as_rows(x: Floats, name: str) -> Rows:
    if isinstance(x, np.memmap) and x.dtype == np.float32 and x.ndim == 2 and x.flags.c_contiguous:
        return x
    array = as_real(x, name, np.float32)
    if array.ndim != 2 or array.size == 0:
        raise InputError(f"{name} must be a non-empty matrix, one row per element, got shape {array.shape}.")
    _check_finite(array, name)
    return array


def _check_finite(x: Rows, name: str) -> None:
    for start in range(0, x.shape[0], _ROWS_AT_ONCE):
        rows = _read(x, slice(start, start + _ROWS_AT_ONCE))
        bad = np.flatnonzero(~np.isfinite(rows.sum(axis=1, dtype=np.float64)))
        if len(bad):
            raise InputError(f"row {start + bad[0]} of {name} has a NaN or infinite feature; leave it out.")


def _read(x: Rows, rows: slice) -> Rows:
    if not isinstance(x, np.memmap):
        return x[rows]
    found = np.array(x[rows])
    # Pages of the map count as this process's memory until they are released. Those of a private copy
    # (mode "c") may contain data that exists nowhere else.
    if hasattr(mmap, "MADV_DONTNEED") and x._mmap is not None and x.mode != "c":  # type: ignore[attr-defined]
        x._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]
    return found


def _squared_norms(x: Rows, weights: Rows) -> Vector:
    norms = np.empty(x.shape[0])
    for start in range(0, x.shape[0], _ROWS_AT_ONCE):
        rows = _read(x, slice(start, start + _ROWS_AT_ONCE))
        norms[start : start + len(rows)] = np.einsum("ij,ij,j->i", rows, rows, weights, dtype=np.float64)
    return norms
