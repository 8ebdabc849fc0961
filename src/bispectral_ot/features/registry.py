"""Feature registry: names of all features, and the choice of features and metric of a call."""

from typing import Any, NamedTuple, cast, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from bispectral_ot.checks import Intensity, check_choice, is_feature_expression
from bispectral_ot.costs import Metric
from bispectral_ot.errors import InputError, warn
from bispectral_ot.features.combined import CombinedBispectrum, Join
from bispectral_ot.features.commutative import RingBispectrum, TranslationBispectrum
from bispectral_ot.features.encoders import Encoder, MissingEncoderError, Orbit
from bispectral_ot.features.image_group import D4Bispectrum, ImageBispectrum, ImageGroup
from bispectral_ot.features.local_bispectrum import LocalBispectrum
from bispectral_ot.features.polar import GlobalBispectrum, PolarSpectrum
from bispectral_ot.groups.sphere import ShellBispectrum, SphereBispectrum
from bispectral_ot.transformer import SCRATCH_BYTES, BatchTransformer, Columns, Rows, State, columns_table, unit_weights


class Pixels(BatchTransformer):
    """Pixels of each image, or any numbers, as one float32 row: no invariance.

    ``index_map_`` has the fields row, column, channel for images and column for rows.
    """

    symmetries = ("none",)
    _flat_rows = True

    def _prepare(self) -> Columns:
        names = ("column",) if len(self.image_shape_) == 1 else ("row", "column", "channel")
        position = np.indices((*self.image_shape_, 1)[: len(names)])
        return unit_weights(columns_table(**dict(zip(names, position, strict=True))))

    def _scratch_per_row(self) -> int:
        return 4 * self.n_features_in_

    def _fill(self, rows: NDArray[Any], out: Rows) -> int:
        with np.errstate(over="ignore"):
            out[:] = rows
        if not np.isfinite(out).all():
            raise InputError("pixel values are beyond the range of float32; scale the images first.")
        return 0


class Vectors(Pixels):
    """Vectors of a :class:`~bispectral_ot.Dataset`, such as embeddings, unchanged."""

    default_metric = "sqeuclidean"
    _accepts_images = False

    def _fit(self, rows: NDArray[Any]) -> None:
        super()._fit(rows)
        spread = np.ptp(rows, axis=0)
        if not 1e-12 < (spread.max() or 1) < 1e12:  # squares of distances, and of their scatter, leave float32
            raise InputError(f"the vectors differ by {spread.max():.1e} at most; scale them first, as X / X.std().")
        constant = int((spread == 0).sum())
        if constant and len(rows) > 1:
            warn(f"{constant} of the {rows.shape[1]} columns of the vectors are constant and have no effect.")


# Symmetries and metrics are attributes of the classes. The first features that have a symmetry are its default.
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

# Symmetry of a kind of datasets if neither symmetry nor features are given.
_SHAPES = dict.fromkeys(("clouds", "volumes"), "so3-shapes")
_SYMMETRY_OF_KIND = {"images": "rotation", "sphere": "so3", "vectors": "none", **_SHAPES}


class AdaptedTransformer(BatchTransformer):
    """Features of a scikit-learn transformer or pipeline, of which a copy is fitted.

    Images are flattened unless its tags say that it reads them; columns have the weights of the last step.
    """

    _flat_rows = True

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.metrics = getattr(inner, "metrics", self.metrics)
        self.default_metric = getattr(inner, "default_metric", self.default_metric)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return repr(self.inner)

    @property
    def symmetry(self) -> Any:
        """Symmetry that the transformer declares."""
        return getattr(self.inner, "symmetry", None)

    def _parameters(self) -> State:
        raise InputError(f"features of other packages cannot be saved with a model, got {self!r}.")

    def _fit(self, rows: NDArray[Any]) -> None:
        first = self.inner
        while hasattr(first, "steps"):
            first = first.steps[0][1]
        tags = first.__sklearn_tags__() if hasattr(first, "__sklearn_tags__") else None
        self._flattens = tags is not None and not (tags.input_tags.three_d_array or tags.no_validation)
        self.inner_ = clone(self.inner, safe=False)
        self.inner_.fit(self._shaped(rows))
        self._n_columns = self._rows(rows[:1]).shape[1]
        super()._fit(rows)

    def _prepare(self) -> Columns:
        last = self.inner_
        while hasattr(last, "steps"):
            last = last.steps[-1][1]
        index_map, ones = unit_weights(columns_table(column=np.arange(self._n_columns)))
        return index_map, getattr(last, "feature_weights_", ones)

    def _shaped(self, rows: NDArray[Any]) -> NDArray[Any]:
        return rows if self._flattens else rows.reshape(len(rows), *self.image_shape_)

    def _rows(self, rows: NDArray[Any]) -> Rows:
        found = np.ascontiguousarray(self.inner_.transform(self._shaped(rows)), dtype=np.float32)
        if found.ndim != 2 or len(found) != len(rows):
            problem = f"{type(self.inner).__name__} returned features of shape {found.shape} for {len(rows)} images"
            raise InputError(f"{problem}; it should return one row per image.")
        return found

    def _scratch_per_row(self) -> int:
        return SCRATCH_BYTES // 2048  # signals that are transformed at a time

    def _fill(self, rows: NDArray[Any], out: Rows) -> int:
        out[:] = self._rows(rows)
        return 0


