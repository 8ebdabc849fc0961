"""Figures of a match, and its HTML in notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bispectral_ot import drawing
from bispectral_ot.checks import check_choice, check_integer
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.pictures import Pictures
from bispectral_ot.drawing import Tile, shortened
from bispectral_ot.errors import InputError
from bispectral_ot.sampling import evenly_spaced

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bispectral_ot.matching.result import Match

PlotKind = Literal["pairs", "classes", "check", "outliers", "proportions"]
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
    table = _class_table(match)
    if table is not None and max(len(table.rows), len(table.columns)) <= 12:
        cells = [[f"{each:.0%}" if each >= 0.005 else "" for each in row] for row in table.fractions]
        rows = [[name, *row] for name, row in zip(table.rows, cells, strict=True)]
        flow = drawing.html_table(["", *table.columns], rows)
    return drawing.html_panel(f"Match {n:,} x {m:,}", facts, pairs, flow)


def plot_match(match: Match, kind: PlotKind | None, *, n: int, k: int, ax: Axes | None) -> Axes:
    """Draw a match; see :meth:`bispectral_ot.Match.plot`."""
    kind = kind or ("classes" if match.source is None else "pairs")
    check_choice("kind of plot", kind, get_args(PlotKind))
    n, k = check_integer("n", n, minimum=1), check_integer("k", k, minimum=1)
    if kind in ("pairs", "check", "outliers") and (match.source is None or match.target is None):
        raise InputError(f"this match has no images, which plot({kind!r}) needs; plot('classes') needs none.")
    if kind == "pairs":
        rows = evenly_spaced(len(match.coupling.source_weights), n)
        return drawing.draw_tiles(ax, _pairs(match, rows, k), title="Best matches and their weights")
    if kind == "classes":
        return _plot_classes(match, ax)
    if kind == "check":
        return _plot_check(match, n, ax)
    return _plot_outliers(match, n, ax) if kind == "outliers" else _plot_proportions(match, ax)


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
    weights = top[1]
    names, others = match.source_labels, match.target_labels
    judged = names is not None and others is not None and bool(np.isin(names, others).any())
    tiles: list[list[Tile | None]] = []
    for i in rows:
        line: list[Tile | None] = [Tile(sources[i], _name(match.source, i)), None]
        for j, weight in zip(top.indices[i], weights[i], strict=True):
            if j >= 0 and weight >= 0.01 * weights[i, 0]:
                label = f"{_name(match.target, j)} " if match.target.classes else ""
                right = bool(names[i] == others[j]) if judged and names is not None and others is not None else None
                line.append(Tile(targets[j], f"{label}{weight:.0%}", right))
        tiles.append(line)
    return tiles


def _class_table(match: Match) -> Any:
    from bispectral_ot.matching.evaluation import class_table  # which itself needs Match

    return class_table(match)


def _plot_classes(match: Match, ax: Axes | None) -> Axes:
    table = _class_table(match)
    if table is None:
        raise InputError("both sides need labels for this; make them Dataset(images, labels).")
    pictures = None
    if match.source is not None and match.target is not None and not match.images_elsewhere:
        pictures = _samples(match.source, table.rows), _samples(match.target, table.columns)
    title = "Classes that correspond" if table.accuracy is None else f"{table.accuracy:.1%} keep their class"
    own = None if table.accuracy is None else table.own
    ax = drawing.draw_matrix(
        ax, table.fractions, table.rows, table.columns, form="%", title=title, own=own, pictures=pictures
    )
    ax.set(ylabel="class of the source", xlabel="label given (% of the row)")
    return ax


def _samples(dataset: Dataset, names: tuple[str, ...]) -> list[NDArray[np.float64]]:
    """Picture of the first image of each class."""
    assert dataset.labels is not None
    pictures = Pictures(dataset)
    return [pictures[int(np.argmax(dataset.labels == dataset.classes.index(name)))] for name in names]


def _plot_check(match: Match, n: int, ax: Axes | None) -> Axes:
    """Sources with the least certain labels, each with the best target of its label and of the runner-up."""
    assert match.source is not None
    assert match.target is not None
    details, top = match.label_details(), match.top_matches(10)
    assert match.target_labels is not None
    sources, targets = Pictures(match.source), Pictures(match.target)
    rows = []
    for i in np.argsort(details[1], kind="stable")[:n]:
        line: list[Tile | None] = [Tile(sources[i], _name(match.source, i))]
        for label, weight in ((details[0][i], details[1][i]), (details[2][i], details[3][i])):
            own = [j for j in top.indices[i] if j >= 0 and match.target_labels[j] == label]
            words = f"{shortened(str(label), _LONGEST)} {weight:.0%}"
            line.append(Tile(targets[own[0]], words) if own else None)
        rows.append(line)
    heads = ["source", "its label", "runner-up"]
    half = -(-len(rows) // 2)
    if len(rows) > 4:  # two blocks side by side
        blank: list[Tile | None] = [None] * 3
        rows = [[*one, None, *other] for one, other in zip(rows, [*rows[half:], blank], strict=False)][:half]
        heads = [*heads, "", *heads]
    return drawing.draw_tiles(ax, rows, title="Labels to check first", heads=heads)


def _plot_outliers(match: Match, n: int, ax: Axes | None) -> Axes:
    """Elements of both sides that are least like the other side, the outliers framed."""
    rows: list[list[Tile | None]] = []
    for side, dataset in (("source", match.source), ("target", match.target)):
        assert dataset is not None
        found = match.outliers(side=side)  # type: ignore[arg-type]
        pictures, chosen = Pictures(dataset), set(found.indices.tolist())
        order = [*found.indices, *(i for i in np.argsort(found.scores, kind="stable") if i not in chosen)][:n]
        rows.append([Tile(pictures[i], f"{found.scores[i]:.3f}", False if i in chosen else None) for i in order])
    return drawing.draw_tiles(ax, rows, title="Outliers: source above, target below, with their scores")


def _plot_proportions(match: Match, ax: Axes | None) -> Axes:
    found = match.class_proportions()
    names, true = [str(name) for name in found.classes], None
    if match.source_labels is not None:
        true = np.equal.outer(found.classes, match.source_labels).mean(axis=1)
    return drawing.draw_proportions(ax, names, found.source, (found.low, found.high), found.target, true)
