"""The figures of poses: sources put upright, their angles, and those that could as well stand otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.pictures import Pictures, as_shown
from bispectral_ot.poses import MotionArray, Poses, turn_image
from bispectral_ot.report.figures import canvas, draw_tile, pick_examples
from bispectral_ot.report.style import MUTED, RIGHT, WRONG, house_style

_BINS = 36
# Small histograms, one for each class.
_MOST_CLASSES = 24
_TILE, _STEP, _LINE = 0.78, 0.9, 1.12


def poses_figure(poses: Poses, source: Dataset, target: Dataset, *, seed: int = 0) -> Figure:
    """Some sources as they came, put upright, and beside the target that counts most."""
    certain = np.flatnonzero(poses.found & ~poses.ambiguous)
    chosen = certain[pick_examples(source.select(certain), 16, seed=seed)] if len(certain) else certain
    return _tiles(poses, source, target, chosen, columns=("source", "upright", "target"), title="Sources put upright")


def ambiguous_figure(poses: Poses, source: Dataset, target: Dataset) -> Figure:
    """The sources with the least sure pose: as they came, in their pose, in that of the runner-up, and a target."""
    unsure = np.flatnonzero(poses.found & poses.ambiguous)
    chosen = unsure[np.argsort(np.nan_to_num(poses.scores[unsure]))][:16]
    columns = ("source", "best", "runner-up", "target")
    return _tiles(poses, source, target, chosen, columns=columns, title="The least sure poses")


def _tiles(
    poses: Poses, source: Dataset, target: Dataset, chosen: NDArray[np.int64], *, columns: Sequence[str], title: str
) -> Figure:
    n_blocks = 2 if len(chosen) > 4 else 1
    n_rows = max(1, -(-len(chosen) // n_blocks))
    width = len(columns) * _STEP + 0.35
    sources, targets = Pictures(source), Pictures(target)
    with house_style():
        figure, axes = canvas(max(4.4, 0.3 + n_blocks * width), 0.9 + _LINE * n_rows)
        axes.text(0.25, 0.3, title, fontsize=11, fontweight="bold", va="center")
        for place, i in enumerate(chosen.tolist()):
            block, row = divmod(place, n_rows)
            left, top = 0.25 + block * width, 0.8 + row * _LINE
            for number, name in enumerate(columns):
                if row == 0:
                    axes.text(left + number * _STEP, 0.72, name, color=MUTED)
                if name == "source":
                    picture = sources[i]
                elif name == "target":
                    picture = targets[int(poses.targets[i, poses.weights[i].argmax()])]
                else:
                    picture = _moved(sources, poses.runner_up if name == "runner-up" else poses.motions, i)
                caption = _said(poses, i) if number == 1 else ""
                draw_tile(axes, picture, (left + number * _STEP, top, _TILE), caption=caption)
        if not len(chosen):
            axes.text(0.25, 0.9, "none", color=MUTED, va="center")
    return figure


def _moved(pictures: Pictures, motions: MotionArray, i: int) -> NDArray[np.float64]:
    """The picture of a source in its pose; signals on the sphere as they are."""
    image = pictures.dataset.images[i]
    if motions.angles is not None:
        mirrored = motions.mirrored is not None and bool(motions.mirrored[i])
        shift = (0.0, 0.0) if motions.shifts is None else motions.shifts[i]
        return as_shown(turn_image(image, float(motions.angles[i]), mirrored=mirrored, shift=shift), pictures.limits)
    if motions.shifts is not None:
        return as_shown(np.roll(image, np.rint(motions.shifts[i]).astype(int), axis=(0, 1)), pictures.limits)
    if pictures.dataset.kind == "clouds":
        turned = motions.rotations[i].apply(image)[None]
        return Pictures(Dataset(turned, kind="clouds"))[0]
    return pictures[i]


def _said(poses: Poses, i: int) -> str:
    if poses.angles is None:
        return ""
    doubt = f" ± {poses.uncertainty[i]:.0f}" if np.isfinite(poses.uncertainty[i]) and not poses.ambiguous[i] else ""
    mirror = "⇋ " if poses.mirrored is not None and poses.mirrored[i] else ""
    return f"{mirror}{poses.angles[i]:.0f}{doubt}°"


def angles_figure(poses: Poses, names: NDArray[Any] | None) -> Figure:
    """A polar histogram of all angles, and one for each class of the sources, where ``names`` (n,) tell it."""
    assert poses.angles is not None
    certain = poses.found & ~poses.ambiguous
    groups = [("all", np.ones(len(poses), dtype=np.bool_))]
    if names is not None:
        groups += [(str(name), names == name) for name in np.unique(names)[:_MOST_CLASSES]]
    n_columns = min(len(groups), 5)
    n_rows = -(-len(groups) // n_columns)
    edges = np.radians(np.linspace(-180, 180, _BINS + 1))
    with house_style():
        figure = Figure(figsize=(1.9 * n_columns + 0.4, 2.1 * n_rows + 0.4), layout="constrained")
        for number, (name, members) in enumerate(groups):
            axes: Any = figure.add_subplot(n_rows, n_columns, number + 1, projection="polar")
            axes.set_theta_zero_location("N")
            below = np.zeros(_BINS)
            for chosen, colour, label in ((certain, RIGHT, "certain"), (poses.found & ~certain, WRONG, "ambiguous")):
                counts, _ = np.histogram(np.radians(poses.angles[members & chosen]), edges)
                axes.bar(
                    edges[:-1], counts, width=np.diff(edges), bottom=below, align="edge", color=colour, label=label
                )
                below = below + counts
            axes.set_xticks(np.radians([0, 90, 180, 270]), ["0°", "90°", "180°", "−90°"])
            axes.set_yticks([])
            axes.set_title(f"{name} ({int((members & poses.found).sum()):,})", loc="center", fontsize=9)
        figure.suptitle("Turns, counter-clockwise (blue: certain, orange: ambiguous)", x=0.02, ha="left", fontsize=11)
    return figure
