"""Accuracy of the global bispectrum relative to neighbours of its parameters.

Uses what the parameters were chosen on: the first 20,000 training images of MNIST and Fashion-MNIST, seeds 11 and 12,
the sources turned. Half an hour at full size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import bispectral_ot as bot
from benchmarks.setting import Setting
from benchmarks.tables import Table
from bispectral_ot.features import Pixels, PolarSpectrum

DATASETS = ("mnist", "fashion-mnist")
SEEDS = (11, 12)
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
    "up to mirror images": {"symmetry": "rotation-reflection"},
}
# name: features, metric, whether the sources are turned
ROWS: dict[str, tuple[Any, str, bool]] = {
    "pixels, nothing rotated, L1": (Pixels(), "l1", False),
    "pixels, nothing rotated": (Pixels(), "sqeuclidean", False),
    "pixels, L1": (Pixels(), "l1", True),
    "ring bispectrum, L1": (bot.RingBispectrum(), "l1", True),
    "global bispectrum": (bot.GlobalBispectrum(), "sqeuclidean", True),
    "global, L1": (bot.GlobalBispectrum(), "l1", True),
    **{f"global, {name}": (bot.GlobalBispectrum(**options), "sqeuclidean", True) for name, options in COUPLED.items()},
    "best rotation": (PolarSpectrum(), "sqeuclidean", True),
    "best rotation, without edges": (PolarSpectrum(edge_weight=0.0), "sqeuclidean", True),
    "best rotation in L1": (PolarSpectrum(), "l1", True),
    "best rotation in L1, without edges": (PolarSpectrum(edge_weight=0.0), "l1", True),
}
ROWS_OF_INTEREST = [
    "global bispectrum",
    "global, without triples",
    "global, triples times 1",
    "global, power 0.6",
    "global, power 0.7",
    *(name for name in ROWS if name.startswith("best rotation")),
]


def accuracy(features: Any, metric: Any, source: bot.Dataset, target: bot.Dataset) -> float:
    """Class preservation with the features of a row."""
    options = {"features": features, "metric": metric, "marginals": "balanced"}
    match = bot.match(source, target, **options, solver=bot.Sinkhorn(tol=1e-3))
    return bot.class_preservation(match).accuracy


def aligned_l1_accuracy(spectrum: PolarSpectrum, source: bot.Dataset, target: bot.Dataset) -> float:
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


def _fields(spectrum: PolarSpectrum, dataset: bot.Dataset) -> Any:
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


def training_images(name: str, root: Path | None) -> bot.Dataset:
    """What parameters may be chosen on."""
    return bot.load(name, root=root).select(np.arange(20_000))


def halves(name: str, root: Path | None, *, seed: int, per_class: int, turned: bool) -> tuple[bot.Dataset, bot.Dataset]:
    """Sources (turned or not) and targets."""
    source, target = bot.split_halves(training_images(name, root), seed=seed, per_class=per_class)
    return bot.rotate_randomly(source, seed=seed) if turned else source, target


def measure(setting: Setting) -> Iterator[Table]:
    """All rows at the first size, those of interest with one seed at the others."""
    first, *others = setting.sizes.neighbours
    yield _table(list(ROWS), per_class=first, seeds=SEEDS, root=setting.root)
    for per_class in others:
        yield _table(ROWS_OF_INTEREST, per_class=per_class, seeds=SEEDS[:1], root=setting.root)


def _table(names: Sequence[str], *, per_class: int, seeds: Sequence[int], root: Path | None) -> Table:
    rows = []
    for name in names:
        features, metric, turned = ROWS[name]
        aligned_l1 = isinstance(features, PolarSpectrum) and metric == "l1"
        row: dict[str, Any] = {"features": name}
        for dataset in DATASETS:
            pairs = [halves(dataset, root, seed=seed, per_class=per_class, turned=turned) for seed in seeds]
            row["columns"] = features.fit_transform(pairs[0][0].images[:2]).shape[1]
            row[dataset] = float(
                np.mean(
                    [
                        aligned_l1_accuracy(features, *pair) if aligned_l1 else accuracy(features, metric, *pair)
                        for pair in pairs
                    ]
                )
            )
        rows.append(row)
    n = 10 * per_class
    note = (
        f"Class preservation, {n:,} x {n:,} images, mean of the seeds {', '.join(map(str, seeds))}, tolerance 1e-3; "
        "squared Euclidean and rotated sources unless it says otherwise."
    )
    title = f"Neighbours of the global bispectrum, {n:,} x {n:,}"
    return Table(title, note, ["features", "columns", *DATASETS], rows, digits=4)
