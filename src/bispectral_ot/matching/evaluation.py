"""Evaluation of a match: class preservation, the paper's measure, its confusion matrix, figures, HTML in notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pandas import DataFrame, Series
from sklearn.metrics import confusion_matrix

from bispectral_ot import drawing
from bispectral_ot.checks import check_choice, check_integer, printable
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.dataset import Pictures
from bispectral_ot.drawing import Axes, Tile, frame_html, shortened
from bispectral_ot.errors import InputError, warn
from bispectral_ot.sampling import evenly_spaced

if TYPE_CHECKING:
    from bispectral_ot.matching.result import Match

PlotKind = Literal["pairs", "classes"]
_LONGEST = 11  # letters of a name below a picture


@dataclass(frozen=True)
class ClassPreservation:
    """Fraction of source elements whose label is their own class."""

    accuracy: float  # over all elements that have mass; NaN without common classes
    recall: NDArray[np.float64] = field(repr=False)  # (c,) of each source class; NaN where the source has none of it
    confusion: NDArray[np.int64] = field(repr=False)  # (c, c) counts; classes of the source down, labels across
    classes: NDArray[Any] = field(repr=False)  # (c,) of rows and columns

    def to_frame(self) -> DataFrame:
        """Confusion matrix."""
        return DataFrame(self.confusion, index=self.classes, columns=self.classes)

    _repr_html_ = frame_html


def class_preservation(
    match: Match, source_labels: ArrayLike | None = None, target_labels: ArrayLike | None = None
) -> ClassPreservation:
    """Compare each source's own class with its label; sources of weight 0 are not counted.

    Labels default to those of the match. Integers must refer to the same classes on both sides (``Dataset.labels``
    refer to those of their own set). Without a common class, the accuracy is NaN, with a warning.

    Examples
    --------
    >>> import bispectral_ot as bot
    >>> source, target = bot.split_halves(bot.load("digits"), per_class=10)
    >>> bool(bot.class_preservation(bot.match(source, target)).accuracy > 0.5)
    True
    """
    n, m = match.coupling.shape
    truth = given_or_own(source_labels, match.source_labels, n, "source")
    targets = given_or_own(target_labels, match.target_labels, m, "target")
    kept = _preserved(match, truth, targets)
    if np.isnan(kept.accuracy):
        warn(f"{no_common_class([*np.unique(truth)], [*np.unique(targets)])}; give both sides the same class names.")
    return kept


def no_common_class(source: Sequence[Any], target: Sequence[Any]) -> str:
    """Message that the classes of two sets have no name in common, with the first of them."""
    one, other = (", ".join(map(str, names[:4])) + ", ..." * (len(names) > 4) for names in (source, target))
    return f"the two sets have no class in common (source: {one}; target: {other}), so there is no accuracy"


def _preserved(match: Match, truth: NDArray[Any], targets: NDArray[Any]) -> ClassPreservation:
    names, codes = np.unique(targets, return_inverse=True)
    own = None if match.target_labels is None else np.unique(match.target_labels, return_inverse=True)
    if own is not None and np.array_equal(own[1], codes):  # the classes of the match, perhaps under other names
        predicted = names[np.searchsorted(own[0], match.labels().label.to_numpy())]
    else:
        given, weights = match.class_weights(targets, to="source")
        predicted = given[weights.argmax(axis=1)]
    moved = match.coupling.source_weights > 0
    classes = np.union1d(truth, targets)
    confusion = confusion_matrix(truth[moved], predicted[moved], labels=classes)
    counts, hits = confusion.sum(axis=1), np.diag(confusion)
    recall = np.divide(hits, counts, out=np.full(len(classes), np.nan), where=counts > 0)
    accuracy = float(hits.sum() / moved.sum()) if np.isin(truth, targets).any() else np.nan
    return ClassPreservation(accuracy, recall, confusion, classes)


@dataclass(frozen=True)
class ClassTable:
    """Confusion matrix of a match: counts (r, c) of source classes by label, common classes first.

    ``accuracy`` is None where the sides have no class in common; ``recall`` is that of common classes.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    counts: NDArray[np.int64]
    accuracy: float | None
    recall: dict[str, float]

    @property
    def fractions(self) -> NDArray[np.float64]:
        """(r, c) counts as fractions of their row; 0 for a class whose images have no mass."""
        return self.counts / self.counts.sum(axis=1, keepdims=True).clip(1)


def class_table(match: Match) -> ClassTable | None:
    """Confusion matrix of a match; None unless both sides have labels."""
    if match.source_labels is None or match.target_labels is None:
        return None
    kept = _preserved(match, match.source_labels, match.target_labels)
    rows, others = match.source.present_classes, match.target.present_classes
    common = [name for name in rows if name in others]
    columns = common + [name for name in others if name not in rows]
    counts = kept.to_frame().loc[rows, columns].to_numpy()
    recall = Series(kept.recall, kept.classes)[common].to_dict()
    return ClassTable(tuple(rows), tuple(columns), counts, kept.accuracy if common else None, recall)


