"""Distances: L1, L2 and cosine against SciPy, scikit-learn and torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.literal import literal_features
from benchmarks.setting import Setting, turned_halves
from benchmarks.tables import Table
from benchmarks.timing import median_seconds, missing
from bispectral_ot.costs import Cost, Metric
from bispectral_ot.engines import core_count
from bispectral_ot.features import RingBispectrum

Features = NDArray[np.float32]
Distances = Callable[[Features, Features], Any]

_OURS = "bispectral-ot"
_METRICS: tuple[Metric, ...] = ("l1", "l2", "cosine")
_COLUMNS = ["metric", "method", "columns", "seconds", "G terms/s", "ratio", "difference"]


def measure(setting: Setting) -> Iterator[Table]:
    """Same features for all; then our folded features against everybody's unfolded ones."""
    sizes, digits = setting.sizes, setting.digits
    skipped = [f"{name} (not installed)" for name in missing(["torch"])]
    for n, fold_theirs in ((sizes.cost, True), (sizes.unfolded_cost, False)):
        source, target = turned_halves(digits, n)
        ring = RingBispectrum(sampling="nearest").fit(source.images)
        ours = ring.transform(source.images), ring.transform(target.images)
        theirs = ours if fold_theirs else (literal_features(source.images), literal_features(target.images))
        weights = ring.feature_weights_ if fold_theirs else np.ones(theirs[0].shape[1], dtype=np.float32)
        rows = []
        for metric in _METRICS:
            rows += _compare(
                metric,
                ours,
                ring.feature_weights_,
                theirs,
                weights,
                repeats=min(3, sizes.repeats),
            )
        title = "same features" if fold_theirs else "folded (ours) against unfolded (theirs), same distances"
        note = (
            f"{len(source):,} x {len(target):,} distances between ring bispectra, {title}. Terms: pairs times columns; "
            f"SciPy has no threads, the others got {core_count()}. The multiplicities of folded columns were "
            "multiplied into the peers' features beforehand. Difference: largest one from our distances, as a share "
            "of the maximum."
        )
        yield Table(f"Distances, {title}", note, _COLUMNS, rows, skipped)


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
    x, y = our_features
    scale = their_weights if metric == "l1" else np.sqrt(their_weights)
    their_x, their_y = (features * scale for features in their_features)

    def ours(x: Features, y: Features) -> Any:
        return Cost(x, y, metric, weights=our_weights, storage="float32").block(0, len(x))

    works: dict[str, Callable[[], Any]] = {_OURS: lambda: ours(x, y)}
    for name, method in peers(metric).items():
        method(their_x[:16], their_y[:16])  # libraries are loaded
        works[name] = partial(method, their_x, their_y)
    truth = ours(x, y)
    differences: dict[str, float] = {}

    def check(name: str, distances: Any) -> None:
        differences[name] = float(np.abs(distances - truth).max() / truth.max())

    seconds = median_seconds(works, repeats=repeats, check=check)
    columns = {name: x.shape[1] if name == _OURS else their_x.shape[1] for name in works}
    return [
        {
            "metric": metric,
            "method": name,
            "columns": columns[name],
            "seconds": seconds[name],
            "G terms/s": len(x) * len(y) * columns[name] / seconds[name] / 1e9,
            "ratio": seconds[name] / seconds[_OURS],
            "difference": differences[name],
        }
        for name in works
    ]
