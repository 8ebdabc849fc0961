"""Names of features, and the symmetries that they have."""

from __future__ import annotations

import warnings
from typing import Any

from bispectral_ot.checks import check_choice
from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.invariants.base import BatchTransformer
from bispectral_ot.invariants.coupled import CoupledBispectrum
from bispectral_ot.invariants.dihedral_images import DihedralImageBispectrum
from bispectral_ot.invariants.pixels import Pixels
from bispectral_ot.invariants.polar_spectrum import SYMMETRIES, PolarSpectrum
from bispectral_ot.invariants.ring import RingBispectrum, RingPowerSpectrum
from bispectral_ot.invariants.shells import ShellBispectrum
from bispectral_ot.invariants.sphere import SphereBispectrum
from bispectral_ot.invariants.translation import TranslationBispectrum

FEATURES: dict[str, type[BatchTransformer]] = {
    "pixels": Pixels,
    "coupled-bispectrum": CoupledBispectrum,
    "aligned": PolarSpectrum,
    "ring-bispectrum": RingBispectrum,
    "ring-power": RingPowerSpectrum,
    "translation-bispectrum": TranslationBispectrum,
    "d4-bispectrum": DihedralImageBispectrum,
    "sphere-bispectrum": SphereBispectrum,
    "shell-bispectrum": ShellBispectrum,
}

DEFAULT_FEATURES: dict[str, str] = {
    "none": "pixels",
    "rotation": "coupled-bispectrum",
    "rotation-reflection": "coupled-bispectrum",
    "translation": "translation-bispectrum",
    "d4": "d4-bispectrum",
    "so3": "sphere-bispectrum",
    "so3-shapes": "shell-bispectrum",
}


# What each kind of features does not see; those with two are told which.
_SYMMETRIES_OF: dict[type[BatchTransformer], tuple[str, ...]] = {
    Pixels: ("none",),
    CoupledBispectrum: SYMMETRIES,
    PolarSpectrum: SYMMETRIES,
    RingBispectrum: ("rotation",),
    RingPowerSpectrum: ("rotation-reflection",),  # it has no phases, and mirrors change nothing else
    TranslationBispectrum: ("translation",),
    DihedralImageBispectrum: ("d4",),
    SphereBispectrum: ("so3",),
    ShellBispectrum: ("so3-shapes",),
}


def make_features(features: Any = None, *, symmetry: str | None = None) -> Any:
    """The transformer for a name, for a transformer (itself), or for a symmetry (``features=None``).

    Parameters
    ----------
    features : str, transformer or None
        A name in ``FEATURES``, an object with ``fit`` and ``transform``, or None for the symmetry's default.
    symmetry : str or None
        What the comparison should not see; None for what the features do not see, or for ``"rotation"`` without
        features. If features are given that have another symmetry, they are taken, with a :class:`DataWarning`.
    """
    if symmetry is not None:
        check_choice("symmetry", symmetry, DEFAULT_FEATURES)
    if features is None:
        features = DEFAULT_FEATURES[symmetry or "rotation"]
    if isinstance(features, str):
        kind = FEATURES[check_choice("features", features, FEATURES)]
        transformer = kind(symmetry=symmetry) if len(_SYMMETRIES_OF[kind]) > 1 and symmetry in SYMMETRIES else kind()
    elif isinstance(features, type) or not (hasattr(features, "fit") and hasattr(features, "transform")):
        raise InputError(
            f"features must be a name or a transformer with fit and transform, got {features!r}; "
            f"names are {', '.join(FEATURES)}."
        )
    else:
        transformer = features
    known = symmetry_of(transformer)
    # what does not see mirrors and rotations does not see rotations
    if symmetry is not None and known not in (None, symmetry) and (symmetry, known) != SYMMETRIES:
        fitting = [name for name, kind in FEATURES.items() if symmetry in _SYMMETRIES_OF[kind]]
        named = features if isinstance(features, str) else type(transformer).__name__
        warnings.warn(
            f"the features {named} have the symmetry {known!r}, but {symmetry!r} is asked for. The features decide; "
            f"those that have it are: {', '.join(fitting)}.",
            DataWarning,
            stacklevel=3,
        )
    return transformer


def symmetry_of(transformer: Any) -> str | None:
    """The symmetry that a transformer of a kind in ``FEATURES`` has; None for others, of which nothing is known."""
    if type(transformer) not in _SYMMETRIES_OF:
        return None
    return str(getattr(transformer, "symmetry", _SYMMETRIES_OF[type(transformer)][0]))