class FeatureSpec(NamedTuple):
    """Features, not fitted yet, their name for reports, their symmetry if it is known, and their metric."""

    transformer: BatchTransformer
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

    ``features`` is a name in ``FEATURES``, names joined by ``+``, a transformer, an encoder, or None for the default of
    the symmetry; without ``symmetry`` and ``metric``, those of the features count, or of the ``kind`` of the datasets.
    """
    if isinstance(symmetry, ImageGroup):
        if features not in (None, "image-bispectrum"):
            raise InputError("symmetry=ImageGroup(...) has features of its own; leave features out.")
        features, symmetry = ImageBispectrum(symmetry=symmetry), None
    if symmetry is not None:
        check_choice("symmetry", symmetry, DEFAULT_FEATURES)
    if kind == "vectors":
        if symmetry not in (None, "none") or (isinstance(features, str) and features != "vectors"):
            raise InputError("vectors have no pixels to transform; leave symmetry and features out, or give images.")
        features = "vectors" if features is None else features
    elif features == "vectors":
        raise InputError("the features 'vectors' are for Dataset.from_vectors(...); images need other features.")
    if features is None:
        symmetry = symmetry or _SYMMETRY_OF_KIND[kind]
        features = DEFAULT_FEATURES[symmetry]
    name = features if isinstance(features, str) else type(features).__name__
    if isinstance(features, str):
        parts = [_named(part.strip(), symmetry, intensity) for part in features.split("+")]
        transformer = parts[0] if len(parts) == 1 else Join(*parts)
    elif intensity is not None:
        raise InputError("intensity is for features by name; set it on the transformer that is given instead.")
    elif isinstance(features, BatchTransformer):
        transformer = features
    elif hasattr(features, "fit") and hasattr(features, "transform") and not isinstance(features, type):
        transformer = AdaptedTransformer(features)
    elif callable(features) and not isinstance(features, type):
        transformer = Encoder(features)
    else:
        raise InputError(f"features must be a name, a transformer, or a function of batches, got {name}.")
    known = getattr(transformer.symmetry, "name", transformer.symmetry)
    if kind in _SHAPES and known not in (None, "none", "so3-shapes"):
        advice = "leave symmetry and features out; upright is for images, use match --poses for shapes"
        raise InputError(f"3-D shapes have the symmetry 'so3-shapes', not {known!r} ({name}); {advice}.")
    # features without mirrors and rotations have no rotations either
    if symmetry is not None and known is not None and not set(symmetry.split("-")) <= set(known.split("-")):
        fitting = [other for other, kind_ in FEATURES.items() if symmetry in kind_.symmetries]
        said = f"the features {name} have the symmetry {known!r}, not {symmetry!r}, and {known!r} is used"
        warn(f"{said}. Features with the symmetry {symmetry!r}: {', '.join(fitting)}.")
    kind_of_metric = "metric at the best rotation" if transformer.aligns else "metric"
    metric = cast(Metric, check_choice(kind_of_metric, metric or transformer.default_metric, transformer.metrics))
    return FeatureSpec(transformer, name, known or symmetry, metric)


def _named(name: str, symmetry: str | None, intensity: str | None) -> BatchTransformer:
    """Features for a name, with symmetry and intensity if they have a choice; encoders pooled over quarter turns."""
    if is_feature_expression(name):
        turns = (symmetry or "rotation").split("-")
        if turns[0] not in ("rotation", "similarity"):
            return Encoder(name)
        return Orbit(Encoder(name), "D4" if "reflection" in turns else "C4")
    kind = FEATURES[check_choice("features", name, FEATURES)]
    options = {"symmetry": symmetry} if len(kind.symmetries) > 1 and symmetry in kind.symmetries else {}
    if intensity is not None:
        check_choice("intensity", intensity, get_args(Intensity))
        choosing = [other for other, each in FEATURES.items() if "intensity" in each().get_params()]
        if name not in choosing:
            raise InputError(f"{name} have no option intensity; leave it out, or use {' or '.join(choosing)}.")
        options["intensity"] = intensity
    return kind(**options)


def restore(state: State, encoder: Any = None) -> BatchTransformer:
    """Fitted transformer from the state of :meth:`BatchTransformer.get_state`.

    Code that a state names is never imported unless the caller names it again by ``encoder``, one name or several.
    """

    def copied(value: Any) -> Any:
        if isinstance(value, list):
            return [copied(each) for each in value]
        return restore(value, encoder) if isinstance(value, dict) else value

    classes: list[type[BatchTransformer]] = [*FEATURES.values(), Encoder, Orbit, Join]
    kind = {each.__name__: each for each in classes}.get(state["class"])
    if kind is None:
        raise InputError(f"{state['class']!r} are not features that can be restored.")
    parameters = state["parameters"]
    if kind is Encoder and parameters["encoder"] not in ([encoder] if isinstance(encoder, str) else encoder or ()):
        name = repr(parameters["encoder"])
        problem = f"the model was made with the encoder {name}, which is code"
        raise MissingEncoderError(f"{problem}: give it again (encoder={name}, --encoder).")
    learned = {key: copied(value) for key, value in state["learned"].items()}
    return kind(**parameters).set_state(state["shape"], learned)
