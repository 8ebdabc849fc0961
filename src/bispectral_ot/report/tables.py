"""A match in tables: which classes correspond, the rows of the CSV files, the content of ``results.json``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets import Dataset
from bispectral_ot.matching import Match, class_preservation

Row = list[Any]


@dataclass(frozen=True)
class Side:
    """One side of a match: a dataset, and where each of its images stood in the set as it was loaded."""

    dataset: Dataset
    positions: NDArray[np.int64]

    @classmethod
    def whole(cls, dataset: Dataset) -> Side:
        """A side that uses all images of its dataset."""
        return cls(dataset, np.arange(len(dataset)))


@dataclass(frozen=True)
class ClassTable:
    """Where the images of each source class went.

    Attributes
    ----------
    rows, columns : names of the source classes (r) and of the target classes (c) that have images
    counts : (r, c) images of a source class that were mapped to a target class
    accuracy : share of images mapped to their own class; None where the two sides have no class in common
    recall : the same within each source class that the target also has
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    counts: NDArray[np.int64]
    accuracy: float | None
    recall: dict[str, float]

    @property
    def own(self) -> NDArray[np.bool_]:
        """(r, c) whether row and column are the same class."""
        own: NDArray[np.bool_] = np.equal.outer(np.asarray(self.rows), np.asarray(self.columns))
        return own

    @property
    def shares(self) -> NDArray[np.float64]:
        """(r, c) counts as shares of their row; 0 for a class whose images have no mass."""
        shares: NDArray[np.float64] = self.counts / self.counts.sum(axis=1, keepdims=True).clip(1)
        return shares


def class_table(match: Match, source: Dataset, target: Dataset) -> ClassTable | None:
    """Compare the classes of both sides; None unless both have labels."""
    labels, target_labels = match.source_labels, match.target_labels
    if labels is None or target_labels is None:
        return None
    kept = class_preservation(match, labels, target_labels)
    rows = _filled_classes(source)
    others = _filled_classes(target)
    # the classes that both have come first and in the same order, so that hits lie on the diagonal
    columns = [name for name in rows if name in others] + [name for name in others if name not in rows]
    index = {str(name): i for i, name in enumerate(kept.classes)}
    counts = kept.confusion[np.ix_([index[name] for name in rows], [index[name] for name in columns])]
    common = [name for name in rows if name in others]
    return ClassTable(
        rows=tuple(rows),
        columns=tuple(columns),
        counts=counts,
        accuracy=kept.accuracy if common else None,
        recall={name: float(kept.recall[index[name]]) for name in common},
    )


def match_rows(match: Match, source: Side, target: Side, *, k: int) -> tuple[list[str], Iterator[Row]]:
    """Header and rows of ``matches.csv``: one row for each source and each of its k best targets that get mass."""
    top, distances = match.top_matches(k), match.top_distances(k)
    with_files = bool(source.dataset.files), bool(target.dataset.files)
    header = [
        "source",
        *["source_file"] * with_files[0],
        "rank",
        "target",
        *["target_file"] * with_files[1],
        "share",
        "distance",
    ]

    def rows() -> Iterator[Row]:
        for i, (indices, shares) in enumerate(zip(top.indices, top.shares, strict=True)):
            first = [source.positions[i], *([source.dataset.files[i]] if with_files[0] else [])]
            kept = shares > 0
            best = zip(indices[kept], shares[kept], distances[i, kept], strict=True)
            for rank, (j, share, distance) in enumerate(best, start=1):
                file = [target.dataset.files[j]] if with_files[1] else []
                yield [*first, rank, target.positions[j], *file, f"{share:.6g}", f"{distance:.6g}"]

    return header, rows()


def label_rows(
    match: Match, source: Side, target: Side, *, scores: NDArray[np.float64] | None = None
) -> tuple[list[str], Iterator[Row]] | None:
    """Header and rows of ``labels.csv``: the label of each image by the other side, and what speaks against it.

    The source gets labels, together with its own where it has some; the target does where only the source
    has labels; nobody where there are none. ``scores`` (n,) say how far sources have a counterpart.
    """
    if match.target_labels is not None:
        name, side = "source", source
        details = match.label_details()
        rivalled = (details.runner_up != details.labels) & (details.runner_up_shares > 0)
        found: dict[str, Iterable[Any]] = {
            "label": details.labels,
            "share": _short(details.shares),
            "runner_up": np.where(rivalled, details.runner_up, ""),
            "runner_up_share": _short(np.where(rivalled, details.runner_up_shares, 0.0)),
            "nearest_label": details.nearest,
            "nearest_distance": _short(details.nearest_costs),
        }
        if scores is not None:
            found["counterpart"] = [f"{score:.4g}" for score in scores]
        if match.source_labels is not None:
            found["true_label"] = match.source_labels
    elif match.source_labels is not None:
        name, side = "target", target
        transfer = match.transfer_labels(to="target")
        found = {"label": transfer.labels, "share": _short(transfer.shares)}
    else:
        return None
    columns = {name: side.positions, **({"file": side.dataset.files} if side.dataset.files else {}), **found}
    return list(columns), (list(row) for row in zip(*columns.values(), strict=True))


def _short(numbers: NDArray[np.float64]) -> list[str]:
    return [f"{number:.6g}" for number in numbers]


def confusion_rows(table: ClassTable) -> tuple[list[str], list[Row]]:
    """Header and rows of ``confusion.csv``: source classes down, target classes across, counts."""
    header = ["source class", *table.columns]
    return header, [[name, *counts] for name, counts in zip(table.rows, table.counts.tolist(), strict=True)]


def results(match: Match, source: Side, target: Side, table: ClassTable | None) -> dict[str, Any]:
    """The figures of a match, for ``results.json``."""
    coupling = match.coupling
    found: dict[str, Any] = {
        "distance": match.distance,
        "converged": match.converged,
        "marginal_error": match.marginal_error,
        "tol": coupling.tol,
        "iterations": coupling.iterations,
        "reg": getattr(coupling, "reg", None),
        "marginals": match.settings.get("marginals", "balanced"),
        "mass": match.mass,
        "targets_per_source": float(np.exp(coupling.entropy) / coupling.shape[0]),
        "n": coupling.shape[0],
        "m": coupling.shape[1],
        "source": _describe(source.dataset),
        "target": _describe(target.dataset),
        "settings": match.settings,
        "seconds": match.seconds,
        "memory": match.memory,
    }
    if table is not None:
        found |= {
            "accuracy": table.accuracy,
            "majority": float(source.dataset.class_counts.max() / len(source.dataset)),
            "recall": table.recall,
            "confusion": {
                row: {column: int(count) for column, count in zip(table.columns, counts, strict=True) if count}
                for row, counts in zip(table.rows, table.counts, strict=True)
            },
        }
    return found


def _describe(dataset: Dataset) -> dict[str, Any]:
    return {
        "name": dataset.name,
        "images": len(dataset),
        "shape": dataset.images.shape[1:],
        "classes": dataset.classes if dataset.labels is not None else None,
    }


def _filled_classes(dataset: Dataset) -> list[str]:
    return [name for name, count in zip(dataset.classes, dataset.class_counts, strict=True) if count]
