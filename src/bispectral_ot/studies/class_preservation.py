"""The paper's main experiment: how many images are mapped to their own class, cell by cell, resumable."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bispectral_ot.costs import METRICS
from bispectral_ot.datasets import Dataset, load
from bispectral_ot.errors import InputError
from bispectral_ot.invariants import FEATURES
from bispectral_ot.matching import Match, class_preservation
from bispectral_ot.matching.features import check_metric
from bispectral_ot.progress import Progress, silent
from bispectral_ot.report.figures import confusion_figure
from bispectral_ot.report.page_data import collect
from bispectral_ot.report.style import save
from bispectral_ot.report.tables import ClassTable, Side, results
from bispectral_ot.runs import write_json, write_text
from bispectral_ot.studies.cells import CellStore
from bispectral_ot.studies.experiment import SharedFeatures, compute_cell, compute_cost, shared_features
from bispectral_ot.studies.preset import SETTINGS, Preset, check_names
from bispectral_ot.studies.tables import accuracy_table

Report = Callable[[dict[str, Any]], None]
TABLES = {"rotated": "table1.md", "baseline": "table2.md"}


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
    pages: bool = False,
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
    pages
        Keep what the browser report shows of each cell that is computed now, a megabyte each, in ``report/``.
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
    check_names("features", features, tuple(FEATURES))
    check_names("metrics", metrics, METRICS)
    check_names("settings", settings, SETTINGS)
    for name, metric in itertools.product(features, metrics):
        check_metric(metric, preset.transformer(name))
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
                groups.append((dataset, setting, name, configs, todo))
    total = len(datasets) * len(settings) * len(features) * len(metrics)
    done = total - sum(len(todo) for *_, todo in groups)
    progress("cells", done, total)
    for dataset, setting, name, configs, todo in groups:
        if todo:
            with shared_features(
                dataset, setting, name, preset, working_memory=working_memory, progress=progress
            ) as shared:
                for config in todo:
                    cost = compute_cost(shared, config["metric"], progress=progress)
                    inspect = partial(_keep_page, folder / "report" / store.name(config), shared, config)
                    cell = compute_cell(
                        shared, cost, config, inspect=inspect if pages else lambda match: None, progress=progress
                    )
                    del cost  # the next one needs the room
                    _figure_path(folder, store, config).unlink(missing_ok=True)
                    store.save(cell)
                    write_summary(folder, store.all())
                    done += 1
                    progress("cells", done, total)
                    report(cell)
        undrawn = [config for config in configs if not _figure_path(folder, store, config).is_file()]
        if undrawn:
            a, b = preset.halves(dataset, setting)
            for config in undrawn:
                save(cell_figure(store.find(config), a, b), _figure_path(folder, store, config))
    cells = store.all()
    write_summary(folder, cells)
    return cells


def _keep_page(folder: Path, shared: SharedFeatures, config: dict[str, Any], match: Match) -> None:
    """Save what the browser report shows of a cell."""
    sides = Side.whole(shared.a), Side.whole(shared.b)
    group = f"{config['dataset']}, {config['setting']}"
    page = collect(match, *sides, title=f"{config['features']}, {config['metric']}", group=group, seed=config["seed"])
    assert shared.a.labels is not None
    assert shared.b.labels is not None
    accuracy = class_preservation(match, shared.a.labels, shared.b.labels).accuracy
    page.save(folder, facts=results(match, *sides, None) | {"accuracy": accuracy})


def cell_figure(cell: dict[str, Any] | None, a: Dataset, b: Dataset) -> Figure:
    """The confusion matrix of a cell, with a sample image for every row and column."""
    assert cell is not None
    names = tuple(cell["classes"])
    recall = dict(zip(names, cell["recall"], strict=True))
    table = ClassTable(names, names, np.array(cell["confusion"]), cell["accuracy"], recall)
    return confusion_figure(table, a, b)


def write_summary(folder: Path, cells: list[dict[str, Any]]) -> None:
    """Write ``results.json`` and a table for each setting that has cells."""
    write_json(folder / "results.json", {"cells": cells})
    for setting, file in TABLES.items():
        if any(cell["setting"] == setting for cell in cells):
            write_text(folder / file, accuracy_table(cells, setting))


def _figure_path(folder: Path, store: CellStore, config: dict[str, Any]) -> Path:
    return folder / "figures" / f"confusion-{store.name(config)}.png"


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
