"""Distances between the classes of all sets, for costs that take labels into account."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.comparing.ground import Ground
from bispectral_ot.comparing.pooled import PooledKernel
from bispectral_ot.comparing.sampling import sampling_law
from bispectral_ot.datasets import Dataset
from bispectral_ot.errors import InputError
from bispectral_ot.progress import Progress, silent
from bispectral_ot.spaces.projection import sample_evenly

# Images of a class that its distances are taken from.
_SAMPLE = 200
_SPLITS = 8


@dataclass(frozen=True)
class ClassDistances:
    """Debiased divergences between all classes of all sets.

    The part that sampling alone gives is subtracted, so that two samples of one class are at 0 on average; small
    negative figures stay as they are.

    Attributes
    ----------
    matrix : (c, c) in the units of the cost; symmetric, 0 on the diagonal
    names : (c,) pairs of set and class
    """

    matrix: NDArray[np.float64]
    names: tuple[tuple[str, str], ...]

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


def class_distances(
    ground: Ground,
    names: Sequence[str],
    datasets: Sequence[Dataset],
    *,
    reg: float,
    seed: int,
    progress: Progress = silent,
) -> tuple[ClassDistances, list[NDArray[np.int64]]]:
    """Distances between classes, and the row of each image's class in them."""
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
            (at,) = sample_evenly([len(positions)], _SAMPLE)
            members.append((place, positions[at]))
            titles.append((name, dataset.classes[label]))
    count = len(members)
    matrix = np.zeros((count, count))
    sampling = np.zeros(count)
    total, done = count * (count + 1) // 2, 0
    random = np.random.default_rng(seed)
    for i, one in enumerate(members):
        size = len(one[1])
        if size > 3:
            kernel = PooledKernel(ground.among([one]), epsilon=reg * ground.scale)
            sampling[i] = sampling_law(kernel, size, splits=_SPLITS, random=random).part(size)
        for j, other in enumerate(members[:i]):
            sizes = size, len(other[1])
            kernel = PooledKernel(ground.among([one, other]), epsilon=reg * ground.scale)
            source, target = np.zeros((sum(sizes), 1)), np.zeros((sum(sizes), 1))
            source[: sizes[0]], target[sizes[0] :] = 1 / sizes[0], 1 / sizes[1]
            matrix[i, j] = matrix[j, i] = kernel.divergences(source, target)[0] - sampling[i] - sampling[j]
        done += i + 1
        progress("classes", done, total)
    return ClassDistances(matrix, tuple(titles)), codes
