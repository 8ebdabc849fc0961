"""Costs of every storage, and the passes over them written out entry by entry."""

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.costs import STORAGES, Cost

KINDS = [*STORAGES, "float64"]
# one block of each kind, and several blocks
COSTS = [*((kind, (40, 31)) for kind in KINDS), ("float32", (300, 130))]


def random_cost(kind: str, shape: tuple[int, int]) -> Cost:
    """Squared distances of random points; ``"float64"`` is a given matrix."""
    n, m = shape
    generator = np.random.default_rng(n)
    source, target = generator.uniform(size=(n, 3)), generator.uniform(size=(m, 3))
    if kind == "float64":
        return Cost.from_matrix(((source[:, None] - target) ** 2).sum(axis=2))
    return Cost(source.astype(np.float32), target.astype(np.float32), "sqeuclidean", storage=kind)


def entries(cost: Cost) -> NDArray[np.float64]:
    """The cost (n, m) in double precision."""
    return cost.block(0, cost.shape[0]).astype(np.float64)


def exponent_error(cost: Cost, unit: float) -> float:
    """Rounding of an exponent: ``block`` decodes 16 bits in float32, and BLAS rounds otherwise in other blocks."""
    return unit * 2.0**-21 * cost.maximum if cost.storage in ("compact", "recompute") else 1e-12


def sweep(costs, f, g, weights, unit, damping=1.0):
    """``f = log2(w) - damping * log2(sum 2^(g - unit C))``; sums of ``2^(f + g - unit C)``."""
    n, m = costs.shape
    new, sums = f.copy(), np.zeros(m)
    for i in range(n):
        if weights[i] > 0:
            exponents = [g[j] - unit * costs[i, j] for j in range(m)]
            new[i] = np.log2(weights[i]) - damping * np.logaddexp2.reduce(exponents)
            for j in range(m):
                sums[j] += 2.0 ** (new[i] + exponents[j])
    return new, sums


def plan(costs, f, g, unit):
    """``P = 2^(f + g - unit C)``."""
    return np.exp2(f[:, None] + g - unit * costs)
