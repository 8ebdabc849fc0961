"""How images become rows of features: one normalization, one fitted transformer, one projection."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.costs import AlignedDistance, Cost, FeatureDistance, Metric
from bispectral_ot.datasets.transforms import rescale
from bispectral_ot.errors import InputError
from bispectral_ot.invariants.base import BatchTransformer
from bispectral_ot.progress import Progress, silent

Rows = NDArray[np.float32]


@dataclass(frozen=True)
class FeatureMap:
    """Images to features, fitted: images that come later are seen like those it was fitted to.

    Attributes
    ----------
    transformer : the fitted transformer
    mean, std : pixels become ``(pixel - mean) / std`` first
    weights : of the transformer's columns in the metric, or None
    projection : (columns, components) principal components, or None
    """

    transformer: Any
    mean: float = 0.0
    std: float = 1.0
    weights: Rows | None = field(default=None, repr=False)
    projection: Rows | None = field(default=None, repr=False)

    def __call__(self, images: NDArray[Any]) -> Rows:
        """Features (n, columns) of ``images``, to be compared by :meth:`distance`."""
        return self.project(self.transform(images))

    def transform(self, images: NDArray[Any]) -> Rows:
        """What the transformer gives for the normalized images, without projection."""
        as_input = flat_unless_images(self.transformer, self.normalized(images))
        rows: Rows = np.ascontiguousarray(self.transformer.transform(as_input), dtype=np.float32)
        if rows.ndim != 2 or len(rows) != len(images):
            raise InputError(
                f"{type(self.transformer).__name__} gave features of shape {rows.shape} for {len(images)} images; "
                "it should give one row each."
            )
        return rows

    def fill(self, images: NDArray[Any], out: Rows) -> int:
        """Write what a transformer of this package gives to ``out``, and return how many features vanish."""
        return int(self.transformer.fill(flat_unless_images(self.transformer, self.normalized(images)), out))

    def normalized(self, images: NDArray[Any]) -> NDArray[Any]:
        """``(image - mean) / std``; images as they are where that changes nothing."""
        if (self.mean, self.std) == (0.0, 1.0):
            return images
        return rescale(images, self.mean, self.std)

    def project(self, rows: Rows) -> Rows:
        """Weighted rows on the principal components, if there are any."""
        return rows if self.projection is None else self.weighted(rows) @ self.projection

    def weighted(self, rows: Rows) -> Rows:
        """Rows whose plain Euclidean distance is the weighted one."""
        return rows if self.weights is None else rows * np.sqrt(self.weights)

    def distance(self, source: Rows, target: Rows, metric: Metric) -> FeatureDistance:
        """Distances between two sets of features; steerable ones at the best turn of each pair."""
        if getattr(self.transformer, "aligns", False):
            reflections = self.transformer.symmetry == "rotation-reflection"
            return AlignedDistance(source, target, self.transformer.index_map_, metric, reflections=reflections)
        # the projection has taken the weights up
        return FeatureDistance(source, target, metric, self.weights if self.projection is None else None)

    def distances_within(self, rows: Rows, metric: Metric, *, progress: Progress = silent) -> NDArray[np.float64]:
        """Distances (n, n) between all of some features (n, columns); symmetric, 0 on the diagonal."""
        cost = Cost.from_distance(self.distance(rows, rows, metric), storage="float32", progress=progress)
        distances = cost.block(0, len(rows)).astype(np.float64)
        distances = (distances + distances.T) / 2  # the two halves differ by float32 rounding
        np.fill_diagonal(distances, 0.0)
        return distances


def fitted(transformer: Any, images: NDArray[Any]) -> Any:
    """A copy of the transformer, fitted to ``images``; the given one stays as it is."""
    from sklearn.base import clone

    return clone(transformer, safe=False).fit(flat_unless_images(transformer, images))


def column_weights(transformer: Any) -> Rows | None:
    """The multiplicities of folded features, where the transformer (or the last step of a pipeline) has any."""
    while hasattr(transformer, "steps"):
        transformer = transformer.steps[-1][1]
    weights: Rows | None = getattr(transformer, "feature_weights_", None)
    return weights


def count_columns(feature_map: FeatureMap, images: NDArray[Any]) -> int:
    """How many columns the features of ``images`` have before any projection."""
    if isinstance(feature_map.transformer, BatchTransformer):
        return feature_map.transformer.n_features_out_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the features themselves will say it
        return int(feature_map.transform(images[:1]).shape[1])


def flat_unless_images(transformer: Any, images: NDArray[Any]) -> NDArray[Any]:
    """Images as rows for transformers that do not read image batches."""
    return images if _takes_images(transformer) else images.reshape(len(images), -1)


def _takes_images(transformer: Any) -> bool:
    """Whether it reads image batches; most scikit-learn transformers, and ours of 1-D signals, want rows.

    They say so in their tags.
    """
    if hasattr(transformer, "steps"):
        return _takes_images(transformer.steps[0][1])
    if hasattr(transformer, "transformer_list"):
        return any(_takes_images(part) for _, part in transformer.transformer_list)
    if not hasattr(transformer, "__sklearn_tags__"):
        return True
    tags = transformer.__sklearn_tags__()
    return bool(tags.input_tags.three_d_array or tags.no_validation)
