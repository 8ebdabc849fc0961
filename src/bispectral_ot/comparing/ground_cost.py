"""Cost that all pairs of a comparison share: one feature space, one scale and, if asked for, one term for classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bispectral_ot import runtime
from bispectral_ot.comparing.divergence import Divergence, sampling_bias
from bispectral_ot.costs import Cost, Distance
from bispectral_ot.datasets import Dataset
from bispectral_ot.errors import InputError
from bispectral_ot.features import FittedFeatures
from bispectral_ot.sampling import evenly_spaced

Positions = NDArray[np.int64]
# Images of a set that decide the scale, and images of a class that its distances are taken from.
_SCALE_IMAGES, _CLASS_IMAGES = 1000, 200
# Of the costs within a set: the very largest would depend on single images.
_QUANTILE = 0.99
# Costs of so few entries take less time than starting threads.
_ONE_CORE = 2**17


class LabelledDistance(Distance):
    """Distances between images plus those between their classes, of which the labels are rows and columns."""

    def __init__(
        self, distance: Distance, classes: NDArray[np.float32], source_labels: Positions, target_labels: Positions
    ) -> None:
        self._distance, self._classes = distance, classes
        self._source_labels, self._target_labels = source_labels, target_labels
        self.shape, self.metric = distance.shape, f"{distance.metric} + classes"
        self.rows_at_once, self.feature_bytes = distance.rows_at_once, distance.feature_bytes

    def rows(self, start: int, stop: int) -> NDArray[np.float32]:
        """Distances (stop - start, m) of the sources ``start`` to ``stop``."""
        classes = self._classes[self._source_labels[start:stop]][:, self._target_labels]
        return np.asarray(self._distance.rows(start, stop) + classes)

    def check_finite(self) -> None:  # noqa: D102
        self._distance.check_finite()


class GroundCost:
    """Costs between the sets of a feature space, all relative to one scale.

    The scale is the largest cost between two images of one set, but for the uppermost 1 %, of the set in which it is
    largest: it does not depend on how far the sets are from each other.
    """

    def __init__(
        self,
        space: FittedFeatures,
        labels: Sequence[Positions] | None = None,
        classes: NDArray[np.float64] | None = None,
    ) -> None:
        self.space, self._labels = space, labels
        self._classes = None if classes is None else np.maximum(classes, 0.0).astype(np.float32)
        samples = [(place, evenly_spaced(len(rows), _SCALE_IMAGES)) for place, rows in enumerate(space.features)]
        self.scale = max(cost_scale(self.block(each, each)) for each in samples)
        if self.scale == 0:
            raise InputError("all images of each set are identical in these features; there is nothing to compare.")

    def cost(self, source: int, target: int) -> Cost:
        """Cost between two of the sets, by their places."""
        distance = self._distance((source, slice(None)), (target, slice(None)))
        return Cost.from_distance(distance, scale=self.scale, storage=self.space.storage, engine=self.space.engine)

    def block(self, one: tuple[int, Positions | slice], other: tuple[int, Positions | slice]) -> NDArray[np.float32]:
        """Costs (n, m) between some images of two sets, given as places of sets and positions in them."""
        distance = self._distance(one, other)
        n, m = distance.shape
        return (
            distance.rows(0, n) if n * m <= _ONE_CORE else Cost.from_distance(distance, storage="float32").block(0, n)
        )

    def among(self, chosen: Sequence[tuple[int, Positions]]) -> NDArray[np.float32]:
        """Costs (N, N) between all of some images; not symmetrised."""
        return np.block([[self.block(one, other) for other in chosen] for one in chosen])

    def _distance(self, one: tuple[int, Positions | slice], other: tuple[int, Positions | slice]) -> Distance:
        rows = [self.space.features[place][at] for place, at in (one, other)]
        distance = self.space.feature_map.distance(rows[0], rows[1], self.space.spec.metric)
        if self._labels is None or self._classes is None:
            return distance
        labels = [self._labels[place][at] for place, at in (one, other)]
        return LabelledDistance(distance, self._classes, labels[0], labels[1])


def cost_scale(costs: NDArray[np.floating]) -> float:
    """Scale of the costs (N, N) among some images: their 99 % quantile, the diagonal left out."""
    return float(np.quantile(costs[~np.eye(len(costs), dtype=bool)], _QUANTILE))


@dataclass(frozen=True)
class ClassDistances:
    """Divergences (c, c) between all classes of all sets, less the sampling bias; ``names``: sets and classes."""

    matrix: NDArray[np.float64]
    names: tuple[tuple[str, str], ...]

    def ordered(self, sets: Sequence[str], scale: float) -> ClassDistances:
        """Distances relative to a scale, with the classes in the order of the sets."""
        order = sorted(range(len(self.names)), key=lambda place: sets.index(self.names[place][0]))
        return ClassDistances(self.matrix[np.ix_(order, order)] / scale, tuple(self.names[place] for place in order))

    def between(self, source: str, target: str) -> tuple[list[str], list[str], NDArray[np.float64]]:
        """Class names of two sets, and the distances between them."""
        rows, columns = ([i for i, (name, _) in enumerate(self.names) if name == side] for side in (source, target))
        titles = [title for _, title in self.names]
        return [titles[i] for i in rows], [titles[i] for i in columns], self.matrix[np.ix_(rows, columns)]


def class_distances(
    ground: GroundCost, names: Sequence[str], datasets: Sequence[Dataset], divergence: Divergence, *, seed: int
) -> tuple[ClassDistances, list[Positions]]:
    """Distances between classes, and the row of each image's class in them."""
    members: list[tuple[int, Positions]] = []
    titles: list[tuple[str, str]] = []
    codes = []
    for place, (name, dataset) in enumerate(zip(names, datasets, strict=True)):
        if dataset.labels is None:
            raise InputError(f"labels=True needs labels in all sets, but {name!r} has none.")
        present, code = np.unique(dataset.labels, return_inverse=True)
        codes.append(code.astype(np.int64) + len(members))
        for label in present:
            positions = np.flatnonzero(dataset.labels == label)
            members.append((place, positions[evenly_spaced(len(positions), _CLASS_IMAGES)]))
            titles.append((name, dataset.classes[label]))
    count, random = len(members), np.random.default_rng(seed)
    matrix, bias = np.zeros((count, count)), np.zeros(count)
    within = [ground.block(one, one) for one in members]
    for i, one in enumerate(members):
        size = len(one[1])
        if size > 3:
            bias[i] = sampling_bias(divergence.pool(within[i], scale=ground.scale), size, random).part(size)
        for j, other in enumerate(members[:i]):
            across = ground.block(one, other)
            pool = divergence.pool(np.block([[within[i], across], [across.T, within[j]]]), scale=ground.scale)
            source = np.repeat([1 / size, 0.0], across.shape)[:, None]
            target = np.repeat([0.0, 1 / across.shape[1]], across.shape)[:, None]
            matrix[i, j] = matrix[j, i] = pool.divergences(source, target)[0] - bias[i] - bias[j]
        runtime.progress("classes", (i + 1) * (i + 2) // 2, count * (count + 1) // 2)
    return ClassDistances(matrix, tuple(titles)), codes
