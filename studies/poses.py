"""Accuracy of poses: sources rotated by known angles, against upright targets."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot import runtime
from bispectral_ot.datasets import Dataset, load, rotate, split_halves
from bispectral_ot.datasets.dataset import Pictures, as_shown
from bispectral_ot.drawing import MUTED, RIGHT, WRONG, Tile, draw_tiles, fitted_axes, house_style, save
from bispectral_ot.errors import InputError
from bispectral_ot.files import write_json, write_text
from bispectral_ot.matching import Match, match
from bispectral_ot.poses import MotionArray, Poses, turn_image
from bispectral_ot.poses.motions import wrapped
from bispectral_ot.runs import new_run, run_record
from bispectral_ot.sampling import class_by_class
from studies.markdown import markdown_table
from studies.pose_baselines import by_axes, by_phase_correlation, load_scikit_image

VOTERS = (1, 3, 5, 10, 20)
SIZES = (250, 500, 1000)
WITHIN = (5, 15, 30)
METHODS = {
    "vote": "vote of the best targets",
    "nearest": "best target alone",
    "axes": "principal axis",
    "phase": "phase correlation with the class mean",
}


def run_poses(
    out: str | Path,
    datasets: Sequence[str] = ("mnist", "fashion-mnist"),
    *,
    limit: int = 2000,
    skip: int = 0,
    resize: int = 64,
    voters: int = 10,
    seed: int = 0,
    root: str | Path | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Rotate one half of each set by known angles, match it with the other half, and compare the poses.

    Writes ``results.json``, ``table.md`` (all methods), ``certainty.md``, ``voters.md`` and ``images.md`` (by number of
    voting targets and of images), ``classes-<set>.md`` and figures of each set.

    Parameters
    ----------
    datasets
        Names or folders of sets with labels, whose images are upright.
    limit
        Maximum number of images in each half.
    skip
        Number of images to leave out at the start of each official set: those that parameters were chosen on.
    resize
        Side to which images are resized, unless all have one size.
    voters
        Number of targets that vote on a pose.
    seed
        Random seed of the halves and of the angles.
    """
    start = time.perf_counter()
    load_scikit_image()  # an error before any work if it is missing
    results: dict[str, Any] = {}
    with new_run(out, verb="study poses", inputs=[*datasets, root], overwrite=overwrite) as folder:
        for number, name in enumerate(datasets):
            halves = _halves(name, limit=limit, skip=skip, resize=resize, seed=seed, root=root)
            results[Path(name).name] = _measure(folder, *halves, voters=voters, seed=seed)
            runtime.progress("sets", number + 1, len(datasets))
        _write_tables(folder, results, voters)
        choices = {"limit": limit, "skip": skip, "resize": resize, "voters": voters, "seed": seed}
        write_json(folder / "results.json", {"settings": choices, "sets": results})
        config = {"verb": "study poses", "datasets": [Path(name).name for name in datasets], **choices}
        write_json(folder / "run.json", run_record(config, seconds=time.perf_counter() - start))
    return results


def _halves(
    name: str, *, limit: int, skip: int, resize: int, seed: int, root: str | Path | None
) -> tuple[Dataset, Dataset]:
    folder = Path(name).is_dir()
    dataset = load(name, root=root, resize=resize if folder else None)
    if dataset.labels is None:
        raise InputError(f"{dataset.name!r} has no labels, and this study compares with the mean of each class.")
    if not folder and skip < len(dataset):
        dataset = dataset.select(np.arange(skip, len(dataset)))
    halves = split_halves(dataset, seed=seed)
    random = np.random.default_rng([seed, 1])
    source, target = (half.select(np.sort(random.permutation(len(half))[:limit])) for half in halves)
    return source, target


