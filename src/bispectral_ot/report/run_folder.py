"""Run folders of matches and comparisons: results and tables first, then figures and page data."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bispectral_ot import drawing, runtime
from bispectral_ot.comparing import Comparison
from bispectral_ot.datasets import Dataset
from bispectral_ot.errors import DataWarning, warn
from bispectral_ot.files import write_csv, write_json
from bispectral_ot.matching import Match, class_table
from bispectral_ot.poses import Poses
from bispectral_ot.report import tables
from bispectral_ot.report.figures import plot_plane, plot_poses, plot_tree
from bispectral_ot.report.page_data import collect_comparison, collect_match
from bispectral_ot.report.records import JsonObject, save_record
from bispectral_ot.transport import EntropicCoupling

MODEL = "model.npz"
MATCH_DATA, COMPARISON_DATA = "report-data.json", "comparison-data.json"
COMPARISON_FILES = (
    *("results.json", "distances.csv", "classes.csv", "contributors.csv", "class-distances.csv"),
    *(COMPARISON_DATA, "figures"),
)


def write_match(
    folder: Path,
    match: Match,
    *,
    title: str = "",
    group: str = "",
    k: int = 5,
    poses: Poses | None = None,
    figures: bool = True,
    settings: Mapping[str, Any] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> JsonObject:
    """Write a match to ``folder`` and return the content of ``results.json``.

    ``results.json``, ``matches.csv``, ``labels.csv`` (if a side has labels), ``confusion.csv`` (if both have),
    ``outliers.csv`` (unless the plan is balanced), ``poses.csv`` and ``model.npz`` come first. Then come decorations:
    ``figures/`` and ``report-data.json`` for the page, of which one that fails is a warning.

    Parameters
    ----------
    title, group
        Name of this match, and of the sets that it shares with other matches of the run.
    k
        Number of best targets of each source in ``matches.csv``.
    poses
        Result of :meth:`Match.poses`, for ``poses.csv`` and its figures.
    figures
        Whether to draw figures.
    settings, extra
        Further settings, and further entries of ``results.json``; ``seconds`` are added to those of the match.
    """
    start = time.perf_counter()
    found, table = tables.Diagnostics.of(match), class_table(match)
    content = tables.results(match, table, found, poses) | dict(extra or {})
    content["settings"] = {**match.settings, **(settings or {})}
    content["seconds"] = {**dict((extra or {}).get("seconds", {})), **match.seconds}
    write_json(folder / "results.json", content)
    written = {
        "matches": tables.match_rows(match, k=k),
        "labels": tables.label_rows(match, outliers=found.sources),
        "confusion": None if table is None else tables.confusion_rows(table),
        "poses": None if poses is None or match.source is None else tables.pose_rows(poses, match.source),
        "outliers": None if found.sources is None else tables.outlier_rows(match, found),
    }
    for name, rows in written.items():
        if rows is not None:
            write_csv(folder / f"{name}.csv", *rows)
    if match.images_elsewhere:
        warn(
            "figures and model.npz are skipped because images are not available on this machine; "
            "--report and --poses read them here.",
            DataWarning,
        )
    elif isinstance(match.coupling, EntropicCoupling) and match.feature_map is not None:
        decorate({MODEL: lambda: match.predictor.save(folder / MODEL)})
    content["seconds"]["tables"] = time.perf_counter() - start
    start = time.perf_counter()
    shown = not match.images_elsewhere and match.source is not None and match.target is not None
    if figures and shown:
        decorate(_match_figures(folder / "figures", match, poses), stage="figures")
        content["seconds"]["figures"] = time.perf_counter() - start
        start = time.perf_counter()
    if shown:

        def save_page() -> None:
            page = collect_match(match, content, found, title=title, group=group, poses=poses)
            content["seconds"]["page"] = time.perf_counter() - start
            save_record(folder / MATCH_DATA, page)

        decorate({MATCH_DATA: save_page}, stage="page")
    write_json(folder / "results.json", content)
    return content


def decorate(parts: Mapping[str, Callable[[], object]], *, stage: str = "") -> None:
    """Write figures and pages; one that fails is a warning, and the run goes on."""
    for number, (name, write) in enumerate(parts.items()):
        if stage:
            runtime.progress(stage, number, len(parts))
        try:
            write()
        except Exception as error:  # whatever a decoration does, the results are written
            warn(f"{name} was not written ({type(error).__name__}: {error}); the results are complete.", DataWarning)
    if stage:
        runtime.progress(stage, len(parts), len(parts))


def _match_figures(folder: Path, match: Match, poses: Poses | None) -> dict[str, Callable[[], None]]:
    source, target = match.source, match.target
    assert source is not None
    assert target is not None
    drawn: dict[str, Callable[[Any], Any]] = {"matches": lambda ax: match.plot("pairs", n=8, ax=ax)}
    if match.source_labels is not None and match.target_labels is not None:
        drawn["confusion"] = lambda ax: match.plot("classes", ax=ax)
    if poses is not None:
        drawn["poses"] = lambda ax: plot_poses(poses, source, target, ax=ax)
        if (poses.found & poses.ambiguous).any():
            drawn["poses-ambiguous"] = lambda ax: plot_poses(poses, source, target, ambiguous=True, ax=ax)
    return {f"figures/{name}.png": _saving(draw, folder / f"{name}.png") for name, draw in drawn.items()}


def _saving(draw: Callable[[Any], Any], path: Path) -> Callable[[], None]:
    def write() -> None:
        with drawing.house_style():
            figure = draw(drawing.fitted_axes()).figure
        drawing.save(figure, path)

    return write


def write_comparison(
    folder: Path,
    comparison: Comparison,
    datasets: Sequence[Dataset],
    *,
    figures: bool = True,
    extra: Mapping[str, Any] | None = None,
) -> JsonObject:
    """Write a comparison to ``folder`` and return the content of ``results.json``.

    ``results.json``, ``distances.csv``, ``contributors.csv`` (the images that contribute most), ``classes.csv``
    (contributions of classes, if all sets have labels) and ``class-distances.csv`` (if labels count) come first. Then
    come decorations: ``figures/`` and ``comparison-data.json`` for the page, of which one that fails is a warning.
    """
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
        "sampling_bias": [vars(bias) for bias in comparison.biases],
        "pairs": comparison.table(),
        "symmetry_tests": [found.summary() for found in comparison.symmetry_tests],
        "settings": comparison.settings,
        "seconds": comparison.seconds,
        **(extra or {}),
    }
    write_json(folder / "results.json", content)
    comparison.to_csv(folder / "distances.csv")
    write_csv(folder / "contributors.csv", *contributor_rows(comparison, datasets))
    if all(labels is not None for labels in comparison.labels):
        header = ("source", "target", "set", "class", "contribution", "fraction")
        write_csv(folder / "classes.csv", header, class_rows(comparison))
    if comparison.class_distances is not None:
        names = [f"{name}: {title}" for name, title in comparison.class_distances.names]
        rows = [[name, *map(float, row)] for name, row in zip(names, comparison.class_distances.matrix, strict=True)]
        write_csv(folder / "class-distances.csv", ["class", *names], rows)
    if figures:
        drawn: dict[str, Callable[[Any], Any]] = {"distances": lambda ax: comparison.plot(ax=ax)}
        if len(comparison.names) > 2:
            drawn["tree"] = lambda ax: plot_tree(comparison, ax=ax)
            drawn["map"] = lambda ax: plot_plane(comparison, ax=ax)
        parts = {
            f"figures/{name}.png": _saving(draw, folder / "figures" / f"{name}.png") for name, draw in drawn.items()
        }
        decorate(parts, stage="figures")

    def save_page() -> None:
        save_record(folder / COMPARISON_DATA, collect_comparison(comparison, datasets))

    decorate({COMPARISON_DATA: save_page}, stage="page")
    return content


def contributor_rows(comparison: Comparison, datasets: Sequence[Dataset]) -> tables.Table:
    """``contributors.csv``: images of either side that contribute most to a distance, with their counterparts."""
    header = ["source", "target", "set", "image", "file", "contribution", "counterpart", "counterpart_file"]
    rows = []
    for pair in comparison.pairs:
        sides = ((pair.source, pair.target, pair.source_top), (pair.target, pair.source, pair.target_top))
        for name, other_name, top in sides:
            own, other = (datasets[comparison.names.index(each)] for each in (name, other_name))
            for index, part, counterpart in zip(*top, strict=True):
                found = [int(own.positions[index]), own.files[index] if own.files else "", float(part)]
                found += [int(other.positions[counterpart]), other.files[counterpart] if other.files else ""]
                rows.append([pair.source, pair.target, name, *found])
    return header, rows


def class_rows(comparison: Comparison) -> list[tables.Row]:
    """``classes.csv``: contribution of each class of either side to each distance."""
    rows: list[tables.Row] = []
    for pair in comparison.pairs:
        for name, parts in comparison.class_contributions(pair.source, pair.target).items():
            for title, part in parts.items():
                fraction = part / pair.distance if pair.distance else float("nan")
                rows.append([pair.source, pair.target, name, title, part, fraction])
    return rows
