"""What a feature space asks of features, and how transformers of other libraries give it."""

from __future__ import annotations

from typing import Any, Protocol, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from bispectral_ot.errors import InputError

METRICS = ("l1", "l2", "sqeuclidean", "cosine")


class Transformer(Protocol):
    """From a batch of signals to float32 rows, and how rows may be compared.

    Attributes
    ----------
    symmetry : what distances between rows do not see, a name in ``DEFAULT_FEATURES``; None where that is not known
    metrics, default_metric : distances that may be taken between rows, and the one that suits them best
    aligns : whether rows are steerable coefficients, to be compared at the best rotation of each pair: their
        ``index_map_`` says the frequency and part of each column, and they cannot be projected
    n_features_out_ : columns, once it is fitted
    feature_weights_ : (n_features_out_,) weights of the columns in the metric, or None
    """

    @property
    def symmetry(self) -> str | None: ...  # noqa: D102
    @property
    def metrics(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def default_metric(self) -> str: ...  # noqa: D102
    @property
    def aligns(self) -> bool: ...  # noqa: D102
    @property
    def n_features_out_(self) -> int: ...  # noqa: D102
    @property
    def feature_weights_(self) -> NDArray[np.float32] | None: ...  # noqa: D102

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn what depends on the size of a signal."""

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Signals to rows (n, n_features_out_)."""

    def fill(self, X: Any, out: NDArray[np.float32]) -> int:
        """Write the rows to ``out``, and return how many of them vanish: signals without content that it can see."""


class AdaptedTransformer(BaseEstimator):
    """A scikit-learn transformer, pipeline or union as a :class:`Transformer`.

    Images are flattened unless its tags say that it reads them. What it does not say about itself gets the usual
    value: no known symmetry, every metric, L1, weights those of the last step of a pipeline.

    Parameters
    ----------
    inner
        An object with ``fit`` and ``transform``; a copy of it is fitted.
    """

    inner_: Any
    n_features_out_: int

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return repr(self.inner)

    @property
    def symmetry(self) -> str | None:
        """As ``inner`` says."""
        return cast("str | None", getattr(self.inner, "symmetry", None))

    @property
    def metrics(self) -> tuple[str, ...]:
        """As ``inner`` says, or all."""
        return cast(tuple[str, ...], getattr(self.inner, "metrics", METRICS))

    @property
    def default_metric(self) -> str:
        """As ``inner`` says, or L1."""
        return str(getattr(self.inner, "default_metric", "l1"))

    @property
    def aligns(self) -> bool:
        """Whether pairs are turned to their best fit: never."""
        return False

    @property
    def feature_weights_(self) -> NDArray[np.float32] | None:
        """Weights of the fitted ``inner`` or of its last step, if there are any."""
        last = self.inner_
        while hasattr(last, "steps"):
            last = last.steps[-1][1]
        return cast("NDArray[np.float32] | None", getattr(last, "feature_weights_", None))

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit a copy of ``inner``."""
        images = np.asarray(X)
        self.inner_ = clone(self.inner, safe=False)
        self.inner_.fit(self._as_input(images))
        self.n_features_out_ = self._rows(images[:1]).shape[1]
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Rows (n, n_features_out_)."""
        return self._rows(np.asarray(X))

    def fill(self, X: Any, out: NDArray[np.float32]) -> int:
        """Write the rows to ``out``; which of them vanish is not known here."""
        out[:] = self._rows(np.asarray(X))
        return 0

    def _rows(self, images: NDArray[Any]) -> NDArray[np.float32]:
        rows = np.ascontiguousarray(self.inner_.transform(self._as_input(images)), dtype=np.float32)
        if rows.ndim != 2 or len(rows) != len(images):
            raise InputError(
                f"{type(self.inner).__name__} gave features of shape {rows.shape} for {len(images)} images; "
                "it should give one row each."
            )
        return rows

    def _as_input(self, images: NDArray[Any]) -> NDArray[Any]:
        return images if _reads_images(self.inner) else images.reshape(len(images), -1)


def as_transformer(features: Any) -> Transformer:
    """Return features that say what a :class:`Transformer` says as they are, others adapted.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.decomposition import PCA
    >>> from bispectral_ot.invariants import as_transformer
    >>> features = as_transformer(PCA(2)).fit(np.random.default_rng(0).random((9, 4, 4)))
    >>> features.n_features_out_, features.default_metric, features.symmetry
    (2, 'l1', None)
    """
    if isinstance(features, type) or not (hasattr(features, "fit") and hasattr(features, "transform")):
        raise InputError(f"features must be a transformer with fit and transform, got {features!r}.")
    says = all(hasattr(features, name) for name in ("symmetry", "metrics", "default_metric", "aligns"))
    return cast(Transformer, features if says else AdaptedTransformer(features))


def _reads_images(transformer: Any) -> bool:
    """Whether it reads batches of images; most scikit-learn transformers want rows, and say so in their tags."""
    if hasattr(transformer, "steps"):
        return _reads_images(transformer.steps[0][1])
    if hasattr(transformer, "transformer_list"):
        return any(_reads_images(part) for _, part in transformer.transformer_list)
    if not hasattr(transformer, "__sklearn_tags__"):
        return True
    tags = transformer.__sklearn_tags__()
    return bool(tags.input_tags.three_d_array or tags.no_validation)
