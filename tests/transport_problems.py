"""Small transport problems, some with known answers."""

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.costs import Cost


def points(n: int, *, seed: int = 0, columns: int = 2) -> NDArray[np.float32]:
    """Points (n, columns), uniform in the unit cube."""
    return np.random.default_rng(seed).uniform(size=(n, columns)).astype(np.float32)


def weights(n: int, *, seed: int = 0, zeros: int = 0) -> NDArray[np.float64]:
    """Weights (n,) that sum to one, a few of them 0."""
    generator = np.random.default_rng(seed)
    values = generator.uniform(0.2, 1.0, size=n)
    values[generator.permutation(n)[:zeros]] = 0.0
    return values / values.sum()


def problem(n: int = 60, m: int = 45, *, seed: int = 0, metric: str = "sqeuclidean", **options) -> Cost:
    """The cost between two clouds of points."""
    return Cost(points(n, seed=seed), points(m, seed=seed + 1), metric, **options)


def scaled(cost: Cost) -> NDArray[np.float64]:
    """The cost divided by its scale, which ``reg`` is relative to, in double precision."""
    return cost.block(0, cost.shape[0]).astype(np.float64) / cost.scale


def marginal_error(plan: NDArray, p: NDArray, q: NDArray) -> float:
    """``|P 1 - p|_1 + |P^T 1 - q|_1``."""
    return float(np.abs(plan.sum(axis=1) - p).sum() + np.abs(plan.sum(axis=0) - q).sum())
