"""The figures of a match: where classes went, who was matched with whom, how the solver converged."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.pictures import Pictures, as_shown
from bispectral_ot.matching import Match
from bispectral_ot.report.sampling import class_by_class
from bispectral_ot.report.style import (
    FAINT,
    INK,
    MUTED,
    RIGHT,
    RIGHT_SHADES,
    WRONG,
    WRONG_SHADES,
    house_style,
    printable,
)
from bispectral_ot.report.tables import ClassTable
from bispectral_ot.transport import Coupling

# More classes than this have no room for a sample image each, and for numbers in the cells.
_MOST_SAMPLES = 40
_MOST_NUMBERS = 30
# Letters of a name on an axis, and below a tile together with the mark of its verdict.
_LONGEST_NAME = 20
_LONGEST_CAPTION = 13
# Targets with less than this part of the best one's share are not worth a picture.
_LEAST_OF_BEST = 0.01
# A name of more letters than this does not fit below a tile together with its share.
_SHORT_NAME = 4

Square = tuple[float, float, float]  # left, top, side


def confusion_figure(table: ClassTable, source: Dataset, target: Dataset) -> Figure:
    """Where each source class went, with a sample image for every row and column."""
    n_classes = max(len(table.rows), len(table.columns))
    cell = 0.5 if n_classes <= 12 else min(0.34, 14 / n_classes)
    with house_style():
        figure = Figure(figsize=(2.6 + cell * len(table.columns), 1.9 + cell * len(table.rows)), layout="constrained")
        axes = figure.add_subplot()
        draw_confusion(axes, table, source, target, cell_inches=cell)
        axes.set_title(
            f"{table.accuracy:.1%} of {len(source):,} images keep their class"
            if table.accuracy is not None
            else "Which classes correspond (no class name in common)"
        )
    return figure


def draw_confusion(
    axes: Axes, table: ClassTable, source: Dataset, target: Dataset, *, cell_inches: float = 0.5
) -> None:
    """Draw a class table: shares of each row, hits in one colour and errors in another."""
    shares, n_rows, n_columns = table.shares, len(table.rows), len(table.columns)
    own = table.own if table.accuracy is not None else np.ones_like(table.own)
    for mask, shades in ((own, RIGHT_SHADES), (~own, WRONG_SHADES)):
        axes.imshow(np.ma.masked_array(shares, ~mask), cmap=shades, vmin=0, vmax=1, zorder=1)
    line_width = min(0.5, cell_inches)
    axes.hlines(np.arange(n_rows + 1) - 0.5, -0.5, n_columns - 0.5, FAINT, linewidth=line_width, zorder=2)
    axes.vlines(np.arange(n_columns + 1) - 0.5, -0.5, n_rows - 0.5, FAINT, linewidth=line_width, zorder=2)
    if max(n_rows, n_columns) <= _MOST_NUMBERS:
        for i, j in np.argwhere(shares >= 0.005):
            axes.text(
                j,
                i,
                f"{100 * shares[i, j]:.0f}",
                ha="center",
                va="center",
                fontsize=18 * cell_inches if cell_inches < 0.4 else 9,
                color="white" if shares[i, j] > 0.45 else INK,
            )
    left = top = -0.5
    if max(n_rows, n_columns) <= _MOST_SAMPLES:
        left = top = -1.75
        for i, image in enumerate(_class_samples(source, table.rows)):
            draw_image(axes, image, (-1.65, i - 0.475, 0.95))
        for j, image in enumerate(_class_samples(target, table.columns)):
            draw_image(axes, image, (j - 0.475, -1.65, 0.95))
    axes.set(xlim=(left, n_columns - 0.48), ylim=(n_rows - 0.48, top), aspect="equal")
    axes.set_yticks(*class_ticks(table.rows))
    axes.set_xticks(*class_ticks(table.columns), rotation=90 if max(map(len, table.columns)) > 3 else 0)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=2)
    axes.spines[:].set_visible(False)
    axes.set_ylabel("class of the source image")
    axes.set_xlabel("class it was mapped to (% of the row)")


def matches_figure(match: Match, source: Dataset, target: Dataset, *, k: int = 5, seed: int = 0) -> Figure:
    """Some source images with their k best targets, with the share of the mass that goes to each."""
    chosen = pick_examples(source, 12, seed=seed)
    top = match.top_matches(k)
    k = top.indices.shape[1]
    n_blocks = 2 if len(chosen) > 4 else 1
    n_rows = -(-len(chosen) // n_blocks)
    long_names = any(len(name) > _SHORT_NAME for name in target.classes)
    tile, step, line = (0.78, 0.98, 1.24) if long_names else (0.78, 0.86, 1.08)
    between = "\n" if long_names else "  "
    block_width = tile + 0.28 + k * step
    with house_style():
        figure, axes = canvas(max(5.2, 0.4 + n_blocks * (block_width + 0.35)), 0.85 + line * n_rows)
        right = same_class(match, top.indices)
        title = "Best matches and their share of the mass" + ("" if right is None else " (blue: same class)")
        axes.text(0.25, 0.3, title, fontsize=11, fontweight="bold", va="center")
        sources, targets = Pictures(source), Pictures(target)
        for place, i in enumerate(chosen):
            block, row = divmod(place, n_rows)
            left, top_edge = 0.25 + block * (block_width + 0.45), 0.8 + row * line
            if row == 0:
                axes.text(left, 0.72, "source", color=MUTED)
                axes.text(left + tile + 0.28, 0.72, "best targets", color=MUTED)
            draw_tile(axes, sources[i], (left, top_edge, tile), caption=name_of(source, i))
            for rank, (j, share) in enumerate(zip(top.indices[i], top.shares[i], strict=True)):
                if share == 0 or share < _LEAST_OF_BEST * top.shares[i, 0]:
                    break
                percent = f"{share:.0%}" if share >= 0.005 else "<1%"
                draw_tile(
                    axes,
                    targets[j],
                    (left + tile + 0.28 + rank * step, top_edge, tile),
                    right=None if right is None else bool(right[i, rank]),
                    caption=f"{name_of(target, j)}{between}{percent}" if target.classes else percent,
                )
    return figure


def convergence_figure(coupling: Coupling) -> Figure:
    """Marginal error after each pass of the solver, and the tolerance it had to meet."""
    with house_style():
        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        axes = figure.add_subplot()
        passes = np.arange(1, len(coupling.history) + 1)
        errors = np.array([error for _, error in coupling.history])
        axes.semilogy(passes, errors, color=RIGHT, linewidth=1.8, marker="o", markersize=3.5)
        axes.axhline(coupling.tol, color=WRONG, linewidth=1.2, linestyle="--")
        axes.annotate(
            f"tolerance {coupling.tol:g}",
            (0.0, coupling.tol),
            xycoords=("axes fraction", "data"),
            xytext=(4, 4),
            textcoords="offset points",
            color=WRONG,
        )
        start = 0
        for reg, stage in groupby(coupling.history, key=lambda entry: entry[0]):
            axes.annotate(
                f"reg {reg:.3g}",
                (passes[start], 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(4, -4),
                textcoords="offset points",
                va="top",
                color=MUTED,
            )
            if start:
                axes.axvline(passes[start] - 0.5, color=FAINT, linewidth=1)
            start += len(list(stage))
        axes.set(xlabel="pass over the cost", ylabel="marginal error")
        axes.set_title(
            f"{'Converged' if coupling.converged else 'Not converged'}: "
            f"marginal error {coupling.marginal_error:.1e} after {coupling.iterations} passes"
        )
        axes.yaxis.set_major_formatter("{x:g}")
        axes.grid(axis="y")
        axes.margins(x=0.03)
    return figure


def contact_sheet(rows: Sequence[NDArray[Any]], names: Sequence[str]) -> Figure:
    """One row of images (n, height, width[, channels]) for each name."""
    limits = (
        min(float(row.min()) for row in rows if len(row)),
        max(float(row.max()) for row in rows if len(row)),
    )
    height, width = rows[0].shape[1:3]
    columns = max(len(row) for row in rows)
    sheet = np.full((len(rows) * height, columns * width, *rows[0].shape[3:]), limits[0])
    for i, row in enumerate(rows):
        for j, image in enumerate(row):
            sheet[i * height : (i + 1) * height, j * width : (j + 1) * width] = image
    with house_style():
        figure = Figure(figsize=(1.5 + 0.5 * columns * width / height, 0.3 + 0.5 * len(rows)), layout="constrained")
        axes = figure.add_subplot()
        axes.imshow(as_shown(sheet, limits), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axes.set_yticks((np.arange(len(rows)) + 0.5) * height - 0.5, [printable(name) for name in names])
        axes.set_xticks([])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    return figure


def pick_examples(dataset: Dataset, count: int, *, seed: int) -> list[int]:
    """Positions of images to show, drawn at random: from as many classes as there are, in their order."""
    chosen: list[int] = class_by_class(dataset, seed=seed)[:count].tolist()
    labels = dataset.labels
    return sorted(chosen) if labels is None else sorted(chosen, key=lambda i: (labels[i], i))


def same_class(match: Match, indices: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    """Whether the targets ``indices`` (n, k) are of their source's class; None where that is not known.

    That is, where a side has no labels, or the two sides have none in common.
    """
    if match.source_labels is None or match.target_labels is None:
        return None
    if not np.isin(match.source_labels, match.target_labels).any():
        return None
    same: NDArray[np.bool_] = match.source_labels[:, None] == match.target_labels[indices]
    return same


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure whose only axes are measured in inches from its upper left corner."""
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(0, width), ylim=(height, 0), autoscale_on=False)
    axes.set_axis_off()
    return figure, axes


