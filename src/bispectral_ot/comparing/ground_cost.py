"""The cost that all pairs of a comparison share: one feature space, one scale, and where asked for, one label term."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.costs import Cost, Distance
from bispectral_ot.errors import InputError
from bispectral_ot.features import FittedFeatures
from bispectral_ot.sampling import evenly_spaced

Positions = NDArray[np.int64]
# Images of a set that decide the scale.
_SAMPLE = 1000
# Of the costs within a set: the very largest would depend on single images.
_QUANTILE = 0.99
# Costs of so few entries take less time than starting threads.
_ONE_CORE = 2**17


class LabelledDistance(Distance):
    """Distances between images plus those between their classes.

    Parameters
    ----------
    distance
        Between n sources and m targets.
    classes
        (c, d) distances between classes.
    source_labels, target_labels
        (n,) and (m,) rows and columns of ``classes``.
    """

    def __init__(
        self,
        distance: Distance,
        classes: NDArray[np.float32],
        source_labels: NDArray[np.int64],
        target_labels: NDArray[np.int64],
    ) -> None:
        self._distance, self._classes = distance, classes
        self._source_labels, self._target_labels = source_labels, target_labels
        self.shape, self.metric = distance.shape, f"{distance.metric} + classes"
        self.rows_at_once, self.feature_bytes = distance.rows_at_once, distance.feature_bytes

    def rows(self, start: int, stop: int) -> NDArray[np.float32]:
        """Distances (stop - start, m) of the sources ``start`` to ``stop``."""
        classes = self._classes[self._source_labels[start:stop]][:, self._target_labels]
        total: NDArray[np.float32] = self._distance.rows(start, stop) + classes
        return total

    def check_finite(self) -> None:
        """Name the element at fault where a distance came out NaN or infinite."""
        self._distance.check_finite()


class GroundCost:
    """Costs between the sets of a feature space, all relative to one scale.

    The scale is the largest cost between two images of one set, but for the uppermost 1 %, of the set in which it is
    largest. It depends neither on a pair nor on the order of the sets, nor on how far the sets are from each other.

    Attributes
    ----------
    space : the feature space
    scale : see above
    """

    def __init__(
        self,
        space: FittedFeatures,
        *,
        labels: Sequence[NDArray[np.int64]] | None = None,
        classes: NDArray[np.float64] | None = None,
    ) -> None:
        self.space, self._labels = space, labels
        self._classes = None if classes is None else np.maximum(classes, 0.0).astype(np.float32)
        self.scale = self._spread()
        if self.scale == 0:
            raise InputError("all images of each set are identical in these features; there is nothing to compare.")

    def cost(self, source: int, target: int) -> Cost:
        """The cost between two of the sets, by their places."""
        distance = self.distance(source, target, self.space.features[source], self.space.features[target])
        return Cost.from_distance(distance, scale=self.scale, storage=self.space.storage, engine=self.space.engine)

    def distance(
        self,
        source: int,
        target: int,
        source_rows: NDArray[np.float32],
        target_rows: NDArray[np.float32],
        source_at: Positions | slice = slice(None),
        target_at: Positions | slice = slice(None),
    ) -> Distance:
        """Distances between features of two sets, which stand at the given positions of them."""
        distance = self.space.feature_map.distance(source_rows, target_rows, self.space.spec.metric)
        if self._labels is None or self._classes is None:
            return distance
        labels = self._labels[source][source_at], self._labels[target][target_at]
        return LabelledDistance(distance, self._classes, *labels)

    def among(self, chosen: Sequence[tuple[int, Positions]]) -> NDArray[np.float32]:
        """Costs (N, N) between all of some images, given as places of sets and positions in them; not symmetrised."""
        return np.block([[self.block(one, other) for other in chosen] for one in chosen])

    def block(self, one: tuple[int, Positions], other: tuple[int, Positions]) -> NDArray[np.float32]:
        """Costs (n, m) between some images of one set and some of another."""
        (source, at), (target, others) = one, other
        rows, other_rows = (np.asarray(self.space.features[place][where]) for place, where in (one, other))
        distance = self.distance(source, target, rows, other_rows, at, others)
        if len(rows) * len(others) <= _ONE_CORE:
            return distance.rows(0, len(rows))
        return Cost.from_distance(distance, storage="float32").block(0, len(rows))

    def between(self, source: int, source_at: Positions, target: int) -> NDArray[np.float32]:
        """Costs (k, m) from some images of one set to all of another."""
        rows = np.asarray(self.space.features[source][source_at])
        distance = self.distance(source, target, rows, self.space.features[target], source_at)
        return np.concatenate([distance.rows(i, i + 1) for i in range(len(rows))])

    def _spread(self) -> float:
        spreads = []
        for place, rows in enumerate(self.space.features):
            at = evenly_spaced(len(rows), _SAMPLE)
            spreads.append(cost_scale(self.among([(place, at)])))
        return max(spreads)


def cost_scale(costs: NDArray[np.floating]) -> float:
    """Scale of the costs (N, N) among some images: their 99 % quantile, the diagonal left out."""
    return float(np.quantile(costs[~np.eye(len(costs), dtype=bool)], _QUANTILE))
