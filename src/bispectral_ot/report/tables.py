"""Tables of a match and of a comparison as DataFrames, their CSV files, and the content of ``results.json``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bispectral_ot.comparing import Comparison
from bispectral_ot.datasets import Dataset
from bispectral_ot.files import any_names, write_csv
from bispectral_ot.matching import ClassTable, Match, Outliers
from bispectral_ot.poses import Poses

# A JSON object whose entries are written for readers, such as the content of results.json.
JsonObject: TypeAlias = dict[str, Any]
# Fraction of elements of the other set's population that are listed as outliers by chance.
OUTLIER_LEVEL = 0.05
_TEXT = {"label", "runner_up", "nearest_label", "true_label", "file", "target_file", "source class", "class", "side"}


def write_tables(folder: Path, tables: Mapping[str, pd.DataFrame | None]) -> None:
    """Write tables as NAME.csv: numbers with six digits, missing ones empty, truth values as true and false."""

    def cells(column: pd.Series) -> list[Any]:
        if column.dtype.kind == "b":
            return ["true" if value else "false" for value in column]
        if column.dtype.kind == "f":
            return [format(value, ".6g") if np.isfinite(value) else "" for value in column]
        return list(column)

    for name, table in tables.items():
        if table is not None:
            columns = [cells(table.iloc[:, place]) for place in range(table.shape[1])]
            write_csv(folder / f"{name}.csv", list(table.columns), zip(*columns, strict=True))


@any_names
def read_table(path: Path) -> pd.DataFrame:
    """Table that :func:`write_tables` has written; names of classes and of files stay text."""
    text = _TEXT | ({"source", "target", "set"} if path.stem in ("distances", "contributors", "classes") else set())
    table = pd.read_csv(path, dtype=dict.fromkeys(text, str), keep_default_na=False, na_values="")
    return table.fillna(dict.fromkeys(text & set(table), ""))


def match_table(match: Match, *, k: int) -> pd.DataFrame:
    """``matches.csv``: a row for each source and each of its k best targets that have a weight."""
    (indices, weights), distances = match.top_matches(k), match.top_distances(k)
    kept = weights > 0
    rows, targets = np.nonzero(kept)[0], indices[kept]
    first, second = _positions("source", match.source), _positions("target", match.target)
    columns = {name: values[rows] for name, values in first.items()} | {"rank": kept.cumsum(axis=1)[kept]}
    columns |= {name: values[targets] for name, values in second.items()}
    return pd.DataFrame(columns | {"weight": weights[kept], "distance": distances[kept]})


def label_table(match: Match) -> pd.DataFrame | None:
    """``labels.csv``: labels of sources (of targets, if only sources have labels) with probability and runner-up."""
    if match.target_labels is not None:
        table = match.labels()
        rivalled = (table.runner_up != table.label) & (table.runner_up_probability > 0)
        table["runner_up"] = np.where(rivalled, table.runner_up, "")
        table["runner_up_probability"] = np.where(rivalled, table.runner_up_probability, 0.0)
        if match.outlier_scores is None:
            del table["outlier_score"]
        if match.source_labels is not None:
            table["true_label"] = match.source_labels
        table.insert(0, "source", match.source.positions)
        return table
    if match.source_labels is None:
        return None
    names, weights = match.class_weights(to="target")
    columns = {"label": names[weights.argmax(axis=1)], "probability": weights.max(axis=1)}
    return pd.DataFrame(_positions("target", match.target) | columns)


def found_outliers(match: Match) -> tuple[Outliers, Outliers] | None:
    """Outliers of the sources and of the targets; None if they were not computed with the match."""
    if match.outlier_scores is None:
        return None
    return match.outliers(OUTLIER_LEVEL), match.outliers(OUTLIER_LEVEL, side="target")


def outlier_table(match: Match) -> pd.DataFrame | None:
    """``outliers.csv``: outliers of both sides, the most distant first."""
    found = found_outliers(match)
    if found is None:
        return None
    rows: list[list[Any]] = []
    for name, dataset, each in zip(("source", "target"), (match.source, match.target), found, strict=True):
        rows += [[name, *_place(dataset, i), each.scores[i]] for i in each.indices]
    return pd.DataFrame(rows, columns=["side", "position", "file", "outlier_score"])


def confusion_table(table: ClassTable) -> pd.DataFrame:
    """``confusion.csv``: counts, with source classes as rows and assigned labels as columns."""
    rows = pd.Index(table.rows, name="source class")
    return pd.DataFrame(table.counts, index=rows, columns=table.columns).reset_index()


def pose_table(poses: Poses, source: Dataset) -> pd.DataFrame:
    """``poses.csv``: a row for each source; empty if there is no pose."""
    return pd.DataFrame(_positions("source", source)).join(poses.to_frame())


def _positions(name: str, dataset: Dataset) -> JsonObject:
    """Position of each element in its set, and its file if there are files."""
    files = {"file" if name == "source" else "target_file": np.array(dataset.files, dtype=object)}
    return {name: dataset.positions} | (files if dataset.files else {})


def contributor_table(comparison: Comparison, datasets: Sequence[Dataset]) -> pd.DataFrame:
    """``contributors.csv``: images of either side that contribute most to a distance, with their counterparts."""
    sets = dict(zip(comparison.names, datasets, strict=True))
    rows = []
    for pair in comparison.pairs:
        sides = (pair.source, pair.target, pair.source_top), (pair.target, pair.source, pair.target_top)
        for name, other, top in sides:
            for index, part, counterpart in zip(*top, strict=True):
                first, second = _place(sets[name], index), _place(sets[other], counterpart)
                rows.append([pair.source, pair.target, name, *first, part, *second])
    header = ["source", "target", "set", "position", "file", "contribution", "counterpart", "counterpart_file"]
    return pd.DataFrame(rows, columns=header)


def _place(dataset: Dataset, index: int) -> tuple[int, str]:
    return int(dataset.positions[index]), dataset.files[index] if dataset.files else ""


def class_contribution_table(comparison: Comparison) -> pd.DataFrame | None:
    """``classes.csv``: contribution of each class of either side to each distance; None unless all sets have labels."""
    if any(labels is None for labels in comparison.labels):
        return None
    rows = [
        [pair.source, pair.target, name, title, part, part / pair.distance if pair.distance else np.nan]
        for pair in comparison.pairs
        for name, parts in comparison.class_contributions(pair.source, pair.target).items()
        for title, part in parts.items()
    ]
    return pd.DataFrame(rows, columns=["source", "target", "set", "class", "contribution", "fraction"])


@any_names
def match_results(match: Match, table: ClassTable | None, poses: Poses | None = None) -> JsonObject:
    """Content of ``results.json`` of a match; ``table`` is its confusion matrix."""
    coupling = match.coupling
    n, m = coupling.shape
    content: JsonObject = {
        **{name: getattr(match, name) for name in ("distance", "converged", "marginal_error")},
        **{"tol": coupling.tol, "iterations": coupling.iterations},
        "reg": getattr(coupling, "reg", None),
        "marginals": match.settings["marginals"],
        "mass": match.mass,
        "targets_per_source": float(np.exp(coupling.entropy) / n),
        **{"n": n, "m": m, "source": _describe(match.source), "target": _describe(match.target)},
        **{"settings": dict(match.settings), "seconds": dict(match.seconds), "memory": match.memory},
    }
    if table is not None:
        majority = float(table.counts.sum(axis=1).max() / max(1, table.counts.sum()))
        content |= {"accuracy": table.accuracy, "majority": majority, "recall": table.recall, "confusion": {}}
        for name, row in zip(table.rows, table.counts.tolist(), strict=True):
            cells = zip(table.columns, row, strict=True)
            content["confusion"][name] = {label: count for label, count in cells if count}
    if match.classes is not None:
        columns = match.class_proportions()._asdict()
        names: NDArray[Any] = columns.pop("classes")
        if match.source_labels is not None:
            counts = pd.Series(match.source_labels).value_counts(normalize=True)
            columns["true"] = counts.reindex(names, fill_value=0.0).to_numpy()
        content["proportions"] = pd.DataFrame(columns, index=names.astype(str)).to_dict(orient="index")
    outliers = found_outliers(match)
    if outliers is not None:
        sources, targets = (len(each.indices) for each in outliers)
        content["outliers"] = {"sources": sources, "targets": targets, "level": OUTLIER_LEVEL}
    content |= match.headline()
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


def _describe(dataset: Dataset) -> JsonObject:
    classes = dataset.classes if dataset.labels is not None else None
    return {"name": dataset.name, "images": len(dataset), "shape": dataset.signals.shape[1:], "classes": classes}
