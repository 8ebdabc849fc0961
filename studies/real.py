"""How images of any kind are matched: turned, upright, and moved; by every feature, and by what else one would take."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from bispectral_ot import runtime
from bispectral_ot.checks import check_choice, check_integer
from bispectral_ot.datasets import Dataset, load, rotate_randomly, split_halves
from bispectral_ot.datasets.transforms import background_level
from bispectral_ot.datasets.warp import shift_maps, warp
from bispectral_ot.drawing import fitted_axes, house_style, save
from bispectral_ot.errors import InputError
from bispectral_ot.files import write_json, write_text
from bispectral_ot.matching import Match, match
from studies.baselines import LocalBinaryPatterns
from studies.cells import Cell, CellStore
from studies.markdown import markdown_table
from studies.preset import file_checksum

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
) -> list[Cell]:
    """Folders of your own: how many images get their own class, by all features and by local binary patterns.

    One half of each folder, turned at random (upright, or shifted and turned), is matched with the other half. Writes
    ``results.json``, ``table.md`` (transport), ``nearest.md`` (the nearest target instead) and pictures of the
    default's matches in ``figures/``.

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
        Number of draws of halves, angles and shifts.
    """
    for condition in conditions:
        check_choice("conditions", condition, CONDITIONS)
    for name, value in (("per_class", per_class), ("seeds", seeds)):
        check_integer(name, value, minimum=1)
    store = CellStore(out, "real")
    tasks = list(itertools.product(folders, sizes, conditions, range(seeds), features))
    cells: list[Cell] = []
    sides = lru_cache(maxsize=1)(_sides)  # features of one pair of sides are made one after the other
    with store.recorded({"folders": [Path(folder).name for folder in folders], "seeds": seeds, "per_class": per_class}):
        for number, (folder, size, condition, seed, kind) in enumerate(tasks):
            runtime.progress("cells", number, len(tasks))
            config = {"dataset": Path(folder).name, "condition": condition, "size": size, "features": kind}
            config |= {"seed": seed, "per_class": per_class, "checksum": file_checksum(folder)}

            def measure() -> Cell:
                found = _match(*sides(folder, size, condition, seed, per_class), kind)  # noqa: B023
                if kind == DEFAULT and seed == 0:  # noqa: B023
                    with house_style():
                        axes = found.plot("pairs", n=8, ax=fitted_axes())
                    name = f"{Path(folder).name}-{condition}-{size}.png"  # noqa: B023
                    save(axes.figure, store.folder / "figures" / name)
                return _figures(found)

            cells.append(store.cell(config, measure))
        runtime.progress("cells", len(tasks), len(tasks))
        write_json(store.folder / "results.json", cells)
        for column, file in (("accuracy", "table.md"), ("nearest", "nearest.md")):
            write_text(store.folder / file, real_table(cells, column))
    return cells


def _sides(folder: str, size: int, condition: str, seed: int, per_class: int) -> tuple[Dataset, Dataset]:
    dataset = load(folder, resize=size)
    if dataset.labels is None:
        raise InputError(f"{folder} has no labels; give a folder with a folder of images for each class.")
    source, target = split_halves(dataset, per_class=per_class, seed=seed)
    if condition == "upright":
        return source, target
    if condition == "shifted":
        random = np.random.default_rng(seed)
        directions, lengths = random.uniform(0, 2 * np.pi, len(source)), random.uniform(0, _SHIFT, len(source))
        lengths *= source.images.shape[2]
        maps = shift_maps(lengths * np.sin(directions), lengths * np.cos(directions))
        source = replace(source, images=warp(source.images, maps, fill=background_level(source.images)))
    return rotate_randomly(source, seed=seed), target


def _match(source: Dataset, target: Dataset, features: str) -> Match:
    if features == PATTERNS:
        return match(source, target, features=LocalBinaryPatterns(), metric="l1", normalize=False)
    if features == MOVED_DEFAULT:
        return match(source, target, symmetry="rotation-translation")
    return match(source, target, features=None if features == DEFAULT else features)


def _figures(found: Match) -> Cell:
    details = found.labels()
    truth = found.source_labels
    return {
        "accuracy": float((details.label == truth).mean()),
        "nearest": float((details.nearest_label == truth).mean()),
        "n_source": len(details.label),
        "marginals": found.settings["marginals"],
        "converged": found.converged,
    }


def real_table(cells: list[Cell], column: str) -> str:
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
