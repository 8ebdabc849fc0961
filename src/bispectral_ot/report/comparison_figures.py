"""The figures of a comparison: a heat map, a tree and a map of the sets, and the images that explain a distance."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bispectral_ot.comparing import Comparison, Pair
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.pictures import Pictures
from bispectral_ot.report.embedding import scale_to_plane
from bispectral_ot.report.figures import canvas, draw_tile
from bispectral_ot.report.style import INK, MUTED, RIGHT, RIGHT_SHADES, WRONG, house_style

# More sets than this have no room for numbers in a heat map.
_MOST_NUMBERS = 14
_SHOWN = 8


def tree_of_sets(comparison: Comparison) -> NDArray[np.float64]:
    """The linkage (N - 1, 4) of average clustering, with leaves ordered so that neighbours are near."""
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    tree: NDArray[np.float64] = linkage(squareform(as_lengths(comparison)), "average", optimal_ordering=True)
    return tree


def as_lengths(comparison: Comparison) -> NDArray[np.float64]:
    """Square roots of the distances: divergences are squares of lengths; small negative ones are 0 in a picture."""
    lengths: NDArray[np.float64] = np.sqrt(np.maximum(comparison.distances, 0.0))
    return lengths


def heat_map_figure(comparison: Comparison) -> Figure:
    """Distances of all pairs, sets ordered by clustering; bold where a test finds a difference."""
    from scipy.cluster.hierarchy import leaves_list

    order = leaves_list(tree_of_sets(comparison))
    values, tests = comparison.distances[np.ix_(order, order)], comparison.p_values[np.ix_(order, order)]
    names = [comparison.names[place] for place in order]
    level = comparison.settings.get("level", 0.05)
    size = 2.2 + 0.55 * len(names)
    with house_style():
        figure = Figure(figsize=(size + 0.8, size), layout="constrained")
        axes = figure.subplots()
        drawn = axes.imshow(np.sqrt(np.maximum(values, 0)), cmap=RIGHT_SHADES)
        ticks = range(len(names))
        axes.set_xticks(ticks, names, rotation=45, ha="right", rotation_mode="anchor")
        axes.set_yticks(ticks, names)
        axes.set_title("Distance between sets")
        bar = figure.colorbar(drawn, ax=axes, shrink=0.8)
        bar.set_label("square root of the distance")
        if len(names) <= _MOST_NUMBERS:
            middle = np.sqrt(np.maximum(values, 0)).max() * 0.6
            for (i, j), value in np.ndenumerate(values):
                colour = "white" if value > 0 and np.sqrt(value) > middle else INK
                weight = "bold" if i != j and tests[i, j] <= level else "normal"
                axes.text(j, i, f"{value:.2g}", ha="center", va="center", color=colour, fontsize=7, fontweight=weight)
    return figure


def dendrogram_figure(comparison: Comparison) -> Figure:
    """The sets as leaves of a tree: joined where clusters are at that (mean) distance."""
    from scipy.cluster.hierarchy import dendrogram

    with house_style():
        figure = Figure(figsize=(6.4, 1.4 + 0.32 * len(comparison.names)), layout="constrained")
        axes = figure.subplots()
        dendrogram(
            tree_of_sets(comparison),
            labels=list(comparison.names),
            orientation="left",
            ax=axes,
            color_threshold=0,
            above_threshold_color=RIGHT,
            leaf_font_size=9,
        )
        axes.set_title("Which sets are close")
        axes.set_xlabel("square root of the distance, averaged")
        axes.spines[["left", "right", "top"]].set_visible(False)
    return figure


def map_figure(comparison: Comparison) -> Figure:
    """The sets on a plane, by multidimensional scaling; circles as wide as sampling alone would move them."""
    lengths = as_lengths(comparison)
    positions, stress = scale_to_plane(lengths)
    # what two samples of a set are apart on average
    radii = np.sqrt(np.maximum(np.diag(comparison.references), 0)) / 2
    with house_style():
        figure = Figure(figsize=(6.4, 5.6), layout="constrained")
        axes = figure.subplots()
        for (x, y), radius, name in zip(positions, radii, comparison.names, strict=True):
            if np.isfinite(radius):
                axes.add_patch(_circle(x, y, radius))
            axes.plot(x, y, "o", color=RIGHT, markersize=4)
            axes.annotate(name, (x, y), xytext=(5, 5), textcoords="offset points")
        axes.set_aspect("equal", adjustable="datalim")
        axes.margins(0.2)
        axes.set_title("Map of the sets")
        axes.set_xlabel(f"multidimensional scaling, stress {stress:.2f}; circles: sampling alone", color=MUTED)
        axes.set(xticks=[], yticks=[])
    return figure


def explanation_figure(pair: Pair, source: Dataset, target: Dataset) -> Figure:
    """The images of either side that contribute most to a distance, with their best counterparts below."""
    pictures = Pictures(source), Pictures(target)
    sides = ((pair.source, pair.source_top, *pictures), (pair.target, pair.target_top, *pictures[::-1]))
    shown = min(_SHOWN, max(len(top.indices) for _, top, _, _ in sides))
    tile, step = 0.78, 0.9
    with house_style():
        figure, axes = canvas(0.5 + 1.0 + shown * step, 0.7 + 2 * 2.35)
        title = f"What the distance of {pair.source} and {pair.target} is made of"
        axes.text(0.25, 0.3, title, fontsize=11, fontweight="bold", va="center")
        for row, (name, top, own, other) in enumerate(sides):
            height = 0.85 + row * 2.35
            axes.text(0.25, height - 0.12, f"{name}: images that contribute most, share of the distance", color=MUTED)
            axes.text(0.25, height + tile + 0.62, "best\ncounterpart", color=MUTED, va="center")
            for place in range(min(shown, len(top.indices))):
                left = 1.2 + place * step
                share = top.contributions[place] / pair.distance if pair.distance > 0 else float("nan")
                draw_tile(axes, own[top.indices[place]], (left, height, tile), caption=f"{share:.1%}")
                draw_tile(axes, other[top.counterparts[place]], (left, height + tile + 0.25, tile))
    return figure


def class_distance_heat_map(comparison: Comparison) -> Figure:
    """Distances between the classes of all sets."""
    found = comparison.class_distances
    assert found is not None
    names = [f"{name}: {title}" for name, title in found.names]
    size = 2.2 + 0.22 * len(names)
    with house_style():
        figure = Figure(figsize=(size + 0.8, size), layout="constrained")
        axes = figure.subplots()
        drawn = axes.imshow(found.matrix, cmap=RIGHT_SHADES, vmin=0)
        axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
        axes.set_yticks(range(len(names)), names, fontsize=7)
        axes.set_title("Distance between classes")
        figure.colorbar(drawn, ax=axes, shrink=0.8)
    return figure


def _circle(x: float, y: float, radius: float) -> Any:
    from matplotlib.patches import Circle

    return Circle((x, y), radius, facecolor=WRONG, alpha=0.15, linewidth=0)
