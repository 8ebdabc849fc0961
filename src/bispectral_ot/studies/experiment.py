"""Experiments that share features: two sides, cost, transport, and how many images keep their class."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from bispectral_ot.costs import Cost
from bispectral_ot.datasets import Dataset
from bispectral_ot.matching import Match
from bispectral_ot.matching.features import FeaturePair, extracted_features
from bispectral_ot.matching.result import label_names
from bispectral_ot.matching.stages import Stages
from bispectral_ot.progress import Progress, silent
from bispectral_ot.report.tables import class_table
from bispectral_ot.runs import provenance
from bispectral_ot.transport import ExactTransport, Sinkhorn

Config = dict[str, Any]
Inspect = Callable[[Match, Dataset, Dataset, Config], None]


@dataclass(frozen=True)
class CellGroup:
    """Cells that share their two sides and the features of these.

    Attributes
    ----------
    configs : of the cells, those that share a cost next to each other
    sides : makes A and B, with labels
    transformer : gives the features
    pca : principal components that they are reduced to; None for all of the features
    """

    configs: list[Config]
    sides: Callable[[], tuple[Dataset, Dataset]]
    transformer: Any
    pca: int | None = None


def compute_cells(
    group: CellGroup,
    configs: list[Config],
    *,
    working_memory: str | int | float | None = None,
    inspect: Inspect = lambda match, a, b, config: None,
    progress: Progress = silent,
) -> Iterator[dict[str, Any]]:
    """Compute the cells of a group that ``configs`` asks for; features are extracted once, and a cost once a metric.

    ``accuracy`` gives each image of A the class with most of its mass, the paper's rule; ``best_match_accuracy`` the
    class of its single best match. ``seconds`` has the time for features and cost in every cell that shares them.
    ``peak_memory`` is the largest resident size of the process during these stages; where the system cannot measure
    it anew (not Linux), since the process began. ``inspect`` is called with each match before its cell is given.
    """
    stages = Stages(fresh=True)
    with ExitStack() as stack:
        with stages.measured("features"):
            a, b = group.sides()
            pair = stack.enter_context(
                extracted_features(
                    group.transformer,
                    a.images,
                    b.images,
                    pca=group.pca,
                    working_memory=working_memory,
                    solvers=[_solver(config) for config in configs],
                    progress=progress,
                )
            )
        for metric, members in groupby(configs, key=lambda config: config["metric"]):
            with stages.measured("cost"):
                cost = pair.cost(metric, progress=progress)
            for config in members:
                match = _solve(pair, cost, a, b, config, stages, progress)
                cell = _cell(match, a, b, config, stages)
                inspect(match, a, b, config)
                del match
                yield cell
            del cost  # the next one needs the room


def _solver(config: Config) -> ExactTransport | Sinkhorn:
    if config.get("solver") == "exact":
        return ExactTransport(on_failure="warn")
    return Sinkhorn(reg=config["reg"], tol=config["tol"], on_failure="warn")


def _solve(
    pair: FeaturePair, cost: Cost, a: Dataset, b: Dataset, config: Config, stages: Stages, progress: Progress
) -> Match:
    """Transport, with settings as :func:`~bispectral_ot.match` tells them."""
    solver = _solver(config)
    with stages.measured("transport"):
        coupling = solver.solve(cost, progress=progress)
    settings = {
        "symmetry": pair.feature_map.transformer.symmetry,
        "rotate_source": config["setting"] == "rotated",
        "features": config["features"],
        "metric": config["metric"],
        "solver": repr(solver),
        "normalize": config["normalized"],
        **pair.settings,
        "storage": cost.storage,
        "storage_error": cost.storage_error / cost.scale,
    }
    return Match(
        coupling,
        source_labels=label_names(a),
        target_labels=label_names(b),
        settings=settings,
        feature_map=pair.feature_map,
        progress=progress,
    )


def _cell(match: Match, a: Dataset, b: Dataset, config: Config, stages: Stages) -> dict[str, Any]:
    """What is kept of a match; its times and its memory become those of all stages."""
    with stages.measured("summary"):
        table = class_table(match, a, b)
        best = match.top_matches(k=1).indices[:, 0]
    assert table is not None
    assert b.labels is not None
    match.seconds |= stages.seconds
    match.memory |= stages.memory
    told = match.settings
    return {
        "dataset": config["dataset"],
        "features": config["features"],
        "metric": config["metric"],
        "setting": config["setting"],
        "n_source": len(a),
        "n_target": len(b),
        "columns": told["columns"],
        "kept_variance": told.get("kept_variance"),
        "accuracy": table.accuracy,
        "best_match_accuracy": float((b.labels[best] == a.labels).mean()),
        "classes": table.rows,
        "recall": [table.recall[name] for name in table.rows],
        "confusion": table.counts,
        "converged": match.converged,
        "marginal_error": match.marginal_error,
        "iterations": match.coupling.iterations,
        "transport_cost": match.distance,
        "targets_per_source": float(np.exp(match.coupling.entropy) / len(a)),
        "storage": told["storage"],
        "storage_error": told["storage_error"],
        "seconds": dict(stages.seconds),
        "peak_memory": max(stages.memory.values()),
        "config": config,
        "versions": provenance(),
    }
