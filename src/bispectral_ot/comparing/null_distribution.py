"""What chance does to a divergence: random halves, permutations and the bootstrap, all on one pool of images.

A divergence between samples of n and m images of one population is not 0. It falls like ``1/n + 1/m`` where samples are
large, and more slowly where they are so small that each image has a neighbourhood of its own. Halves and quarters of a
set show how, and a reference follows for every pair of sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.transport.batched_sinkhorn import Pool

Vector = NDArray[np.float64]
# Of the kernels of a test, in medians of the cost: wide ones see means, narrow ones what happens near each image.
WIDTHS = (0.25, 0.5, 1.0)


class PermutationTest(NamedTuple):
    """How often a random relabelling of the pooled images looks as different as the two sets do.

    Attributes
    ----------
    p_value : ``(k + 1) / (n + 1)`` for k of n permutations that reach the observed statistic
    observed : the statistic of the images that were tested
    permuted : (n,) those of the permutations
    """

    p_value: float
    observed: float
    permuted: Vector


@dataclass(frozen=True)
class SamplingBias:
    """Sampling bias: two samples of n and m images of a population are at ``part(n) + part(m)`` on average.

    Attributes
    ----------
    constant, offset : ``part(n) = constant / (n + offset)``
    """

    constant: float
    offset: float

    def part(self, size: int) -> float:
        """Bias of one side."""
        return self.constant / (size + self.offset)


def sampling_bias(pool: Pool, size: int, *, splits: int, random: np.random.Generator) -> SamplingBias:
    """Sampling bias of a population, from random halves and quarters of the ``size`` images of the pool."""
    found = []
    for part in (size // 2, size // 4):
        parts = np.stack([random.permutation(size)[: 2 * part].reshape(2, part) for _ in range(splits)])
        source, target = (_uniform(size, parts[:, side]) for side in (0, 1))
        found.append(float(pool.divergences(source, target).mean()))
    half, quarter = found
    # 1 where samples are too small for any law, 2 where the divergence falls like 1/n
    ratio = min(max(quarter / half, 1.1), 2.0) if half > 0 else 2.0
    offset = (size // 2) * (1 - ratio / 2) / (ratio - 1)
    return SamplingBias(half * (size // 2 + offset) / 2, offset)


def permutation_test(
    costs: NDArray[np.floating],
    pool: Pool,
    sizes: tuple[int, int],
    *,
    permutations: int,
    random: np.random.Generator,
) -> PermutationTest:
    """Test whether two sets are samples of one population.

    The divergence sees that mass has to move; a change of every image in all directions, as by noise, it hardly sees
    in few images. So the statistic is the largest of several: the divergence, and the distances of the mean embeddings
    (MMD) by kernels ``exp(-C / width)`` of some widths, each relative to its spread over all relabellings. As
    relabellings are treated alike, the test is exact.

    Parameters
    ----------
    costs
        (N, N) between all images: those of the first set come before the others.
    pool
        Their divergences.
    sizes
        Images of the two sets.

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.transport.batched_sinkhorn import BatchedSinkhorn
    >>> points = np.concatenate([np.zeros(9), np.ones(9)]) + np.linspace(0, 0.1, 18)
    >>> costs = (points[:, None] - points) ** 2
    >>> pool = BatchedSinkhorn(costs, epsilon=0.1)
    >>> permutation_test(costs, pool, (9, 9), permutations=19, random=np.random.default_rng(0)).p_value
    0.05
    """
    n, total = sizes[0], sum(sizes)
    orders = np.stack([np.arange(total), *(random.permutation(total) for _ in range(permutations))])
    source, target = _uniform(total, orders[:, :n]), _uniform(total, orders[:, n:])
    found = [pool.divergences(source, target), *mean_embeddings(costs, source - target, WIDTHS)]
    largest = statistic(found)
    observed, permuted = float(largest[0]), largest[1:]
    # relabellings that are the same up to equal images must count as reached
    reached = int((permuted >= observed - 1e-9).sum())
    return PermutationTest((reached + 1) / (permutations + 1), observed, permuted)


def mean_embeddings(costs: NDArray[np.floating], differences: Vector, widths: Sequence[float]) -> list[Vector]:
    """Squared distances (k,) of mean embeddings by ``exp(-C / (width * median of C))``, for each of the widths.

    ``differences`` (N, k) are the weights of one side less those of the other.
    """
    median = float(np.median(costs[~np.eye(len(costs), dtype=bool)])) or 1.0
    found = []
    for width in widths:
        kernel = np.exp(-costs / (width * median))
        found.append((differences * (kernel @ differences)).sum(axis=0))
    return found


def statistic(found: Sequence[Vector]) -> Vector:
    """The largest of several statistics of each relabelling, relative to the spread of each over all of them."""
    largest: Vector = np.max([_standardized(each) for each in found], axis=0)
    return largest


def _standardized(values: Vector) -> Vector:
    spread = values.std()
    # equal up to rounding: nothing to see
    return (values - values.mean()) / spread if spread > 1e-9 * np.abs(values).max() else np.zeros_like(values)


def bootstrap_deviations(
    pool: Pool,
    sizes: tuple[int, int],
    *,
    repeats: int,
    random: np.random.Generator,
) -> Vector:
    """How far divergences of resampled sets (repeats,) are from their mean.

    Resampling adds the noise of a second sampling to every divergence, so that their mean is too large: only
    the deviations from it tell something about the one that was observed.
    """
    n, m = sizes
    source = np.zeros((n + m, repeats))
    target = np.zeros((n + m, repeats))
    source[:n] = random.multinomial(n, np.full(n, 1 / n), size=repeats).T / n
    target[n:] = random.multinomial(m, np.full(m, 1 / m), size=repeats).T / m
    found = pool.divergences(source, target)
    deviations: Vector = found - found.mean()
    return deviations


def _uniform(total: int, members: NDArray[np.int64]) -> Vector:
    """Weights (total, k) that are uniform on each row of ``members`` (k, size)."""
    weights = np.zeros((len(members), total))
    np.put_along_axis(weights, members, 1.0 / members.shape[1], axis=1)
    return weights.T
