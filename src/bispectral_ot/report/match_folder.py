"""The files of a match: results, tables and figures in one folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bispectral_ot.errors import DataWarning, warn
from bispectral_ot.files import write_csv, write_json
from bispectral_ot.matching import Match
from bispectral_ot.poses import Poses
from bispectral_ot.progress import Progress, silent
from bispectral_ot.report import figures, pose_figures, review_figures, tables
from bispectral_ot.report.page_data import collect
from bispectral_ot.report.pose_tables import pose_rows, pose_summary
from bispectral_ot.report.review import Review, unmatched_rows
from bispectral_ot.report.style import save
from bispectral_ot.report.tables import ClassTable, Side
from bispectral_ot.transport import EntropicCoupling

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What predictions need.
MODEL = "model.npz"
# Targets of each source in the figure; the CSV file has as many as were asked for.
_SHOWN_TARGETS = 5


def write_match(
    folder: Path,
    match: Match,
    source: Side,
    target: Side,
    *,
    table: ClassTable | None,
    title: str = "",
    k: int = 5,
    poses: Poses | None = None,
    seed: int = 0,
    draw: bool = True,
    settings: Mapping[str, Any] | None = None,
    seconds: Mapping[str, float] | None = None,
    extra: Mapping[str, Any] | None = None,
    model: bool = False,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Write everything about a match to ``folder``.

    ``matches.csv``, ``labels.csv`` (if a side has labels), ``confusion.csv`` (if both have), ``unmatched.csv`` (unless
    the plan is balanced), ``poses.csv``, the pictures in ``figures/``, ``report-data.npz`` for the browser report and,
    last, ``results.json``, whose content is returned.

    Parameters
    ----------
    table
        What :func:`~bispectral_ot.report.tables.class_table` gave for this match.
    title
        What distinguishes this match from others of the run, such as the name of its features.
    k
        Best targets for each source in ``matches.csv``.
    poses
        What :meth:`Match.poses` gave, for ``poses.csv`` and its figures.
    seed
        Of the choice of examples in the figures.
    draw
        Whether to draw figures.
    settings, seconds
        How the two sides were made, and the time that took: added to those of the match.
    extra
        More entries for ``results.json``.
    model
        Whether to keep what predictions for new images need (``model.npz``), where the plan has potentials.
    """
    start = time.perf_counter()
    write_csv(folder / "matches.csv", *tables.match_rows(match, source, target, k=k))
    review = Review.of(match, seed=seed)
    scores = None if review.sources is None else review.sources.scores
    labels = tables.label_rows(match, source, target, scores=scores)
    if labels is not None:
        write_csv(folder / "labels.csv", *labels)
    if table is not None:
        write_csv(folder / "confusion.csv", *tables.confusion_rows(table))
    if poses is not None:
        write_csv(folder / "poses.csv", *pose_rows(poses, source))
    if review.sources is not None and review.targets is not None:
        write_csv(folder / "unmatched.csv", *unmatched_rows(review, source, target))
    elsewhere = match.images_elsewhere
    if elsewhere:
        warn(
            "the images stay where the workers read them, so that the run has no figures, unmatched.csv and model.npz; "
            "--report or --poses read them here.",
            DataWarning,
        )
    if model and isinstance(match.coupling, EntropicCoupling) and not elsewhere:
        replace(match.predictor, positions=target.positions).save(folder / MODEL)
    written = time.perf_counter() - start
    draw = draw and not elsewhere
    drawing = _figures(folder, match, source, target, table, poses, review, k=k, seed=seed) if draw else []
    start = time.perf_counter()
    for number, write in enumerate(drawing):
        progress("figures", number, len(drawing))
        write()
        progress("figures", number + 1, len(drawing))
    spent = {"tables": written, **({"figures": time.perf_counter() - start} if draw else {})}
    start = time.perf_counter()
    page = None
    if not elsewhere:
        page = collect(match, source, target, poses=poses, title=title, seed=seed, progress=progress)
    content = tables.results(match, source, target, table) | review.facts() | dict(extra or {})
    content["settings"] = {**match.settings, **(settings or {})}
    content["seconds"] = {**(seconds or {}), **match.seconds, **spent, "page": time.perf_counter() - start}
    if poses is not None:
        content["poses"] = pose_summary(poses)
    if page is not None:
        page.save(folder, facts=content)
    write_json(folder / "results.json", content)
    return content


def _figures(
    folder: Path,
    match: Match,
    source: Side,
    target: Side,
    table: ClassTable | None,
    poses: Poses | None,
    review: Review,
    *,
    k: int,
    seed: int,
) -> list[Callable[[], None]]:
    """What draws and saves each figure of a match."""
    sides, shown = (source.dataset, target.dataset), min(k, _SHOWN_TARGETS)
    drawn: dict[str, Callable[[], Figure]] = {
        "matches": lambda: figures.matches_figure(match, *sides, k=shown, seed=seed)
    }
    if match.coupling.history:
        drawn["convergence"] = lambda: figures.convergence_figure(match.coupling)
    if table is not None:
        drawn["confusion"] = lambda: figures.confusion_figure(table, *sides)
    if poses is not None:
        drawn["poses"] = lambda: pose_figures.poses_figure(poses, *sides, seed=seed)
        if (poses.found & poses.ambiguous).any():
            drawn["poses-ambiguous"] = lambda: pose_figures.ambiguous_figure(poses, *sides)
        if poses.angles is not None:
            drawn["poses-angles"] = lambda: pose_figures.angles_figure(poses, _names(match))
    if review.shares is not None:
        shares = review.shares
        drawn["shares"] = lambda: review_figures.shares_figure(shares, review.true_shares)
    if review.sources is not None and review.targets is not None:
        found = list(zip(("source", "target"), sides, (review.sources, review.targets), strict=True))
        drawn["unmatched"] = lambda: review_figures.unmatched_figure(found)
    if review.doubtful is not None and len(review.doubtful):
        doubtful = review.doubtful
        drawn["doubtful"] = lambda: review_figures.doubtful_figure(match, doubtful, *sides)
    return [partial(_save, draw, folder / "figures" / f"{name}.png") for name, draw in drawn.items()]


def _save(draw: Callable[[], Figure], path: Path) -> None:
    save(draw(), path)


def _names(match: Match) -> Any:
    """Classes of the sources: their own, or those that the targets give them; None without any."""
    if match.source_labels is None and match.target_labels is not None:
        return match.transfer_labels(to="source").labels
    return match.source_labels
