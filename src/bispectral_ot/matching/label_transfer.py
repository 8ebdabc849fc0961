"""Classifier with scikit-learn's interface that transfers the labels of a labelled set."""

import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bispectral_ot.datasets import Dataset
from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.matching.match import match
from bispectral_ot.matching.result import Match, label_names


@dataclass(kw_only=True, repr=False, eq=False)
class LabelTransfer(ClassifierMixin, BaseEstimator):
    """Classifier that transfers the labels of a set of targets to new images.

    :meth:`predict` and :meth:`predict_proba` classify each image on its own; :meth:`transduce` matches a whole set of
    images with the targets and estimates its class proportions.

    Parameters
    ----------
    symmetry, features, metric, metric_learning, normalize
        See :func:`~bispectral_ot.match`. Rows (n, columns) are compared as they are.

    Attributes
    ----------
    classes_ : (c,) labels
    target_, match_ : the targets, and their match with themselves, which predicts new images

    Examples
    --------
    >>> import bispectral_ot as bot
    >>> source, target = bot.split_halves(bot.load("digits"), per_class=10)
    >>> labels = bot.LabelTransfer().fit(target.images, target.labels)
    >>> labels.predict(source.images[:3]).shape, labels.predict_proba(source.images[:3]).shape
    ((3,), (3, 10))
    """

    symmetry: str | None = None
    features: Any = None
    metric: str | None = None
    metric_learning: Literal["auto", "none"] = "auto"
    normalize: bool = True

    def fit(self, X: "ArrayLike | Dataset", y: "ArrayLike | None" = None) -> Self:
        """Fit to targets: images, rows or a ``Dataset``, with labels ``y`` (by default those of the ``Dataset``)."""
        target = self._dataset(X, reset=True)
        if y is None and target.labels is None:
            raise InputError("LabelTransfer requires y to be passed, but the target y is None.")
        values = np.asarray(label_names(target)) if y is None else column_or_1d(y, warn=True)
        assert_all_finite(values)
        check_classification_targets(values)
        if values.shape != (len(target),):
            raise InputError(f"y has shape {values.shape} but there are {len(target)} targets; give one for each.")
        self.classes_, codes = np.unique(values, return_inverse=True)
        self.n_features_in_ = int(np.prod(target.signals.shape[1:]))
        self.target_ = replace(target, labels=codes, classes=tuple(map(str, range(len(self.classes_)))))
        with warnings.catch_warnings(action="ignore", category=DataWarning):  # of sources that are the targets
            unlabelled = replace(target, labels=None, classes=())
            self.match_ = match(unlabelled, self.target_, marginals="relaxed", **self.get_params())
        return self

    def predict(self, X: "ArrayLike | Dataset") -> NDArray[Any]:
        """Labels (n,) of images, each on its own."""
        check_is_fitted(self)
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def predict_proba(self, X: "ArrayLike | Dataset") -> NDArray[np.float64]:
        """Class probabilities (n, c) of images, each on its own, for the class proportions of the targets."""
        check_is_fitted(self)
        found = self.match_.predictor.match(self.match_.predictor.read(self._dataset(X)))
        if found.classes is None:  # too few targets for a class model: weights of the plan
            names, weights = found.class_weights(to="source")
        else:
            names, weights = found.classes.model.classes, found.classes.probabilities
        return weights[:, np.argsort(names.astype(np.int64))]

    def transduce(self, X: "ArrayLike | Dataset") -> Match:
        """Match of a whole set of images with the targets; its labels are positions in ``classes_``."""
        check_is_fitted(self)
        return match(replace(self._dataset(X), labels=None, classes=()), self.target_, **self.get_params())

    def _dataset(self, X: "ArrayLike | Dataset", *, reset: bool = False) -> Dataset:
        """Images as a dataset; rows (n, columns) as vectors."""
        if isinstance(X, Dataset):
            return X
        array = np.asarray(X)
        if array.ndim > 2:
            return Dataset(array)
        return Dataset.from_vectors(validate_data(self, X, reset=reset))
