"""The paper's main experiment: how many images are mapped to their own class, cell by cell, resumable."""

from __future__ import annotations

import itertools
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bispectral_ot.costs import METRICS
from bispectral_ot.datasets import Dataset
from bispectral_ot.errors import InputError
from bispectral_ot.files import write_json, write_text
from bispectral_ot.invariants import FEATURES
from bispectral_ot.matching import Match
from bispectral_ot.progress import Progress, silent
from bispectral_ot.report.figures import confusion_figure
from bispectral_ot.report.page_data import collect
from bispectral_ot.report.style import save
from bispectral_ot.report.tables import ClassTable, Side, class_table, results
from bispectral_ot.spaces import choose_features
from bispectral_ot.studies.cells import CellStore, Report
from bispectral_ot.studies.markdown import accuracy_table
from bispectral_ot.studies.preset import SETTINGS, Preset, check_names, load_labelled

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
    client: Any = None,
    overwrite: bool = False,
    pages: bool = False,
    progress: Progress = silent,
    report: Report = lambda cell: None,
) -> list[dict[str, Any]]:
    """Compute every cell datasets x settings x features x metrics that ``out`` does not have yet.

    Each cell is saved as it ends, with ``results.json`` and the two tables brought up to date; a run that was
    stopped goes on where it was. Cells of earlier calls with other datasets or features stay in the results.
    ``run.json`` describes the latest call.

    Parameters
    ----------
    datasets
        Names or paths, as :func:`~bispectral_ot.load` takes them; labels are needed.
    out
        Folder of the run: new, empty, or that of an earlier call.
    features, metrics, settings
        Names; settings are ``"rotated"`` and ``"baseline"``.
    preset
        Every other choice; the paper's by default.
    client
        A ``distributed.Client`` to work on a Dask cluster, as for :func:`~bispectral_ot.match`.
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
        choose_features(preset.transformer(name), metric=metric)
    folder = Path(out)
    store = CellStore(folder, "study class-preservation", ("figures", "results.json", *TABLES.values()))
    # everything is read and checked before the first hour is spent
    groups = [
        (dataset, setting, preset.group(dataset, name, setting, preset.cell_configs(dataset, name, setting, metrics)))
        for dataset in _load_all(datasets, root, preset.per_class)
        for setting in settings
        for name in features
    ]

    def inspect(match: Match, a: Dataset, b: Dataset, config: dict[str, Any]) -> None:
        _figure_path(store, config).unlink(missing_ok=True)  # of a cell that this one replaces
        if pages:
            _keep_page(folder / "report" / store.name(config), match, a, b, config)

    work = store.run(
        [group for *_, group in groups],
        overwrite=overwrite,
        working_memory=working_memory,
        client=client,
        inspect=inspect,
        summarise=lambda: write_summary(folder, store.all()),
        progress=progress,
        report=report,
    )
    options = {"datasets": datasets, "features": features, "metrics": metrics, "settings": settings, **asdict(preset)}
    with store.recorded(options | {"working_memory": working_memory, "overwrite": overwrite}):
        for (dataset, setting, _), group in zip(groups, work, strict=True):
            undrawn = [config for config in group.configs if not _figure_path(store, config).is_file()]
            if undrawn:
                a, b = preset.halves(dataset, setting)
                for config in undrawn:
                    save(cell_figure(store.read(config), a, b), _figure_path(store, config))
        cells = store.all()
        write_summary(folder, cells)
    return cells


def _keep_page(folder: Path, match: Match, a: Dataset, b: Dataset, config: dict[str, Any]) -> None:
    """Save what the browser report shows of a cell."""
    sides = Side.whole(a), Side.whole(b)
    group = f"{config['dataset']}, {config['setting']}"
    page = collect(match, *sides, title=f"{config['features']}, {config['metric']}", group=group, seed=config["seed"])
    page.save(folder, facts=results(match, *sides, class_table(match, a, b)))


def cell_figure(cell: dict[str, Any], a: Dataset, b: Dataset) -> Figure:
    """The confusion matrix of a cell, with a sample image for every row and column."""
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


def _figure_path(store: CellStore, config: dict[str, Any]) -> Path:
    return store.folder / "figures" / f"confusion-{store.name(config)}.png"


def _load_all(names: list[str], root: str | Path | None, per_class: int | None) -> list[Dataset]:
    if not names:
        raise InputError("no dataset given; name one or more with --datasets, for example mnist,kmnist.")
    loaded = [load_labelled(name, root=root, per_class=per_class) for name in names]
    titles = [dataset.name for dataset in loaded]
    if len(set(titles)) < len(titles):
        raise InputError(f"datasets of the same name ({', '.join(titles)}) need a run each.")
    return loaded
