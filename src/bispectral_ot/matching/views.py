"""A match to look at: as HTML in a notebook, and on matplotlib axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from bispectral_ot import display, plots
from bispectral_ot.checks import check_choice, check_integer
from bispectral_ot.datasets.pictures import Pictures
from bispectral_ot.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bispectral_ot.matching.result import Match

PlotKind = Literal["pairs", "classes"]
_SHOWN, _BEST, _MOST_CLASSES = 4, 3, 12  # in HTML: sources, targets of each, classes


def match_html(match: Match) -> str:
    """Facts, some sources with their best targets, and where the classes went."""
    n, m = match.coupling.shape
    facts: dict[str, Any] = {
        "distance": f"{match.distance:.6g} ({match.coupling.cost.metric})",
        "converged": f"{'yes' if match.converged else 'NO'}, marginal error {match.marginal_error:.1e}",
        **{name: match.settings[name] for name in ("features", "symmetry", "marginals") if name in match.settings},
    }
    flow = ""
    if match.source_labels is not None and match.target_labels is not None:
        rows, columns, shares = class_flow(match)
        if max(len(rows), len(columns)) <= _MOST_CLASSES:
            flow = display.heat_table(rows, columns, shares)
    return display.panel(f"Match {n:,} x {m:,}", facts, _pairs_html(match), flow)


def _pairs_html(match: Match) -> str:
    if match.source is None or match.target is None or match.images_elsewhere:
        return ""
    sources, targets, top = Pictures(match.source), Pictures(match.target), match.top_matches(_BEST)
    lines = []
    for i in spread(len(match.source), _SHOWN):
        found = [(j, share) for j, share in zip(top.indices[i], top.shares[i], strict=True) if j >= 0]
        best = "".join(display.picture(targets[j], caption=f"{share:.0%}") for j, share in found)
        lines.append(f"<div>{display.picture(sources[i], caption=i)} → {best}</div>")
    return "".join(lines)


def plot_match(match: Match, kind: PlotKind | None, *, n: int, k: int, ax: Axes | None) -> Axes:
    """Draw a match; see :meth:`bispectral_ot.Match.plot`."""
    kind = kind or ("classes" if match.source is None else "pairs")
    check_choice("kind of plot", kind, ("pairs", "classes"))
    if kind == "classes":
        rows, columns, shares = class_flow(match)
        side = 1.5 + 0.35 * max(len(rows), len(columns))
        ax = plots.axes_for(ax, side, side)
        plots.draw_matrix(ax, shares, rows, columns, form=".2f", title="share of each class")
        ax.set(xlabel="class of the target", ylabel="class of the source")
        return ax
    if match.source is None or match.target is None:
        raise InputError("this match has no images to draw; plot('classes') needs none.")
    n, k = check_integer("n", n, minimum=1), check_integer("k", k, minimum=1)
    sources, targets, top = Pictures(match.source), Pictures(match.target), match.top_matches(k)
    places = spread(len(match.source), n)
    rows_of = [[sources[i], *(targets[j] for j in top.indices[i] if j >= 0)] for i in places]
    words = [[f"source {i}", *(f"{share:.0%}" for share in top.shares[i] if share > 0)] for i in places]
    ax = plots.axes_for(ax, 1 + 0.9 * (k + 1), 1.1 * len(places))
    return plots.draw_rows(ax, rows_of, words)


def class_flow(match: Match) -> tuple[list[str], list[str], NDArray[np.float64]]:
    """Classes of the sources and of the targets, and the share of the former's mass that goes to the latter."""
    if match.source_labels is None or match.target_labels is None:
        raise InputError("both sides need labels for this; make them Dataset(images, labels).")
    columns, mass = match.class_mass(to="source")
    rows, codes = np.unique(match.source_labels, return_inverse=True)
    weighted = mass * match.coupling.source_weights[:, None]
    total = np.stack([weighted[codes == code].sum(axis=0) for code in range(len(rows))])
    sums = total.sum(axis=1, keepdims=True)
    shares: NDArray[Any] = np.divide(total, sums, out=np.zeros_like(total), where=sums > 0)
    return list(map(str, rows)), list(map(str, columns)), shares


def spread(count: int, wanted: int) -> NDArray[np.int64]:
    """Positions spread evenly over a set."""
    return np.unique(np.linspace(0, count - 1, min(count, wanted)).round().astype(np.int64))
