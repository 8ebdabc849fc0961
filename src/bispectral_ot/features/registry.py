"""Feature registry: names, symmetries and metrics of all features, and the choice of features and metric of a call."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Protocol, Self, cast

import numpy as np
from sklearn.base import clone

from bispectral_ot.checks import check_choice
from bispectral_ot.costs import Metric
from bispectral_ot.costs.distances import check_aligned_metric
from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.features.combined import CombinedBispectrum
from bispectral_ot.features.d4 import D4Bispectrum
from bispectral_ot.features.global_bispectrum import GlobalBispectrum
from bispectral_ot.features.image_group import ImageBispectrum, ImageGroup
from bispectral_ot.features.local_bispectrum import INTENSITIES, LocalBispectrum
from bispectral_ot.features.pixels import Pixels, Vectors
from bispectral_ot.features.polar_spectrum import PolarSpectrum
from bispectral_ot.features.ring import RingBispectrum
from bispectral_ot.features.translation import TranslationBispectrum
from bispectral_ot.groups.shells import ShellBispectrum
from bispectral_ot.groups.sphere import SphereBispectrum
from bispectral_ot.literals import METRICS, is_feature_expression
from bispectral_ot.transformer import BatchTransformer, Rows

# Symmetries, metrics and default metric are attributes of the classes. The first features that have a symmetry are its
# default.
FEATURES: dict[str, type[BatchTransformer]] = {
    "pixels": Pixels,
    "bispectrum": CombinedBispectrum,
    "global-bispectrum": GlobalBispectrum,
    "local-bispectrum": LocalBispectrum,
    "best-rotation": PolarSpectrum,
    "ring-bispectrum": RingBispectrum,
    "translation-bispectrum": TranslationBispectrum,
    "d4-bispectrum": D4Bispectrum,
    "image-bispectrum": ImageBispectrum,
    "sphere-bispectrum": SphereBispectrum,
    "shell-bispectrum": ShellBispectrum,
    "vectors": Vectors,
}
DEFAULT_FEATURES: dict[str, str] = {}
for _name, _class in FEATURES.items():
    for _symmetry in _class.symmetries:
        DEFAULT_FEATURES.setdefault(_symmetry, _name)

# Symmetry of a kind of datasets, where neither symmetry nor features are given.
_SYMMETRY_OF_KIND = {
    "images": "rotation",
    "sphere": "so3",
    "clouds": "so3-shapes",
    "volumes": "so3-shapes",
    "vectors": "none",
}


class Transformer(Protocol):
    """Features: from a batch of signals to float32 rows.

    Attributes
    ----------
    symmetry : symmetry of distances between rows, a key of ``DEFAULT_FEATURES``; None where it is not known
    metrics, default_metric : distances that may be taken between rows, and the one that suits them best
    aligns : whether rows are steerable coefficients, compared at the best rotation of each pair; their ``index_map_``
        has the frequency and part of each column, and they cannot be projected
    block_rows : signals of a block that :meth:`fill` takes at a time
    n_features_out_ : number of columns, once fitted
    feature_weights_ : (n_features_out_,) weights of the columns in the metric, or None
    """

    @property
    def symmetry(self) -> Any: ...  # noqa: D102
    @property
    def metrics(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def default_metric(self) -> str: ...  # noqa: D102
    @property
    def aligns(self) -> bool: ...  # noqa: D102
    @property
    def block_rows(self) -> int: ...  # noqa: D102
    @property
    def n_features_out_(self) -> int: ...  # noqa: D102
    @property
    def feature_weights_(self) -> Rows | None: ...  # noqa: D102
    def fit(self, X: Any, y: Any = None) -> Self: ...  # noqa: D102
    def transform(self, X: Any) -> Rows: ...  # noqa: D102
    def fill(self, X: Any, out: Rows, *, first: int = 0) -> int: ...  # noqa: D102


class AdaptedTransformer:
    """Features of a scikit-learn transformer, pipeline or union.

    Images are flattened unless its tags say that it reads them. Unknown properties get the usual values: no symmetry,
    every metric, L1, weights of the last step of a pipeline.

    Parameters
    ----------
    inner
        Object with ``fit`` and ``transform``; a copy of it is fitted.
    """

    aligns = False
    block_rows = 2048
    n_features_out_: int
    feature_weights_: Rows | None

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.symmetry: str | None = getattr(inner, "symmetry", None)
        self.metrics: tuple[str, ...] = getattr(inner, "metrics", METRICS)
        self.default_metric: str = getattr(inner, "default_metric", "l1")
        self._flattens = not _reads_images(inner)

    def __repr__(self) -> str:
        return repr(self.inner)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit a copy of ``inner``."""
        images = np.asarray(X)
        self.inner_ = clone(self.inner, safe=False)
        self.inner_.fit(images.reshape(len(images), -1) if self._flattens else images)
        self.n_features_out_ = self.transform(images[:1]).shape[1]
        last = self.inner_
        while hasattr(last, "steps"):
            last = last.steps[-1][1]
        self.feature_weights_ = getattr(last, "feature_weights_", None)
        return self

    def transform(self, X: Any) -> Rows:
        """Rows (n, n_features_out_)."""
        images = np.asarray(X)
        images = images.reshape(len(images), -1) if self._flattens else images
        rows = np.ascontiguousarray(self.inner_.transform(images), dtype=np.float32)
        if rows.ndim != 2 or len(rows) != len(images):
            raise InputError(
                f"{type(self.inner).__name__} gave features of shape {rows.shape} for {len(images)} images; "
                "it should give one row each."
            )
        return rows

    def fill(self, X: Any, out: Rows, *, first: int = 0) -> int:
        """Write the rows to ``out``; 0, since rows that vanish are not known."""
        out[:] = self.transform(X)
        return 0


