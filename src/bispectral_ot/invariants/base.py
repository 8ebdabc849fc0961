"""What every invariant shares: reading a batch, working through it in blocks, the scikit-learn contract."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted, validate_data

from bispectral_ot.engines import Block, Threads, row_blocks
from bispectral_ot.errors import DataWarning, InputError, MemoryBudgetError, warn
from bispectral_ot.invariants.transformer import METRICS
from bispectral_ot.memory import available_memory, format_bytes
from bispectral_ot.progress import Progress, silent

SCRATCH_BYTES = 4 * 2**20  # a thread's working set: small enough to stay in its cache, whatever the batch


class BatchTransformer(TransformerMixin, BaseEstimator, ABC):
    """A scikit-learn transformer from a batch of signals to float32 rows.

    ``fit`` learns the size of one signal and nothing else. ``transform`` works on blocks of rows on all
    cores, with a few megabytes of scratch memory a core in addition to the features themselves.

    Attributes
    ----------
    symmetries : tuple of str
        Symmetries that features of this class can have; where there are several, the parameter ``symmetry`` chooses.
    symmetry, metrics, default_metric, aligns
        What a :class:`~bispectral_ot.invariants.Transformer` says about its features.
    image_shape_ : tuple of int
        (height, width), (height, width, channels), or (length,) for 1-D signals.
    n_features_in_ : int
        Numbers in one signal.
    n_features_out_ : int
        Columns of the feature matrix.
    feature_weights_ : ndarray of shape (columns,), float32
        How many entries of the unfolded invariant each column stands for; ones where nothing is folded.
        With these weights ``sum w |x - y|``, ``sqrt(sum w (x - y)^2)`` and the cosine of ``sum w x y`` are
        the distances between the unfolded invariants.
    index_map_ : structured ndarray of shape (columns,)
        What each column is: integer fields such as channel, ring, i, j, part (0 real, 1 imaginary).
    """

    # `out` and `progress` are no metadata for a Pipeline to route
    __metadata_request__transform = {"out": UNUSED, "progress": UNUSED}  # noqa: RUF012
    _accepts_images = True

    symmetries: ClassVar[tuple[str, ...]] = ()
    metrics: ClassVar[tuple[str, ...]] = METRICS
    default_metric: ClassVar[str] = "l1"
    aligns: ClassVar[bool] = False

    image_shape_: tuple[int, ...]
    n_features_in_: int
    n_features_out_: int
    feature_weights_: NDArray[np.float32]
    index_map_: NDArray[np.void]

    @property
    def symmetry(self) -> str | None:
        """The symmetry that the features have; None where it has no name."""
        return self.symmetries[0] if self.symmetries else None

    @abstractmethod
    def _prepare(self) -> tuple[NDArray[np.void], NDArray[np.float32]]:
        """Check the parameters and build the tables for ``image_shape_``; return index map and weights."""

    @abstractmethod
    def _fill(self, rows: NDArray[Any], out: NDArray[np.float32]) -> int:
        """Write the features of a block of signals to ``out``; return how many of them vanish."""

    @abstractmethod
    def _scratch_per_row(self) -> int:
        """Bytes that ``_fill`` needs for one signal."""

    def _shape_of_row(self, n_columns: int) -> tuple[int, ...]:
        """The image that a 2-D row of the input holds."""
        side = math.isqrt(n_columns)
        if side * side != n_columns:
            raise InputError(
                f"rows of {n_columns} numbers are not flattened square images; "
                "give images as (n, height, width) or (n, height, width, channels), a single one as image[None]."
            )
        return side, side

    @property
    def _channels(self) -> int:
        return self.image_shape_[2] if len(self.image_shape_) == 3 else 1

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the image size.

        Parameters
        ----------
        X : array of shape (n, height, width), (n, height, width, channels) or (n, height * width)
            Images of one size; 2-D rows are flattened square images.
        y
            Ignored.
        """
        rows, shape = self._read(X, reset=True)
        self.image_shape_ = shape or self._shape_of_row(rows.shape[1])
        self.index_map_, self.feature_weights_ = self._prepare()
        self.n_features_out_ = len(self.index_map_)
        return self

    def transform(
        self, X: Any, *, out: NDArray[np.float32] | None = None, progress: Progress = silent
    ) -> NDArray[np.float32]:
        """Compute the features.

        Parameters
        ----------
        X : array
            Signals of the fitted size.
        out : ndarray of shape (n, columns), float32, optional
            Filled block by block; may be memory-mapped, for features that do not fit in memory.
        progress : callable
            Called as ``progress("features", done, total)``.

        Returns
        -------
        ndarray of shape (n, columns), float32
            ``out`` where it is given.
        """
        check_is_fitted(self)
        rows, _ = self._read(X, reset=False)
        features = self._output(len(rows), out)
        warn_of_vanishing(self, self._fill_rows(rows, features, progress), len(rows))
        return features

    def fill(self, X: Any, out: NDArray[np.float32], *, progress: Progress = silent) -> int:
        """Write the features of ``X`` to ``out``, and return how many of them vanish; see :meth:`transform`."""
        return self._fill_rows(self._read(X, reset=False)[0], out, progress)

    def _fill_rows(self, rows: NDArray[Any], out: NDArray[np.float32], progress: Progress) -> int:
        vanishing = 0
        blocks = row_blocks(len(rows), block_rows=block_rows_for(self._scratch_per_row()))
        results = Threads().map(_features_of, blocks, rows=(rows,), shared=(self,), stage="features", progress=progress)
        for block, (features, count) in zip(blocks, results, strict=True):
            out[block.start : block.stop] = features
            vanishing += count
        return vanishing

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Name each column after ``index_map_``, for example ``ring3_i1_j4_part0``."""
        check_is_fitted(self)
        fields = self.index_map_.dtype.names or ()
        columns = ((f"{field}{value}" for field, value in zip(fields, row, strict=True)) for row in self.index_map_)
        return np.array(["_".join(column) for column in columns], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = self._accepts_images
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def _read(self, X: Any, *, reset: bool) -> tuple[NDArray[Any], tuple[int, ...] | None]:
        """Signals as finite numeric rows (n, n_features_in_), and the shape of one where X says it."""
        if scipy.sparse.issparse(X):
            raise InputError("sparse input is not supported; give a dense array (X.toarray()).")
        try:
            X = X if hasattr(X, "ndim") else np.asarray(X)
            shape: tuple[int, ...] | None = None
            if not reset and X.ndim > 1 and X.shape == self.image_shape_ and X.shape[0] > 1:  # (1, w) is a row
                raise InputError(f"expected a batch of images, got one of shape {X.shape}; give it as image[None].")
            if self._accepts_images and X.ndim in (3, 4):
                X = np.asarray(X)
                shape = X.shape[1:]
                self._check_image_shape(shape, X.dtype, reset=reset)
                X = X.reshape(len(X), math.prod(shape))
            elif X.ndim == 3 and 1 in X.shape[1:]:  # signals as a set of images holds them
                X = np.asarray(X).reshape(len(X), -1)
            rows: NDArray[Any] = validate_data(self, X, reset=reset, dtype="numeric", ensure_all_finite=False)
        except ValueError as error:
            raise InputError(str(error)) from None
        _check_finite(rows)
        return rows, shape

    def _check_image_shape(self, shape: tuple[int, ...], dtype: Any, *, reset: bool) -> None:
        if dtype.kind == "O":
            raise InputError("expected one numeric array, got objects: are all images of the same size?")
        if len(shape) == 3 and shape[0] <= 4 < shape[2]:
            raise InputError(f"images of shape {shape} look like channels first; give (n, height, width, channels).")
        if not reset and (*shape, 1)[:3] != (*self.image_shape_, 1)[:3]:
            raise InputError(
                f"images are {' x '.join(map(str, shape))}, but this {type(self).__name__} was fitted on "
                f"{' x '.join(map(str, self.image_shape_))}; resize them, or fit again."
            )

    def _output(self, n_rows: int, out: NDArray[np.float32] | None) -> NDArray[np.float32]:
        shape = (n_rows, self.n_features_out_)
        if out is None:
            needed, free = 4 * math.prod(shape), available_memory()
            if needed > free:
                raise MemoryBudgetError(
                    f"the features need {format_bytes(needed)}, but {format_bytes(free)} are free; "
                    "give `out`, a memory-mapped float32 array of shape "
                    f"{shape} (numpy.lib.format.open_memmap), or use fewer columns."
                )
            return np.empty(shape, dtype=np.float32)
        usable = out.dtype == np.float32 and out.flags.c_contiguous and out.flags.writeable
        if out.shape != shape or not usable:
            raise InputError(
                f"out must be a writeable C-contiguous float32 array of shape {shape}, got {out.dtype} {out.shape}."
            )
        return out


def warn_of_vanishing(transformer: Any, vanishing: int, total: int) -> None:
    """Warn where the features of some signals are zero."""
    if vanishing:
        warn(
            f"the {type(transformer).__name__} of {vanishing} of {total} signals vanishes (in a channel): "
            "blank, or without content that it can see. Their features are zero there.",
            DataWarning,
        )


def _features_of(block: Block, rows: NDArray[Any], transformer: BatchTransformer) -> tuple[NDArray[np.float32], int]:
    features = np.empty((len(rows), transformer.n_features_out_), dtype=np.float32)
    return features, transformer._fill(rows, features)


def block_rows_for(bytes_per_row: int) -> int:
    """Rows of a block whose working set stays in a core's cache."""
    return max(1, SCRATCH_BYTES // bytes_per_row)


def _check_finite(rows: NDArray[Any]) -> None:
    """Refuse NaN and infinity, naming the image; block by block, before any work is done."""
    if rows.dtype.kind != "f":
        return
    for block in row_blocks(len(rows), block_rows=block_rows_for(rows[:1].nbytes)):
        finite = np.isfinite(rows[block.start : block.stop])
        if not finite.all():
            bad = block.start + int(np.argmin(finite.all(axis=1)))
            raise InputError(f"signal {bad} (counting from 0) has NaN or infinity in it; repair it or leave it out.")


def scaled_channels(rows: NDArray[Any], channels: int) -> NDArray[np.float32]:
    """Rows of (pixels, channels) as float32 of shape (n, channels, pixels), scaled into (-2, 2).

    Each channel is divided by a power of two near its largest magnitude, which rounds nothing away and keeps
    cubes and squares of cubes within float32, however bright or dim the image.
    """
    exact = np.float32 if rows.dtype.itemsize <= 2 or rows.dtype == np.float32 else np.float64
    images = rows.astype(exact, copy=False).reshape(len(rows), -1, channels).transpose(0, 2, 1)
    peak = np.maximum(images.max(axis=2), -images.min(axis=2))
    _, exponent = np.frexp(peak)
    scale = np.where(peak > 0, np.ldexp(exact(1), exponent - 1), exact(1))
    scaled: NDArray[np.float32] = (images / scale[:, :, None]).astype(np.float32, order="C", copy=False)
    return scaled


def columns_table(**fields: NDArray[np.integer[Any]]) -> NDArray[np.void]:
    """An index map: one int32 field per argument, broadcast against each other and flattened in C order."""
    arrays = np.broadcast_arrays(*fields.values())
    table = np.empty(arrays[0].shape, dtype=[(name, np.int32) for name in fields])
    for name, array in zip(fields, arrays, strict=True):
        table[name] = array
    return table.ravel()
