"""Invariant features of a pretrained network: groups and pooling, compared and joined with the default."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import bispectral_ot as bot
from bispectral_ot import runtime
from bispectral_ot.checks import check_integer
from bispectral_ot.features import Encoder, Join, Orbit
from bispectral_ot.files import write_json, write_text
from studies.cells import Cell, CellStore
from studies.frames import write_sides
from studies.labels import classifiers, predicted
from studies.markdown import markdown_table
from studies.preset import file_checksum
from studies.rivals import NETWORK_SIZE, efficientnet

CANVASES = ("in place", "enlarged, border")
ANSWERS = ("1-NN", "logistic regression", "balanced", "estimated", "learned")
# Times that an image is encoded, by words in the name of the features.
_ENCODINGS = {"upright": 1, "C4": 4, "C8": 8, "D4": 8, "joined": 4}
_POOLS = (("C4", "mean"), ("C4", "max"), ("C4", "bispectrum"), ("C8", "mean"), ("D4", "mean"))


def run_encoders(
    out: str | Path, datasets: Sequence[str], *, per_class: int = 30, side: int = 112, seeds: int = 1
) -> list[Cell]:
    """Match rotated halves of folders, in place and on an enlarged canvas, by features of a pretrained network.

    Writes ``results.json`` and ``table.md``: accuracies by nearest neighbour, by logistic regression, by a balanced
    plan, with estimated class proportions and with a learned metric, and the number of times that an image is encoded.

    Parameters
    ----------
    datasets
        Folders of images with a sub-folder for each class.
    per_class
        Maximum number of images of each class on each side.
    side
        Longer side of the images before they are rotated.
    seeds
        Number of random splits and rotations.
    """
    check_integer("per_class", per_class, minimum=2)
    check_integer("seeds", seeds, minimum=1)
    store, kinds = CellStore(out, "encoders"), network_features(efficientnet())
    tasks = [(folder, canvas, seed) for folder in datasets for canvas in CANVASES for seed in range(seeds)]
    cells: list[Cell] = []
    with store.recorded({"datasets": [Path(each).name for each in datasets], "seeds": seeds, "per_class": per_class}):
        for number, (folder, canvas, seed) in enumerate(tasks):
            runtime.progress("sets", number, len(tasks))
            config = {"dataset": Path(folder).name, "canvas": canvas, "seed": seed, "per_class": per_class}
            config |= {"side": side, "checksum": file_checksum(folder)}
            with tempfile.TemporaryDirectory() as place:
                options: Any = {"per_class": per_class, "side": side, "seed": seed}
                sides = cache(partial(write_sides, Path(folder), Path(place), canvas, **options))
                for name, features in kinds.items():
                    cells.append(store.cell(config | {"features": name}, partial(measure, features, sides)))
            write_json(Path(out) / "results.json", cells)
            write_text(Path(out) / "table.md", encoders_table(cells))
        runtime.progress("sets", len(tasks), len(tasks))
    return cells


def network_features(model: Any) -> dict[str, Any]:
    """Features by name: the network upright and pooled over groups, the default, and both joined."""
    encoder = Encoder(model, size=NETWORK_SIZE, normalize="imagenet")
    pooled = {f"network, {pool} over {group}": Orbit(encoder, group, pool=pool) for group, pool in _POOLS}
    quarter = pooled["network, mean over C4"]
    return {"network, upright": encoder, **pooled, "default": "bispectrum", "joined": Join("bispectrum", quarter)}


def measure(features: Any, sides: Callable[[], tuple[Path, Path]]) -> Cell:
    """Accuracy of every way to label the sources."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        balanced = bot.match(*sides(), features=features, marginals="balanced", metric_learning="none")
        estimated = bot.match(*sides(), features=features, metric_learning="none")
        learned = bot.match(*sides(), features=features)
    truth = balanced.source_labels
    rows = [balanced.feature_map.plain(np.asarray(each)) for each in balanced.features]
    counts = np.unique(np.asarray(balanced.target_labels), return_counts=True)[1]
    models = classifiers(rows[1], counts)
    found = {name: predicted(models[name], rows, balanced.target_labels) for name in ANSWERS[:2]}
    matches = {"balanced": balanced, "estimated": estimated, "learned": learned}
    found |= {name: each.labels().label.to_numpy() for name, each in matches.items()}
    return {"accuracy": {name: float((labels == truth).mean()) for name, labels in found.items()}}


def encoders_table(cells: Sequence[Cell]) -> str:
    """Mean accuracies: a row for each set, canvas and kind of features."""
    groups: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        config = cell["config"]
        groups.setdefault((config["dataset"], config["canvas"], config["features"]), []).append(cell)
    rows = [
        [f"{name}, {canvas}", features]
        + [f"{np.mean([cell['accuracy'][answer] for cell in group]):.3f}" for answer in ANSWERS]
        + [next((str(n) for word, n in _ENCODINGS.items() if word in features), "0")]
        for (name, canvas, features), group in groups.items()
    ]
    return markdown_table(["set", "features", *ANSWERS, "encodings an image"], rows)
