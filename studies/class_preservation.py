"""The paper's main experiment: how many images are mapped to their own class, cell by cell, resumable."""

from __future__ import annotations

import itertools
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from bispectral_ot.costs import METRICS
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.pictures import Pictures
from bispectral_ot.drawing import draw_matrix, fitted_axes, house_style, save
from bispectral_ot.errors import InputError
from bispectral_ot.features import choose_features
from bispectral_ot.files import write_json, write_text
from bispectral_ot.matching import Match
from studies.baselines import STUDY_FEATURES
from studies.cells import CellStore, Report
from studies.markdown import accuracy_table
from studies.preset import SETTINGS, Preset, check_names, load_labelled

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
    report
        Called with each cell as it ends.

    Returns
    -------
    list of dict
        All cells of the run, as in ``results.json``.
    """
    preset = preset or Preset()
    check_names("features", features, tuple(STUDY_FEATURES))
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

    work = store.run(
        [group for *_, group in groups],
        overwrite=overwrite,
        working_memory=working_memory,
        client=client,
        inspect=inspect,
        summarise=lambda: write_summary(folder, store.all()),
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


def cell_figure(cell: dict[str, Any], a: Dataset, b: Dataset) -> Any:
    """The confusion matrix of a cell, with a sample image for every row and column."""
    names, counts = cell["classes"], np.array(cell["confusion"])
    pictures = [
        [Pictures(side)[int(np.argmax(side.labels == side.classes.index(name)))] for name in names] for side in (a, b)
    ]
    with house_style():
        axes = draw_matrix(
            fitted_axes(),
            counts / counts.sum(axis=1, keepdims=True).clip(1),
            names,
            names,
            form="%",
            title=f"{cell['accuracy']:.1%} keep their class",
            own=np.eye(len(names), dtype=np.bool_),
            pictures=(pictures[0], pictures[1]),
        )
    return axes.figure


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
