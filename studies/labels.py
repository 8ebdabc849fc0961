"""Accuracy and calibration of labels: the default against rivals, by class size and class proportions."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.neighbors import KNeighborsClassifier

import bispectral_ot as bot
from bispectral_ot import runtime
from bispectral_ot.checks import check_choice, check_integer
from bispectral_ot.errors import InputError
from bispectral_ot.files import write_json, write_text
from studies.cells import Cell, CellStore
from studies.markdown import markdown_table
from studies.preset import checksum

REGIMES = ("same", "target skewed", "opposite", "half of the classes", "unknown classes")
METHODS = ("default", "plan", "no learning", "balanced", "relaxed", "1-NN", "5-NN", "logistic regression", "LDA")
RIVALS = ("balanced", "relaxed", "1-NN", "logistic regression")
_OPTIONS: dict[str, dict[str, Any]] = {
    "no learning": {"metric_learning": "none"},
    "balanced": {"marginals": "balanced"},
    "relaxed": {"marginals": "relaxed"},
}
# Of ten classes, class c keeps this fraction to the power of c; otherwise the last class keeps as much as that of ten.
_RATE = 0.7
# Targets from which the options of a classifier are chosen on one split, and from which rivals are left out.
_MANY, _FULL = 500, 10_000
Rows = NDArray[np.float32]


def run_labels(
    out: str | Path,
    datasets: Sequence[str] = ("mnist", "fashion-mnist", "kmnist", "emnist-letters"),
    *,
    sizes: Sequence[int] = (5, 20, 100),
    regimes: Sequence[str] = REGIMES,
    seeds: int = 1,
    first: int | None = None,
    resize: int = 64,
    root: str | None = None,
) -> list[Cell]:
    """Labels of rotated halves of sets with different class proportions, by matches and by classifiers.

    Writes ``results.json``, ``table.md`` (accuracies), ``calibration.md`` (calibration error, expected accuracy),
    ``checked.md`` (accuracy after the least probable labels were checked), ``summary.md`` (fractions of cells that meet
    each criterion) and ``unknown.md`` (sources of classes that the target lacks). Ten sets with 5, 20 and 100 images
    per class take about 20 minutes on two cores; an interrupted call is resumed with the same ``out``.

    Parameters
    ----------
    datasets
        Names or folders of sets with labels.
    sizes
        Maximum number of images of each class on each side.
    regimes
        Class proportions: "same", "target skewed", "opposite" (both skewed), "half of the classes" (in the source),
        "unknown classes" (the target lacks 30 % of the classes).
    seeds
        Number of random splits and rotations.
    first
        Number of images at the start of each set that are used; all by default.
    resize
        Side of the images of folders, which are read in grey.
    root
        Folder of named datasets.
    """
    for regime in regimes:
        check_choice("regime", regime, REGIMES)
    check_integer("seeds", seeds, minimum=1)
    store = CellStore(out, "labels")
    loaded = lru_cache(maxsize=1)(lambda name: _load(name, first, resize, root))
    tasks, cells = list(itertools.product(datasets, sizes, range(seeds), regimes)), []
    with store.recorded({"datasets": [Path(name).name for name in datasets], "sizes": list(sizes), "seeds": seeds}):
        for number, (name, size, seed, regime) in enumerate(tasks):
            runtime.progress("cells", number, len(tasks))
            if (sides(loaded(name), size, regime, seed)[1].class_counts > 1).sum() < 2:
                continue  # too few targets for a class model
            config = {"dataset": Path(name).name, "per_class": size, "regime": regime, "seed": seed}
            config["checksum"] = checksum(loaded(name))
            measured = lambda: measure(*sides(loaded(name), size, regime, seed))  # noqa: B023, E731
            cells.append(store.cell(config, measured))
        runtime.progress("cells", len(tasks), len(tasks))
        write_json(store.folder / "results.json", cells)
        for file, table in _TABLES.items():
            write_text(store.folder / f"{file}.md", table(cells))
    return cells


def _load(name: str, first: int | None, resize: int, root: str | None) -> bot.Dataset:
    folder = Path(name).is_dir()
    dataset = bot.load(name, root=root, resize=resize if folder else None, grey=folder)
    if dataset.labels is None:
        raise InputError(f"{dataset.name!r} has no labels, and this study cuts its classes to different proportions.")
    return dataset if first is None else dataset.select(slice(0, first))


def sides(dataset: bot.Dataset, size: int, regime: str, seed: int) -> tuple[bot.Dataset, bot.Dataset]:
    """Rotated sources and upright targets; skewed classes keep at least one image."""
    source, target = bot.split_halves(dataset, seed=seed, per_class=size)
    classes = np.arange(len(dataset.classes))
    even, skew = np.ones(len(classes)), _RATE ** (9 * classes / max(len(classes) - 1, 1))
    half = (classes < len(classes) / 2).astype(float)
    known = (classes < 0.7 * len(classes)).astype(float)
    kept = {
        "same": (even, even),
        "target skewed": (even, skew),
        "opposite": (skew[::-1], skew),
        "half of the classes": (half, even),
        "unknown classes": (even, known),
    }[regime]

    def cut(side: bot.Dataset, fractions: NDArray[np.float64]) -> bot.Dataset:
        members = [np.flatnonzero(side.labels == c) for c in classes]
        counts = [max(1, int(f * len(each) + 1e-9)) if f else 0 for f, each in zip(fractions, members, strict=True)]
        return side.select(np.concatenate([each[:count] for each, count in zip(members, counts, strict=True)]))

    return cut(bot.rotate_randomly(source, seed=seed), kept[0]), cut(target, kept[1])


def measure(source: bot.Dataset, target: bot.Dataset) -> Cell:
    """Accuracy of every method; calibration of the default, and its accuracy after labels were checked.

    Of sets at full size, rivals are left out. "plan" are the labels to which the plan of the default sends most mass.
    """
    truth = np.asarray(source.classes)[source.labels]
    match = bot.match(source, target)
    table, expected = match.labels(), match.expected_accuracy()
    right, probability = (table.label == truth).to_numpy(), table.probability.to_numpy()
    names, weights = match.class_weights(to="source")
    accuracy = {"default": float(right.mean()), "plan": float((names[weights.argmax(axis=1)] == truth).mean())}
    options = {name: each for name, each in _OPTIONS.items() if name == "no learning" or len(target) < _FULL}
    others = {name: bot.match(source, target, **each) for name, each in options.items()}
    accuracy |= {name: float((other.labels().label == truth).mean()) for name, other in others.items()}
    plain = others["no learning"]
    rows = [plain.feature_map.plain(np.asarray(each)) for each in plain.features]
    rivals = classifiers(rows[1], target.class_counts) if len(target) < _FULL else {}
    for name, classifier in rivals.items():
        accuracy[name] = float((predicted(classifier, rows, match.target_labels) == truth).mean())
    found, order = match.class_proportions(), np.argsort(probability, kind="stable")
    true = np.equal.outer(found.classes, truth).mean(axis=1)
    checked = {f"{part:.0%}": _after(right[order], part) for part in (0.05, 0.1, 0.2, 0.5)}
    return {
        "accuracy": accuracy,
        "ece": calibration_error(probability, right),
        "expected": expected._asdict(),
        "known": float(match.classes.known.mean()) if match.classes else 1.0,
        "uncorrected": float(match.classes.probabilities.max(axis=1).mean()) if match.classes else expected.value,
        "differs": match.shift().differs,
        "marginals": match.settings["marginals"],
        "proportions_error": float(np.abs(found.source - true).sum() / 2),
        "checked": checked,
        "converged": match.converged,
    }


def classifiers(rows: Rows, counts: NDArray[np.int64]) -> dict[str, Any]:
    """Classifiers that are fitted to the features of the targets; options are chosen on one split of many targets."""
    folds: Any = int(np.clip(counts[counts > 0].min(), 2, 3))
    if len(rows) > _MANY:
        folds = ShuffleSplit(1, test_size=0.3, random_state=0)
    penalties = {"C": np.logspace(0, 3, 4)}
    return {
        "1-NN": KNeighborsClassifier(1),
        "5-NN": KNeighborsClassifier(min(5, len(rows))),
        "logistic regression": GridSearchCV(LogisticRegression(max_iter=200, tol=1e-3), penalties, cv=folds),
        "LDA": GridSearchCV(LinearDiscriminantAnalysis(solver="lsqr"), {"shrinkage": [0.1, 0.5, 0.9]}, cv=folds),
    }


def predicted(classifier: Any, rows: Sequence[Rows], labels: Any) -> NDArray[Any]:
    """Predictions from centred rows of unit mean square, in the span of the targets, which contains the solutions."""
    centre = rows[1].mean(axis=0)
    scale = np.sqrt(np.square(rows[1] - centre).sum(axis=1).mean()) or 1.0
    basis = np.linalg.svd((rows[1] - centre) / scale, full_matrices=False)[2].T
    sources, targets = ((side - centre) / scale @ basis for side in rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of classes with fewer targets than folds
        return np.asarray(classifier.fit(targets, labels).predict(sources))


def calibration_error(probability: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    """Expected calibration error with ten bins of equal width."""
    bins = np.minimum((10 * probability).astype(int), 9)
    gaps = np.bincount(bins, weights=probability - right, minlength=10)
    return float(np.abs(gaps).sum() / len(right))


def _after(right: NDArray[np.bool_], part: float) -> float:
    """Accuracy after the first part of the labels was checked."""
    count = round(part * len(right))
    return float((count + right[count:].sum()) / len(right))


def _rows(cells: Sequence[Cell], values: Callable[[list[Cell]], list[str]]) -> list[list[str]]:
    """A row for each set, class size and regime: its name, and values of the cells of all seeds."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        config = cell["config"]
        groups.setdefault(f"{config['dataset']}, {config['per_class']} a class: {config['regime']}", []).append(cell)
    return [[name, *values(group)] for name, group in groups.items()]


