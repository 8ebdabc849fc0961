"""Several features side by side in one row: the default for images, and joins of any features."""

import math
import warnings
from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import clone

from bispectral_ot.checks import Intensity, check_choice
from bispectral_ot.datasets.frames import Placement
from bispectral_ot.datasets.transforms import center_clear
from bispectral_ot.datasets.warp import border_levels, radii, rotation_maps, shift_maps, warp
from bispectral_ot.engines.engine import gram, product, side_by_side
from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.features.local_bispectrum import LocalBispectrum
from bispectral_ot.features.polar import GlobalBispectrum
from bispectral_ot.sampling import evenly_spaced
from bispectral_ot.transformer import SCRATCH_BYTES, BatchTransformer, Rows, columns_table, symmetric_eigh, unit_weights

# Bytes of the sample, and how many of its images are moved.
_SAMPLE_BYTES, _MOVED = 2**29, 1024
# Power of the covariance (1 makes all directions equal), and factor of directions in which a moved image changes.
_WHITENING, _MOTION = 0.75, 1000.0
_SHIFT, _SCALES = 0.125, (0.6, 1.4)  # random motions: shifts by this fraction of the width, range of scales
_NEIGHBOURS = 5
_LEAST_COLOUR = 1e-3  # variance of a colour, relative to the largest, below which it is not amplified further
# Odds (explained to unexplained variance of the local part) at which the coupled part has weight 1; power and range.
_EVEN_ODDS, _STEEPNESS, _WEIGHTS = 4.2, 3, (0.05, 8.0)
# Joins: images that decide, how many of them are moved, and the fewest from which weights are learned.
_JOIN_SAMPLE, _JOIN_MOVED, _JOIN_FEWEST = 1024, 256, 32
_MOST_COMPONENTS = 1024
_ENCODER_POWER = 0.5  # of the variances of the rows of encoders; 0: none, 1: whole whitening
_MARGIN = 1.25  # factor of the ratio of odds: parts that explain each other about equally have full weight


class _SideBySide(BatchTransformer):
    """Rows of several fitted transformers, each multiplied by a matrix, side by side."""

    default_metric = "sqeuclidean"
    parts_: list[BatchTransformer]
    projections_: list[Rows]

    def _prepare(self) -> tuple[NDArray[np.void], Rows]:
        counts = [matrix.shape[1] for matrix in self.projections_]
        parts = [columns_table(part=i, component=np.arange(n)) for i, n in enumerate(counts)]
        return unit_weights(np.concatenate(parts))

    @abstractmethod
    def _inputs(self, rows: NDArray[Any]) -> list[NDArray[Any]]:
        """Rows as each part takes them."""

    def _fill(self, rows: NDArray[Any], out: Rows) -> int:
        vanishing, column = 0, 0
        for part, inputs, projection in zip(self.parts_, self._inputs(rows), self.projections_, strict=True):
            features = np.empty((len(rows), part.n_features_out_), dtype=np.float32)
            # a part's own blocks fit into the cache; the projection does not, and is read once for all of them
            vanishing = max(vanishing, part._fill_in_blocks(inputs, features))
            np.matmul(features, projection, out=out[:, column : column + projection.shape[1]])
            column += projection.shape[1]
        return vanishing


