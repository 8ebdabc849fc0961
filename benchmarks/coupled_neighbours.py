"""Accuracy of the coupled bispectrum beside neighbours of its parameters: a table in docs/coupled.md.

``python benchmarks/coupled_neighbours.py [PART]`` (PART of a row's name; all rows by default, half an hour) uses what
the parameters were chosen on: the first 20,000 training images of MNIST and Fashion-MNIST, seeds 11 and 12, 200 images
a class on each side, the sources turned. It needs their files (``BISPECTRAL_OT_DATA``).
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import bispectral_ot as bot

DATASETS = ("mnist", "fashion-mnist")
ODD_EDGE_FIELDS = (3, 5)  # PolarSpectrum multiplies these by i
COUPLED: dict[str, dict[str, Any]] = {
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
    "coupled bispectrum": (bot.CoupledBispectrum(), "sqeuclidean", True),
    "coupled, L1": (bot.CoupledBispectrum(), "l1", True),
    **{
        f"coupled, {name}": (bot.CoupledBispectrum(**options), "sqeuclidean", True) for name, options in COUPLED.items()
    },
    "aligned": (bot.PolarSpectrum(), "sqeuclidean", True),
    "aligned, without edges": (bot.PolarSpectrum(edge_weight=0.0), "sqeuclidean", True),
    "aligned in L1": (bot.PolarSpectrum(), "l1", True),
    "aligned in L1, without edges": (bot.PolarSpectrum(edge_weight=0.0), "l1", True),
}


def accuracy(features: Any, metric: Any, source: bot.Dataset, target: bot.Dataset) -> float:
    """Class preservation with the features of a row."""
    match = bot.match(source, target, features=features, metric=metric, solver=bot.Sinkhorn(tol=1e-3))
    return bot.class_preservation(match).accuracy


def aligned_l1_accuracy(spectrum: bot.PolarSpectrum, source: bot.Dataset, target: bot.Dataset) -> float:
    """The same with ``min over rotations of |x - g y|_1`` of the fields on rings, by trying all rotations."""
    spectrum.fit(source.images)
    x, y = _fields(spectrum, source), _fields(spectrum, target)
    flat = x.reshape(len(x), -1)
    turned = (np.roll(y, shift, axis=2).reshape(len(y), -1) for shift in range(spectrum.n_angles))
    best = np.full((len(x), len(y)), np.inf, dtype=np.float32)
    for each in turned:
        np.minimum(best, bot.Cost(flat, each, "l1").block(0, len(x)), out=best)
    coupling = bot.Sinkhorn(tol=1e-3).solve(best)
    of_class = np.eye(10)[target.labels]
    return float(((coupling.to_dense() @ of_class).argmax(axis=1) == source.labels).mean())


def _fields(spectrum: bot.PolarSpectrum, dataset: bot.Dataset) -> Any:
    """Spectra back to fields on rings (n, fields * rings, n_angles)."""
    columns, index = spectrum.transform(dataset.images), spectrum.index_map_
    shape = (len(columns), index["frequency"].max() + 1, 2, index["field"].max() + 1, spectrum.n_rings)
    parts = columns.reshape(shape)
    coefficients = parts[:, :, 0] + 1j * parts[:, :, 1]
    for field in ODD_EDGE_FIELDS:
        if field < coefficients.shape[2]:
            coefficients[:, :, field] /= 1j
    coefficients[:, 1:] /= np.sqrt(2)
    fields = np.fft.irfft(coefficients, n=spectrum.n_angles, axis=1)
    return fields.transpose(0, 2, 3, 1).reshape(len(columns), -1, spectrum.n_angles).astype(np.float32)


def halves(name: str, *, seed: int, per_class: int, turned: bool) -> tuple[bot.Dataset, bot.Dataset]:
    """Sources (turned or not) and targets."""
    a, b = bot.split_halves(bot.load(name).select(np.arange(20_000)), seed=seed, per_class=per_class)
    return bot.rotate_randomly(a, seed=seed) if turned else a, b


def main() -> None:
    """Print a row of a Markdown table for each choice: its name, columns, and the mean over the seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help="parts of the names of the rows to print; all by default"
    )
    parser.add_argument("--per-class", type=int, default=200)
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12])
    options = parser.parse_args()
    print("| | columns | " + " | ".join(DATASETS) + " |", "|---|---:|---:|---:|", sep="\n", flush=True)
    for name, (features, metric, turned) in ROWS.items():
        if options.parts and not any(part in name for part in options.parts):
            continue
        figures = []
        for dataset in DATASETS:
            pairs = [halves(dataset, seed=s, per_class=options.per_class, turned=turned) for s in options.seeds]
            if isinstance(features, bot.PolarSpectrum) and metric == "l1":
                found = [aligned_l1_accuracy(features, *pair) for pair in pairs]
            else:
                found = [accuracy(features, metric, *pair) for pair in pairs]
            figures.append(f"{np.mean(found):.4f}")
        columns = features.fit_transform(pairs[0][0].images[:2]).shape[1]
        print("| " + " | ".join([name, f"{columns:,}", *figures]) + " |", flush=True)


if __name__ == "__main__":
    main()