def draw_tile(
    axes: Axes,
    picture: NDArray[np.float64],
    square: Square,
    *,
    right: bool | None = None,
    caption: str = "",
) -> None:
    """Draw a picture into a square, with a caption, framed by whether it is right."""
    colour = {True: RIGHT, False: WRONG, None: FAINT}[right]
    left, top, width, height = draw_image(axes, picture, square)
    line_width = 1.0 if right is None else 2.4
    frame = Rectangle((left, top), width, height, fill=False, edgecolor=colour, linewidth=line_width, zorder=3)
    axes.add_patch(frame)
    if caption:
        mark = {True: "✓ ", False: "✗ ", None: ""}[right]
        axes.text(
            left + width / 2,
            square[1] + square[2] + 0.06,
            mark + caption,
            fontsize=8,
            ha="center",
            va="top",
            color=MUTED if right is None else colour,
        )


def draw_image(axes: Axes, image: NDArray[np.float64], square: Square) -> tuple[float, float, float, float]:
    """Draw pixels between 0 and 1, grey or RGB, centred in a square and not stretched.

    Returns
    -------
    left, top, width, height : where it was drawn
    """
    left, top, side = square
    height, width = (side * length / max(image.shape[:2]) for length in image.shape[:2])
    left, top = left + (side - width) / 2, top + (side - height) / 2
    axes.imshow(
        image,
        cmap="gray",
        vmin=0,
        vmax=1,
        interpolation="nearest",
        extent=(left, left + width, top + height, top),
        aspect="auto",
    )
    return left, top, width, height