def _reads_images(transformer: Any) -> bool:
    """Whether the tags of a transformer say that it reads batches of images; most want rows."""
    if hasattr(transformer, "steps"):
        return _reads_images(transformer.steps[0][1])
    if hasattr(transformer, "transformer_list"):
        return any(_reads_images(part) for _, part in transformer.transformer_list)
    if not hasattr(transformer, "__sklearn_tags__"):
        return True
    tags = transformer.__sklearn_tags__()
    return bool(tags.input_tags.three_d_array or tags.no_validation)


@dataclass(frozen=True)
class FeatureSpec:
    """Features and a metric that can be taken between them.

    Attributes
    ----------
    transformer : not fitted yet
    name : of the features, for reports
    symmetry : of the features, as far as it is known
    metric : of the distances
    """

    transformer: Transformer
    name: str
    symmetry: str | None
    metric: Metric


def choose_features(
    features: Any = None,
    *,
    symmetry: str | ImageGroup | None = None,
    metric: Metric | str | None = None,
    kind: str = "images",
    intensity: str | None = None,
) -> FeatureSpec:
    """Features and metric of a call, from names and defaults, checked before any work is done.

    Parameters
    ----------
    features : str, transformer or None
        Name in ``FEATURES``, object with ``fit`` and ``transform``, or None for the default of the symmetry.
    symmetry : str, ImageGroup or None
        Transformations that should not count; None for the symmetry of the features, or of the kind of the datasets.
        Features of another symmetry are taken as they are, with a :class:`DataWarning`.
    metric : str or None
        Metric; None for the one that suits the features.
    kind : str
        Kind of the datasets.
    intensity : {"keep", "ignore"} or None
        Whether brightness and contrast count, for features with that choice.

    Examples
    --------
    >>> choose_features(symmetry="d4").transformer
    D4Bispectrum()
    >>> choose_features("best-rotation", symmetry="rotation-reflection").symmetry
    'rotation-reflection'
    >>> choose_features().metric
    'sqeuclidean'
    """
    if isinstance(symmetry, ImageGroup):
        if features not in (None, "image-bispectrum"):
            raise InputError("symmetry=ImageGroup(...) has features of its own; leave features out.")
        features, symmetry = ImageBispectrum(symmetry=symmetry), None
    if symmetry is not None:
        check_choice("symmetry", symmetry, DEFAULT_FEATURES)
    if kind == "vectors":
        if symmetry not in (None, "none") or (isinstance(features, str) and features != "vectors"):
            raise InputError(
                f"vectors have no pixels, and so neither the symmetry {symmetry!r} nor the features {features!r}; "
                "leave both out, or give images."
            )
        features = "vectors" if features is None else features
    elif features == "vectors":
        raise InputError("the features 'vectors' are for Dataset.from_vectors(...); images need other features.")
    if features is None:
        symmetry = symmetry or _SYMMETRY_OF_KIND[kind]
        features = DEFAULT_FEATURES[symmetry]
    transformer: Transformer
    if isinstance(features, str) and is_feature_expression(features):
        from bispectral_ot.features.encoders import parse_features

        if intensity is not None:
            raise InputError("intensity is for features with one name; give the transformers joined instead (Join).")
        name, transformer = features, parse_features(features, symmetry)
    elif isinstance(features, str):
        name, transformer = features, _named(features, symmetry, intensity)
    elif intensity is not None:
        raise InputError("intensity is for features by name; set it on the transformer that is given instead.")
    else:
        name, transformer = type(features).__name__, as_transformer(features)
    known = transformer.symmetry
    # features without mirrors and rotations have no rotations either
    if symmetry is not None and known is not None and not set(symmetry.split("-")) <= set(known.split("-")):
        fitting = [other for other, kind_ in FEATURES.items() if symmetry in kind_.symmetries]
        warnings.warn(
            f"the features {name} have the symmetry {known!r}, but {symmetry!r} is asked for. The features decide; "
            f"those that have it are: {', '.join(fitting)}.",
            DataWarning,
            stacklevel=3,
        )
    metric = metric or transformer.default_metric
    if transformer.aligns:
        metric = check_aligned_metric(metric)
    metric = cast(Metric, check_choice("metric", metric, transformer.metrics))
    return FeatureSpec(transformer, name, known.name if isinstance(known, ImageGroup) else known or symmetry, metric)


