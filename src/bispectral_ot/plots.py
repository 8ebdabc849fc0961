"""Drawings on matplotlib axes, of arrays; matplotlib is loaded when something is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GAP = 0.12  # between pictures, relative to their side
_MOST_TICKS = 40


def axes_for(ax: Axes | None, width: float, height: float) -> Axes:
    """The axes that are given, or those of a new figure of this size in inches."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def draw_rows(ax: Axes, rows: Sequence[Sequence[NDArray[Any]]], captions: Sequence[Sequence[str]]) -> Axes:
    """Rows of pictures (height, width[, 3]) from 0 to 1, the first of each row apart, with a word below each."""
    step = 1 + _GAP
    for y, (row, words) in enumerate(zip(rows, captions, strict=True)):
        for x, (pixels, word) in enumerate(zip(row, words, strict=True)):
            left, top = x * step + (0.4 if x else 0.0), y * (step + 0.25)
            height, width = (side / max(pixels.shape[:2]) for side in pixels.shape[:2])
            extent = (left, left + width, top + height, top)
            ax.imshow(pixels, extent=extent, cmap="gray", vmin=0, vmax=1, interpolation="nearest", aspect="equal")
            ax.text(left + width / 2, top + height + 0.04, word, ha="center", va="top", fontsize=7, parse_math=False)
    columns = max(map(len, rows))
    ax.set_xlim(-_GAP, columns * step + 0.4)
    ax.set_ylim(len(rows) * (step + 0.25), -_GAP)
    ax.set_axis_off()
    return ax


def draw_matrix(
    ax: Axes, values: NDArray[Any], rows: Sequence[str], columns: Sequence[str], *, form: str, title: str
) -> Axes:
    """A matrix as a heat map, with its numbers where there is room for them."""
    shown = ax.imshow(values, cmap="Blues", vmin=0, aspect="equal")
    for axis, names in ((ax.yaxis, rows), (ax.xaxis, columns)):
        every = -(-len(names) // _MOST_TICKS)
        axis.set_ticks(range(0, len(names), every), [_printable(name) for name in names[::every]])
    ax.tick_params(axis="x", rotation=90 if max(map(len, columns)) > 3 else 0)
    for label in (*ax.get_xticklabels(), *ax.get_yticklabels()):
        label.set_parse_math(False)  # a class may be called $x
    ax.set_title(title, fontsize="medium")
    if values.size <= 20 * 20:
        middle = float(np.nanmax(values)) / 2
        for (y, x), value in np.ndenumerate(values):
            text = format(value, form)
            if np.isfinite(value) and (float(text) or not value):  # what is rounded to nothing is left out
                colour = "white" if value > middle else "black"
                ax.text(x, y, text, ha="center", va="center", fontsize=7, color=colour)
    else:
        ax.figure.colorbar(shown, ax=ax)
    return ax


def _printable(name: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in name)[:24]
