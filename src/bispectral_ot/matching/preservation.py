"""How well a match keeps classes together: the paper's measure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bispectral_ot.errors import InputError
from bispectral_ot.matching.result import Match, check_labels


@dataclass(frozen=True)
class ClassPreservation:
    """Share of source elements that were mapped to their own class.

    Attributes
    ----------
    accuracy : the share over all elements that have mass
    recall : (c,) the share within each source class, NaN where the source has none of it that has mass
    confusion : (c, c) counts; row = class of the source, column = class it was mapped to
    classes : (c,) the labels of rows and columns
    """

    accuracy: float
    recall: NDArray[np.float64] = field(repr=False)
    confusion: NDArray[np.int64] = field(repr=False)
    classes: NDArray[Any] = field(repr=False)


def class_preservation(
    match: Match, source_labels: ArrayLike | None = None, target_labels: ArrayLike | None = None
) -> ClassPreservation:
    """Compare each source's own class with the target class that gets most of its mass.

    Sources of weight 0 go nowhere, and are not counted.

    Parameters
    ----------
    match
        The match to judge.
    source_labels, target_labels
        One label for each source and each target; the match's own by default, which are names where they come from
        Datasets. Numbers must mean the same on both sides: ``Dataset.labels`` count the classes of their own set.

    Examples
    --------
    >>> import bispectral_ot as bot
    >>> source, target = bot.split_halves(bot.load("digits"), per_class=10)
    >>> kept = bot.class_preservation(bot.match(source, target))
    >>> kept.confusion.shape
    (10, 10)
    >>> bool(kept.accuracy > 0.5)
    True
    """
    from sklearn.metrics import confusion_matrix

    n, m = match.coupling.shape
    truth = _given_or_own(source_labels, match.source_labels, n, "source")
    targets = _given_or_own(target_labels, match.target_labels, m, "target")
    names, codes = np.unique(targets, return_inverse=True)
    if match.target_labels is not None and np.array_equal(_codes(match.target_labels), codes):
        # the same classes under the names that the match has read already: no second pass
        predicted = names[match.class_mass(to="source")[1].argmax(axis=1)]
    else:
        predicted = match.transfer_labels(targets, to="source").labels
    moved = match.coupling.source_weights > 0
    classes = np.union1d(truth, targets)
    confusion = confusion_matrix(truth[moved], predicted[moved], labels=classes)
    counts = confusion.sum(axis=1)
    hits = np.diag(confusion)
    recall = np.divide(hits, counts, out=np.full(len(classes), np.nan), where=counts > 0)
    return ClassPreservation(float(hits.sum() / moved.sum()), recall, confusion, classes)


def _given_or_own(given: ArrayLike | None, own: NDArray[Any] | None, size: int, side: str) -> NDArray[Any]:
    if given is None and own is None:
        raise InputError(f"the {side} set has no labels; match a Dataset with labels, or pass labels for both sides.")
    return check_labels(own if given is None else given, size)


def _codes(labels: NDArray[Any]) -> NDArray[np.int64]:
    return np.unique(labels, return_inverse=True)[1]
