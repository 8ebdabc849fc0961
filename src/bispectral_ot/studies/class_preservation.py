"""The paper's main experiment: how many images are mapped to their own class, cell by cell, resumable."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bispectral_ot.costs import METRICS, Cost, Storage
from bispectral_ot.datasets import Dataset, load
from bispectral_ot.errors import InputError
from bispectral_ot.matching import Match, class_preservation
from bispectral_ot.matching.features import extract, plan_memory
from bispectral_ot.memory import peak_memory
from bispectral_ot.progress import Progress, silent
from bispectral_ot.runs import provenance, write_json, write_text
from bispectral_ot.studies.cells import CellStore
from bispectral_ot.studies.preset import SETTINGS, Preset, check_names
from bispectral_ot.studies.tables import accuracy_table
from bispectral_ot.transport import Sinkhorn

Report = Callable[[dict[str, Any]], None]
TABLES = {"rotated": "table1.md", "baseline": "table2.md"}


@dataclass(frozen=True)
class SharedFeatures:
    """Features of both halves, computed once for all metrics."""

    a: Dataset
    b: Dataset
    xa: Any
    xb: Any
    weights: Any
    storage: Storage
    seconds: float


def run_class_preservation(
    datasets: list[str],
    out: str | Path,
    *,
    features: list[str],
    metrics: list[str],
    settings: list[str],
    preset: Preset | None = None,
    root: str | Path | None = None,
    working_memory: str | int | float | None = None,
    overwrite: bool = False,
    progress: Progress = silent,
    report: Report = lambda cell: None,
) -> list[dict[str, Any]]:
    """Compute every cell datasets x settings x features x metrics that ``out`` does not have yet.

    Each cell is saved as it ends, with ``results.json`` and the two tables brought up to date; a run that was
    stopped goes on where it was. Cells of earlier calls with other datasets or features stay in the results.

    Parameters
    ----------
    datasets
        Names or paths, as :func:`~bispectral_ot.load` takes them; labels are needed.
    out
        Folder of the run.
    features, metrics, settings
        Names; settings are ``"rotated"`` and ``"baseline"``.
    preset
        Every other choice; the paper's by default.
    overwrite
        Compute again what was saved with other choices, which is refused otherwise.
    progress
        Called with the stages of a cell, and as ``progress("cells", done, total)``.
    report
        Called with each cell as it ends.

    Returns
    -------
    list of dict
        All cells of the run, as in ``results.json``.
    """
    preset = preset or Preset()
    check_names("metrics", metrics, METRICS)
    check_names("settings", settings, SETTINGS)
    folder = Path(out)
    store = CellStore(folder / "cells")
    groups = []
    # everything is read and checked before the first hour is spent
    for dataset in _load_labelled(datasets, root):
        for setting in settings:
            for name in features:
                configs = preset.cell_configs(dataset, name, setting, metrics)
                saved = [store.find(config, overwrite=overwrite) for config in configs]
                todo = [config for config, cell in zip(configs, saved, strict=True) if cell is None]
                groups.append((dataset, setting, name, todo))
    total = len(datasets) * len(settings) * len(features) * len(metrics)
    done = total - sum(len(todo) for *_, todo in groups)
    progress("cells", done, total)
    for dataset, setting, name, todo in groups:
        if not todo:
            continue
        with shared_features(
            dataset, setting, name, preset, working_memory=working_memory, progress=progress
        ) as shared:
            for config in todo:
                cell = compute_cell(shared, config, progress=progress)
                store.save(cell)
                write_summary(folder, store.all())
                done += 1
                progress("cells", done, total)
                report(cell)
    cells = store.all()
    write_summary(folder, cells)
    return cells


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
    transformer = preset.transformer(features).fit(a.images)
    shape = len(a), len(b)
    plan = plan_memory(shape, transformer.n_features_out_, working_memory=working_memory)
    with tempfile.TemporaryDirectory(prefix="bispectral-ot-") as scratch:
        files = [Path(scratch) / f"{side}.npy" if plan.mapped_features else None for side in "ab"]
        xa = extract(transformer, a.images, file=files[0], progress=progress)
        xb = extract(transformer, b.images, file=files[1], progress=progress)
        seconds = time.perf_counter() - start
        yield SharedFeatures(a, b, xa, xb, transformer.feature_weights_, plan.storage, seconds)


def compute_cell(
    shared: SharedFeatures, config: dict[str, Any], *, progress: Progress = silent
) -> dict[str, Any]:
    """Cost, transport and class preservation of one cell; the time for features is that of its group."""
    a, b = shared.a, shared.b
    assert a.labels is not None
    assert b.labels is not None
    marks = [time.perf_counter()]
    cost = Cost(
        shared.xa,
        shared.xb,
        config["metric"],
        weights=shared.weights,
        storage=shared.storage,
        progress=progress,
    )
    marks.append(time.perf_counter())
    solver = Sinkhorn(reg=config["reg"], tol=config["tol"], on_failure="warn")
    coupling = solver.solve(cost, progress=progress)
    marks.append(time.perf_counter())
    match = Match(coupling, source_labels=a.labels, target_labels=b.labels, progress=progress)
    preserved = class_preservation(match, a.labels, b.labels)
    best = match.top_matches(k=1).indices[:, 0]
    marks.append(time.perf_counter())
    stages = dict(zip(("cost", "transport", "summary"), np.diff(marks).tolist(), strict=True))
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
        "storage": cost.storage,
        "storage_error": cost.storage_error / cost.scale,
        "seconds": {"features": shared.seconds, **stages},
        "peak_memory": peak_memory(),
        "config": config,
        "versions": provenance(),
    }


def write_summary(folder: Path, cells: list[dict[str, Any]]) -> None:
    """Write ``results.json`` and a table for each setting that has cells."""
    write_json(folder / "results.json", {"cells": cells})
    for setting, file in TABLES.items():
        if any(cell["setting"] == setting for cell in cells):
            write_text(folder / file, accuracy_table(cells, setting))


def _load_labelled(names: list[str], root: str | Path | None) -> list[Dataset]:
    if not names:
        raise InputError("no dataset given; name one or more with --datasets, for example mnist,kmnist.")
    loaded = [load(name, root=root) for name in names]
    for dataset in loaded:
        if dataset.labels is None:
            raise InputError(f"{dataset.name!r} has no labels, and class preservation is measured with them.")
    titles = [dataset.name for dataset in loaded]
    if len(set(titles)) < len(titles):
        raise InputError(f"datasets of the same name ({', '.join(titles)}) need a run each.")
    return loaded
