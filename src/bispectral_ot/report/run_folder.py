"""Run folders of matches and comparisons: results and tables first, then figures and page data."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bispectral_ot import drawing, runtime
from bispectral_ot.comparing import Comparison
from bispectral_ot.datasets import Dataset
from bispectral_ot.errors import DataWarning, warn
from bispectral_ot.files import write_json
from bispectral_ot.matching import Match, class_table
from bispectral_ot.poses import Poses
from bispectral_ot.report import tables
from bispectral_ot.report.figures import plot_poses
from bispectral_ot.report.page_data import PAGE_DATA, comparison_page, match_page, save_page_data
from bispectral_ot.transport import EntropicCoupling

MODEL = "model.npz"
COMPARISON_FILES = (
    *("results.json", "distances.csv", "classes.csv", "contributors.csv", "class-distances.csv"),
    *(PAGE_DATA, "figures"),
)
Draw = Callable[[Any], Any]


def write_match(
    folder: Path,
    match: Match,
    *,
    title: str = "",
    k: int = 5,
    poses: Poses | None = None,
    figures: bool = True,
    settings: Mapping[str, Any] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> tables.JsonObject:
    """Write a match to ``folder`` and return the content of ``results.json``.

    Results and tables come first, then ``model.npz``, ``figures/`` and ``page-data.json``, of which one that fails is a
    warning.

    Parameters
    ----------
    title : name of this match among other matches of the run
    k : number of best targets of each source in ``matches.csv``
    poses : result of :meth:`Match.poses`, for ``poses.csv`` and its figures
    figures : whether to draw figures
    settings, extra : further settings, and further entries of ``results.json``; ``seconds`` are added to those of the
        match
    """
    start = time.perf_counter()
    table = class_table(match)
    content = tables.match_results(match, table, poses) | dict(extra or {})
    content["settings"] = {**match.settings, **(settings or {})}
    content["seconds"] = {**dict((extra or {}).get("seconds", {})), **match.seconds}
    write_json(folder / "results.json", content)
    written = {
        "matches": tables.match_table(match, k=k),
        "labels": tables.label_table(match),
        "confusion": None if table is None else tables.confusion_table(table),
        "poses": None if poses is None or match.source is None else tables.pose_table(poses, match.source),
        "outliers": tables.outlier_table(match),
    }
    tables.write_tables(folder, written)
    parts: dict[str, Callable[[], object]] = {}
    if match.images_elsewhere:
        warn(
            "figures and model.npz are skipped because images are not available on this machine; "
            "--report and --poses read them here.",
            DataWarning,
        )
    else:
        if isinstance(match.coupling, EntropicCoupling) and match.feature_map is not None:
            parts[MODEL] = lambda: match.predictor.save(folder / MODEL)
        if match.source is not None and match.target is not None:
            parts |= _figures(folder, _match_drawings(match, poses)) if figures else {}
            parts[PAGE_DATA] = lambda: save_page_data(
                folder / PAGE_DATA, match_page(match, content, title=title, poses=poses)
            )
    content["seconds"]["tables"] = time.perf_counter() - start
    decorate(parts, content["seconds"])
    write_json(folder / "results.json", content)
    return content


def decorate(parts: Mapping[str, Callable[[], object]], seconds: dict[str, float] | None = None) -> None:
    """Write models, figures and pages; one that fails is a warning, and the run goes on."""
    for number, (name, write) in enumerate(parts.items()):
        stage = {MODEL: "model", PAGE_DATA: "page"}.get(name, "figures")
        runtime.progress(stage, number, len(parts))
        start = time.perf_counter()
        try:
            write()
        except Exception as error:  # whatever a decoration does, the results are written
            warn(f"{name} was not written ({type(error).__name__}: {error}); the results are complete.", DataWarning)
        if seconds is not None:
            seconds[stage] = seconds.get(stage, 0.0) + time.perf_counter() - start
        runtime.progress(stage, number + 1, len(parts))


def _match_drawings(match: Match, poses: Poses | None) -> dict[str, Draw]:
    source, target = match.source, match.target
    assert source is not None
    assert target is not None
    drawn: dict[str, Draw] = {"matches": lambda ax: match.plot("pairs", n=8, ax=ax)}
    if match.source_labels is not None and match.target_labels is not None:
        drawn["confusion"] = lambda ax: match.plot("classes", ax=ax)
    if poses is not None:
        drawn["poses"] = lambda ax: plot_poses(poses, source, target, ax=ax)
        if (poses.found & poses.ambiguous).any():
            drawn["poses-ambiguous"] = lambda ax: plot_poses(poses, source, target, ambiguous=True, ax=ax)
    return drawn


def _figures(folder: Path, drawn: Mapping[str, Draw]) -> dict[str, Callable[[], object]]:
    def write(draw: Draw, path: Path) -> None:
        with drawing.house_style():
            figure = draw(drawing.fitted_axes()).figure
        drawing.save(figure, path)

    paths = {name: f"figures/{name}.png" for name in drawn}
    return {paths[name]: partial(write, draw, folder / paths[name]) for name, draw in drawn.items()}


def write_comparison(
    folder: Path,
    comparison: Comparison,
    datasets: Sequence[Dataset],
    *,
    figures: bool = True,
    extra: Mapping[str, Any] | None = None,
) -> tables.JsonObject:
    """Write a comparison to ``folder``, as :func:`write_match` does, and return the content of ``results.json``."""
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
    written = {
        "contributors": tables.contributor_table(comparison, list(datasets)),
        "classes": tables.class_contribution_table(comparison),
        "class-distances": tables.class_distance_table(comparison),
    }
    tables.write_tables(folder, written)
    parts = _figures(folder, {"distances": lambda ax: comparison.plot(ax=ax)}) if figures else {}
    parts[PAGE_DATA] = lambda: save_page_data(folder / PAGE_DATA, comparison_page(comparison, datasets))
    decorate(parts)
    return content
