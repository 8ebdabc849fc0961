"""Debiased divergence between sets and its null distribution: split halves, permutations, bootstrap.

A divergence between samples of n and m images of one population is not 0. It falls like ``1/n + 1/m`` where samples are
large, and more slowly where they are so small that each image has a neighbourhood of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bispectral_ot import runtime
from bispectral_ot.costs import Cost, Distance
from bispectral_ot.datasets import Dataset
from bispectral_ot.errors import InputError
from bispectral_ot.features import FittedFeatures
from bispectral_ot.sampling import evenly_spaced
from bispectral_ot.transport import BatchedSinkhorn, Sinkhorn

Vector = NDArray[np.float64]
Random = np.random.Generator
Positions = NDArray[np.int64]


@dataclass(frozen=True)
class Potentials:
    """Potentials f (n,) and g (m,) of a problem with uniform weights; ``error`` bounds the error of ``value``."""

    source: Vector
    target: Vector
    error: float
    converged: bool = True

    @property
    def value(self) -> float:
        """OT(p, q) = <p, f> + <q, g>."""
        return float(self.source.mean() + self.target.mean())


def solve_potentials(cost: Cost, reg: float, *, tol: float = 1e-6, within: bool = False) -> Potentials:
    """Potentials of two sets, or (``within``) of a set and itself; ``reg`` is relative to the scale of the cost.

    With ``P_ij = p_i q_j exp((f_i + g_j - C_ij) / epsilon)``, any potentials give a lower bound of OT,
    ``D(f, g) = <p, f> + <q, g> - epsilon log(sum P)``. It is concave and its gradient is the error of the marginals: at
    most half of that error, times the ranges of these potentials and of the best (at most that of the cost), is lost.
    """
    coupling = Sinkhorn(reg=reg, tol=tol).solve(cost, symmetric=within)
    n, m = coupling.shape
    mass = coupling.mass
    f = coupling.source_potential + coupling.epsilon * (np.log(n) - np.log(mass))  # total mass one gives the best D
    g = coupling.target_potential + coupling.epsilon * np.log(m)
    row_error = float(np.abs(coupling.measured.row_sums / mass - 1 / n).sum())
    column_error = float(np.abs(coupling.measured.column_sums / mass - 1 / m).sum())
    gap = 0.5 * (row_error * (cost.maximum + np.ptp(f)) + column_error * (cost.maximum + np.ptp(g)))
    if within:
        f = g = (f + g) / 2
    return Potentials(f, g, float(gap + cost.storage_error), coupling.converged)


@dataclass(frozen=True)
class SamplingBias:
    """Sampling bias: two samples of n and m images of a population are at ``part(n) + part(m)`` on average."""

    constant: float
    offset: float

    def part(self, size: int) -> float:
        """Bias of one side, ``constant / (size + offset)``."""
        return self.constant / (size + self.offset)


def sampling_bias(pool: BatchedSinkhorn, size: int, random: Random) -> SamplingBias:
    """Sampling bias of a population, from 8 random halves and 8 quarters of the ``size`` images of the pool."""
    if size < 4:
        return SamplingBias(float("nan"), 0.0)
    found = []
    for part in (size // 2, size // 4):
        parts = np.stack([random.permutation(size)[: 2 * part].reshape(2, part) for _ in range(8)])
        found.append(float(pool.divergences(_uniform(size, parts[:, 0]), _uniform(size, parts[:, 1])).mean()))
    half, quarter = found
    # 1 where samples are too small for any law, 2 where the divergence falls like 1/n
    ratio = min(max(quarter / half, 1.1), 2.0) if half > 0 else 2.0
    offset = (size // 2) * (1 - ratio / 2) / (ratio - 1)
    return SamplingBias(half * (size // 2 + offset) / 2, offset)


def permutation_test(
    costs: NDArray[np.floating], pool: BatchedSinkhorn, sizes: tuple[int, int], permutations: int, random: Random
) -> float:
    """P-value of an exact permutation test between two sets of images, given by their costs (N, N) and divergences.

    The statistic is the largest of several: the divergence, which sees that mass has to move, and the distances of the
    mean embeddings (MMD) by kernels of some widths, which see small changes of every image.
    """
    n, total = sizes[0], sum(sizes)
    orders = np.stack([np.arange(total), *(random.permutation(total) for _ in range(permutations))])
    source, target = _uniform(total, orders[:, :n]), _uniform(total, orders[:, n:])
    # widths in medians of the cost: wide kernels see means, narrow ones what happens near each image
    return p_value([pool.divergences(source, target), *mean_embeddings(costs, source - target, (0.25, 0.5, 1.0))])


def mean_embeddings(costs: NDArray[np.floating], differences: Vector, widths: Sequence[float]) -> list[Vector]:
    """Squared distances of mean embeddings by ``exp(-C / (width * median of C))``, of differences of weights (N, k)."""
    median = float(np.median(costs[~np.eye(len(costs), dtype=bool)])) or 1.0
    kernels = (np.exp(-costs / (width * median)) for width in widths)
    return [(differences * (kernel @ differences)).sum(axis=0) for kernel in kernels]


def p_value(found: Sequence[Vector]) -> float:
    """Fraction of relabellings that reach the first: by the largest of statistics (k,), each relative to its spread."""
    # those that are equal up to rounding show no difference
    kept = [(each - each.mean()) / each.std() for each in found if each.std() > 1e-9 * np.abs(each).max()]
    values = np.max(kept, axis=0) if kept else np.zeros_like(found[0])
    # relabellings that are the same up to equal images count as reached
    return float((values >= values[0] - 1e-9).mean())


def bootstrap_deviations(pool: BatchedSinkhorn, sizes: tuple[int, int], repeats: int, random: Random) -> Vector:
    """Deviations of the divergences of resampled sets from their mean, to which resampling adds noise."""
    n, m = sizes
    source, target = np.zeros((n + m, repeats)), np.zeros((n + m, repeats))
    source[:n] = random.multinomial(n, np.full(n, 1 / n), size=repeats).T / n
    target[n:] = random.multinomial(m, np.full(m, 1 / m), size=repeats).T / m
    found = pool.divergences(source, target)
    return np.asarray(found - found.mean())


def _uniform(total: int, members: NDArray[np.int64]) -> Vector:
    """Weights (total, k) that are uniform on each row of ``members`` (k, size)."""
    weights = np.zeros((len(members), total))
    np.put_along_axis(weights, members, 1.0 / members.shape[1], axis=1)
    return weights.T


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


class GroundCost:
    """Costs between the sets of a feature space, all relative to one scale.

    The scale is the largest cost between two of 1000 images of one set, but for the uppermost 1 %, of the set in which
    it is largest: it does not depend on how far the sets are from each other.
    """

    def __init__(self, space: FittedFeatures, labels: Sequence[Positions] = (), classes: Vector | None = None) -> None:
        self.space, self._labels = space, labels
        self._classes = None if classes is None else np.maximum(classes, 0.0).astype(np.float32)
        samples = [(place, evenly_spaced(len(rows), 1000)) for place, rows in enumerate(space.features)]
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
        if n * m <= 2**17:  # takes less time than starting threads
            return distance.rows(0, n)
        return Cost.from_distance(distance, storage="float32").block(0, n)

    def among(self, chosen: Sequence[tuple[int, Positions]]) -> NDArray[np.float32]:
        """Costs (N, N) between all of some images; not symmetrised."""
        return np.block([[self.block(one, other) for other in chosen] for one in chosen])

    def _distance(self, one: tuple[int, Positions | slice], other: tuple[int, Positions | slice]) -> Distance:
        rows = [self.space.features[place][at] for place, at in (one, other)]
        distance = self.space.feature_map.distance(rows[0], rows[1], self.space.spec.metric)
        if self._classes is None:
            return distance
        return LabelledDistance(distance, self._classes, *(self._labels[place][at] for place, at in (one, other)))


def cost_scale(costs: NDArray[np.floating]) -> float:
    """Scale of the costs (N, N) among some images: their 99 % quantile, the diagonal left out."""
    # the very largest would depend on single images
    return float(np.quantile(costs[~np.eye(len(costs), dtype=bool)], 0.99))


def class_distances(
    ground: GroundCost, datasets: Sequence[Dataset], reg: float, *, seed: int
) -> tuple[list[Positions], Vector]:
    """Class of each image among all classes of all sets; divergences (c, c) of 200 images of each, less their bias."""
    members: list[tuple[int, Positions]] = []
    codes = []
    for place, dataset in enumerate(datasets):
        if dataset.labels is None:
            raise InputError(f"labels=True needs labels in all sets, but {dataset.name!r} has none.")
        present, code = np.unique(dataset.labels, return_inverse=True)
        codes.append(code.astype(np.int64) + len(members))
        for label in present:
            positions = np.flatnonzero(dataset.labels == label)
            members.append((place, positions[evenly_spaced(len(positions), 200)]))
    count, epsilon = len(members), reg * ground.scale
    random = np.random.default_rng(seed)
    matrix, bias = np.zeros((count, count)), np.zeros(count)
    within = [ground.block(one, one) for one in members]
    for i, one in enumerate(members):
        size = len(one[1])
        if size > 3:
            bias[i] = sampling_bias(BatchedSinkhorn(within[i], epsilon=epsilon), size, random).part(size)
        for j, other in enumerate(members[:i]):
            across = ground.block(one, other)
            pool = BatchedSinkhorn(np.block([[within[i], across], [across.T, within[j]]]), epsilon=epsilon)
            source = np.repeat([1 / size, 0.0], across.shape)[:, None]
            target = np.repeat([0.0, 1 / across.shape[1]], across.shape)[:, None]
            matrix[i, j] = matrix[j, i] = pool.divergences(source, target)[0] - bias[i] - bias[j]
        runtime.progress("classes", (i + 1) * (i + 2) // 2, count * (count + 1) // 2)
    return codes, matrix
