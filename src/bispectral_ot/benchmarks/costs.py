"""Distances: L1, L2 and cosine against SciPy, scikit-learn and torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.benchmarks.setting import Setting, turned_halves
from bispectral_ot.benchmarks.tables import Table
from bispectral_ot.benchmarks.timing import median_seconds, missing
from bispectral_ot.costs import Cost, Metric
from bispectral_ot.engines import core_count
from bispectral_ot.invariants import RingBispectrum

Features = NDArray[np.float32]
Distances = Callable[[Features, Features], Any]

_OURS = "bispectral-ot"
_METRICS: tuple[Metric, ...] = ("l1", "l2", "cosine")
_COLUMNS = ["metric", "method", "columns", "seconds", "G terms/s", "ratio", "difference"]


def bench_costs(setting: Setting) -> list[Table]:
    """Same features for all; then our folded features against everybody's unfolded ones."""
    sizes, digits = setting.sizes, setting.digits
    skipped = [f"{name} (not installed)" for name in missing(["torch"])]
    tables = []
    for index, (n, fold_theirs) in enumerate([(sizes.cost, True), (sizes.unfolded_cost, False)]):
        a, b = turned_halves(digits, n)
        ours = RingBispectrum().fit(a.images)
        theirs = ours if fold_theirs else RingBispectrum(folded=False).fit(a.images)
        rows = []
        for step, metric in enumerate(_METRICS):
            rows += _compare(
                metric,
                (ours.transform(a.images), ours.transform(b.images)),
                ours.feature_weights_,
                (theirs.transform(a.images), theirs.transform(b.images)),
                theirs.feature_weights_,
                repeats=min(3, sizes.repeats),
            )
            setting.progress("costs", index * len(_METRICS) + step + 1, 2 * len(_METRICS))
        title = "same features" if fold_theirs else "folded (ours) against unfolded (theirs), same distances"
        note = (
            f"{len(a):,} x {len(b):,} distances between ring bispectra, {title}. Terms: pairs times columns; SciPy has "
            f"no threads, the others got {core_count()}. The multiplicities of folded columns were multiplied into "
            "the peers' features beforehand. Difference: largest one from our distances, as a share of the maximum."
        )
        tables.append(Table(f"Distances, {title}", note, _COLUMNS, rows, skipped))
    return tables


def peers(metric: Metric) -> dict[str, Distances]:
    """What a user would call instead, by name; those that are not installed are left out."""
    from scipy.spatial.distance import cdist
    from sklearn.metrics import pairwise_distances

    scipy_name: Any = {"l1": "cityblock", "l2": "euclidean"}.get(metric, metric)
    sklearn_name = {"l1": "manhattan", "l2": "euclidean"}.get(metric, metric)
    methods: dict[str, Distances] = {
        "SciPy cdist": lambda x, y: cdist(x, y, scipy_name),
        "scikit-learn": lambda x, y: pairwise_distances(x, y, metric=sklearn_name, n_jobs=core_count()),
    }
    if not missing(["torch"]):
        methods["torch (CPU)"] = lambda x, y: _torch_distances(metric, x, y)
    return methods


def _torch_distances(metric: Metric, x: Features, y: Features) -> Any:
    torch = import_module("torch")
    tx, ty = torch.from_numpy(x), torch.from_numpy(y)
    if metric != "cosine":
        return torch.cdist(tx, ty, p=1.0 if metric == "l1" else 2.0).numpy()
    unit = torch.nn.functional.normalize
    return (1 - unit(tx) @ unit(ty).T).numpy()


def _compare(
    metric: Metric,
    our_features: tuple[Features, Features],
    our_weights: Features,
    their_features: tuple[Features, Features],
    their_weights: Features,
    *,
    repeats: int,
) -> list[dict[str, Any]]:
    xa, xb = our_features
    scale = their_weights if metric == "l1" else np.sqrt(their_weights)
    ya, yb = (x * scale for x in their_features)

    def ours(x: Features, y: Features) -> Any:
        return Cost(x, y, metric, weights=our_weights, storage="float32").block(0, len(x))

    works: dict[str, Callable[[], Any]] = {_OURS: lambda: ours(xa, xb)}
    for name, method in peers(metric).items():
        method(ya[:16], yb[:16])  # libraries are loaded
        works[name] = partial(method, ya, yb)
    truth = ours(xa, xb)
    differences: dict[str, float] = {}

    def check(name: str, distances: Any) -> None:
        differences[name] = float(np.abs(distances - truth).max() / truth.max())

    seconds = median_seconds(works, repeats=repeats, check=check)
    columns = {name: xa.shape[1] if name == _OURS else ya.shape[1] for name in works}
    return [
        {
            "metric": metric,
            "method": name,
            "columns": columns[name],
            "seconds": seconds[name],
            "G terms/s": len(xa) * len(xb) * columns[name] / seconds[name] / 1e9,
            "ratio": seconds[name] / seconds[_OURS],
            "difference": differences[name],
        }
        for name in works
    ]
