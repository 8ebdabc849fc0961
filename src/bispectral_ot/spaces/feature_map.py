"""How images become rows of features: one normalization, one fitted transformer, one projection."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.costs import AlignedDistance, Cost, FeatureDistance, Metric
from bispectral_ot.datasets.transforms import rescale
from bispectral_ot.invariants import Transformer
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

    transformer: Transformer
    mean: float = 0.0
    std: float = 1.0
    weights: Rows | None = field(default=None, repr=False)
    projection: Rows | None = field(default=None, repr=False)

    def __call__(self, images: NDArray[Any]) -> Rows:
        """Features (n, columns) of ``images``, to be compared by :meth:`distance`."""
        return self.project(self.transform(images))

    def transform(self, images: NDArray[Any]) -> Rows:
        """What the transformer gives for the normalized images, without projection."""
        return self.transformer.transform(self.normalized(images))

    def fill(self, images: NDArray[Any], out: Rows) -> int:
        """Write what :meth:`transform` gives to ``out``, and return how many rows vanish."""
        return self.transformer.fill(self.normalized(images), out)

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
        if self.transformer.aligns:
            reflections = self.transformer.symmetry == "rotation-reflection"
            columns = self.transformer.index_map_  # type: ignore[attr-defined]
            return AlignedDistance(source, target, columns, metric, reflections=reflections)
        # the projection has taken the weights up
        return FeatureDistance(source, target, metric, self.weights if self.projection is None else None)

    def distances_within(self, rows: Rows, metric: Metric, *, progress: Progress = silent) -> NDArray[np.float64]:
        """Distances (n, n) between all of some features (n, columns); symmetric, 0 on the diagonal."""
        cost = Cost.from_distance(self.distance(rows, rows, metric), storage="float32", progress=progress)
        distances = cost.block(0, len(rows)).astype(np.float64)
        distances = (distances + distances.T) / 2  # the two halves differ by float32 rounding
        np.fill_diagonal(distances, 0.0)
        return distances


def fitted(transformer: Transformer, images: NDArray[Any]) -> Transformer:
    """A copy of the transformer, fitted to ``images``; the given one stays as it is."""
    from sklearn.base import clone

    copy: Transformer = clone(transformer, safe=False)
    return copy.fit(images)
