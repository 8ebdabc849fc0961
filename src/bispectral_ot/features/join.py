"""Several features side by side in one row."""

from __future__ import annotations

import math
import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import clone

from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.features.combined import STEEPNESS, move_randomly, neighbour_odds
from bispectral_ot.sampling import evenly_spaced
from bispectral_ot.transformer import SCRATCH_BYTES, BatchTransformer, Columns, Rows, columns_table, unit_weights

# Images that decide how parts are joined, how many of them are moved, and the fewest from which weights are learned.
_SAMPLE, _MOVED, _FEWEST = 1024, 256, 32
_WHITENING = 0.5  # of encoders; 0: none, 1: whole
_MARGIN = 1.25  # factor of the ratio of odds: parts that explain each other about equally have full weight


class Join(BatchTransformer):
    """Several features side by side, compared by their squared Euclidean distance.

    Each part is put on its principal components and has total variance 1, times its weight. Variances of the rows of
    encoders are raised to the power 1/2 first, so that a few directions do not outweigh all others.

    Weights are learned without labels, from images that are moved by random rotations (with shifts or scales, by the
    symmetry of the parts): ``r^2 min(1, 1.25 a)^3``. The information r about the identity of a moved image is relative
    to that of the best part. With ``o(p, q)`` the odds e / (1 - e) of the share e of the variance of part p that
    neighbours in part q explain, a is the least ``o(q, p) / o(p, q)`` over all parts q that have at least half of its
    information. So a part counts little if motions change it, or if another part says more about it than it says about
    the other.

    Parameters
    ----------
    *parts
        Names of features, transformers or encoders, at least two.
    weights : sequence of float, optional
        Weight of each part; learned by default, or equal where no part has a symmetry with rotations.

    Attributes
    ----------
    weights_ : ndarray of shape (parts,)

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
    _learned = ("scale_", "parts_", "means_", "projections_", "weights_")
    scale_: tuple[float, float]
    weights_: NDArray[np.float64]
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
        for part in self._members():
            if part.aligns:
                raise InputError(f"{part!r} are compared at the best rotation of each pair and cannot be joined.")
        images = rows.reshape(len(rows), *self.image_shape_)
        self.scale_ = float(images.mean(dtype=np.float64)), float(images.std(dtype=np.float64)) or 1.0
        self.parts_ = [clone(part, safe=False).fit(self._input(part, images)) for part in self._members()]
        some = images[evenly_spaced(len(images), _SAMPLE)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # transform will warn
            features = [part.transform(self._input(part, some)) for part in self.parts_]
            self.means_ = [each.mean(axis=0) for each in features]
            scales = [np.sqrt(part.feature_weights_)[:, None] for part in self.parts_]
            self.projections_ = [
                scale * shrunk(each * scale[:, 0], _WHITENING if part.raw else 0.0)
                for part, each, scale in zip(self.parts_, features, scales, strict=True)
            ]
            self.weights_ = self._weights(some, features)
        for projection, weight in zip(self.projections_, self.weights_, strict=True):
            projection *= np.float32(np.sqrt(weight))
        super()._fit(rows)

    def _weights(self, images: NDArray[Any], features: list[Rows]) -> NDArray[np.float64]:
        """Weights that were given, or learned from the parts of images and of moved images."""
        if self.weights is not None:
            weights = np.asarray(self.weights, dtype=np.float64)
            if weights.shape != (len(self.parts),) or not (np.isfinite(weights) & (weights >= 0)).all():
                raise InputError(f"weights must be {len(self.parts)} numbers of at least 0, got {self.weights!r}.")
            return weights
        symmetries = [str(part.symmetry) for part in self.parts_]
        turning = [each for each in symmetries if each.startswith(("rotation", "similarity"))]
        if not turning or len(images) < _FEWEST:
            return np.ones(len(self.parts))
        step = -(-len(images) // _MOVED)
        moved = move_randomly(images[::step], turning[0]).reshape(-1, *self.image_shape_).astype(images.dtype)
        both = []
        for part, rows, matrix in zip(self.parts_, features, self.projections_, strict=True):
            both.append((part.transform(self._input(part, moved)) @ matrix, rows @ matrix))
        information = np.array([identity_information(*each, step) for each in both])
        # odds[p, q]: how well neighbours of part q explain part p
        odds = np.array([[neighbour_odds(*one, *other) for other in both] for one in both])
        odds[np.isinf(odds)] = 1
        ratios = odds.T / np.maximum(odds, 1e-9)
        ratios[information < information[:, None] / 2] = 1
        shares = information / max(float(information.max()), 1e-9)
        learned: NDArray[np.float64] = shares**2 * np.minimum(_MARGIN * ratios.min(axis=1), 1) ** STEEPNESS
        return learned

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


def identity_information(moved: Rows, rows: Rows, step: int) -> float:
    """Share of the identity of moved images that their distances to all images tell, between 0 and 1.

    The greatest mean of ``log P(i | moved i) / log n + 1``, ``P(j | x)`` proportional to ``exp(-b d(x, j))``, over b.
    """
    from scipy.optimize import minimize_scalar
    from sklearn.metrics.pairwise import euclidean_distances

    distances = euclidean_distances(moved, rows, squared=True).astype(np.float64)
    distances /= distances.mean() or 1.0
    own = distances[np.arange(len(moved)), step * np.arange(len(moved))]

    def surprise(log_b: float) -> float:
        b = np.exp(log_b)
        return float(np.mean(b * own + logsumexp(-b * distances, axis=1)))

    found = minimize_scalar(surprise, bounds=(-4, 8), method="bounded")
    return max(0.0, 1 - float(found.fun) / math.log(len(rows)))


def shrunk(rows: Rows, whitening: float) -> Rows:
    """Matrix (columns, components) of rows (n, columns) for total variance 1, variances v to ``v^(1 - whitening)``."""
    centred = (rows - rows.mean(axis=0)).astype(np.float64)
    if not centred.any():
        return np.zeros((rows.shape[1], 1), dtype=np.float32)
    _, values, directions = np.linalg.svd(centred, full_matrices=False)
    kept = values > 1e-3 * values[0]
    variances = values[kept] ** 2 / len(rows)
    powers = variances ** (-whitening / 2)
    matrix = directions[kept].T * powers / np.sqrt(np.sum(variances * powers**2))
    return np.ascontiguousarray(matrix, dtype=np.float32)
