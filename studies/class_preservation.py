"""Class preservation, the paper's main experiment: the fraction of images mapped to their own class; resumable."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np

from bispectral_ot import runtime
from bispectral_ot.costs import METRICS
from bispectral_ot.datasets import Dataset
from bispectral_ot.drawing import draw_matrix, fitted_axes, house_style, save
from bispectral_ot.errors import InputError
from bispectral_ot.features import choose_features
from bispectral_ot.files import write_json, write_text
from studies.baselines import STUDY_FEATURES
from studies.cells import Cell, CellStore, Config
from studies.markdown import accuracy_table
from studies.preset import SETTINGS, Preset, check_names, load_labelled

TABLES = {"rotated": "table1.md", "baseline": "table2.md"}
_NAMES = ("dataset", "setting", "features", "metric")


def run_class_preservation(
    out: str | Path,
    datasets: Sequence[str] = ("mnist", "kmnist", "fashion-mnist"),
    *,
    features: Sequence[str] = ("pixels", "ring-bispectrum"),
    metrics: Sequence[str] = METRICS,
    settings: Sequence[str] = SETTINGS,
    preset: Preset = Preset(),  # noqa: B008 (frozen)
    root: str | Path | None = None,
) -> list[Cell]:
    """Tables 1 and 2 of the paper: the fraction of images that are mapped to their own class.

    Each dataset is split into two halves; the source (the paper's A) is rotated at random and matched with the target
    (B), once for every kind of features and metric. Writes ``results.json``, ``table1.md`` (rotated), ``table2.md``
    (baseline) and a confusion matrix of every cell in ``figures/``. Cells of earlier calls with other datasets,
    features or metrics are kept in the tables.

    Parameters
    ----------
    datasets
        Names or paths of sets with labels.
    features
        Feature extractors, by name.
    metrics
        Distances between features, by name.
    settings
        "rotated" (the source is rotated) and "baseline" (nothing is rotated).
    root
        Folder of the official IDX files; nothing is downloaded.
    """
    check_names("features", features, tuple(STUDY_FEATURES))
    check_names("metrics", metrics, METRICS)
    check_names("settings", settings, SETTINGS)
    for name, metric in itertools.product(features, metrics):
        choose_features(preset.transformer(name), metric=metric)  # refused before any work is done
    if len({Path(name).name for name in datasets}) < max(1, len(datasets)):
        raise InputError("give one or more datasets of different names with --datasets.")
    store = CellStore(out, "class-preservation")
    loaded = [load_labelled(name, root=root, per_class=preset.per_class) for name in datasets]
    options = {"datasets": datasets, "features": features, "metrics": metrics, "settings": settings, **asdict(preset)}
    tasks = list(itertools.product(loaded, settings, features, metrics))
    cells: list[Cell] = []
    with store.recorded(options):
        for number, (dataset, setting, name, metric) in enumerate(tasks):
            runtime.progress("cells", number, len(tasks))
            config = preset.config(dataset, name, setting, metric)
            cells.append(store.cell(config, partial(_measure, store.folder / "figures", preset, dataset, name, config)))
            write_summary(store.folder, store.with_earlier(cells, _NAMES))
        runtime.progress("cells", len(tasks), len(tasks))
    return store.with_earlier(cells, _NAMES)


def _measure(folder: Path, preset: Preset, dataset: Dataset, features: str, config: Config) -> Cell:
    """Cell of a config; its confusion matrix is drawn."""
    cell = preset.measure(dataset, features, config)
    path = folder / f"confusion-{'-'.join(cell[name].replace(', ', '-').replace(' ', '-') for name in _NAMES)}.png"
    names, counts = cell["classes"], np.array(cell["confusion"])
    with house_style():
        axes = draw_matrix(
            fitted_axes(),
            counts / counts.sum(axis=1, keepdims=True).clip(1),
            names,
            names,
            form="%",
            title=f"accuracy {cell['accuracy']:.1%}",
            own=np.eye(len(names), dtype=np.bool_),
        )
    save(axes.figure, path)
    return cell


def write_summary(folder: Path, cells: list[Cell]) -> None:
    """Write ``results.json`` and a table for each setting that has cells."""
    write_json(folder / "results.json", {"cells": cells})
    for setting, file in TABLES.items():
        if any(cell["setting"] == setting for cell in cells):
            write_text(folder / file, accuracy_table(cells, setting))
