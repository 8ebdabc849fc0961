"""Distance at the best rotation of each pair."""

from __future__ import annotations

import itertools
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.checks import check_choice, check_integer
from bispectral_ot.costs._typing import Floats, Pairs
from bispectral_ot.costs.distances import METRICS, FeatureDistance, Rows, Vector
from bispectral_ot.errors import InputError
from bispectral_ot.literals import Metric

ALIGNED_METRICS: tuple[Metric, ...] = ("l2", "sqeuclidean", "cosine")
# Targets at a time: correlations of a tile with all rotations then stay near the core.
_COLUMNS_AT_ONCE = 256


class AlignedDistance(FeatureDistance):
    """Distances ``min over g of |x - g y|``, g the rotations of the plane, with or without mirrors.

    x and y are steerable coefficients: a rotation by an angle multiplies those of frequency k by
    ``e^{-i k angle}``, and a mirror conjugates them all (:class:`~bispectral_ot.features.PolarSpectrum` makes them).
    So ``<x, g y> = sum over k of Re(e^{i k angle} sum x_k conj(y_k))``: a matrix product for each frequency, and
    one more for all angles.

    Parameters
    ----------
    source, target
        Coefficients (n, c) and (m, c), one row per element.
    index_map
        Frequency and part of the columns (c,): ordered by frequency, then part (real, imaginary), with as many
        imaginary columns as real ones.
    metric
        ``"sqeuclidean"``, ``"l2"`` or ``"cosine"``, each at its best rotation.
    reflections
        Whether mirror images of y count as well.
    n_rotations
        Angles that are tried, evenly spaced; by default 4 for each frequency (:func:`default_rotations`).

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot import Cost
    >>> from bispectral_ot.costs import AlignedDistance
    >>> from bispectral_ot.features import PolarSpectrum
    >>> image = np.random.default_rng(0).random((1, 16, 16))
    >>> spectrum = PolarSpectrum().fit(image)
    >>> source, target = (spectrum.transform(x) for x in (image, np.rot90(image, axes=(1, 2))))
    >>> distance = AlignedDistance(source, target, spectrum.index_map_)
    >>> bool(Cost.from_distance(distance).maximum < 1e-6)
    True
    """

    _ignores_shifts = False  # a shift is not turned with the coefficients

    def __init__(
        self,
        source: Floats,
        target: Floats,
        index_map: NDArray[np.void],
        metric: Metric = "sqeuclidean",
        *,
        reflections: bool = False,
        n_rotations: int | None = None,
    ) -> None:
        check_aligned_metric(metric)
        super().__init__(source, target, metric)
        self.starts = _frequency_blocks(index_map, self.source.shape[1])
        n_frequencies = len(self.starts) - 1
        n_rotations = default_rotations(index_map) if n_rotations is None else n_rotations
        check_integer("n_rotations", n_rotations, minimum=1)
        self.reflections = reflections
        self.rows_at_once = 512 if isinstance(self.target, np.memmap) else 64
        self._columns_at_once = min(self._columns_at_once, _COLUMNS_AT_ONCE)
        # of x_real y_real + x_imag y_imag, and of x_imag y_real - x_real y_imag
        self._partners = np.concatenate([np.roll(np.arange(i, j), (j - i) // 2) for i, j in self._blocks])
        self._signs = np.where(index_map["part"] == 0, 1, -1).astype(np.float32)
        self.phases = np.exp(2j * np.pi * np.outer(np.arange(n_frequencies), np.arange(n_rotations)) / n_rotations)
        # an angle and its negative share their cosines, and their sines but for the sign
        half = self.phases[:, : n_rotations // 2 + 1].T
        self._cosines, self._sines = half.real.astype(np.float32), half.imag.astype(np.float32)

    @property
    def _blocks(self) -> list[tuple[int, int]]:
        return list(itertools.pairwise(self.starts.tolist()))

    def _products(self, source: Rows, target: Rows) -> Rows:
        partners = source[:, self._partners]
        products = self._best_products(source, partners * self._signs, target)
        if self.reflections:
            mirrored = self._best_products(source * self._signs, partners, target)
            np.maximum(products, mirrored, out=products)
        return products

    def _squared(self, source: Rows, target: Rows, pairs: Pairs) -> Vector:
        from bispectral_ot.costs import aligned_kernels

        return aligned_kernels.squared_pairs(source, target, pairs, self.starts, self.phases, self.reflections)  # type: ignore[no-any-return]

    def _best_products(self, real_side: Rows, imaginary_side: Rows, target: Rows) -> Rows:
        """``max over g of <x, g y>`` for rows x of a tile and rows y of ``target``."""
        shape = (len(self.starts) - 1, len(real_side), len(target))
        real, imaginary = np.empty(shape, dtype=np.float32), np.empty(shape, dtype=np.float32)
        for k, (start, stop) in enumerate(self._blocks):
            np.matmul(real_side[:, start:stop], target[:, start:stop].T, out=real[k])
            np.matmul(imaginary_side[:, start:stop], target[:, start:stop].T, out=imaginary[k])
        products = self._cosines @ real.reshape(shape[0], -1)
        odd = self._sines @ imaginary.reshape(shape[0], -1)
        products += np.abs(odd, out=odd)
        best: Rows = products.max(axis=0).reshape(shape[1:])
        return best


def default_rotations(index_map: NDArray[np.void]) -> int:
    """How many angles are tried, unless asked otherwise: 4 for each frequency (0 included)."""
    return 4 * (int(index_map["frequency"].max()) + 1)


def check_aligned_metric(metric: Any) -> Metric:
    """Return a metric that pairs can be turned to their best fit by."""
    if metric in METRICS and metric not in ALIGNED_METRICS:
        raise InputError(f"the metric {metric!r} has no aligned form; choose one of {', '.join(ALIGNED_METRICS)}.")
    return cast(Metric, check_choice("metric", metric, ALIGNED_METRICS))


def _frequency_blocks(index_map: NDArray[np.void], n_columns: int) -> NDArray[np.int64]:
    """Where the columns of each frequency start (and the last ones stop)."""
    names = index_map.dtype.names or ()
    if len(index_map) != n_columns or not {"frequency", "part"} <= set(names):
        raise InputError(
            f"index_map must say frequency and part of each of the {n_columns} columns; "
            "pass index_map_ of the PolarSpectrum that made them."
        )
    frequency, part = index_map["frequency"], index_map["part"]
    starts = np.searchsorted(frequency, np.arange(frequency.max() + 2))
    for start, stop in itertools.pairwise(starts):
        expected = np.arange(stop - start) // ((stop - start) // 2 or 1)
        if (np.diff(frequency) < 0).any() or not np.array_equal(part[start:stop], expected):
            raise InputError("columns must be ordered by frequency and then part, with as many imaginary as real ones.")
    return starts.astype(np.int64)
