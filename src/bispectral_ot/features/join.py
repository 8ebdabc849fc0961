"""Several features side by side in one row."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.sampling import evenly_spaced
from bispectral_ot.transformer import SCRATCH_BYTES, BatchTransformer, Columns, Rows, columns_table, unit_weights

# Rows that decide how parts are joined, their components at most, and the power of whitening (0: none, 1: whole).
_SAMPLE, _COMPONENTS, _WHITENING = 1024, 512, 0.5


class Join(BatchTransformer):
    """Several features side by side, compared by their squared Euclidean distance.

    Each part is put on its principal components, whose variances are raised to the power 1/2, so that a few directions
    do not outweigh all others, and then has total variance 1, times its weight. No labels are used.

    Parameters
    ----------
    *parts
        Names of features, transformers or encoders, at least two.
    weights : sequence of float, optional
        Weight of each part; equal by default.

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.features import Join
    >>> images = np.random.default_rng(0).random((30, 16, 16))
    >>> Join("bispectrum", lambda batch: batch.mean(axis=(1, 2))).fit_transform(images).shape[0]
    30
    """

    raw = True
    default_metric = "sqeuclidean"
    _learned = ("scale_", "parts_", "means_", "projections_")
    scale_: tuple[float, float]
    parts_: list[Any]
    means_: list[Rows]
    projections_: list[Rows]

    def __init__(self, *parts: Any, weights: Any = None) -> None:
        self.parts = parts
        self.weights = weights

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Weights; parts are positional."""
        return {"weights": self.weights}

    def __sklearn_clone__(self) -> Self:
        """A copy that is not fitted."""
        return type(self)(*self.parts, weights=self.weights)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return f"Join({', '.join(map(repr, self._members()))})"

    @property
    def symmetry(self) -> str | None:
        """Symmetry that all parts have; None where they differ."""
        names = {part.symmetry for part in self._members()}
        return names.pop() if len(names) == 1 else None

    def _members(self) -> list[Any]:
        from bispectral_ot.features.registry import choose_features

        return [choose_features(part).transformer for part in self.parts]

    def _fit(self, rows: NDArray[Any]) -> None:
        """Fit the parts, and bring them to one scale."""
        if len(self.parts) < 2:
            raise InputError(f"Join needs two parts at least, got {len(self.parts)}.")
        weights = np.ones(len(self.parts)) if self.weights is None else np.asarray(self.weights, dtype=np.float64)
        if weights.shape != (len(self.parts),) or not (np.isfinite(weights) & (weights >= 0)).all():
            raise InputError(f"weights must be {len(self.parts)} numbers of at least 0, got {self.weights!r}.")
        images = rows.reshape(len(rows), *self.image_shape_)
        self.scale_ = float(images.mean(dtype=np.float64)), float(images.std(dtype=np.float64)) or 1.0
        self.parts_ = [clone(part, safe=False).fit(self._input(part, images)) for part in self._members()]
        some = images[evenly_spaced(len(images), _SAMPLE)]
        self.means_, self.projections_ = [], []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # transform will warn
            for part, weight in zip(self.parts_, weights, strict=True):
                if part.aligns:
                    raise InputError(f"{part!r} are compared at the best rotation of each pair and cannot be joined.")
                features = part.transform(self._input(part, some))
                scales = 1.0 if part.feature_weights_ is None else np.sqrt(part.feature_weights_)[:, None]
                self.means_.append(features.mean(axis=0))
                self.projections_.append(np.float32(np.sqrt(weight)) * scales * shrunk(features * np.ravel(scales)))
        super()._fit(rows)

    def _prepare(self) -> Columns:
        counts = [matrix.shape[1] for matrix in self.projections_]
        parts = [columns_table(part=i, component=np.arange(n)) for i, n in enumerate(counts)]
        return unit_weights(np.concatenate(parts))

    def set_state(self, shape: Any, learned: dict[str, Any]) -> Self:
        """Take up the state."""
        self.parts = tuple(learned["parts_"])
        return super().set_state(shape, learned)

    def _input(self, part: Any, images: NDArray[Any]) -> NDArray[Any]:
        """Images as a part takes them: as they are, or normalized."""
        return images if part.raw else (images - np.float32(self.scale_[0])) / np.float32(self.scale_[1])

    def _scratch_per_row(self) -> int:
        return SCRATCH_BYTES // int(max(part.block_rows for part in self.parts_))

    def _fill(self, rows: NDArray[Any], out: Rows) -> int:
        images, column, vanishing = rows.reshape(len(rows), *self.image_shape_), 0, 0
        for part, mean, projection in zip(self.parts_, self.means_, self.projections_, strict=True):
            features = np.empty((len(rows), part.n_features_out_), dtype=np.float32)
            vanishing = max(vanishing, part.fill(self._input(part, images), features))
            np.matmul(features - mean, projection, out=out[:, column : column + projection.shape[1]])
            column += projection.shape[1]
        return vanishing


def shrunk(rows: Rows) -> Rows:
    """Matrix (columns, components) that brings rows (n, columns) to total variance 1, variances to the power 1/2."""
    centred = (rows - rows.mean(axis=0)).astype(np.float64)
    if not centred.any():
        return np.zeros((rows.shape[1], 1), dtype=np.float32)
    _, values, directions = np.linalg.svd(centred, full_matrices=False)
    kept = (values > 1e-3 * values[0]).nonzero()[0][:_COMPONENTS]
    variances = values[kept] ** 2 / len(rows)
    powers = variances ** (-_WHITENING / 2)
    matrix = directions[kept].T * powers / np.sqrt(np.sum(variances * powers**2))
    return np.ascontiguousarray(matrix, dtype=np.float32)
