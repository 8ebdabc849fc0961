"""Accuracy of the coupled bispectrum beside neighbours of its parameters: the table in docs/coupled.md.

``python benchmarks/coupled_neighbours.py [PART]`` (PART of a row's name; all rows by default, minutes) uses what the
parameters were chosen on: the first 20,000 training images of MNIST and Fashion-MNIST, seeds 11 and 12, 200 images a
class on each side, the sources turned. It needs their files (``BISPECTRAL_OT_DATA``).
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import bispectral_ot as bot

DATASETS, SEEDS, PER_CLASS = ("mnist", "fashion-mnist"), (11, 12), 200
COUPLED: dict[str, dict[str, Any]] = {
    "coupled bispectrum": {},
    "without edges": {"edge_weight": 0.0},
    "weight of edges 1": {"edge_weight": 1.0},
    "weight of edges 3": {"edge_weight": 3.0},
    "without triples": {"n_bands": 0},
    "triples times 1": {"triple_weight": 1.0},
    **{f"power {power}": {"power": power} for power in (0.35, 0.6, 0.7, 1.0)},
    "radius 1": {"radius": 1.0},
    "radius 1.1": {"radius": 1.1, "n_rings": 11},
    "radius 1.2": {"radius": 1.2, "n_rings": 12},
    "8 rings, frequency 7": {"n_rings": 8, "max_frequency": 7},
    "12 rings, frequency 12": {"n_rings": 12, "max_frequency": 12},
    "disk-harmonic": {"basis": "disk-harmonic"},
    "up to mirror images": {"symmetry": "rotation-reflection"},
}
# name: features, metric, whether the sources are turned
ROWS: dict[str, tuple[Any, str, bool]] = {
    "pixels, nothing turned, L1": (bot.Pixels(), "l1", False),
    "pixels, nothing turned": (bot.Pixels(), "sqeuclidean", False),
    "pixels, L1": (bot.Pixels(), "l1", True),
    "ring bispectrum, L1": (bot.RingBispectrum(), "l1", True),
    "coupled, L1": (bot.CoupledBispectrum(), "l1", True),
    **{name: (bot.CoupledBispectrum(**options), "sqeuclidean", True) for name, options in COUPLED.items()},
    "aligned": (bot.PolarSpectrum(), "sqeuclidean", True),
    "aligned, without edges": (bot.PolarSpectrum(edge_weight=0.0), "sqeuclidean", True),
}


def accuracy(dataset: str, features: Any, metric: Any, *, turned: bool) -> float:
    """Class preservation, mean of the seeds."""
    found = []
    for seed in SEEDS:
        a, b = bot.split_halves(bot.load(dataset).select(np.arange(20_000)), seed=seed, per_class=PER_CLASS)
        source = bot.rotate_randomly(a, seed=seed) if turned else a
        match = bot.match(source, b, features=features, metric=metric, solver=bot.Sinkhorn(tol=1e-3))
        found.append(bot.class_preservation(match, a.labels, b.labels).accuracy)
    return float(np.mean(found))


if __name__ == "__main__":
    part = " ".join(sys.argv[1:])
    for name, (features, metric, turned) in ROWS.items():
        if part in name:
            figures = [accuracy(dataset, features, metric, turned=turned) for dataset in DATASETS]
            print(name, *(f"{figure:.4f}" for figure in figures), flush=True)
