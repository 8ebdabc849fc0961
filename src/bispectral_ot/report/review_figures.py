"""The figures of what is doubtful about a match: shares of classes, the least matched images, doubtful labels."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.pictures import Pictures
from bispectral_ot.matching import ClassShares, Match, Unmatched
from bispectral_ot.report.figures import canvas, class_ticks, draw_tile, name_of, shortened
from bispectral_ot.report.style import FAINT, MUTED, RIGHT, WRONG, house_style

_TILE, _STEP, _LINE = 0.78, 0.92, 1.12
# Images of a strip, and doubtful labels that are shown.
_STRIP, _DOUBTFUL = 10, 16


def shares_figure(shares: ClassShares, true: NDArray[np.float64] | None) -> Figure:
    """Estimated shares of the classes in the source with their interval, those in the target, true ones if known."""
    places = np.arange(len(shares.classes))
    with house_style():
        figure = Figure(figsize=(min(14.0, 2.6 + 0.5 * len(places)), 3.4), layout="constrained")
        axes = figure.add_subplot()
        axes.bar(places, 100 * shares.target, width=0.8, color=FAINT, label="target", zorder=1)
        axes.bar(places, 100 * shares.source, width=0.45, color=RIGHT, label="source, estimated", zorder=2)
        reach = 100 * np.stack([shares.source - shares.low, shares.high - shares.source])
        axes.errorbar(
            places, 100 * shares.source, reach, fmt="none", ecolor="black", capsize=3, zorder=3, label="90 % interval"
        )
        if true is not None and np.isfinite(true).all():
            axes.plot(places, 100 * true, "D", color=WRONG, markersize=5, zorder=4, label="source, by its labels")
        axes.set_xticks(*class_ticks([str(name) for name in shares.classes]))
        if max(len(str(name)) for name in shares.classes) > 3:
            axes.tick_params(axis="x", rotation=90)
        axes.tick_params(axis="x", length=0)
        axes.set_ylabel("share of the images (%)")
        axes.set_title("Shares of the classes")
        axes.grid(axis="y", zorder=0)
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def unmatched_figure(sides: list[tuple[str, Dataset, Unmatched]]) -> Figure:
    """The least matched images of each side, with their scores; a frame where a score is below the threshold."""
    with house_style():
        figure, axes = canvas(0.5 + _STRIP * _STEP, 0.7 + len(sides) * (_LINE + 0.35))
        title = "The least matched images: score, and a frame where it is below the threshold"
        axes.text(0.25, 0.3, title, fontsize=11, fontweight="bold", va="center")
        for row, (name, dataset, found) in enumerate(sides):
            top = 0.95 + row * (_LINE + 0.35)
            rest = np.setdiff1d(np.argsort(found.scores, kind="stable"), found.indices, assume_unique=True)
            order = [*found.indices, *rest[np.argsort(found.scores[rest], kind="stable")]][:_STRIP]
            words = f"{name}: {len(found.indices):,} of {len(dataset):,} without counterpart"
            axes.text(0.25, top - 0.1, words, color=MUTED)
            pictures, out = Pictures(dataset), set(found.indices.tolist())
            for place, i in enumerate(order):
                draw_tile(
                    axes,
                    pictures[int(i)],
                    (0.25 + place * _STEP, top, _TILE),
                    right=False if int(i) in out else None,
                    caption=f"{found.scores[i]:.3f}",
                )
    return figure


def doubtful_figure(match: Match, doubtful: NDArray[np.int64], source: Dataset, target: Dataset) -> Figure:
    """Sources with the least certain labels, each with the best target of its label and of another one."""
    assert match.target_labels is not None
    top, chosen = match.top_matches(10), doubtful[:_DOUBTFUL]
    n_blocks = 2 if len(chosen) > 4 else 1
    n_rows = max(1, -(-len(chosen) // n_blocks))
    width = 3 * _STEP + 0.5
    details = match.label_details()
    sources, targets = Pictures(source), Pictures(target)
    with house_style():
        figure, axes = canvas(max(5.4, 0.3 + n_blocks * width), 0.95 + _LINE * n_rows)
        words = f"Doubtful labels: the least certain of {len(doubtful):,}"
        axes.text(0.25, 0.3, words, fontsize=11, fontweight="bold", va="center")
        for place, i in enumerate(chosen.tolist()):
            block, row = divmod(place, n_rows)
            left, edge = 0.25 + block * width, 0.85 + row * _LINE
            if row == 0:
                for number, name in enumerate(("source", "its label", "runner-up")):
                    axes.text(left + number * _STEP, 0.77, name, color=MUTED)
            draw_tile(axes, sources[i], (left, edge, _TILE), caption=name_of(source, i))
            given = match.target_labels[top.indices[i]]
            pairs = (
                (details.labels[i], details.shares[i]),
                (details.runner_up[i], details.runner_up_shares[i]),
            )
            for number, (label, share) in enumerate(pairs, start=1):
                own = np.flatnonzero((given == label) & (top.indices[i] >= 0))
                if len(own):
                    square = (left + number * _STEP, edge, _TILE)
                    draw_tile(
                        axes,
                        targets[int(top.indices[i, own[0]])],
                        square,
                        caption=f"{shortened(str(label), 8)}  {share:.0%}",
                    )
    return figure