def _measure(folder: Path, source: Dataset, target: Dataset, *, voters: int, seed: int) -> dict[str, Any]:
    """All methods on one set, and the vote with fewer targets and fewer images."""
    degrees = np.random.default_rng(seed).uniform(0.0, 360.0, len(source))
    turned = rotate(source, degrees)
    found = match(turned, target, marginals="balanced")
    assert found.source_labels is not None
    assert found.target_labels is not None
    start = time.perf_counter()
    poses = found.poses(voters)
    seconds = time.perf_counter() - start
    best = found.top_matches(1).indices[:, 0]
    given = found.labels().label.to_numpy()
    estimates = {
        "vote": _angles(poses),
        "nearest": _angles(found.poses(1)),
        "axes": by_axes(turned.images, target.images, best),
        "phase": by_phase_correlation(turned.images, target.images, given, found.target_labels),
    }
    errors = {name: np.abs(wrapped(angles + degrees)) for name, angles in estimates.items()}
    _draw(folder, source.name.split("/")[0], found, poses)
    return {
        "sources": len(source),
        "targets": len(target),
        "seconds": seconds,
        "methods": {name: figures_of(error) for name, error in errors.items()},
        "certain": _certainty(poses, errors["vote"]),
        "classes": {
            str(label): figures_of(errors["vote"][found.source_labels == label])
            for label in np.unique(found.source_labels)
        },
        "voters": {k: figures_of(np.abs(wrapped(_angles(found.poses(k)) + degrees))) for k in VOTERS},
        "images": {n: _fewer(turned, target, degrees, n, voters) for n in SIZES if n < min(len(source), len(target))},
    }


def _angles(poses: Poses) -> NDArray[np.float64]:
    assert poses.angles is not None
    return np.nan_to_num(poses.angles)


def _fewer(turned: Dataset, target: Dataset, degrees: NDArray[np.float64], n: int, voters: int) -> dict[str, float]:
    """Accuracy of the vote with n sources and targets, evenly spaced, since both are ordered by class."""
    some, others = (np.linspace(0, len(side) - 1, n).astype(np.int64) for side in (turned, target))
    poses = match(turned.select(some), target.select(others), marginals="balanced").poses(voters)
    return figures_of(np.abs(wrapped(_angles(poses) + degrees[some])))


def figures_of(errors: NDArray[np.float64]) -> dict[str, float]:
    """Median error in degrees, and fractions within some degrees and upside down."""
    shares = {f"within_{limit}": float((errors <= limit).mean()) for limit in WITHIN}
    return {"median": float(np.median(errors)), **shares, "upside_down": float((errors > 150).mean())}


def _certainty(poses: Poses, errors: NDArray[np.float64]) -> dict[str, float]:
    certain = ~poses.ambiguous
    inside = errors[certain] <= poses.uncertainty[certain]
    return {
        "ambiguous": float(poses.ambiguous.mean()),
        "covered": float(inside.mean()) if certain.any() else np.nan,
        "median_uncertainty": float(np.median(poses.uncertainty[certain])) if certain.any() else np.nan,
        "right": float((errors[certain] <= 30).mean()) if certain.any() else np.nan,
        "mean_score": float(poses.scores.mean()),
    }


def _draw(folder: Path, name: str, found: Match, poses: Poses) -> None:
    sides = found.source, found.target
    with house_style():
        drawn = {
            "upright": _plot_poses(poses, *sides, ax=fitted_axes()),
            "ambiguous": _plot_poses(poses, *sides, ambiguous=True, ax=fitted_axes()),
            "angles": _draw_angles(poses),
        }
    for kind, axes in drawn.items():
        save(axes.figure, folder / "figures" / f"{kind}-{name}.png")


def _draw_angles(poses: Poses) -> Any:
    """Polar histogram of the angles of certain and of ambiguous poses, counter-clockwise."""
    from matplotlib.figure import Figure

    assert poses.angles is not None
    ax: Any = Figure(figsize=(4, 4), layout="constrained").add_subplot(projection="polar")
    edges, below = np.radians(np.linspace(-180, 180, 37)), np.zeros(36)
    for name, rows, colour in (("certain", ~poses.ambiguous, RIGHT), ("ambiguous", poses.ambiguous, WRONG)):
        angles = poses.angles[poses.found & rows]
        counts, _ = np.histogram(np.radians(angles), edges)
        label = f"{name} ({len(angles):,})"
        ax.bar(edges[:-1], counts, width=np.diff(edges), bottom=below, align="edge", color=colour, label=label)
        below = below + counts
    ax.set_theta_zero_location("N")
    ax.set_xticks(np.radians([0, 90, 180, 270]), ["0°", "90°", "180°", "−90°"])
    ax.set_yticks([])
    ax.set_title("Rotations")
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return ax


