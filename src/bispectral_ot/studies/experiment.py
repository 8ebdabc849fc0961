"""One experiment: features of two halves, cost, transport, and how many images keep their class."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bispectral_ot.costs import Cost, Storage
from bispectral_ot.datasets import Dataset
from bispectral_ot.matching import Match, class_preservation
from bispectral_ot.matching.features import FeatureMap, check_components, extract, plan_memory, reduce_features
from bispectral_ot.memory import peak_memory
from bispectral_ot.progress import Progress, silent
from bispectral_ot.runs import provenance
from bispectral_ot.studies.preset import Preset
from bispectral_ot.transport import ExactTransport, Sinkhorn


@dataclass(frozen=True)
class SharedFeatures:
    """Features of both halves, computed once for all metrics."""

    a: Dataset
    b: Dataset
    xa: Any
    xb: Any
    feature_map: FeatureMap
    storage: Storage
    seconds: float


@contextmanager
def shared_features(
    dataset: Dataset,
    setting: str,
    features: str,
    preset: Preset,
    *,
    working_memory: str | int | float | None = None,
    progress: Progress = silent,
) -> Iterator[SharedFeatures]:
    """Halves and features of a group of cells; in temporary memory maps where the budget asks for it."""
    start = time.perf_counter()
    a, b = preset.halves(dataset, setting)
    with extracted_features(
        a,
        b,
        preset.transformer(features),
        start=start,
        pca=preset.pca,
        working_memory=working_memory,
        progress=progress,
    ) as shared:
        yield shared


@contextmanager
def extracted_features(
    a: Dataset,
    b: Dataset,
    transformer: Any,
    *,
    start: float,
    pca: int | None = None,
    working_memory: str | int | float | None = None,
    progress: Progress = silent,
) -> Iterator[SharedFeatures]:
    """Features of two sides that are made already; their time is counted from ``start`` (``perf_counter``)."""
    transformer.fit(a.images)
    plan = plan_memory((len(a), len(b)), pca or transformer.n_features_out_, working_memory=working_memory)
    if pca is not None:
        check_components(pca, transformer, transformer.n_features_out_)
        reduced = reduce_features(transformer, a.images, b.images, transformer.feature_weights_, pca, progress=progress)
        feature_map = FeatureMap(transformer, weights=transformer.feature_weights_, projection=reduced.projection)
        seconds = time.perf_counter() - start
        yield SharedFeatures(a, b, reduced.xa, reduced.xb, feature_map, plan.storage, seconds)
        return
    with tempfile.TemporaryDirectory(prefix="bispectral-ot-") as scratch:
        files = [Path(scratch) / f"{side}.npy" if plan.mapped_features else None for side in "ab"]
        xa = extract(transformer, a.images, file=files[0], progress=progress)
        xb = extract(transformer, b.images, file=files[1], progress=progress)
        seconds = time.perf_counter() - start
        feature_map = FeatureMap(transformer, weights=transformer.feature_weights_)
        yield SharedFeatures(a, b, xa, xb, feature_map, plan.storage, seconds)


class TimedCost(NamedTuple):
    """A cost, and the seconds it took."""

    cost: Cost
    seconds: float


def compute_cost(shared: SharedFeatures, metric: Any, *, progress: Progress = silent) -> TimedCost:
    """The cost between the two halves, stored as the memory budget allows."""
    start = time.perf_counter()
    cost = shared.feature_map.cost(shared.xa, shared.xb, metric, storage=shared.storage, progress=progress)
    return TimedCost(cost, time.perf_counter() - start)


def compute_cell(
    shared: SharedFeatures,
    timed: TimedCost,
    config: dict[str, Any],
    *,
    inspect: Callable[[Match], None] = lambda match: None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Transport and class preservation; the time for features is that of all cells that share them.

    ``accuracy`` gives each image of A the class with most of its mass, the paper's rule;
    ``best_match_accuracy`` the class of its single best match. ``inspect`` is called with the match.
    """
    a, b, cost = shared.a, shared.b, timed.cost
    assert a.labels is not None
    assert b.labels is not None
    solver = (
        ExactTransport(on_failure="warn")
        if config.get("solver") == "exact"
        else Sinkhorn(reg=config["reg"], tol=config["tol"], on_failure="warn")
    )
    start = time.perf_counter()
    coupling = solver.solve(cost, progress=progress)
    solved = time.perf_counter()
    match = Match(
        coupling,
        source_labels=a.labels,
        target_labels=b.labels,
        settings={
            "rotate_source": config["setting"] == "rotated",
            "normalise": config["normalised"],
            "features": config["features"],
            "metric": config["metric"],
            "solver": repr(solver),
            "columns": int(shared.xa.shape[1]),
            "storage": cost.storage,
            "storage_error": cost.storage_error / cost.scale,
        },
        feature_map=shared.feature_map,
        progress=progress,
    )
    preserved = class_preservation(match, a.labels, b.labels)
    best = match.top_matches(k=1).indices[:, 0]
    seconds = {
        "features": shared.seconds,
        "cost": timed.seconds,
        "transport": solved - start,
        "summary": time.perf_counter() - solved,
    }
    match.seconds |= seconds
    match.memory["summary"] = peak_memory()
    inspect(match)
    return {
        "dataset": config["dataset"],
        "features": config["features"],
        "metric": config["metric"],
        "setting": config["setting"],
        "n_source": len(a),
        "n_target": len(b),
        "accuracy": preserved.accuracy,
        "best_match_accuracy": float((b.labels[best] == a.labels).mean()),
        "classes": [a.classes[label] for label in preserved.classes],
        "recall": preserved.recall,
        "confusion": preserved.confusion,
        "converged": match.converged,
        "marginal_error": match.marginal_error,
        "iterations": coupling.iterations,
        "transport_cost": match.distance,
        "targets_per_source": float(np.exp(coupling.entropy) / len(a)),
        "storage": cost.storage,
        "storage_error": cost.storage_error / cost.scale,
        "seconds": seconds,
        "peak_memory": peak_memory(),
        "config": config,
        "versions": provenance(),
    }
