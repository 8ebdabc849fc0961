"""Figures of the studies: maps of images in the plane, and heat maps of distances."""

from __future__ import annotations

from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bispectral_ot.drawing import CLASS_COLOURS, INK, RIGHT, colour_map, house_style, printable

# More classes than this have no room for numbers in a heat map.
_MOST_NUMBERS = 12


class Panel(NamedTuple):
    """One picture of an embedding: a title and the positions (n, 2) of the images."""

    title: str
    positions: NDArray[np.float64]


def embedding_figure(
    panels: list[Panel], images: NDArray[Any], labels: NDArray[np.int64], classes: tuple[str, ...]
) -> Figure:
    """Images (n, height, width[, channels]) drawn at the positions of each panel, in the colours of their classes."""
    colours = class_colours(len(classes))
    with house_style():
        figure = Figure(figsize=(6.4 * len(panels), 7.0), layout="constrained")
        for axes, panel in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels, strict=True):
            axes.imshow(paint(panel.positions, images, colours[labels]), interpolation="antialiased")
            axes.set(xticks=[], yticks=[])
            axes.set_title(panel.title, pad=8)
            axes.spines[:].set_visible(True)
        handles = [
            matplotlib.lines.Line2D([], [], color=colour, marker="s", linestyle="", label=printable(name))
            for name, colour in zip(classes, colours, strict=True)
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=min(len(classes), 13))
    return figure


def class_colours(n_classes: int) -> NDArray[np.float64]:
    """Distinct colour (n_classes, 3) for every class."""
    if n_classes <= len(CLASS_COLOURS):
        return np.array([to_rgb(colour) for colour in CLASS_COLOURS[:n_classes]])
    return np.asarray(matplotlib.colormaps["turbo"](np.linspace(0.05, 0.95, n_classes)))[:, :3]


def paint(positions: NDArray[np.float64], images: NDArray[Any], colours: NDArray[np.float64]) -> NDArray[np.float64]:
    """Paint coloured images on one white canvas (height, width, 3).

    An image's ink is its distance from the background (the median of the whole batch's border); one canvas is
    painted because thousands of separate artists take minutes to draw. It grows with their number: few
    images look larger than many.
    """
    grey = images.mean(axis=3) if images.ndim == 4 else images
    border = np.concatenate([grey[:, 0], grey[:, -1], grey[:, :, 0], grey[:, :, -1]], axis=1)
    ink = np.abs(grey - np.median(border))
    ink = np.clip(ink / max(float(np.quantile(ink, 0.99)), 1e-12), 0.0, 1.0)
    height, width = grey.shape[1:]
    side = int(max(height, width) * np.clip(1.6 * np.sqrt(len(images)), 12, 64))
    canvas = np.ones((side, side, 3))
    low, high = positions.min(axis=0), positions.max(axis=0)
    scale = (side - max(height, width) - 1) / max(float((high - low).max()), 1e-12)
    margin = (side - (high - low) * scale - (width, height)) / 2
    corners = np.floor((positions - low) * scale + margin).astype(int)
    for (left, bottom), image, colour in zip(corners, ink, colours, strict=True):
        top = side - height - bottom
        part = canvas[top : top + height, left : left + width]
        part += image[:, :, None] * (colour - part)
    return canvas


def class_distance_figure(means: NDArray[np.float64], classes: tuple[str, ...], *, title: str) -> Figure:
    """Heat map of the mean distance between two classes (c, c), with its numbers."""
    size = 1.8 + 0.42 * len(classes)
    with house_style():
        figure = Figure(figsize=(size + 0.9, size), layout="constrained")
        axes = figure.add_subplot()
        drawn = axes.imshow(means, cmap=colour_map(RIGHT))
        middle = (means.min() + means.max()) / 2
        if len(classes) <= _MOST_NUMBERS:
            for (i, j), value in np.ndenumerate(means):
                colour = "white" if value > middle else INK
                axes.text(j, i, f"{value:.3g}", ha="center", va="center", fontsize=6.5, color=colour)
        ticks = range(len(classes))
        names = [printable(name) for name in classes]
        axes.set_xticks(ticks, names, rotation=90 if max(map(len, names)) > 3 else 0)
        axes.set_yticks(ticks, names)
        axes.tick_params(length=0)
        axes.set_title(f"Mean distance between classes: {title}", fontsize=9)
        figure.colorbar(drawn, ax=axes, shrink=0.8)
    return figure


def angle_distance_figure(
    means: NDArray[np.float64], classes: tuple[str, ...], degrees: NDArray[np.float64], *, title: str
) -> Figure:
    """For every class a heat map of the mean distance between two angles; five to a row, one scale."""
    n_rows = -(-len(classes) // 5)
    n_columns = min(5, len(classes))
    with house_style():
        figure = Figure(figsize=(0.9 + 2.3 * n_columns, 0.6 + 2.5 * n_rows), layout="constrained")
        panels = np.atleast_1d(figure.subplots(n_rows, n_columns, squeeze=False)).ravel()
        step = max(1, len(degrees) // 4)
        ticks = np.arange(0, len(degrees), step)
        low, high = float(means.min()), float(means.max())
        for axes, matrix, name in zip(panels, means, classes, strict=False):
            drawn = axes.imshow(matrix, cmap=colour_map(RIGHT), vmin=low, vmax=high)
            axes.set_xticks(ticks, [f"{degrees[t]:g}°" for t in ticks])
            axes.set_yticks(ticks, [f"{degrees[t]:g}°" for t in ticks])
            axes.set_title(printable(name), fontsize=10)
        for axes in panels[len(classes) :]:
            axes.set_visible(False)
        figure.colorbar(drawn, ax=panels.tolist(), shrink=0.7)
        figure.suptitle(f"Mean distance between two angles: {title}", fontsize=11, fontweight="bold")
    return figure
