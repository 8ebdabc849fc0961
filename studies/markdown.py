"""Tables of a study in Markdown, in the paper's layout: our figures, the paper's and the difference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from studies.paper import DATASET_TITLES, FEATURE_TITLES, METRIC_TITLES, paper_accuracy


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Markdown table; all columns except the first are aligned to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    figures = [place > 0 and not any(row[place][:1].isalpha() for row in cells) for place in range(len(header))]
    lines = [header, ["---:" if figure else "---" for figure in figures], *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def accuracy_table(cells: list[dict[str, Any]], setting: str) -> str:
    """One of the paper's two tables: rows are dataset and features, columns are metrics.

    Each entry is ``ours (paper's, difference)``, without the difference if there are fewer images than in the
    paper; a ``*`` marks a solve that missed its tolerance.
    """
    chosen = [cell for cell in cells if cell["setting"] == setting]
    title = "A rotated at random, B upright" if setting == "rotated" else "neither A nor B rotated"
    number = 1 if setting == "rotated" else 2
    metrics = [metric for metric in METRIC_TITLES if any(cell["metric"] == metric for cell in chosen)]
    rows = []
    for dataset, features in _ordered(chosen):
        row = {c["metric"]: c for c in chosen if (c["dataset"], c["features"]) == (dataset, features)}
        counts = {f"{cell['n_source']:,} x {cell['n_target']:,}" for cell in row.values()}
        rows.append(
            [
                f"{DATASET_TITLES.get(dataset, dataset)}, {FEATURE_TITLES.get(features, features)}",
                "; ".join(sorted(counts)),
                *(_entry(row[metric]) if metric in row else "" for metric in metrics),
            ]
        )
    heading = f"Table {number}. Fraction of A mapped to its own class; {title}."
    compared = [cell for cell in chosen if beside_paper(cell)]
    if compared:
        heading += " Ours (the paper's, difference)."
    if any(cell["config"]["per_class"] is not None for cell in compared):
        heading += " The paper's are of all images: to those of fewer, no difference is given."
    table = markdown_table(["dataset, features", "source x target", *(METRIC_TITLES[m] for m in metrics)], rows)
    missed = any(not cell["converged"] for cell in chosen)
    note = "\n`*`: the transport missed its tolerance.\n" if missed else ""
    return f"{heading}\n\n{table}{note}\n{_settings(chosen)}"


def _ordered(cells: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """(dataset, features) of the rows: the paper's order first, then others by name."""

    def rank(name: str, known: dict[str, str]) -> tuple[int, str]:
        return (list(known).index(name), name) if name in known else (len(known), name)

    pairs = {(cell["dataset"], cell["features"]) for cell in cells}
    return sorted(pairs, key=lambda pair: (rank(pair[0], DATASET_TITLES), rank(pair[1], FEATURE_TITLES)))


def _entry(cell: dict[str, Any]) -> str:
    ours = f"{cell['accuracy']:.4f}{'' if cell['converged'] else '*'}"
    paper = beside_paper(cell)
    return f"{ours} ({paper})" if paper else ours


def beside_paper(cell: dict[str, Any]) -> str:
    """The paper's figure for a cell, with the difference if the cell has all images; empty if there is none."""
    paper = paper_accuracy(cell["dataset"], cell["features"], cell["metric"], cell["setting"])
    if paper is None:
        return ""
    return f"{paper:.4f}" if cell["config"]["per_class"] else f"{paper:.4f}, {cell['accuracy'] - paper:+.4f}"


def _settings(cells: list[dict[str, Any]]) -> str:
    """Settings of the cells, each with all its values, which shows a mixture."""
    said = []
    for key, title in _SETTING_TITLES.items():
        values = sorted({_in_words(cell["config"][key]) for cell in cells})
        said.append(f"{title} {' and '.join(values)}")
    for features in dict.fromkeys(cell["features"] for cell in cells):
        sets = [cell["config"]["parameters"] for cell in cells if cell["features"] == features]
        # None: follows from the images
        named = {", ".join(f"{key} {value}" for key, value in one.items() if value is not None) for one in sets}
        if any(named):
            said.append(f"{FEATURE_TITLES.get(features, features)} with {' or '.join(sorted(named))}")
    return f"Settings: {'; '.join(said)}.\n" if cells else ""


_SETTING_TITLES = {
    "seed": "seed",
    "per_class": "images of each class in each half:",
    "reg": "reg",
    "tol": "tol",
    "normalized": "pixels normalized:",
    "fill": "empty corners:",
}


def _in_words(value: Any) -> str:
    if value is None:
        return "all"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
