"""How images of any kind are matched: turned, upright, and moved; by every feature, and by what else one would take."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bispectral_ot import runtime
from bispectral_ot.checks import check_choice, check_integer
from bispectral_ot.datasets import Dataset, load, rotate_randomly, split_halves
from bispectral_ot.datasets.transforms import background_level
from bispectral_ot.datasets.warp import shift_maps, warp
from bispectral_ot.drawing import fitted_axes, house_style, save
from bispectral_ot.engines import Engine
from bispectral_ot.engines.cluster import as_engine
from bispectral_ot.errors import InputError
from bispectral_ot.files import write_json, write_text
from bispectral_ot.matching import Match, match
from studies.baselines import LocalBinaryPatterns
from studies.cells import CellStore
from studies.markdown import markdown_table
from studies.preset import file_checksum

VERB = "study real"
CONDITIONS = ("turned", "upright", "shifted")
DEFAULT, MOVED_DEFAULT, PATTERNS = "default", "default-translation", "lbp"
FEATURES = (
    "pixels",
    "ring-bispectrum",
    "global-bispectrum",
    "best-rotation",
    PATTERNS,
    "local-bispectrum",
    DEFAULT,
    MOVED_DEFAULT,
)
# Of the width: content is moved by a random length up to this, in a random direction.
_SHIFT = 0.16


def run_real(
    out: str | Path,
    folders: Sequence[str],
    *,
    features: Sequence[str] = FEATURES,
    conditions: Sequence[str] = CONDITIONS,
    sizes: Sequence[int] = (64,),
    per_class: int = 100,
    seeds: int = 5,
    client: Any = None,
    overwrite: bool = False,
) -> list[dict[str, Any]]:
    """Match one half of each folder, turned at random (upright, or shifted and turned), with the other half.

    Writes a cell for each figure to ``cells/``, all of them to ``results.json``, ``table.md`` (transport),
    ``nearest.md`` (the nearest target instead) and pictures of the default's matches to ``figures/``.

    Parameters
    ----------
    folders
        Sets with labels: folders of images with a folder for each class, or names.
    features
        Names of features; also ``"default"`` (for rotation), ``"default-translation"`` (for rotation and translation)
        and ``"lbp"``, local binary patterns with histograms (scikit-image).
    conditions
        Of ``"turned"``, ``"upright"`` and ``"shifted"`` (by up to 16 % of the width, and turned).
    sizes
        Sides that images are brought to.
    per_class
        Images of each class on each side at most.
    seeds
        Halves, angles and shifts are drawn so many times.
    client
        A ``distributed.Client`` to work on a Dask cluster, as for :func:`~bispectral_ot.match`.
    """
    for condition in conditions:
        check_choice("conditions", condition, CONDITIONS)
    for name, value in (("per_class", per_class), ("seeds", seeds)):
        check_integer(name, value, minimum=1)
    store = CellStore(
        Path(out),
        VERB,
        ("results.json", "table.md", "nearest.md", "figures"),
        names=("dataset", "condition", "size", "features", "seed"),
        entries={"seconds": (int, float), "accuracy": (int, float), "nearest": (int, float)},
    )
    tasks = [
        {"dataset": Path(folder).name, "condition": condition, "size": size, "features": kind, "seed": seed}
        | {"per_class": per_class, "folder": folder}
        for folder in folders
        for size in sizes
        for condition in conditions
        for seed in range(seeds)
        for kind in features
    ]
    cells: list[dict[str, Any]] = []
    halves: dict[tuple[Any, ...], tuple[Dataset, Dataset]] = {}
    engine = as_engine(client)
    with store.recorded({"folders": [Path(folder).name for folder in folders], "seeds": seeds, "per_class": per_class}):
        for number, task in enumerate(tasks):
            runtime.progress("cells", number, len(tasks))
            config = {key: value for key, value in task.items() if key != "folder"}
            config["checksum"] = file_checksum(str(task["folder"]))
            cell = store.find(config, overwrite=overwrite)
            if cell is None:
                key = tuple(task[name] for name in ("folder", "size", "condition", "seed"))
                if key not in halves:
                    halves = {key: _sides(task)}  # features of one pair of sides are made one after the other
                start = time.perf_counter()
                found = _match(*halves[key], str(task["features"]), engine)
                cell = {"config": config, **_figures(found), "seconds": time.perf_counter() - start}
                if task["features"] == DEFAULT and task["seed"] == 0:
                    name = f"{config['dataset']}-{config['condition']}-{config['size']}.png"
                    with house_style():
                        axes = found.plot("pairs", n=8, ax=fitted_axes())
                    save(axes.figure, Path(out) / "figures" / name)
                store.save(cell)
            cells.append(cell)
        runtime.progress("cells", len(tasks), len(tasks))
        write_json(Path(out) / "results.json", cells)
        for column, file in (("accuracy", "table.md"), ("nearest", "nearest.md")):
            write_text(Path(out) / file, real_table(cells, column))
    return cells


def _sides(task: dict[str, Any]) -> tuple[Dataset, Dataset]:
    dataset = load(task["folder"], resize=task["size"])
    if dataset.labels is None:
        raise InputError(f"{task['folder']} has no labels; give a folder with a folder of images for each class.")
    source, target = split_halves(dataset, per_class=task["per_class"], seed=task["seed"])
    if task["condition"] == "upright":
        return source, target
    if task["condition"] == "shifted":
        random = np.random.default_rng(task["seed"])
        directions, lengths = random.uniform(0, 2 * np.pi, len(source)), random.uniform(0, _SHIFT, len(source))
        lengths *= source.images.shape[2]
        maps = shift_maps(lengths * np.sin(directions), lengths * np.cos(directions))
        moved = warp(source.images, maps, fill=background_level(source.images))
        source = replace(source, images=moved)
    return rotate_randomly(source, seed=task["seed"]), target


def _match(source: Dataset, target: Dataset, features: str, engine: Engine | None) -> Match:
    if features == PATTERNS:
        return match(source, target, features=LocalBinaryPatterns(), metric="l1", normalize=False, client=engine)
    if features == MOVED_DEFAULT:
        return match(source, target, symmetry="rotation-translation", client=engine)
    return match(source, target, features=None if features == DEFAULT else features, client=engine)


def _figures(found: Match) -> dict[str, Any]:
    details = found.label_details()
    truth = found.source_labels
    return {
        "accuracy": float((details.labels == truth).mean()),
        "nearest": float((details.nearest == truth).mean()),
        "n_source": len(details.labels),
        "marginals": found.settings["marginals"],
        "converged": found.converged,
    }


def real_table(cells: list[dict[str, Any]], column: str) -> str:
    """Mean and standard deviation over seeds of a column: rows are sets, conditions and sizes, columns features."""
    rows: dict[tuple[Any, ...], dict[str, list[float]]] = {}
    for cell in cells:
        config = cell["config"]
        key = config["dataset"], config["condition"], config["size"]
        rows.setdefault(key, {}).setdefault(config["features"], []).append(cell[column])
    kinds = list(dict.fromkeys(cell["config"]["features"] for cell in cells))
    lines = [
        [
            f"{name}, {condition}, {size} x {size}",
            *(f"{np.mean(found[kind]):.3f} ± {np.std(found[kind]):.3f}" if kind in found else "" for kind in kinds),
        ]
        for (name, condition, size), found in rows.items()
    ]
    return markdown_table(["set", *kinds], lines)
