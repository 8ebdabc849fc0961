"""One picture that shows what the features change: examples above, class tables below."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import fill

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.pictures import Pictures
from bispectral_ot.matching import Match
from bispectral_ot.report.figures import (
    canvas,
    draw_confusion,
    draw_tile,
    pick_examples,
    same_class,
)
from bispectral_ot.report.style import FAINT, MUTED, RIGHT, WRONG, house_style
from bispectral_ot.report.tables import ClassTable

Outcomes = Mapping[str, tuple[Match, ClassTable]]

# All lengths are inches.
_WIDTH, _MARGIN = 11.0, 0.3
_TILE, _STEP, _ROW_STEP, _TILES_LEFT, _TILES_TOP = 0.8, 0.9, 0.94, 1.8, 1.1
_PANELS_LEFT, _PANEL_GAP, _PANEL_HEAD, _PANEL_FOOT = 0.7, 0.4, 0.95, 0.45
_EXAMPLES, _NAME_LETTERS = 10, 18


def overview_figure(outcomes: Outcomes, source: Dataset, target: Dataset, *, seed: int = 0) -> Figure:
    """The same source images matched with several kinds of features, side by side.

    Parameters
    ----------
    outcomes
        For the name of each kind of features, the match and its class table.
    source, target
        What was matched; both have labels.
    seed
        Of the choice of examples.
    """
    panel_size = (_WIDTH - _MARGIN - _PANELS_LEFT + _PANEL_GAP) / len(outcomes) - _PANEL_GAP
    line = _TILES_TOP + (1 + len(outcomes)) * _ROW_STEP + 0.08
    height = line + _PANEL_HEAD + panel_size + _PANEL_FOOT
    with house_style():
        figure, axes = canvas(_WIDTH, height)
        title = "Matching turned images with upright ones"
        axes.text(_MARGIN, 0.4, title, fontsize=18, fontweight="bold", va="center")
        axes.text(
            _MARGIN,
            0.78,
            f"{len(source):,} turned and {len(target):,} upright images. Examples with their best match "
            "(blue: same class, orange: another), right as often as in the whole set:",
            fontsize=10,
            color=MUTED,
            va="center",
        )
        _draw_examples(axes, outcomes, source, target, seed)
        axes.plot([_MARGIN, _WIDTH - _MARGIN], [line, line], color=FAINT, linewidth=1.0)
        for column, (name, (_, table)) in enumerate(outcomes.items()):
            left = _PANELS_LEFT + column * (panel_size + _PANEL_GAP)
            place = (left / _WIDTH, _PANEL_FOOT / height, panel_size / _WIDTH, panel_size / height)
            panel = figure.add_axes(place)
            draw_confusion(panel, table, source, target)
            if column:
                panel.set_ylabel("")
            axes.text(left, line + 0.28, name, fontsize=14, fontweight="bold", va="center")
            if table.accuracy is not None:
                color = RIGHT if table.accuracy >= 0.5 else WRONG
                share = f"{table.accuracy:.0%} keep their class"
                axes.text(left, line + 0.55, share, fontsize=12, fontweight="bold", color=color, va="center")
    return figure


def _draw_examples(axes: Axes, outcomes: Outcomes, source: Dataset, target: Dataset, seed: int) -> None:
    """One row with source images, and one row for each kind of features with their best targets."""
    best = {name: match.top_matches(1).indices for name, (match, _) in outcomes.items()}
    right = {name: same_class(match, best[name]) for name, (match, _) in outcomes.items()}
    chosen = _representative(source, [hits for hits in right.values() if hits is not None], seed)
    # long names of features break at their hyphens
    rows = {"turned image": None} | {f"best match by\n{fill(name, _NAME_LETTERS)}": name for name in outcomes}
    sources, targets = Pictures(source), Pictures(target)
    for row, (title, name) in enumerate(rows.items()):
        top = _TILES_TOP + row * _ROW_STEP
        middle = top + _TILE / 2
        axes.text(_TILES_LEFT - 0.18, middle, title, fontsize=11, ha="right", va="center", linespacing=1.3)
        for place, i in enumerate(chosen):
            square = (_TILES_LEFT + place * _STEP, top, _TILE)
            if name is None:
                draw_tile(axes, sources[i], square)
            else:
                picture, hits = targets[best[name][i, 0]], right[name]
                draw_tile(axes, picture, square, right=None if hits is None else bool(hits[i, 0]))


def _representative(source: Dataset, right: list[NDArray[np.bool_]], seed: int) -> list[int]:
    """Of many random choices of examples, the one that is right as often as the whole set is."""

    def misfit(chosen: list[int]) -> float:
        return float(sum(abs(hits[chosen].mean() - hits.mean()) for hits in right))

    return min((pick_examples(source, _EXAMPLES, seed=seed + trial) for trial in range(50)), key=misfit)
