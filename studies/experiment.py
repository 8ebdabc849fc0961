"""Experiments that share features: two sides, cost, transport, and how many images keep their class."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from bispectral_ot import runtime
from bispectral_ot.costs import Cost
from bispectral_ot.datasets import Dataset
from bispectral_ot.engines import Engine
from bispectral_ot.features import FittedFeatures, choose_features
from bispectral_ot.matching import Match, class_table
from bispectral_ot.matching.match import match_settings
from bispectral_ot.matching.result import label_names
from bispectral_ot.matching.timing import Stages
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
    sides : makes source and target, with labels
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
    engine: Engine | None = None,
    inspect: Inspect = lambda match, source, target, config: None,
) -> Iterator[dict[str, Any]]:
    """Compute the cells of a group that ``configs`` asks for; features are extracted once, and a cost once a metric.

    ``accuracy`` gives each source image the class with most of its mass, the paper's rule; ``best_match_accuracy`` the
    class of its single best match. ``seconds`` has the time for features and cost in every cell that shares them.
    ``peak_memory`` is the largest resident size of the process during these stages; where the system cannot measure
    it anew (not Linux), since the process began. ``inspect`` is called with each match before its cell is given;
    ``engine`` is where features, costs and passes are computed.
    """
    stages = Stages(fresh=True)
    with stages.measured("features"):
        source, target = group.sides()
        shape = len(source), len(target)
        with runtime.running(memory=working_memory, engine=engine):
            space = FittedFeatures(
                [source, target],
                choose_features(group.transformer, metric=configs[0]["metric"]),
                normalize=False,  # the sides come as the study wants them
                pca=group.pca,
                solver_bytes=max(_solver(config).extra_bytes(shape) for config in configs),
            )
    with space:
        for metric, members in groupby(configs, key=lambda config: config["metric"]):
            with stages.measured("cost"):
                cost = space.cost(0, 1, metric=metric)
            for config in members:
                match = _solve(space, cost, source, target, config, stages)
                cell, match = _cell(match, source, target, config, stages)
                inspect(match, source, target, config)
                del match
                yield cell
            del cost  # the next one needs the room


def _solver(config: Config) -> ExactTransport | Sinkhorn:
    if config.get("solver") == "exact":
        return ExactTransport()
    return Sinkhorn(reg=config["reg"], tol=config["tol"])


def _solve(
    space: FittedFeatures,
    cost: Cost,
    source: Dataset,
    target: Dataset,
    config: Config,
    stages: Stages,
) -> Match:
    """Transport, with settings as :func:`~bispectral_ot.match` has them."""
    solver = _solver(config)
    with stages.measured("transport"):
        coupling = solver.solve(cost)
    settings = match_settings(space, cost, solver) | {
        "rotate_source": config["setting"] == "rotated",
        "features": config["features"],
        "normalize": config["normalized"],
    }
    return Match(
        coupling,
        source=source,
        target=target,
        source_labels=label_names(source),
        target_labels=label_names(target),
        settings=settings,
        feature_map=space.feature_map,
    )


def _cell(
    match: Match, source: Dataset, target: Dataset, config: Config, stages: Stages
) -> tuple[dict[str, Any], Match]:
    """What is kept of a match, and the match with the times and the memory of all stages."""
    with stages.measured("summary"):
        table = class_table(match)
        best = match.top_matches(k=1).indices[:, 0]
    assert table is not None
    assert target.labels is not None
    match = replace(match, seconds=dict(stages.seconds), memory=dict(stages.memory))
    settings = match.settings
    cell = {
        "dataset": config["dataset"],
        "features": config["features"],
        "metric": config["metric"],
        "setting": config["setting"],
        "n_source": len(source),
        "n_target": len(target),
        "columns": settings["columns"],
        "kept_variance": settings.get("kept_variance"),
        "accuracy": table.accuracy,
        "best_match_accuracy": float((target.labels[best] == source.labels).mean()),
        "classes": table.rows,
        "recall": [table.recall[name] for name in table.rows],
        "confusion": table.counts,
        "converged": match.converged,
        "marginal_error": match.marginal_error,
        "iterations": match.coupling.iterations,
        "transport_cost": match.distance,
        "targets_per_source": float(np.exp(match.coupling.entropy) / len(source)),
        "storage": settings["storage"],
        "storage_error": settings["storage_error"],
        "seconds": dict(stages.seconds),
        "peak_memory": max(stages.memory.values()),
        "config": config,
        "versions": provenance(),
    }
    return cell, match