def _write_tables(folder: Path, results: dict[str, Any], voters: int) -> None:
    def row(figures: dict[str, float]) -> list[str]:
        shares = [f"{figures[f'within_{limit}']:.3f}" for limit in WITHIN]
        return [f"{figures['median']:.1f}", *shares, f"{figures['upside_down']:.3f}"]

    header = ["median error", *(f"within {limit}°" for limit in WITHIN), "upside down"]
    methods = METHODS | {"vote": f"vote of the {voters} best targets"}
    lines = [
        [f"{name}, {methods[method]}", *row(figures)]
        for name, found in results.items()
        for method, figures in found["methods"].items()
    ]
    write_text(folder / "table.md", markdown_table(["set, method", *header], lines))
    lines = [
        [
            name,
            f"{found['certain']['ambiguous']:.3f}",
            f"{found['certain']['covered']:.3f}",
            f"{found['certain']['median_uncertainty']:.1f}",
            f"{found['certain']['right']:.3f}",
            f"{found['certain']['mean_score']:.3f}",
            f"{found['methods']['vote']['within_30']:.3f}",
        ]
        for name, found in results.items()
    ]
    columns = ["set", "ambiguous", "others inside the 90 % interval", "its half-width (median)", "others within 30°"]
    write_text(folder / "certainty.md", markdown_table([*columns, "mean score", "all within 30°"], lines))
    for kind, title in (("voters", "voting targets"), ("images", "images on each side")):
        counts = sorted({int(count) for found in results.values() for count in found[kind]})
        lines = [
            [name, *(f"{found[kind][n]['within_15']:.3f}" if n in found[kind] else "" for n in counts)]
            for name, found in results.items()
        ]
        write_text(folder / f"{kind}.md", markdown_table([f"within 15°, by {title}", *map(str, counts)], lines))
    for name, found in results.items():
        lines = [[label, *row(figures)] for label, figures in found["classes"].items()]
        write_text(folder / f"classes-{name}.md", markdown_table([f"class of {name}", *header], lines))


def _plot_poses(
    poses: Poses, source: Dataset, target: Dataset, *, n: int = 12, ambiguous: bool = False, ax: Any = None
) -> Any:
    """Sources unchanged, in their pose, in that of the runner-up (``ambiguous``), and next to a target."""
    rows = np.flatnonzero(poses.found & (poses.ambiguous == ambiguous))
    if ambiguous:
        chosen = rows[np.argsort(np.nan_to_num(poses.scores[rows]))][:n]
    else:
        chosen = rows[class_by_class(None if source.labels is None else source.labels[rows], len(rows))[:n]]
    if not len(chosen):
        chosen = np.arange(min(1, len(poses)))
    sources, targets = Pictures(source), Pictures(target)
    tiles: list[list[Tile | None]] = []
    for i in chosen.tolist():
        line: list[Tile | None] = [Tile(sources[i]), Tile(_moved(sources, poses, i), _pose_words(poses, i))]
        line += [Tile(_moved(sources, poses.runner_up, i))] * ambiguous
        tiles.append([*line, Tile(targets[int(poses.targets[i, poses.weights[i].argmax()])])])
    heads = ("source", "best pose", "runner-up", "target") if ambiguous else ("source", "upright", "target")
    title = "Least certain poses" if ambiguous else "Sources in their poses"
    ax = draw_tiles(ax, tiles)
    for x, head in enumerate(heads):
        ax.text(108 * x + 4, -4, head, va="bottom", fontsize=7, color=MUTED)
    ax.set_title(title, pad=16)
    return ax


def _moved(pictures: Pictures, motions: MotionArray, i: int) -> NDArray[np.float64]:
    """Picture of a source in its pose; signals on the sphere unchanged."""
    image = pictures.dataset.images[i]
    if motions.angles is not None:
        mirrored = motions.mirrored is not None and bool(motions.mirrored[i])
        shift = (0.0, 0.0) if motions.shifts is None else motions.shifts[i]
        return as_shown(turn_image(image, float(motions.angles[i]), mirrored=mirrored, shift=shift), pictures.limits)
    if motions.shifts is not None:
        return as_shown(np.roll(image, np.rint(motions.shifts[i]).astype(int), axis=(0, 1)), pictures.limits)
    if pictures.dataset.kind == "clouds":
        return Pictures(Dataset(motions.rotations[i].apply(image)[None], kind="clouds"))[0]
    return pictures[i]


def _pose_words(poses: Poses, i: int) -> str:
    if poses.angles is None:
        return ""
    doubt = f" ± {poses.uncertainty[i]:.0f}" if np.isfinite(poses.uncertainty[i]) and not poses.ambiguous[i] else ""
    mirror = "⇋ " if poses.mirrored is not None and poses.mirrored[i] else ""
    return f"{mirror}{poses.angles[i]:.0f}{doubt}°"
