"""Figures of a match, and its HTML in notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bispectral_ot import drawing
from bispectral_ot.checks import check_choice, check_integer, printable
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.dataset import Pictures
from bispectral_ot.drawing import Tile, shortened
from bispectral_ot.errors import InputError
from bispectral_ot.matching.evaluation import class_table
from bispectral_ot.sampling import evenly_spaced

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bispectral_ot.matching.result import Match

PlotKind = Literal["pairs", "classes"]
_LONGEST = 11  # letters of a name below a picture


def match_html(match: Match) -> str:
    """Facts, some sources with their best targets, and the confusion table."""
    n, m = match.coupling.shape
    facts: dict[str, Any] = {
        "distance": f"{match.distance:.6g} ({match.coupling.cost.metric})",
        "converged": f"{'yes' if match.converged else 'NO'}, marginal error {match.marginal_error:.1e}",
        **{name: match.settings[name] for name in ("features", "symmetry", "marginals") if name in match.settings},
    }
    pairs = flow = ""
    if match.source is not None and match.target is not None and not match.images_elsewhere:
        pairs = drawing.html_tiles(_pairs(match, evenly_spaced(len(match.source), 4), 3))
    table = class_table(match)
    if table is not None and max(len(table.rows), len(table.columns)) <= 12:
        cells = [[f"{each:.0%}" if each >= 0.005 else "" for each in row] for row in table.fractions]
        rows, columns = ([printable(name) for name in names] for names in (table.rows, table.columns))
        flow = pd.DataFrame(cells, index=rows, columns=columns).to_html(border=0)
    return drawing.html_panel(f"Match {n:,} x {m:,}", facts, pairs, flow)


def plot_match(match: Match, kind: PlotKind | None, *, n: int, k: int, ax: Axes | None) -> Axes:
    """Draw a match; see :meth:`bispectral_ot.Match.plot`."""
    kind = kind or ("classes" if match.source is None else "pairs")
    check_choice("kind of plot", kind, get_args(PlotKind))
    n, k = check_integer("n", n, minimum=1), check_integer("k", k, minimum=1)
    if kind == "classes":
        table = class_table(match)
        if table is None:
            raise InputError("both sides need labels for this; make them Dataset(images, labels).")
        title = "Classes that correspond" if table.accuracy is None else f"{table.accuracy:.1%} keep their class"
        own = None if table.accuracy is None else np.equal.outer(np.array(table.rows), np.array(table.columns))
        ax = drawing.draw_matrix(ax, table.fractions, table.rows, table.columns, form="%", title=title, own=own)
        ax.set(ylabel="class of the source", xlabel="label given (% of the row)")
        return ax
    if match.source is None:
        raise InputError("this match has no images, which plot('pairs') needs; plot('classes') needs none.")
    tiles = _pairs(match, evenly_spaced(len(match.source), n), k)
    return drawing.draw_tiles(ax, tiles, title="Best matches and their weights")


def _name(dataset: Dataset, index: int) -> str:
    """Class, file or position of an element, shortened."""
    if dataset.labels is not None:
        return shortened(dataset.classes[dataset.labels[index]], _LONGEST)
    return shortened(dataset.files[index].rsplit("/", 1)[-1], _LONGEST) if dataset.files else f"#{index}"


def _pairs(match: Match, rows: NDArray[np.int64], k: int) -> list[list[Tile | None]]:
    """For each source a row of tiles: itself, a gap, and its best targets."""
    assert match.source is not None
    assert match.target is not None
    sources, targets, top = Pictures(match.source), Pictures(match.target), match.top_matches(k)
    names, others = match.source_labels, match.target_labels
    judged = names is not None and others is not None and bool(np.isin(names, others).any())
    tiles: list[list[Tile | None]] = []
    for i in rows:
        line: list[Tile | None] = [Tile(sources[i], _name(match.source, i)), None]
        for j, weight in zip(top.indices[i], top.weights[i], strict=True):
            if j >= 0 and weight >= 0.01 * top.weights[i, 0]:
                label = f"{_name(match.target, j)} " if match.target.classes else ""
                right = bool(names[i] == others[j]) if judged and names is not None and others is not None else None
                line.append(Tile(targets[j], f"{label}{weight:.0%}", right))
        tiles.append(line)
    return tiles
