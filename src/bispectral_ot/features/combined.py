"""The default for images: global and local bispectra in one row, weighted by the images themselves."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from bispectral_ot.checks import check_choice
from bispectral_ot.datasets.frames import center_content
from bispectral_ot.datasets.transforms import center_clear
from bispectral_ot.datasets.warp import border_levels, rotation_maps, shift_maps, warp
from bispectral_ot.errors import DataWarning
from bispectral_ot.features.global_bispectrum import GlobalBispectrum
from bispectral_ot.features.local_bispectrum import INTENSITIES, LocalBispectrum
from bispectral_ot.sampling import evenly_spaced
from bispectral_ot.transformer import BatchTransformer, Columns, Rows, columns_table, unit_weights

LOCAL, COUPLED = 0, 1  # kinds of columns
# Images of the sample (fewer where they are large), and how many of these are moved.
_SAMPLE, _SAMPLE_BYTES, _MOVED = 2048, 2**29, 1024
# Whitening: eigenvalues of the covariance are raised to -_WHITENING / 2; 0 would leave columns as they are, 1 would
# make all directions equal. Directions in which a moved image differs from itself count _MOTION times more.
_WHITENING, _MOTION = 0.75, 1000.0
_SHIFT, _SCALES = 0.125, (0.6, 1.4)  # random motions: shifts by this fraction of the width, range of scales
_NEIGHBOURS = 5
_MOST_COMPONENTS = 1024  # of the coupled part
_KEPT_VARIANCE = 0.97  # of the whole row: directions of least variance are left out
# The coupled part weighs as much as the local one where it explains this many times as much of it as it leaves open.
_EVEN_ODDS, STEEPNESS, _WEIGHTS = 4.2, 3, (0.05, 8.0)


class CombinedBispectrum(BatchTransformer):
    """Local and global bispectra, weighted by the images that they are fitted to.

    The row of an image has two parts, compared by their squared Euclidean distance:

    - *local*: :class:`LocalBispectrum`, whitened. ``fit`` moves some images by random elements of the symmetry and
      measures the changes: with C the covariance of the columns and N that of the changes, the part is multiplied by
      ``(C + 1000 N)^(-3/8)``. So columns that repeat each other count once, and those that interpolation or the border
      disturb count little.
    - *coupled*: :class:`GlobalBispectrum` on its principal components, with total variance 1, times a weight. Its
      neighbours among moved images explain a share e of the variance that local neighbours explain of the local part;
      the weight is ``(e / (1 - e) / 4.2)^3``, within 1/20 and 8. Where shapes lie on a background, e is high;
      on textures it is small, since nothing has a place of its own.

    Directions of least variance are left out, 3 % in all.

    Parameters
    ----------
    symmetry : {"rotation", "rotation-reflection", "rotation-translation", "rotation-reflection-translation", \
"similarity", "similarity-reflection"}
        Motions that do not count. With translations, images that show content on a background are centred first
        (:func:`~bispectral_ot.datasets.transforms.has_background`), and ``fit`` also shifts images, by up to
        an eighth of their width. With similarity, content on a background is brought to one size as well, and ``fit``
        also scales images, by 0.6 to 1.4.
    intensity : {"ignore", "keep"}
        Whether brightness and contrast count in the local part.

    Attributes
    ----------
    local_, coupled_ : the fitted parts
    coupled_weight_ : the weight of the coupled part; the local one has 1
    centred_share_ : share of the fitted images whose content was brought to the centre (with translations only)

    Notes
    -----
    ``index_map_`` has the fields kind (0 local, 1 coupled) and component.

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
    default_metric = "sqeuclidean"
    symmetry: str = symmetries[0]

    _learned = ("local_", "coupled_", "local_projection_", "coupled_projection_", "coupled_weight_", "centred_share_")
    local_: LocalBispectrum
    coupled_: GlobalBispectrum
    local_projection_: Rows
    coupled_projection_: Rows
    coupled_weight_: float
    centred_share_: float

    def __init__(self, *, symmetry: str = "rotation", intensity: str = "ignore") -> None:
        self.symmetry = symmetry
        self.intensity = intensity

    def _fit(self, rows: NDArray[Any]) -> None:
        """Learn both parts, and how they are weighted, from at most 2,048 images."""
        check_choice("symmetry", self.symmetry, self.symmetries)
        check_choice("intensity", self.intensity, INTENSITIES)
        rows = rows[evenly_spaced(len(rows), max(1, min(_SAMPLE, _SAMPLE_BYTES // (4 * rows.shape[1]))))]
        centred, clear = self._centred(rows)
        self.centred_share_ = float(clear.mean())
        images = centred.reshape(len(rows), *self.image_shape_)
        turns = "rotation-reflection" if "reflection" in self.symmetry else "rotation"
        local = self.local_ = LocalBispectrum(symmetry=turns, intensity=self.intensity).fit(images)
        coupled = self.coupled_ = GlobalBispectrum(symmetry=turns).fit(images)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # transform will warn
            seen = _weighted(local, images), _weighted(coupled, images)
            # in one order, whatever order the images came in: motions below are drawn image by image
            order = np.argsort(seen[1] @ np.linspace(-1, 1, seen[1].shape[1]), kind="stable")
            seen = seen[0][order], seen[1][order]
            which = slice(None, None, -(-len(images) // _MOVED))
            moved = move_randomly(images[order[which]], self.symmetry)
            moved = self._centred(moved.reshape(len(moved), -1))[0].reshape(moved.shape)
            seen_moved = _weighted(local, moved), _weighted(coupled, moved)
        self.local_projection_ = whitening(seen[0], seen_moved[0] - seen[0][which])
        self.coupled_projection_ = components(seen[1])
        of_local, of_coupled = (
            [each @ projection for each in (seen_moved[part], seen[part])]
            for part, projection in enumerate((self.local_projection_, self.coupled_projection_))
        )
        odds = neighbour_odds(*of_local, *of_coupled)
        weight = float(np.clip((odds / _EVEN_ODDS) ** STEEPNESS, *_WEIGHTS))
        self.coupled_weight_ = weight if np.isfinite(odds) else 1.0
        self.coupled_projection_ *= np.float32(np.sqrt(self.coupled_weight_))
        self._leave_out(of_local[1].var(axis=0), self.coupled_weight_ * of_coupled[1].var(axis=0))
        for part, projection in ((local, self.local_projection_), (coupled, self.coupled_projection_)):
            projection *= np.sqrt(part.feature_weights_)[:, None]  # taken up once for all
        super()._fit(rows)

    def _prepare(self) -> Columns:
        counts = self.local_projection_.shape[1], self.coupled_projection_.shape[1]
        parts = [columns_table(kind=kind, component=np.arange(n)) for kind, n in enumerate(counts)]
        return unit_weights(np.concatenate(parts))

    def _leave_out(self, *variances: Rows) -> None:
        """Directions of least variance, of both parts together; one is kept of each."""
        projections = self.local_projection_, self.coupled_projection_
        ascending = np.sort(np.concatenate(variances))
        total = 1 + self.coupled_weight_  # directions beyond the largest number of components are lost already
        spare = (1 - _KEPT_VARIANCE) * total - max(0.0, total - float(ascending.sum()))
        threshold = ascending[min(int(np.searchsorted(np.cumsum(ascending), spare)), len(ascending) - 1)]
        kept = [each >= min(threshold, each.max()) for each in variances]
        self.local_projection_, self.coupled_projection_ = (
            np.ascontiguousarray(matrix[:, columns]) for matrix, columns in zip(projections, kept, strict=True)
        )

    def _centred(self, rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Rows with their content in the centre, where translations do not count, and which were centred."""
        scales = self.symmetry.startswith("similarity")
        if not scales and not self.symmetry.endswith("-translation"):
            return rows, np.zeros(len(rows), dtype=np.bool_)
        placed = center_content if scales else center_clear
        centred, clear = placed(rows.reshape(len(rows), *self.image_shape_[:2], self._channels))
        return centred.reshape(len(rows), -1), clear

    def _scratch_per_row(self) -> int:
        return 8 * self.n_features_in_ + 4 * (self.local_.n_features_out_ + self.coupled_.n_features_out_)

    def _fill(self, rows: NDArray[Any], out: Rows) -> int:
        rows, _ = self._centred(rows)
        vanishing, column = 0, 0
        for part, projection in ((self.local_, self.local_projection_), (self.coupled_, self.coupled_projection_)):
            features = np.empty((len(rows), part.n_features_out_), dtype=np.float32)
            # a part's own blocks fit into the cache; the projection does not, and is read once for all of them
            vanishing = max(vanishing, part._fill_in_blocks(rows, features))
            np.matmul(features, projection, out=out[:, column : column + projection.shape[1]])
            column += projection.shape[1]
        return vanishing


def _weighted(part: BatchTransformer, images: NDArray[Any]) -> Rows:
    rows = part.transform(images)
    rows *= np.sqrt(part.feature_weights_)
    return rows


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
    values, vectors = np.linalg.eigh(covariance + _MOTION / 2 * (changes.T @ changes) / len(changes))
    kept = values > 1e-6 * values[-1]
    if not kept.any():  # all images are the same
        return np.zeros((rows.shape[1], 1), dtype=np.float32)
    matrix = vectors[:, kept] * values[kept] ** (-_WHITENING / 2)
    variances, directions = np.linalg.eigh(matrix.T @ covariance @ matrix)
    total = variances.sum()
    matrix = matrix @ directions[:, ::-1]
    return np.ascontiguousarray(matrix / np.sqrt(total) if total > 0 else matrix, dtype=np.float32)


def components(rows: Rows, n_components: int = _MOST_COMPONENTS) -> Rows:
    """Principal components (columns, components) of rows (n, columns), which have total variance 1 on all columns.

    From the products of rows, of which there are fewer than columns: several times faster than scikit-learn's PCA.
    """
    centred = rows - rows.mean(axis=0)
    products = centred @ centred.T
    n = len(products)
    values, vectors = scipy.linalg.eigh(products, driver="evd")
    values, vectors = values[-n_components:], vectors[:, -n_components:]
    kept = values > 1e-6 * values[-1]
    if not kept.any():
        return np.zeros((rows.shape[1], 1), dtype=np.float32)
    total = np.trace(products) / n
    matrix = centred.T @ (vectors[:, kept][:, ::-1] / np.sqrt(values[kept][::-1] * total)).astype(np.float32)
    return np.ascontiguousarray(matrix, dtype=np.float32)


def neighbour_odds(moved_local: Rows, local: Rows, moved_coupled: Rows, coupled: Rows) -> float:
    """Odds e / (1 - e) of the share e of the local variance between images that coupled neighbours explain.

    The share is relative to that of local neighbours. Rows are those of images (n, columns), and of some of them,
    evenly taken, moved; infinite where there are too few images to tell.
    """
    from sklearn.metrics.pairwise import euclidean_distances

    if len(local) <= 4 * _NEIGHBOURS:
        return np.inf
    parts = (moved_local, local), (moved_coupled, coupled)
    distances = [euclidean_distances(moved, rows, squared=True) for moved, rows in parts]
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
