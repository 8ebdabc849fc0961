"""Tables and figures of the study of shares."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bispectral_ot.drawing import CLASS_COLOURS, house_style, save
from bispectral_ot.files import write_json, write_text
from studies.markdown import markdown_table

WAYS = ("1-NN", "5-NN", "balanced", "relaxed", "estimated", "oracle")
_RIVALS = ("1-NN", "5-NN", "balanced")
# The four regimes: names, and the rate of those that have one.
REGIMES = {
    "same": "same shares",
    "target skewed": "target skewed",
    "opposite": "both skewed, opposite ways",
    "half source": "half of the classes in the source",
}
_RATE = {"same": 1.0, "half source": 1.0, "target skewed": 0.7, "opposite": 0.7}

Cell = dict[str, Any]
Found = dict[str, Any]


def write_tables(folder: Path, cells: list[Cell]) -> None:
    """Write everything that is said of the cells."""
    write_json(folder / "results.json", {"cells": cells})
    write_text(folder / "unmatched.md", unmatched_table(cells))
    cells = [cell for cell in cells if len(cell["regimes"]) > 1]
    for name, table in (
        ("table", regime_table),
        ("sweep", sweep_table),
        ("shares", share_table),
        ("passes", pass_table),
    ):
        write_text(folder / f"{name}.md", table(cells))
    for name, features in _pairs(cells):
        drawn = sweep_figure([cell for cell in cells if _key(cell) == (name, features)], f"{name}, {features}")
        save(drawn, folder / "figures" / f"sweep-{name}-{features}.png")


def regime_table(cells: list[Cell]) -> str:
    """The four regimes: mean and standard deviation over the seeds, and the default less the best rival."""
    rows = []
    for name, features in _pairs(cells):
        for regime, title in REGIMES.items():
            found = list(_select(cells, name, features, regime, _RATE[regime]))
            rows.append([f"{name}, {features}: {title}", *_accuracies(found)])
    return markdown_table(["", *WAYS, "estimated - best rival"], rows)


def sweep_table(cells: list[Cell]) -> str:
    """The same by the strength of the skew."""
    rows = []
    for name, features in _pairs(cells):
        for regime in ("target skewed", "opposite"):
            for rate in _rates(cells):
                found = list(_select(cells, name, features, regime, rate))
                rows.append([f"{name}, {features}: {REGIMES[regime]}, {rate:g}^c", *_accuracies(found)])
    return markdown_table(["", *WAYS, "estimated - best rival"], rows)


def share_table(cells: list[Cell]) -> str:
    """How far estimated shares are from the true ones, and how often the intervals have these."""
    header = ["", *(f"{title}: {what}" for title in REGIMES.values() for what in ("error", "covered"))]
    rows = []
    for name, features in _pairs(cells):
        row = [f"{name}, {features}"]
        for regime in REGIMES:
            found = list(_select(cells, name, features, regime, _RATE[regime]))
            row += [_mean(each["error"] for each in found), _mean((each["covered"] for each in found), digits=2)]
        rows.append(row)
    return markdown_table(header, rows)


def pass_table(cells: list[Cell]) -> str:
    """Passes over the cost, way by way, for the four regimes together."""
    ways = ("balanced", "relaxed", "estimated", "oracle")
    rows = []
    for name, features in _pairs(cells):
        found = [each for regime in REGIMES for each in _select(cells, name, features, regime, _RATE[regime])]
        counts = {way: [each["passes"][way] for each in found] for way in ways}
        rows.append([f"{name}, {features}", *(f"{np.median(each):.0f} ({max(each)})" for each in counts.values())])
    return markdown_table(["passes, median (most)", *ways], rows)


def unmatched_table(cells: list[Cell]) -> str:
    """How well sources of classes that the target lacks are found."""
    rows = []
    for name, features in _pairs(cells):
        own = [cell for cell in cells if _key(cell) == (name, features)]
        found = [each["unmatched"] for cell in own for each in cell["regimes"] if "unmatched" in each]
        title = (
            f"{name}, {features}"
            if own[0]["regimes"][0]["regime"] == "strangers"
            else f"{name}, {features}: half of the classes"
        )
        columns = ("auc", "nearest_auc", "unknown_found", "known_found")
        rows.append([title, *(_with_spread(each[column] for each in found) for column in columns)])
    header = ["", "AUC, relaxed plan", "AUC, nearest distance", "unknown with a score below 0.05", "known with one"]
    return markdown_table(header, rows)


def sweep_figure(cells: list[Cell], title: str) -> Figure:
    """Accuracy by the strength of the skew, a panel for each way of skewing, a line for each way of matching."""
    rates = [1.0, *_rates(cells)]
    with house_style():
        figure = Figure(figsize=(9.6, 3.8), layout="constrained")
        for axes, regime in zip(figure.subplots(1, 2, sharey=True), ("target skewed", "opposite"), strict=True):
            for way, colour in zip(WAYS, CLASS_COLOURS, strict=False):
                chosen = [_of(cells, regime if rate < 1 else "same", rate) for rate in rates]
                groups = [[each["accuracy"][way] for each in found] for found in chosen]
                means, spreads = (np.array([measure(group) for group in groups]) for measure in (np.mean, np.std))
                places = np.arange(len(rates))
                axes.plot(places, means, marker="o", markersize=4, color=colour, label=way, linewidth=1.6)
                axes.fill_between(places, means - spreads, means + spreads, color=colour, alpha=0.15, linewidth=0)
            axes.set_xticks(range(len(rates)), [f"{rate:g}" for rate in rates])
            axes.set_title(REGIMES[regime])
            axes.set_xlabel("rate: class c keeps rate^c of its images")
            axes.grid(axis="y")
        figure.axes[0].set_ylabel("sources that get their own class")
        figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside right upper", frameon=False)
        figure.suptitle(title, x=0.02, ha="left", fontsize=11, fontweight="bold")
    return figure


def _accuracies(found: list[Found]) -> list[str]:
    values = {way: [each["accuracy"][way] for each in found] for way in WAYS}
    means = {way: float(np.mean(each)) for way, each in values.items()}
    behind = means["estimated"] - max(means[rival] for rival in _RIVALS)
    return [*(_with_spread(each) for each in values.values()), f"{behind:+.3f}"]


def _with_spread(values: Iterable[float]) -> str:
    each = list(values)
    return f"{np.mean(each):.3f}" + (f" ± {np.std(each, ddof=1):.3f}" if len(each) > 1 else "")


def _mean(values: Iterable[float], digits: int = 3) -> str:
    return f"{np.mean(list(values)):.{digits}f}"


def _key(cell: Cell) -> tuple[str, str]:
    return cell["config"]["dataset"], cell["config"]["features"]


def _pairs(cells: list[Cell]) -> list[tuple[str, str]]:
    return list(dict.fromkeys(map(_key, cells)))


def _rates(cells: list[Cell]) -> list[float]:
    found = {each["rate"] for cell in cells for each in cell["regimes"] if each["rate"] < 1}
    return sorted(found, reverse=True)


def _of(cells: list[Cell], regime: str, rate: float) -> list[Found]:
    return [each for cell in cells for each in cell["regimes"] if (each["regime"], each["rate"]) == (regime, rate)]


def _select(cells: list[Cell], name: str, features: str, regime: str, rate: float) -> list[Found]:
    return _of([cell for cell in cells if _key(cell) == (name, features)], regime, rate)
