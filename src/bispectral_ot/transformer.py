"""Base class of the features: scikit-learn transformers from batches of signals to float32 rows."""

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted, validate_data

from bispectral_ot import runtime
from bispectral_ot.checks import METRICS, detached
from bispectral_ot.engines import Threads, row_blocks
from bispectral_ot.errors import InputError, warn
from bispectral_ot.memory import check_fits

Rows = NDArray[np.float32]
Columns = tuple[NDArray[np.void], Rows]  # index map and weights
State = dict[str, Any]  # parameters, or learned attributes, by name
_CHECKED_ROWS = 1024
SCRATCH_BYTES = 8 * 2**20  # working set of a thread: of smaller blocks, threads wait for the interpreter lock


class BatchTransformer(TransformerMixin, BaseEstimator, ABC):
    """Scikit-learn transformer from a batch of signals to float32 rows, in blocks on all cores.

    Attributes
    ----------
    symmetries : Symmetries that features of this class can have; the parameter ``symmetry`` chooses.
    symmetry : Symmetry of distances between rows, a key of ``DEFAULT_FEATURES``; None if it has no name.
    metrics, default_metric : Distances that may be taken between rows, and the one that suits them best.
    aligns : Whether rows are steerable coefficients, compared at the best rotation of each pair.
    raw : Whether images are used without normalization.
    sample_size : Maximum number of images that a fit uses.
    image_shape_ : (height, width), (height, width, channels), or (length,) for 1-D signals.
    n_features_in_, n_features_out_ : Numbers in one signal, and columns of the feature matrix.
    feature_weights_ : (columns,) entries of the unfolded invariant that each column stands for: weights of distances.
    index_map_ : (columns,) meaning of each column: channel, ring, i, j, part (0 real, 1 imaginary) and others.
    """

    __metadata_request__transform = {"out": UNUSED}  # noqa: RUF012 (no metadata for a Pipeline to route)
    _accepts_images = True
    _flat_rows = False  # whether rows are taken as they are, not as flattened square images

    symmetries: ClassVar[tuple[str, ...]] = ()
    metrics: tuple[str, ...] = METRICS
    default_metric: str = "l1"
    aligns: ClassVar[bool] = False
    raw: ClassVar[bool] = False
    sample_size: ClassVar[int] = 4096
    # Fitted attributes that do not follow from parameters and image size.
    _learned: ClassVar[tuple[str, ...]] = ()

    image_shape_: tuple[int, ...]
    n_features_in_: int
    n_features_out_: int
    feature_weights_: Rows
    index_map_: NDArray[np.void]

    @property
    def symmetry(self) -> Any:
        """Symmetry of the features; None if it has no name."""
        return self.symmetries[0] if self.symmetries else None

    @abstractmethod
    def _prepare(self) -> Columns:
        """Check the parameters and build the tables for ``image_shape_``; return index map and weights."""

    @abstractmethod
    def _fill(self, rows: Any, out: Rows) -> int:
        """Write the features of a block of signals to ``out``; return how many of them vanish."""

    @abstractmethod
    def _scratch_per_row(self) -> int:
        """Bytes that ``_fill`` needs for one signal."""

    def _shape_of_row(self, n_columns: int) -> tuple[int, ...]:
        """Shape of the image that a 2-D row of the input holds."""
        if self._flat_rows or not self._accepts_images:
            return (n_columns,)
        side = math.isqrt(n_columns)
        if side * side != n_columns:
            advice = "give images as (n, height, width) or (n, height, width, channels), a single one as image[None]"
            raise InputError(f"rows of {n_columns} numbers are not flattened square images; {advice}.")
        return side, side

    @property
    def _channels(self) -> int:
        return self.image_shape_[2] if len(self.image_shape_) == 3 else 1

    @property
    def block_rows(self) -> int:
        """Signals of a block whose working set stays in a core's cache."""
        return max(1, SCRATCH_BYTES // self._scratch_per_row())

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to images of one size, of all sets that will be compared.

        X has the shape (n, height, width), (n, height, width, channels) or (n, side * side); y is ignored.
        """
        rows, shape = self._read(X, reset=True)
        self.image_shape_ = shape or self._shape_of_row(rows.shape[1])
        self._fit(rows)
        return self

    def _fit(self, rows: Any) -> Any:
        """Learn from rows (n, n_features_in_) after ``image_shape_`` is known; may return their features."""
        self.index_map_, self.feature_weights_ = self._prepare()
        self.n_features_out_ = len(self.index_map_)

    def transform(self, X: Any, *, out: Rows | None = None) -> Rows:
        """Features (n, columns), float32, of signals of the fitted size; ``out`` may be memory-mapped."""
        check_is_fitted(self)
        rows, _ = self._read(X, reset=False)
        shape = (len(rows), self.n_features_out_)
        if out is None:
            advice = f"give `out`, a memory-mapped array of shape {shape} (numpy.lib.format.open_memmap)"
            check_fits(4 * math.prod(shape), "the feature matrix", f"{advice}, or fewer columns")
            out = np.empty(shape, dtype=np.float32)
        elif out.shape != shape or out.dtype != np.float32 or not (out.flags.c_contiguous and out.flags.writeable):
            expected = f"a writeable C-contiguous float32 array of shape {shape}"
            raise InputError(f"out must be {expected}, got {out.dtype} {out.shape}.")
        blocks, plain = row_blocks(len(rows), block_rows=self.block_rows), np.asarray(out)  # not a memory map
        counts = Threads().map(lambda _, *both: self._fill(*both), blocks, rows=(rows, plain), stage="features")
        warn_of_vanishing(self, sum(counts), len(rows))
        return out

    def fill(self, X: Any, out: Rows, *, first: int = 0) -> int:
        """Write the features of checked signals to ``out``, as :meth:`_fill`; errors count signals from ``first``."""
        return self._fill_in_blocks(self._read(X, reset=False, first=first)[0], out)

    def _fill_in_blocks(self, rows: Any, out: Rows) -> int:
        step = max(8, self.block_rows)  # fewer cost more in calls than a cache gains
        return sum(self._fill(rows[i : i + step], out[i : i + step]) for i in range(0, len(rows), step))

    def get_state(self) -> State:
        """Parameters and learned attributes for ``write_record``; ``restore`` makes a copy of what it has written."""
        check_is_fitted(self)
        shape = [list(self.image_shape_), self.n_features_in_]
        learned = {name: getattr(self, name) for name in self._learned}
        return {"class": type(self).__name__, "parameters": self._parameters(), "shape": shape, "learned": learned}

    def _parameters(self) -> State:
        return dict(self.get_params(deep=False))

    def set_state(self, shape: Any, learned: State) -> Self:
        """Set the state of :meth:`get_state` instead of a fit; nested transformers are already restored."""
        self.image_shape_, self.n_features_in_ = tuple(map(int, shape[0])), int(shape[1])
        for name in self._learned:
            setattr(self, name, learned[name])
        BatchTransformer._fit(self, None)  # learns nothing
        return self

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Name each column after ``index_map_``, for example ``ring3_i1_j4_part0``."""
        check_is_fitted(self)
        names, table = self.index_map_.dtype.names or (), self.index_map_.tolist()
        return np.array(["_".join(map("{}{}".format, names, row)) for row in table], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = self._accepts_images
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def _read(self, X: Any, *, reset: bool, first: int = 0) -> tuple[Any, tuple[int, ...] | None]:
        """Signals as finite numeric rows (n, n_features_in_), and the shape of one signal if X has it."""
        if scipy.sparse.issparse(X):
            raise InputError("sparse input is not supported; give a dense array (X.toarray()).")
        try:
            X = detached(X) if hasattr(X, "ndim") else np.asarray(X)
            shape: tuple[int, ...] | None = None
            if not reset and X.ndim > 1 and X.shape == self.image_shape_ and X.shape[0] > 1:  # (1, w) is a row
                raise InputError(f"expected a batch of images, got one of shape {X.shape}; give it as image[None].")
            if self._accepts_images and X.ndim in (3, 4):
                X = np.asarray(X)
                shape = X.shape[1:]
                if X.dtype.kind == "O":
                    raise InputError("expected one numeric array, got objects: are all images of the same size?")
                if len(shape) == 3 and shape[0] <= 4 < shape[2]:
                    raise InputError(f"images of shape {shape} look like channels first; use numpy.moveaxis(X, 1, -1).")
                if not reset and (*shape, 1)[:3] != (*self.image_shape_, 1)[:3]:
                    given, fitted = (" x ".join(map(str, each)) for each in (shape, self.image_shape_))
                    own = f"this {type(self).__name__} was fitted on {fitted}"
                    raise InputError(f"images are {given}, but {own}; resize them, or fit again.")
                X = X.reshape(len(X), math.prod(shape))
            elif X.ndim == 3 and 1 in X.shape[1:]:  # signals as a set of images holds them
                X = np.asarray(X).reshape(len(X), -1)
            rows: NDArray[Any] = validate_data(self, X, reset=reset, dtype="numeric", ensure_all_finite=False)
        except ValueError as error:
            raise InputError(str(error)) from None
        for start in range(0, len(rows) if rows.dtype.kind == "f" else 0, _CHECKED_ROWS):
            finite = np.isfinite(rows[start : start + _CHECKED_ROWS])
            if not finite.all():
                bad = first + start + int(np.argmin(finite.all(axis=1)))
                raise InputError(f"signal {bad} (counting from 0) contains NaN or infinity; repair or remove it.")
        return rows, shape


def warn_of_vanishing(transformer: Any, vanishing: int, total: int) -> None:
    """Warn if the features of some signals are zero."""
    if vanishing:
        words = f"{vanishing:,} of {total:,} signals have features ({type(transformer).__name__}) that are zero"
        warn(f"{words} in a channel: they are blank there, or too smooth or small for these features.")


def scaled_channels(rows: NDArray[Any], channels: int) -> Rows:
    """Rows as float32 (n, channels, pixels), scaled into (-2, 2) by powers of two, so that cubes stay in range."""
    exact = np.float32 if rows.dtype.itemsize <= 2 or rows.dtype == np.float32 else np.float64
    images = rows.astype(exact, copy=False).reshape(len(rows), -1, channels).transpose(0, 2, 1)
    peak = np.maximum(images.max(axis=2), -images.min(axis=2))
    _, exponent = np.frexp(peak)
    scale = np.where(peak > 0, np.ldexp(exact(1), exponent - 1), exact(1))
    return np.asarray((images / scale[:, :, None]).astype(np.float32, order="C", copy=False))


def unit_weights(index_map: NDArray[np.void]) -> Columns:
    """Index map with a weight of 1 for each column."""
    return index_map, np.ones(len(index_map), dtype=np.float32)


def columns_table(**fields: Any) -> NDArray[np.void]:
    """Index map with one int32 field per argument, broadcast against each other and flattened in C order."""
    arrays = np.broadcast_arrays(*fields.values())
    table = np.empty(arrays[0].shape, dtype=[(name, np.int32) for name in fields])
    for name, array in zip(fields, arrays, strict=True):
        table[name] = array
    return table.ravel()


# Fourier coefficients in double precision have errors of about 1e-16 of the largest; products of them a few times that.
VANISHING = 1e-12


def take_out_sizes(coefficients: NDArray[Any]) -> NDArray[np.float64]:
    """Divide each row (n, ...) in place by its largest magnitude, so that products stay in range; return these."""
    sizes: NDArray[np.float64] = np.abs(coefficients).max(axis=tuple(range(1, coefficients.ndim)))
    coefficients /= np.where(sizes > 0, sizes, 1).reshape(-1, *[1] * (coefficients.ndim - 1))
    return sizes


def write_scaled(
    values: NDArray[np.float64], out: Rows, weights: Rows, sizes: NDArray[np.float64], *, normalize: bool
) -> int:
    """Write double-precision invariants at their own scale or with norm 1; return how many of them vanish.

    ``values`` (n, columns), overwritten, are products of three coefficients without their ``sizes``; noise becomes 0.
    """
    norms = np.sqrt(np.square(values) @ weights.astype(np.float64))
    vanishing = norms <= VANISHING
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        factors = 1 / norms if normalize else sizes**3
        values *= np.where(vanishing, 0, factors)[:, None]
        out[:] = values
    extent = np.abs(out).max(axis=1)
    if not np.isfinite(extent).all() or (extent[~vanishing] < np.finfo(np.float32).tiny).any():
        found = "features leave the range of float32 (they grow with the signal to the power of 3)"
        raise InputError(f"{found}; scale the signals, or use normalize=True.")
    return int(vanishing.sum())


def symmetric_eigh(matrix: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Eigenvalues, ascending, and eigenvectors of a symmetric matrix, by one thread: several wait for each other."""
    with runtime.one_blas_thread():
        values, vectors = scipy.linalg.eigh(matrix, driver="evd")
    return values, vectors
