"""The files of a match: results, tables and figures in one folder."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

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
        _write_poses(folder, poses, match, source, target, seed=seed)
    _write_review(folder, review, match, source, target)
    if model and isinstance(match.coupling, EntropicCoupling):
        replace(match.predictor, positions=target.positions).save(folder / MODEL)
    progress("report", 1, 4)
    shown = min(k, _SHOWN_TARGETS)
    drawn = figures.matches_figure(match, source.dataset, target.dataset, k=shown, seed=seed)
    save(drawn, folder / "figures" / "matches.png")
    progress("report", 2, 4)
    if match.coupling.history:
        save(figures.convergence_figure(match.coupling), folder / "figures" / "convergence.png")
    progress("report", 3, 4)
    if table is not None:
        drawn = figures.confusion_figure(table, source.dataset, target.dataset)
        save(drawn, folder / "figures" / "confusion.png")
    progress("report", 4, 4)
    page = collect(match, source, target, poses=poses, title=title, seed=seed, progress=progress)
    content = tables.results(match, source, target, table) | review.facts() | dict(extra or {})
    content["settings"] = {**match.settings, **(settings or {})}
    content["seconds"] = {**(seconds or {}), **match.seconds, "report": time.perf_counter() - start}
    if poses is not None:
        content["poses"] = pose_summary(poses)
    page.save(folder, facts=content)
    write_json(folder / "results.json", content)
    return content


def _write_review(folder: Path, review: Review, match: Match, source: Side, target: Side) -> None:
    sides = source.dataset, target.dataset
    if review.shares is not None:
        save(review_figures.shares_figure(review.shares, review.true_shares), folder / "figures" / "shares.png")
    if review.sources is not None and review.targets is not None:
        write_csv(folder / "unmatched.csv", *unmatched_rows(review, source, target))
        found = list(zip(("source", "target"), sides, (review.sources, review.targets), strict=True))
        save(review_figures.unmatched_figure(found), folder / "figures" / "unmatched.png")
    if review.doubtful is not None and len(review.doubtful):
        drawn = review_figures.doubtful_figure(match, review.doubtful, *sides)
        save(drawn, folder / "figures" / "doubtful.png")


def _write_poses(folder: Path, poses: Poses, match: Match, source: Side, target: Side, *, seed: int) -> None:
    write_csv(folder / "poses.csv", *pose_rows(poses, source))
    sides = source.dataset, target.dataset
    save(pose_figures.poses_figure(poses, *sides, seed=seed), folder / "figures" / "poses.png")
    if (poses.found & poses.ambiguous).any():
        save(pose_figures.ambiguous_figure(poses, *sides), folder / "figures" / "poses-ambiguous.png")
    if poses.angles is not None:
        names = match.source_labels
        if names is None and match.target_labels is not None:
            names = match.transfer_labels(to="source").labels
        save(pose_figures.angles_figure(poses, names), folder / "figures" / "poses-angles.png")
