"""What chance does to a divergence: random halves, permutations and the bootstrap, all on one pooled kernel.

A divergence between samples of n and m images of one population is not 0. It falls like ``1/n + 1/m`` where samples are
large, and more slowly where they are so small that each image has a neighbourhood of its own. Halves and quarters of a
set show how, and a reference follows for every pair of sizes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.comparing.pooled import PooledKernel
from bispectral_ot.progress import Progress, silent

Vector = NDArray[np.float64]


class PermutationTest(NamedTuple):
    """How often a random relabelling of the pooled images gives a divergence as large as the one that was seen.

    Attributes
    ----------
    p_value : ``(k + 1) / (n + 1)`` for k of n permutations that reach the observed divergence
    observed : the divergence of the images that were tested
    permuted : (n,) those of the permutations
    """

    p_value: float
    observed: float
    permuted: Vector


class SamplingLaw(NamedTuple):
    """What sampling alone gives: two samples of n and m images of a population are at ``part(n) + part(m)`` on average.

    Attributes
    ----------
    constant, offset : ``part(n) = constant / (n + offset)``
    """

    constant: float
    offset: float

    def part(self, size: int) -> float:
        """What the sampling of one side adds."""
        return self.constant / (size + self.offset)


def sampling_law(kernel: PooledKernel, size: int, *, splits: int, random: np.random.Generator) -> SamplingLaw:
    """The law of a population, from random halves and quarters of the ``size`` images of the pool."""
    found = []
    for part in (size // 2, size // 4):
        parts = np.stack([random.permutation(size)[: 2 * part].reshape(2, part) for _ in range(splits)])
        source, target = (_uniform(size, parts[:, side]) for side in (0, 1))
        found.append(float(kernel.divergences(source, target).mean()))
    half, quarter = found
    # 1 where samples are too small for any law, 2 where the divergence falls like 1/n
    ratio = min(max(quarter / half, 1.1), 2.0) if half > 0 else 2.0
    offset = (size // 2) * (1 - ratio / 2) / (ratio - 1)
    return SamplingLaw(half * (size // 2 + offset) / 2, offset)


def permutation_test(
    kernel: PooledKernel,
    sizes: tuple[int, int],
    *,
    permutations: int,
    random: np.random.Generator,
    progress: Progress = silent,
) -> PermutationTest:
    """Test whether two sets are samples of one population; the pool has the images of the first set before the others.

    Examples
    --------
    >>> import numpy as np
    >>> points = np.concatenate([np.zeros(9), np.ones(9)]) + np.linspace(0, 0.1, 18)
    >>> kernel = PooledKernel((points[:, None] - points) ** 2, epsilon=0.1)
    >>> permutation_test(kernel, (9, 9), permutations=19, random=np.random.default_rng(0)).p_value
    0.05
    """
    n, total = sizes[0], sum(sizes)
    orders = np.stack([np.arange(total), *(random.permutation(total) for _ in range(permutations))])
    source, target = _uniform(total, orders[:, :n]), _uniform(total, orders[:, n:])
    found = kernel.divergences(source, target, progress=progress)
    observed, permuted = float(found[0]), found[1:]
    # relabellings that are the same up to equal images must count as reached
    slack = 1e-9 * (abs(observed) + kernel.epsilon)
    reached = int((permuted >= observed - slack).sum())
    return PermutationTest((reached + 1) / (permutations + 1), observed, permuted)


def bootstrap_deviations(
    kernel: PooledKernel,
    sizes: tuple[int, int],
    *,
    repeats: int,
    random: np.random.Generator,
    progress: Progress = silent,
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
    found = kernel.divergences(source, target, progress=progress)
    deviations: Vector = found - found.mean()
    return deviations


def _uniform(total: int, members: NDArray[np.int64]) -> Vector:
    """Weights (total, k) that are uniform on each row of ``members`` (k, size)."""
    weights = np.zeros((len(members), total))
    np.put_along_axis(weights, members, 1.0 / members.shape[1], axis=1)
    return weights.T