def _named(name: str, symmetry: str | None, intensity: str | None) -> BatchTransformer:
    """Features for a name, with the symmetry and intensity that are asked for where they have a choice."""
    kind = FEATURES[check_choice("features", name, FEATURES)]
    options = {"symmetry": symmetry} if len(kind.symmetries) > 1 and symmetry in kind.symmetries else {}
    if intensity is not None:
        check_choice("intensity", intensity, INTENSITIES)
        choosing = [other for other, each in FEATURES.items() if "intensity" in each().get_params()]
        if name not in choosing:
            raise InputError(f"{name} have no choice of intensity; leave it out, or take {' or '.join(choosing)}.")
        options["intensity"] = intensity
    return kind(**options)


def as_transformer(features: Any) -> Transformer:
    """Features as they are where they have the attributes of a :class:`Transformer`, others adapted.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.decomposition import PCA
    >>> from bispectral_ot.features import as_transformer
    >>> features = as_transformer(PCA(2)).fit(np.random.default_rng(0).random((9, 4, 4)))
    >>> features.n_features_out_, features.default_metric, features.symmetry
    (2, 'l1', None)
    """
    has_methods = hasattr(features, "fit") and hasattr(features, "transform")
    if callable(features) and not isinstance(features, type) and not has_methods:
        from bispectral_ot.features.encoders import Encoder

        return Encoder(features)
    if isinstance(features, type) or not has_methods:
        raise InputError(
            f"features must be a name, a transformer with fit and transform, or an encoder (a function of batches of "
            f"images), got {features!r}."
        )
    complete = all(hasattr(features, name) for name in ("symmetry", "metrics", "default_metric", "aligns", "fill"))
    return cast(Transformer, features if complete else AdaptedTransformer(features))


def restore(state: dict[str, Any], encoder: Any = None) -> BatchTransformer:
    """Fitted transformer of which :meth:`BatchTransformer.get_state` gave the state.

    Code that a state names is never imported: encoders must be given again, as one name or several.

    Parameters
    ----------
    state : tree of JSON values and arrays
    encoder : str or sequence of str, optional
        Encoders that may be loaded, as ``module:name`` or a path that ends with ``.onnx``.
    """
    from bispectral_ot.features.encoders import Encoder, Join, Orbit

    classes: list[type[BatchTransformer]] = [*FEATURES.values(), Orbit, Join]
    kinds = {kind.__name__: kind for kind in classes}

    def copied(value: Any) -> Any:
        if isinstance(value, list):
            return [copied(each) for each in value]
        return restore(value, encoder) if isinstance(value, dict) else value

    name, parameters = state["class"], state["parameters"]
    if name == "Encoder":
        known = [encoder] if isinstance(encoder, str) else list(encoder or ())
        if parameters["encoder"] not in known:
            raise InputError(
                f"the model was made with the encoder {parameters['encoder']!r}, which is code: give it again "
                f"(encoder={parameters['encoder']!r}, --encoder)."
            )
    elif name not in kinds:
        raise InputError(f"{name!r} are no features that can be restored.")
    kind = kinds.get(name, Encoder)
    learned = {key: copied(value) for key, value in state["learned"].items()}
    return kind(**parameters).set_state(state["shape"], learned)
