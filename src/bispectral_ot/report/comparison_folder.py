"""The files of a comparison: results, tables and figures in one folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bispectral_ot.comparing import Comparison, Contrast
from bispectral_ot.datasets import Dataset
from bispectral_ot.files import write_csv, write_json, write_text
from bispectral_ot.progress import Progress, silent
from bispectral_ot.report import comparison_figures as figures
from bispectral_ot.report.comparison_page import collect_comparison
from bispectral_ot.report.style import save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Pairs that get a picture of their own; results.json has all of them.
_MOST_PICTURES = 15
OUTPUTS = (
    *("results.json", "distances.csv", "classes.csv", "contributors.csv", "class-distances.csv"),
    *("comparison.md", "comparison-data.npz", "figures"),
)


def write_comparison(
    folder: Path,
    comparison: Comparison,
    datasets: Sequence[Dataset],
    *,
    contrasts: Sequence[Contrast] = (),
    draw: bool = True,
    extra: dict[str, Any] | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Write everything about a comparison to ``folder``, and return the content of ``results.json``.

    ``distances.csv``, ``contributors.csv`` (the images that contribute most), ``classes.csv`` (what each class
    contributes, if all sets have labels), ``class-distances.csv`` (if labels count), ``comparison.md``
    to read, ``comparison-data.npz`` for the page, the pictures in ``figures/`` (unless ``draw`` is False) and, last,
    ``results.json``.
    """
    comparison.to_csv(folder / "distances.csv")
    write_csv(folder / "contributors.csv", *contributor_rows(comparison, datasets))
    with_labels = all(labels is not None for labels in comparison.labels)
    classes = class_rows(comparison) if with_labels else []
    if classes:
        write_csv(folder / "classes.csv", ("source", "target", "set", "class", "contribution", "share"), classes)
    if comparison.class_distances is not None:
        names = [f"{name}: {title}" for name, title in comparison.class_distances.names]
        rows = [[name, *map(float, row)] for name, row in zip(names, comparison.class_distances.matrix, strict=True)]
        write_csv(folder / "class-distances.csv", ["class", *names], rows)
    if draw:
        _save_figures(folder / "figures", comparison, datasets, progress)
    write_text(folder / "comparison.md", page(comparison, classes, contrasts))
    collect_comparison(comparison, datasets, contrasts=contrasts, seed=comparison.settings.get("seed", 0)).save(folder)
    content = {
        "names": comparison.names,
        "sizes": comparison.sizes,
        "converged": comparison.converged,
        "distances": comparison.distances,
        "errors": comparison.errors,
        "references": comparison.references,
        "corrected": comparison.corrected,
        "p_values": comparison.p_values,
        "intervals": comparison.intervals,
        "scale": comparison.scale,
        "laws": [law._asdict() for law in comparison.laws],
        "pairs": comparison.table(),
        "contrasts": [{**vars(found), "smallest": found.smallest, "sentence": found.sentence} for found in contrasts],
        "settings": comparison.settings,
        "seconds": comparison.seconds,
        **(extra or {}),
    }
    write_json(folder / "results.json", content)
    return content


def _save_figures(folder: Path, comparison: Comparison, datasets: Sequence[Dataset], progress: Progress) -> None:
    drawn: dict[str, Callable[[], Figure]] = {"distances": lambda: figures.heat_map_figure(comparison)}
    if comparison.class_distances is not None:
        drawn["class-distances"] = lambda: figures.class_distance_heat_map(comparison)
    if len(comparison.names) > 2:
        drawn |= {
            "dendrogram": lambda: figures.dendrogram_figure(comparison),
            "map": lambda: figures.map_figure(comparison),
        }
    for number, pair in enumerate(comparison.pairs[:_MOST_PICTURES] if datasets[0].kind == "images" else ()):
        sides = [datasets[comparison.names.index(name)] for name in (pair.source, pair.target)]
        name = re.sub(r"[^A-Za-z0-9.]+", "-", f"explanation-{number}-{pair.source}-{pair.target}")
        drawn[name] = partial(figures.explanation_figure, pair, *sides)
    for number, (name, draw) in enumerate(drawn.items()):
        progress("figures", number, len(drawn))
        kinds = ("png",) if name.startswith("explanation") else ("png", "svg")
        save(draw(), folder / f"{name}.png", kinds=kinds)
        progress("figures", number + 1, len(drawn))


def contributor_rows(comparison: Comparison, datasets: Sequence[Dataset]) -> tuple[list[str], list[list[Any]]]:
    """Header and rows of ``contributors.csv``."""
    header = ["source", "target", "set", "image", "file", "contribution", "counterpart", "counterpart_file"]
    rows = []
    for pair in comparison.pairs:
        sides = ((pair.source, pair.target, pair.source_top), (pair.target, pair.source, pair.target_top))
        for name, other_name, top in sides:
            files, others = (datasets[comparison.names.index(each)].files for each in (name, other_name))
            for index, part, counterpart in zip(*top, strict=True):
                found = [int(index), files[index] if files else "", float(part)]
                found += [int(counterpart), others[counterpart] if others else ""]
                rows.append([pair.source, pair.target, name, *found])
    return header, rows


def class_rows(comparison: Comparison) -> list[list[Any]]:
    """Rows of ``classes.csv``: what each class of either side adds to each distance."""
    rows: list[list[Any]] = []
    for pair in comparison.pairs:
        for name, parts in comparison.class_contributions(pair.source, pair.target).items():
            for title, part in parts.items():
                share = part / pair.distance if pair.distance else float("nan")
                rows.append([pair.source, pair.target, name, title, part, share])
    return rows


def page(comparison: Comparison, classes: list[list[Any]], contrasts: Sequence[Contrast] = ()) -> str:
    """The comparison in Markdown."""
    header = ["sets", "distance", "error", "one population", "ratio", "p", "interval"]
    rows = []
    for pair in comparison.pairs:
        p = "" if pair.p_value is None else f"{pair.p_value:.3g}"
        interval = "" if pair.interval is None else f"{pair.interval[0]:.4g} to {pair.interval[1]:.4g}"
        figures_of_pair = [f"{pair.distance:.4g}", f"{pair.error:.1e}", f"{pair.reference:.4g}", f"{pair.ratio:.3g}"]
        rows.append([f"{pair.source}, {pair.target}", *figures_of_pair, p, interval])
    parts = [
        "## Distances",
        _table(header, rows),
        "Distances are debiased divergences relative to the largest cost within a set, but for the uppermost 1 %. "
        '"One population" is what two samples of these sizes would be at on average if they were of one population, '
        "and ratio is the distance in multiples of it.",
    ]
    if contrasts:
        names = list(contrasts[0].p_values)
        table = [[f"{c.source}, {c.target}", *(f"{c.p_values[n]:.3g}" for n in names)] for c in contrasts]
        parts += ["## Changed, or merely moved", _table(["p-value up to", *names], table)]
        parts += [_one_line(found.sentence) for found in contrasts]
    if classes:
        strongest = sorted(classes, key=lambda row: -row[4] if np.isfinite(row[4]) else 0.0)[:20]
        table = [[f"{row[0]}, {row[1]}", row[2], row[3], f"{row[4]:.4g}", f"{row[5]:.1%}"] for row in strongest]
        header = ["sets", "set", "class", "contribution", "share of the distance"]
        parts += ["## Classes that contribute most", _table(header, table)]
    return "\n\n".join(parts) + "\n"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(_one_line(cell).replace("|", "/") for cell in line) + " |" for line in lines)


def _one_line(text: str) -> str:
    """Names may have ends of lines in them, which Markdown would take for its own."""
    return " ".join(text.split())
