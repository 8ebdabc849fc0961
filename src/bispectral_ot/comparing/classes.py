"""Distances between the classes of all sets, for costs that take labels into account."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bispectral_ot import runtime
from bispectral_ot.comparing.ground_cost import GroundCost
from bispectral_ot.comparing.null_distribution import sampling_bias
from bispectral_ot.datasets import Dataset
from bispectral_ot.errors import InputError
from bispectral_ot.sampling import evenly_spaced
from bispectral_ot.transport.batched_sinkhorn import Matrix, Pool

# Images of a class that its distances are taken from.
_SAMPLE = 200
_SPLITS = 8


@dataclass(frozen=True)
class ClassDistances:
    """Divergences between all classes of all sets.

    The part that sampling alone gives is subtracted, so that two samples of one class are at 0 on average; small
    negative figures stay as they are.

    Attributes
    ----------
    matrix : (c, c) in the units of the cost; symmetric, 0 on the diagonal
    names : (c,) pairs of set and class
    """

    matrix: NDArray[np.float64]
    names: tuple[tuple[str, str], ...]

    def ordered(self, sets: Sequence[str], scale: float) -> ClassDistances:
        """Distances relative to a scale, with the classes in the order of the sets."""
        order = sorted(range(len(self.names)), key=lambda place: sets.index(self.names[place][0]))
        return ClassDistances(self.matrix[np.ix_(order, order)] / scale, tuple(self.names[place] for place in order))

    def between(self, source: str, target: str) -> tuple[list[str], list[str], NDArray[np.float64]]:
        """Class names of two sets, and the distances between them."""
        rows, columns = (
            [place for place, (name, _) in enumerate(self.names) if name == side] for side in (source, target)
        )
        return (
            [self.names[place][1] for place in rows],
            [self.names[place][1] for place in columns],
            self.matrix[np.ix_(rows, columns)],
        )


class GaussianPool:
    """Squared Bures distances: those of the Gaussian distributions that have the means and covariances of the images.

    With C their squared distances, ``|m - m'|^2 + tr(A + B - 2 (A^1/2 B A^1/2)^1/2)`` is the mean of C less the
    sum of the singular values of C, centred by rows and columns and multiplied by the roots of the weights: no
    covariance matrix is needed, however many features there are.

    Examples
    --------
    >>> import numpy as np
    >>> points = np.array([-1.0, 1.0, 1.0, 7.0])  # means 0 and 4, standard deviations 1 and 3
    >>> first, second = np.array([[0.5, 0.5, 0, 0]]).T, np.array([[0, 0, 0.5, 0.5]]).T
    >>> GaussianPool((points[:, None] - points) ** 2).divergences(first, second).round(6)
    array([20.])
    """

    def __init__(self, cost: NDArray[np.floating]) -> None:
        self._cost = cost

    def divergences(self, source: Matrix, target: Matrix) -> NDArray[np.float64]:
        """Between the columns of two matrices of weights (N, k)."""
        return np.array([self._bures(p, q) for p, q in zip(source.T, target.T, strict=True)])

    def _bures(self, p: NDArray[np.float64], q: NDArray[np.float64]) -> float:
        rows, columns = np.flatnonzero(p), np.flatnonzero(q)
        p, q = p[rows], q[columns]
        cost = self._cost[np.ix_(rows, columns)].astype(np.float64)
        mean = p @ cost @ q
        centred = cost - (cost @ q)[:, None] - p @ cost + mean
        return float(mean - np.linalg.norm(np.sqrt(p)[:, None] * centred * np.sqrt(q), "nuc"))


def bures_pool(costs: NDArray[np.floating], *, scale: float) -> GaussianPool:
    """A :class:`GaussianPool`; it needs no scale."""
    return GaussianPool(costs)


def class_distances(
    ground: GroundCost,
    names: Sequence[str],
    datasets: Sequence[Dataset],
    pool: Callable[..., Pool],
    *,
    seed: int,
) -> tuple[ClassDistances, list[NDArray[np.int64]]]:
    """Distances between classes, and the row of each image's class in them.

    ``pool(costs, scale=...)`` gives the divergences between parts of some images.
    """
    members: list[tuple[int, NDArray[np.int64]]] = []
    titles: list[tuple[str, str]] = []
    codes = []
    for place, (name, dataset) in enumerate(zip(names, datasets, strict=True)):
        if dataset.labels is None:
            raise InputError(f"labels=True needs labels in all sets, but {name!r} has none.")
        present, code = np.unique(dataset.labels, return_inverse=True)
        codes.append(code.astype(np.int64) + len(members))
        for label in present:
            positions = np.flatnonzero(dataset.labels == label)
            at = evenly_spaced(len(positions), _SAMPLE)
            members.append((place, positions[at]))
            titles.append((name, dataset.classes[label]))
    count = len(members)
    matrix = np.zeros((count, count))
    sampling = np.zeros(count)
    total, done = count * (count + 1) // 2, 0
    random = np.random.default_rng(seed)
    within = [ground.block(one, one) for one in members]
    for i, one in enumerate(members):
        size = len(one[1])
        if size > 3:
            images = pool(within[i], scale=ground.scale)
            sampling[i] = sampling_bias(images, size, splits=_SPLITS, random=random).part(size)
        for j, other in enumerate(members[:i]):
            sizes = size, len(other[1])
            across = ground.block(one, other)
            images = pool(np.block([[within[i], across], [across.T, within[j]]]), scale=ground.scale)
            source, target = np.zeros((sum(sizes), 1)), np.zeros((sum(sizes), 1))
            source[: sizes[0]], target[sizes[0] :] = 1 / sizes[0], 1 / sizes[1]
            matrix[i, j] = matrix[j, i] = images.divergences(source, target)[0] - sampling[i] - sampling[j]
        done += i + 1
        runtime.progress("classes", done, total)
    return ClassDistances(matrix, tuple(titles)), codes