@dataclass(kw_only=True, repr=False, eq=False)
class CombinedBispectrum(_SideBySide):
    """Local and global bispectra, weighted by the images that they are fitted to; see docs/real.md for the weights.

    The row of an image has two parts, compared by their squared Euclidean distance: a whitened
    :class:`LocalBispectrum`, and a :class:`GlobalBispectrum` (the *coupled* part), with a weight that is high for
    shapes on a background and small for textures. Directions of least variance are left out.

    Parameters
    ----------
    symmetry : {"rotation", "rotation-reflection", "rotation-translation", "rotation-reflection-translation", \
"similarity", "similarity-reflection"}
        Motions to ignore. With translations, content on a background is centred first, and ``fit`` also shifts images,
        by up to an eighth of their width; with similarity, it is also brought to one size, and scaled by 0.6 to 1.4.
    intensity : {"ignore", "keep", "affine"}
        Whether brightness and contrast count in the local part. ``"affine"`` also ignores the colour balance: the
        colours of each image are transformed to mean 0 and identity covariance.
    kept_variance : Fraction of the variance of the sample that is kept; fewer columns make distances faster.

    Attributes
    ----------
    parts_ : the fitted LocalBispectrum and GlobalBispectrum
    coupled_weight_ : weight of the coupled part; the local one has 1

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.features import CombinedBispectrum
    >>> images = np.random.default_rng(0).random((20, 32, 32))
    >>> combined = CombinedBispectrum().fit(images)
    >>> turned = np.rot90(images, axes=(1, 2))
    >>> bool(np.allclose(combined.transform(images), combined.transform(turned), atol=1e-3))
    True
    """

    symmetries = (
        *("rotation", "rotation-reflection", "rotation-translation", "rotation-reflection-translation"),
        *("similarity", "similarity-reflection"),
    )
    sample_size = 2048
    _learned = ("parts_", "projections_", "coupled_weight_")

    symmetry: str = "rotation"
    intensity: str = "ignore"
    kept_variance: float = 0.95

    def _fit(self, rows: NDArray[Any]) -> None:
        """Learn both parts, and how they are weighted, from at most 2,048 images."""
        check_choice("symmetry", self.symmetry, self.symmetries)
        check_choice("intensity", self.intensity, get_args(Intensity))
        most = max(1, min(self.sample_size, _SAMPLE_BYTES // (4 * rows.shape[1])))
        rows = rows if len(rows) <= most else rows[evenly_spaced(len(rows), most)]  # no copy of all
        images = self._inputs(rows)[0].reshape(len(rows), *self.image_shape_)
        turns = "rotation-reflection" if "reflection" in self.symmetry else "rotation"
        local = LocalBispectrum(symmetry=turns, intensity="keep" if self.intensity == "keep" else "ignore")
        self.parts_ = [local, GlobalBispectrum(symmetry=turns)]
        with warnings.catch_warnings(action="ignore", category=DataWarning):  # transform will warn
            seen = [part.fit_transform(images) for part in self.parts_]
            scales = [np.sqrt(part.feature_weights_) for part in self.parts_]
            # in one order, whatever order the images came in: motions below are drawn image by image
            along = scales[1] * np.linspace(-1, 1, len(scales[1]), dtype=np.float32)
            order = np.argsort(seen[1] @ along, kind="stable")
            seen = [each[order] for each in seen]
            which = slice(None, None, -(-len(images) // _MOVED))
            moved = move_randomly(images[order[which]], self.symmetry)
            moved = self._inputs(moved.reshape(len(moved), -1))[0].reshape(moved.shape)
            seen_moved = [part.transform(moved) for part in self.parts_]
        for whole, some, scale in zip(seen, seen_moved, scales, strict=True):
            centre = whole.mean(axis=0)  # the same for both: differences count
            for each in (whole, some):
                each -= centre
                each *= scale
        products = gram(seen[1])
        changes = seen_moved[0] - seen[0][which]
        local, combinations = side_by_side(lambda: whitening(seen[0], changes), lambda: combined_rows(products))
        of_local = product(seen_moved[0], local), product(seen[0], local)
        # coupled rows have thousands of columns: their products with each other take the place of the rows
        of_coupled = product(product(seen_moved[1], seen[1].T), combinations), product(products, combinations)
        odds = neighbour_odds(*of_local, *of_coupled)
        weight = float(np.clip((odds / _EVEN_ODDS) ** _STEEPNESS, *_WEIGHTS)) if np.isfinite(odds) else 1.0
        self.coupled_weight_ = weight
        variances = of_local[1].var(axis=0), weight * of_coupled[1].var(axis=0)
        ascending = np.sort(np.concatenate(variances))
        total = 1 + weight
        # directions beyond the largest number of components are lost already
        spare = (1 - self.kept_variance) * total - max(0.0, total - float(ascending.sum()))
        least = ascending[min(int(np.searchsorted(np.cumsum(ascending), spare)), len(ascending) - 1)]
        kept = [each >= min(least, each.max()) for each in variances]  # one of each part at least
        matrices = local[:, kept[0]], product(seen[1].T, np.ascontiguousarray(combinations[:, kept[1]]))
        self.projections_ = [
            # weights of columns are taken up once for all
            np.ascontiguousarray(np.float32(np.sqrt(factor)) * matrix) * scale[:, None]
            for scale, matrix, factor in zip(scales, matrices, (1.0, weight), strict=True)
        ]
        super()._fit(rows)

    def _inputs(self, rows: NDArray[Any]) -> list[NDArray[Any]]:
        """Rows with their content in the centre, and of one size, where these do not count."""
        if (scales := self.symmetry.startswith("similarity")) or self.symmetry.endswith("-translation"):
            size = self.image_shape_[0], self.image_shape_[1]
            planes = rows.reshape(len(rows), *size, self._channels)
            placed = Placement("content")(planes.astype(np.float32), size) if scales else center_clear(planes)
            rows = placed.reshape(len(rows), -1)
        if self.intensity == "affine":
            inside = radii(*self.image_shape_[:2]).ravel() <= min(self.image_shape_[:2]) / 2
            pixels = rows.reshape(len(rows), len(inside), -1).astype(np.float32)
            pixels -= pixels[:, inside].mean(axis=1, keepdims=True)
            covariances = np.einsum("npa,npb->nab", pixels[:, inside], pixels[:, inside]) / inside.sum()
            variances, axes = np.linalg.eigh(covariances)
            variances = np.maximum(variances, _LEAST_COLOUR * variances[:, -1:])
            gains = 1 / np.sqrt(np.where(variances > 0, variances, 1))
            rows = (pixels @ (axes * gains[:, None]) @ axes.transpose(0, 2, 1)).reshape(len(rows), -1)
        return [rows, rows]

    def _scratch_per_row(self) -> int:
        return 8 * self.n_features_in_ + 4 * sum(part.n_features_out_ for part in self.parts_)


class Join(_SideBySide):
    """Several features side by side, compared by their squared Euclidean distance.

    Each part is put on its principal components and has total variance 1, times its weight. Variances of the rows of
    encoders are raised to the power 1/2 first, so that a few directions do not outweigh all others.

    The weights ``weights_`` are learned without labels, from images after random motions of the symmetry:
    ``r^2 min(1, 1.25 a)^3``, with r the information about the identity of a moved image, relative to that of the best
    part, and a the least ``o(q, p) / o(p, q)`` over all parts q that have at least half of its information, where
    ``o(p, q)`` are the odds e / (1 - e) of the fraction e of the variance of part p that neighbours in part q explain.
    They are 1 if no part has a symmetry with rotations, or if there are fewer than 32 images.

    Parameters
    ----------
    *parts : Names of features, transformers or encoders, at least two.
    """

    raw = True
    _learned = ("scale_", "parts_", "projections_", "weights_")

    def __init__(self, *parts: Any) -> None:
        self.parts = parts

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """No parameters: parts are positional."""
        return {}

    def __sklearn_clone__(self) -> Self:
        """A copy that is not fitted."""
        return type(self)(*self.parts)

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
        if len(self.parts) < 2:
            raise InputError(f"Join needs two parts at least, got {len(self.parts)}.")
        for part in self._members():
            if part.aligns:
                raise InputError(f"{part!r} are compared at the best rotation of each pair and cannot be joined.")
        images = rows.reshape(len(rows), *self.image_shape_)
        self.scale_ = float(images.mean(dtype=np.float64)), float(images.std(dtype=np.float64)) or 1.0
        self.parts_ = [clone(part, safe=False).fit(self._input(part, images)) for part in self._members()]
        some = images[evenly_spaced(len(images), _JOIN_SAMPLE)]
        with warnings.catch_warnings(action="ignore", category=DataWarning):  # transform will warn
            features = [part.transform(self._input(part, some)) for part in self.parts_]
            scales = [np.sqrt(part.feature_weights_) for part in self.parts_]
            self.projections_ = [
                scale[:, None] * components(each * scale, _ENCODER_POWER if part.raw else 0.0)
                for part, each, scale in zip(self.parts_, features, scales, strict=True)
            ]
            self.weights_ = self._weights(some, features)
        for projection, weight in zip(self.projections_, self.weights_, strict=True):
            projection *= np.sqrt(np.float32(weight))
        super()._fit(rows)

    def _weights(self, images: NDArray[Any], features: list[Rows]) -> NDArray[np.float64]:
        symmetries = [str(part.symmetry) for part in self.parts_]
        turning = [each for each in symmetries if each.startswith(("rotation", "similarity"))]
        if not turning or len(images) < _JOIN_FEWEST:
            return np.ones(len(self.parts))
        step = -(-len(images) // _JOIN_MOVED)
        moved = move_randomly(images[::step], turning[0]).reshape(-1, *self.image_shape_).astype(images.dtype)
        both = [
            (part.transform(self._input(part, moved)) @ matrix, rows @ matrix)
            for part, rows, matrix in zip(self.parts_, features, self.projections_, strict=True)
        ]
        information = np.array([identity_information(*each, step) for each in both])
        # odds[p, q]: how well neighbours of part q explain part p
        odds = np.array([[neighbour_odds(*one, *other) for other in both] for one in both])
        odds[np.isinf(odds)] = 1
        ratios = odds.T / np.maximum(odds, 1e-9)
        ratios[information < information[:, None] / 2] = 1
        shares = information / max(float(information.max()), 1e-9)
        return shares**2 * np.minimum(_MARGIN * ratios.min(axis=1), 1) ** _STEEPNESS

    def set_state(self, shape: Any, learned: dict[str, Any]) -> Self:
        """Set the state, with the parts that it holds."""
        self.parts = tuple(learned["parts_"])
        return super().set_state(shape, learned)

    def _input(self, part: Any, images: NDArray[Any]) -> NDArray[Any]:
        """Images as a part takes them: as they are, or normalized."""
        return images if part.raw else (images - np.float32(self.scale_[0])) / np.float32(self.scale_[1])

    def _inputs(self, rows: NDArray[Any]) -> list[NDArray[Any]]:
        return [self._input(part, rows) for part in self.parts_]

    def _scratch_per_row(self) -> int:
        return SCRATCH_BYTES // int(max(part.block_rows for part in self.parts_))


def move_randomly(images: NDArray[Any], symmetry: str) -> NDArray[np.float32]:
    """Each image after a random motion of a symmetry (rotations, with shifts or scales by name), on its background."""
    random = np.random.default_rng(0)
    n, height, width = images.shape[:3]
    fill = border_levels(images.reshape(n, height, width, -1))
    scales = symmetry.startswith("similarity")
    if scales or symmetry.endswith("translation"):
        directions, lengths = random.uniform(0, 2 * np.pi, n), _SHIFT * np.sqrt(random.uniform(0, 1, n))
        shifts = lengths * np.sin(directions) * height, lengths * np.cos(directions) * width
        images = warp(images, shift_maps(*shifts), fill=fill)
    maps = rotation_maps(random.uniform(0, 360, (n,)), height, width)
    if scales:
        maps[:, :, :2] /= random.uniform(*_SCALES, size=(n, 1, 1))
        centre = np.array([height - 1, width - 1]) / 2
        maps[:, :, 2] = centre - maps[:, :, :2] @ centre
    return warp(images, maps, fill=fill)


def whitening(rows: Rows, changes: Rows) -> Rows:
    """Matrix (columns, components) that rows (n, columns) are multiplied by; total variance is 1 then.

    ``changes`` (m, columns) are differences between rows that should be the same.
    """
    centred = rows - rows.mean(axis=0)
    covariance = (centred.T @ centred).astype(np.float64) / len(rows)
    values, vectors = symmetric_eigh(covariance + _MOTION / 2 * (changes.T @ changes) / len(changes))
    kept = values > 1e-6 * values[-1]
    if not kept.any():  # all images are the same
        return np.zeros((rows.shape[1], 1), dtype=np.float32)
    matrix = vectors[:, kept] * values[kept] ** (-_WHITENING / 2)
    variances, directions = symmetric_eigh(matrix.T @ covariance @ matrix)
    matrix, total = matrix @ directions[:, ::-1], variances.sum()
    return np.ascontiguousarray(matrix / np.sqrt(total) if total > 0 else matrix, dtype=np.float32)


def components(rows: Rows, power: float) -> Rows:
    """Principal components (columns, components) of rows (n, columns), for total variance 1 on all columns.

    Variances v become ``v^(1 - power)`` first. By products of rows, fewer than columns: faster than scikit-learn's PCA.
    """
    centred = rows - rows.mean(axis=0)
    return product(centred.T, combined_rows(gram(centred), power))


def combined_rows(products: NDArray[Any], power: float = 0.0) -> Rows:
    """Combinations (n, components) of centred rows that are principal components, from the products (n, n) of rows."""
    values, vectors = symmetric_eigh(products.astype(np.float64) if power else products)
    n, kept = len(products), values > 1e-6 * values[-1]
    if not kept.any():
        return np.zeros((n, 1), dtype=np.float32)
    powers = values[kept] ** -power
    total = np.trace(products) / n if not power else values[kept] @ powers / n
    scales = np.sqrt(powers / (values[kept] * total))
    return np.ascontiguousarray((vectors[:, kept] * scales)[:, : -_MOST_COMPONENTS - 1 : -1], dtype=np.float32)


def neighbour_odds(moved_local: Rows, local: Rows, moved_coupled: Rows, coupled: Rows) -> float:
    """Odds e / (1 - e) of the share e of the local variance between images that coupled neighbours explain.

    The share is relative to that of local neighbours. Rows are those of images (n, columns), and of some of them,
    evenly taken, moved; infinite where there are too few images to tell.
    """
    from sklearn.metrics.pairwise import euclidean_distances

    if len(local) <= 4 * _NEIGHBOURS:
        return np.inf
    parts = (moved_local, local), (moved_coupled, coupled)
    distances = side_by_side(*(partial(euclidean_distances, *each, squared=True) for each in parts))
    itself = np.arange(len(moved_local)), -(-len(local) // len(moved_local)) * np.arange(len(moved_local))
    overall = distances[0].mean()
    explained = []
    for each in distances:
        each[itself] = np.inf
        nearest = np.argpartition(each, _NEIGHBOURS, axis=1)[:, :_NEIGHBOURS]
        explained.append(overall - np.take_along_axis(distances[0], nearest, axis=1).mean())
    if explained[0] <= 0:
        return np.inf
    share = float(np.clip(explained[1] / explained[0], 0, 0.99))
    return share / (1 - share)


def identity_information(moved: Rows, rows: Rows, step: int) -> float:
    """Information about the identity of moved images in their distances to all images, between 0 and 1.

    The greatest mean of ``log P(i | moved i) / log n + 1``, ``P(j | x)`` proportional to ``exp(-b d(x, j))``, over b.
    """
    from scipy.optimize import minimize_scalar
    from sklearn.metrics.pairwise import euclidean_distances

    distances = euclidean_distances(moved, rows, squared=True).astype(np.float64)
    distances /= distances.mean() or 1.0
    own = distances[np.arange(len(moved)), step * np.arange(len(moved))]

    def surprise(log_b: float) -> float:
        return float(np.mean(np.exp(log_b) * own + logsumexp(-np.exp(log_b) * distances, axis=1)))

    found = minimize_scalar(surprise, bounds=(-4, 8), method="bounded")
    return max(0.0, 1 - float(found.fun) / math.log(len(rows)))