def _class_samples(dataset: Dataset, names: Sequence[str]) -> list[NDArray[np.float64]]:
    """The first image of each named class."""
    assert dataset.labels is not None
    pictures = Pictures(dataset)
    return [pictures[int(np.argmax(dataset.labels == dataset.classes.index(name)))] for name in names]


def class_ticks(names: Sequence[str]) -> tuple[list[int], list[str]]:
    """Positions and names on an axis; only some of them where there are very many."""
    step = -(-len(names) // 50)
    return list(range(0, len(names), step)), [shortened(name, _LONGEST_NAME) for name in names[::step]]


def name_of(dataset: Dataset, index: int) -> str:
    """What a picture of an element is called: its class, its file or its place, shortened."""
    longest = _LONGEST_CAPTION - 2  # the mark
    if dataset.labels is not None:
        return shortened(dataset.classes[dataset.labels[index]], longest)
    if not dataset.files:
        return f"#{index}"
    file = printable(dataset.files[index].rsplit("/", 1)[-1])
    return file if _width(file) <= longest else shortened(file.rsplit(".", 1)[0], longest)


def shortened(name: str, longest: int) -> str:
    """A name of at most ``longest`` letters, wide ones (CJK, m, w) counting twice; the middle is left out.

    Names that begin alike, as those of strains or of numbered files do, stay different.
    """
    name = printable(name)
    if _width(name) <= longest:
        return name
    for kept in range(min(longest, len(name)) - 1, 0, -1):
        short = f"{name[: kept - kept // 2]}…{name[len(name) - kept // 2 :]}"
        if _width(short) <= longest:
            return short
    return "…"


def _width(text: str) -> int:
    return sum(2 if letter in "mwMW" or unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)