def given_or_own(labels: ArrayLike | None, own: NDArray[Any] | None, size: int, side: str) -> NDArray[Any]:
    """Labels of a side as an array (size,); its own where none are given."""
    if labels is None and own is None:
        raise InputError(f"the {side} set has no labels; match a Dataset with labels, or pass labels=...")
    try:
        array = np.asarray(own if labels is None else labels)
        if array.dtype.kind == "O":
            np.unique(array)
    except (TypeError, ValueError):  # a None among names, lists of different lengths
        raise InputError("labels must be all numbers or all strings, one per element.") from None
    if array.shape != (size,):
        given = f"{len(array)} entries" if array.ndim == 1 else f"shape {array.shape}"
        raise InputError(f"labels has {given} but there are {size} elements; give one label per element.")
    return array


def match_html(match: Match) -> str:
    """Facts, some sources with their best targets, and the confusion matrix."""
    n, m = match.coupling.shape
    facts: dict[str, Any] = {}
    if match.classes is not None:
        facts |= {"expected accuracy": match.expected_accuracy(), "shift": match.shift()}
    facts["distance"] = f"{match.distance:.6g} ({match.coupling.cost.metric})"
    facts["converged"] = f"{'yes' if match.converged else 'NO'}, marginal error {match.marginal_error:.1e}"
    facts |= {name: match.settings[name] for name in ("features", "symmetry", "marginals")}
    pairs = flow = ""
    if not match.images_elsewhere:
        pairs = drawing.html_tiles(_pairs(match, evenly_spaced(len(match.source), 4), 3))
    table = class_table(match)
    if table is not None and max(len(table.rows), len(table.columns)) <= 12:
        cells = [[f"{each:.0%}" if each >= 0.005 else "" for each in row] for row in table.fractions]
        rows, columns = ([printable(name) for name in names] for names in (table.rows, table.columns))
        flow = DataFrame(cells, index=rows, columns=columns).to_html(border=0)
    return drawing.html_panel(f"Match {n:,} x {m:,}", facts, pairs, flow)


def plot_match(match: Match, kind: PlotKind | None, *, n: int, k: int, ax: Axes | None) -> Axes:
    """Draw a match; see :meth:`bispectral_ot.Match.plot`."""
    kind = kind or "pairs"
    check_choice("kind of plot", kind, get_args(PlotKind))
    check_integer("n", n, minimum=1)
    check_integer("k", k, minimum=1)
    if kind == "classes":
        table = class_table(match)
        if table is None:
            raise InputError("both sides need labels for this; make them Dataset(images, labels).")
        title = "Classes that correspond" if table.accuracy is None else f"accuracy {table.accuracy:.1%}"
        own = None if table.accuracy is None else np.equal.outer(np.array(table.rows), np.array(table.columns))
        ax = drawing.draw_matrix(ax, table.fractions, table.rows, table.columns, form="%", title=title, own=own)
        ax.set(ylabel="class of the source", xlabel="assigned label (% of the row)")
        return ax
    tiles = _pairs(match, evenly_spaced(len(match.source), n), k)
    return drawing.draw_tiles(ax, tiles, title="Best matches and their weights")


def _name(dataset: Dataset, index: int) -> str:
    """Class, file or position of an element, shortened."""
    if dataset.labels is not None:
        return shortened(dataset.classes[dataset.labels[index]], _LONGEST)
    return shortened(dataset.files[index].rsplit("/", 1)[-1], _LONGEST) if dataset.files else f"#{index}"


def _pairs(match: Match, rows: NDArray[np.int64], k: int) -> list[list[Tile | None]]:
    """For each source a row of tiles: itself, a gap, and its best targets."""
    sources, targets, top = Pictures(match.source), Pictures(match.target), match.top_matches(k)
    names, others = match.source_labels, match.target_labels
    if names is None or others is None or not np.isin(names, others).any():
        names = others = None  # there is no right or wrong
    tiles: list[list[Tile | None]] = []
    for i in rows:
        line: list[Tile | None] = [Tile(sources[i], _name(match.source, i)), None]
        for j, weight in zip(top.indices[i], top.weights[i], strict=True):
            if j >= 0 and weight >= 0.01 * top.weights[i, 0]:
                label = f"{_name(match.target, j)} " if match.target.classes else ""
                right = None if names is None or others is None else bool(names[i] == others[j])
                line.append(Tile(targets[j], f"{label}{weight:.0%}", right))
        tiles.append(line)
    return tiles
