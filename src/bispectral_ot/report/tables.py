"""Tables of a match: rows of the CSV files and the content of ``results.json``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets import Dataset
from bispectral_ot.matching import ClassProportions, ClassTable, Match, Outliers
from bispectral_ot.poses import MotionArray, Poses
from bispectral_ot.report.records import JsonObject

Row = list[Any]
Table = tuple[list[str], Iterable[Row]]
Columns = dict[str, Iterable[Any]]
# Fraction of elements that are like the other set and are listed as outliers all the same.
OUTLIER_LEVEL = 0.05


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """What a reader of a match should check.

    Attributes
    ----------
    proportions : of the classes, where they were estimated
    sources, targets : outliers; None for a balanced plan, and where images are not known
    order : (n,) sources by the probability of their label, the least certain first; None without labels
    """

    proportions: ClassProportions | None
    sources: Outliers | None
    targets: Outliers | None
    order: NDArray[np.int64] | None

    @classmethod
    def of(cls, match: Match) -> Diagnostics:
        """Diagnostics of a match."""
        wanted = match.outlier_scores is not None
        return cls(
            proportions=None if match.classes is None else match.class_proportions(),
            sources=match.outliers(OUTLIER_LEVEL) if wanted else None,
            targets=match.outliers(OUTLIER_LEVEL, side="target") if wanted else None,
            order=None
            if match.target_labels is None
            else np.argsort(match.label_details().probabilities, kind="stable"),
        )


def match_rows(match: Match, *, k: int) -> Table:
    """``matches.csv``: a row for each source and each of its k best targets that have a weight."""
    top, distances = match.top_matches(k), match.top_distances(k)
    indices, weights = top
    n, m = match.coupling.shape
    first, second = _position_columns("source", match.source, n), _position_columns("target", match.target, m)

    def rows() -> Iterator[Row]:
        sources, targets = list(first.values()), list(second.values())
        for i in range(n):
            own: Row = [column[i] for column in sources]  # type: ignore[index]
            kept = np.flatnonzero(weights[i] > 0)
            for rank, j in enumerate(kept, start=1):
                found: Row = [column[indices[i, j]] for column in targets]  # type: ignore[index]
                yield [*own, rank, *found, f"{weights[i, j]:.6g}", f"{distances[i, j]:.6g}"]

    return [*first, "rank", *second, "weight", "distance"], rows()


def label_rows(match: Match, *, outliers: Outliers | None = None) -> Table | None:
    """``labels.csv``: the label of each source with its probability, and what speaks against it.

    Targets get labels where only the sources have some; None where nobody has labels.
    """
    n, m = match.coupling.shape
    if match.target_labels is not None:
        labels, weights, runner_up, others, nearest, costs = match.label_details()[:6]
        rivalled = (runner_up != labels) & (others > 0)
        columns = _position_columns("source", match.source, n) | {
            "label": labels,
            "probability": _short(weights),
            "runner_up": np.where(rivalled, runner_up, ""),
            "runner_up_probability": _short(np.where(rivalled, others, 0.0)),
            "nearest_label": nearest,
            "nearest_distance": _short(costs),
        }
        if outliers is not None:
            columns["outlier_score"] = [f"{score:.4g}" for score in outliers.scores]
        if match.source_labels is not None:
            columns["true_label"] = match.source_labels
    elif match.source_labels is not None:
        names, weights = match.class_weights(to="target")
        given = {"label": names[weights.argmax(axis=1)], "probability": _short(weights.max(axis=1))}
        columns = _position_columns("target", match.target, m) | given
    else:
        return None
    return _table(columns)


def outlier_rows(match: Match, found: Diagnostics) -> Table:
    """``outliers.csv``: outliers of both sides, the most distant first."""
    sides = (("source", match.source, found.sources), ("target", match.target, found.targets))
    rows: list[Row] = []
    for name, dataset, outliers in sides:
        if dataset is not None and outliers is not None:
            files = dataset.files or [""] * len(dataset)
            scores, positions = outliers.scores, dataset.positions
            rows += [[name, positions[i], files[i], f"{scores[i]:.4g}"] for i in outliers.indices]
    return ["side", "position", "file", "outlier_score"], rows


def confusion_rows(table: ClassTable) -> Table:
    """``confusion.csv``: source classes down, labels given across, counts."""
    counts = zip(table.rows, table.counts.tolist(), strict=True)
    return ["source class", *table.columns], [[name, *row] for name, row in counts]


def pose_rows(poses: Poses, source: Dataset) -> Table:
    """``poses.csv``: a row for each source; empty where there is no pose."""
    columns = _position_columns("source", source, len(source)) | _motion_columns(poses.motions)
    columns |= {
        "fit": _short(poses.fits, ".4f"),
        "score": _short(poses.scores, ".4f"),
        "uncertainty": _short(poses.uncertainty, ".2f"),
        "ambiguous": ["yes" if value else "no" for value in poses.ambiguous],
    }
    columns |= {f"runner_up_{name}": values for name, values in _motion_columns(poses.runner_up).items()}
    return _table(columns)


def _motion_columns(motions: MotionArray) -> Columns:
    columns: Columns = {}
    if motions.angles is not None:
        columns["angle"] = _short(motions.angles, ".2f")
    if motions.mirrored is not None:
        columns["mirrored"] = ["yes" if value else "no" for value in motions.mirrored]
    if motions.shifts is not None:
        columns |= {name: _short(part, ".2f") for name, part in zip(("down", "right"), motions.shifts.T, strict=True)}
    if motions.quaternions is not None:
        columns |= {name: _short(part, ".6f") for name, part in zip("xyzw", motions.quaternions.T, strict=True)}
    return columns


def _position_columns(name: str, dataset: Dataset | None, count: int) -> Columns:
    """Position of each element in its set, and its file where there are files."""
    columns: Columns = {name: np.arange(count) if dataset is None else dataset.positions}
    if dataset is not None and dataset.files:
        columns["file" if name == "source" else "target_file"] = dataset.files
    return columns


def _table(columns: Columns) -> Table:
    return list(columns), (list(row) for row in zip(*columns.values(), strict=True))


def _short(numbers: NDArray[np.float64], form: str = ".6g") -> list[str]:
    return [format(number, form) if np.isfinite(number) else "" for number in numbers]


def results(match: Match, table: ClassTable | None, found: Diagnostics, poses: Poses | None = None) -> JsonObject:
    """Content of ``results.json``."""
    coupling = match.coupling
    n, m = coupling.shape
    content: JsonObject = {
        "distance": match.distance,
        "converged": match.converged,
        "marginal_error": match.marginal_error,
        "tol": coupling.tol,
        "iterations": coupling.iterations,
        "reg": getattr(coupling, "reg", None),
        "marginals": match.settings.get("marginals", "balanced"),
        "mass": match.mass,
        "targets_per_source": float(np.exp(coupling.entropy) / n),
        "n": n,
        "m": m,
        "source": _describe(match.source, n),
        "target": _describe(match.target, m),
        "settings": match.settings,
        "seconds": match.seconds,
        "memory": match.memory,
    }
    if table is not None:
        rows = zip(table.rows, table.counts, strict=True)
        content |= {
            "accuracy": table.accuracy,
            "majority": float(table.counts.sum(axis=1).max() / max(1, table.counts.sum())),
            "recall": table.recall,
            "confusion": {
                row: {column: int(count) for column, count in zip(table.columns, counts, strict=True) if count}
                for row, counts in rows
            },
        }
    if found.proportions is not None:
        columns = found.proportions._asdict()
        names = columns.pop("classes")
        if match.source_labels is not None:
            columns["true"] = np.equal.outer(names, match.source_labels).mean(axis=1)
        lines = zip(names, np.transpose(list(columns.values())), strict=True)
        content["proportions"] = {str(name): dict(zip(columns, map(float, row), strict=True)) for name, row in lines}
    if found.sources is not None and found.targets is not None:
        counts = {"sources": len(found.sources.indices), "targets": len(found.targets.indices)}
        content["outliers"] = {**counts, "level": OUTLIER_LEVEL}
    headline = match.headline()
    if headline is not None:
        content |= headline.facts()
    if poses is not None:
        content["poses"] = pose_summary(poses)
    return content


def pose_summary(poses: Poses) -> dict[str, int | float | str | None]:
    """Summary of all poses, for ``results.json``."""
    known = poses.uncertainty[np.isfinite(poses.uncertainty) & ~poses.ambiguous]
    return {
        "sources": len(poses),
        "voters": int(poses.targets.shape[1]),
        "certain": int((poses.found & ~poses.ambiguous).sum()),
        "ambiguous": int((poses.found & poses.ambiguous).sum()),
        "without": int((~poses.found).sum()),
        "median_uncertainty": float(np.median(known)) if len(known) else None,
        "unit": "pixels" if poses.angles is None and poses.shifts is not None else "degrees",
    }


def _describe(dataset: Dataset | None, count: int) -> JsonObject:
    if dataset is None:
        return {"name": "features", "images": count, "shape": [], "classes": None}
    classes = dataset.classes if dataset.labels is not None else None
    return {"name": dataset.name, "images": count, "shape": dataset.images.shape[1:], "classes": classes}