def accuracy_table(cells: Sequence[Cell]) -> str:
    """Mean accuracies of all methods, and the default less the best of four rivals."""

    def values(group: list[Cell]) -> list[str]:
        means = {name: np.mean([cell["accuracy"].get(name, np.nan) for cell in group]) for name in METHODS}
        less = means["default"] - max(means[name] for name in RIVALS)
        return ["" if np.isnan(each) else f"{each:.3f}" for each in (*means.values(), less)]

    return markdown_table(["", *METHODS, "default - best rival"], _rows(cells, values))


def calibration_table(cells: Sequence[Cell]) -> str:
    """Calibration of the default: error of probabilities, expected accuracy, and how often that is right."""

    def values(group: list[Cell]) -> list[str]:
        truth = np.array([cell["accuracy"]["default"] for cell in group])
        low, value, high = (np.array([cell["expected"][name] for cell in group]) for name in ("low", "value", "high"))
        differs = np.array([cell["differs"] for cell in group])
        near = (np.abs(value - truth) <= 0.05) | differs
        shares = [((low <= truth) & (truth <= high)).mean(), near.mean(), differs.mean()]
        means = [np.mean([cell[name] for cell in group]) for name in ("ece", "proportions_error")]
        return [*(f"{each:.3f}" for each in (*means, truth.mean(), value.mean())), *(f"{each:.2f}" for each in shares)]

    header = ["", "ECE", "error of proportions", "accuracy", "expected accuracy", "in the 90 % interval"]
    return markdown_table([*header, "within .05, or warned", "warned of a shift"], _rows(cells, values))


def checked_table(cells: Sequence[Cell]) -> str:
    """Accuracy of the default after fractions of the labels were checked, the least probable first."""
    names = list(cells[0]["checked"])

    def values(group: list[Cell]) -> list[str]:
        return [f"{np.mean([cell['checked'][name] for cell in group]):.3f}" for name in names]

    return markdown_table(["checked", *names], _rows(cells, values))


def unknown_table(cells: Sequence[Cell]) -> str:
    """Expected accuracy less the true one for each regime, with and without the estimate of unknown sources."""
    rows = []
    for regime in dict.fromkeys(cell["config"]["regime"] for cell in cells):
        group = [cell for cell in cells if cell["config"]["regime"] == regime]
        truth = np.array([cell["accuracy"]["default"] for cell in group])
        announced = np.array([cell["known"] < 1 for cell in group])
        warned = announced | np.array([cell["differs"] for cell in group])
        without = np.array([cell["uncorrected"] for cell in group]) - truth
        off = np.array([cell["expected"]["value"] for cell in group]) - truth
        shares = (f"{each.mean():.0%}" for each in (announced, warned))
        rows.append([regime, str(len(group)), *shares, f"{without.mean():.3f}", f"{off.mean():.3f}"])
    header = ["", "cells", "unknown sources announced", "these or a shift"]
    return markdown_table([*header, "expected less accuracy, not corrected", "corrected"], rows)


def summary_table(cells: Sequence[Cell]) -> str:
    """Fractions of the cells of each class size that meet each criterion, where the target has all classes."""
    cells = [cell for cell in cells if cell["config"]["regime"] != "unknown classes"]
    rows = []
    for size in sorted({cell["config"]["per_class"] for cell in cells}):
        group = [cell for cell in cells if cell["config"]["per_class"] == size]
        truth = np.array([cell["accuracy"]["default"] for cell in group])
        best = np.array([max(cell["accuracy"].get(name, np.nan) for name in RIVALS) for cell in group])
        differs = np.array([cell["differs"] for cell in group])
        off = np.array([cell["expected"]["value"] for cell in group]) - truth
        reached = [
            truth >= best - 0.01,
            np.array([cell["ece"] for cell in group]) < 0.05,
            (np.abs(off) <= 0.05) | differs,
            differs,
        ]
        means = [f"{each.mean():.3f}" for each in (truth, truth - best, off)]
        rows.append([f"{size} a class", str(len(group)), *means, *(f"{each.mean():.0%}" for each in reached)])
    header = ["", "cells", "accuracy", "less best rival", "expected less accuracy", "within .01 of best rival"]
    return markdown_table([*header, "ECE below .05", "expected within .05, or warned", "warned of a shift"], rows)


_TABLES: dict[str, Callable[[Sequence[Cell]], str]] = {
    "table": accuracy_table,
    "calibration": calibration_table,
    "checked": checked_table,
    "summary": summary_table,
    "unknown": unknown_table,
}
