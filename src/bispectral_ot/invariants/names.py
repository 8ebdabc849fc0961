"""Names of features, and the features that a symmetry gets by default."""

from __future__ import annotations

import warnings
from typing import Any

from bispectral_ot.checks import check_choice
from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.invariants.base import BatchTransformer
from bispectral_ot.invariants.combined import CombinedBispectrum
from bispectral_ot.invariants.coupled import CoupledBispectrum
from bispectral_ot.invariants.dihedral_images import DihedralImageBispectrum
from bispectral_ot.invariants.local import INTENSITIES, LocalBispectrum
from bispectral_ot.invariants.pixels import Pixels
from bispectral_ot.invariants.polar_spectrum import PolarSpectrum
from bispectral_ot.invariants.ring import RingBispectrum, RingPowerSpectrum
from bispectral_ot.invariants.shells import ShellBispectrum
from bispectral_ot.invariants.sphere import SphereBispectrum
from bispectral_ot.invariants.transformer import Transformer, as_transformer
from bispectral_ot.invariants.translation import TranslationBispectrum

FEATURES: dict[str, type[BatchTransformer]] = {
    "pixels": Pixels,
    "combined-bispectrum": CombinedBispectrum,
    "coupled-bispectrum": CoupledBispectrum,
    "local-bispectrum": LocalBispectrum,
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
    "rotation": "combined-bispectrum",
    "rotation-reflection": "combined-bispectrum",
    "rotation-translation": "combined-bispectrum",
    "rotation-reflection-translation": "combined-bispectrum",
    "translation": "translation-bispectrum",
    "d4": "d4-bispectrum",
    "so3": "sphere-bispectrum",
    "so3-shapes": "shell-bispectrum",
}


def make_features(features: Any = None, *, symmetry: str | None = None, intensity: str | None = None) -> Transformer:
    """Return the transformer for a name, for a symmetry (``features=None``), or the given one (adapted, if need be).

    Parameters
    ----------
    features : str, transformer or None
        A name in ``FEATURES``, an object with ``fit`` and ``transform``, or None for the symmetry's default.
    symmetry : str or None
        What the comparison should not see; None for what the features do not see, or for ``"rotation"`` without
        features. If features are given that have another symmetry, they are taken, with a :class:`DataWarning`.
    intensity : str or None
        Whether brightness and contrast count, ``"keep"`` or ``"ignore"``, for features with that choice.

    Examples
    --------
    >>> from bispectral_ot.invariants import make_features
    >>> make_features(symmetry="d4")
    DihedralImageBispectrum()
    >>> make_features("aligned", symmetry="rotation-reflection").symmetry
    'rotation-reflection'
    """
    if symmetry is not None:
        check_choice("symmetry", symmetry, DEFAULT_FEATURES)
    if features is None:
        features = DEFAULT_FEATURES[symmetry or "rotation"]
    if isinstance(features, str):
        kind = FEATURES[check_choice("features", features, FEATURES)]
        options = {"symmetry": symmetry} if len(kind.symmetries) > 1 and symmetry in kind.symmetries else {}
        if intensity is not None:
            options["intensity"] = _check_intensity(features, intensity)
        transformer: Transformer = kind(**options)
    elif intensity is not None:
        raise InputError("intensity is for features by name; set it on the transformer that is given instead.")
    else:
        transformer = as_transformer(features)
    known = transformer.symmetry
    # what does not see mirrors and rotations does not see rotations
    is_wider = symmetry is not None and known is not None and set(symmetry.split("-")) <= set(known.split("-"))
    if symmetry is not None and known not in (None, symmetry) and not is_wider:
        fitting = [name for name, kind in FEATURES.items() if symmetry in kind.symmetries]
        named = features if isinstance(features, str) else type(features).__name__
        warnings.warn(
            f"the features {named} have the symmetry {known!r}, but {symmetry!r} is asked for. The features decide; "
            f"those that have it are: {', '.join(fitting)}.",
            DataWarning,
            stacklevel=3,
        )
    return transformer


def _check_intensity(features: str, intensity: str) -> str:
    check_choice("intensity", intensity, INTENSITIES)
    choosing = [name for name, kind in FEATURES.items() if "intensity" in kind().get_params()]
    if features not in choosing:
        raise InputError(f"{features} have no choice of intensity; leave it out, or take {' or '.join(choosing)}.")
    return intensity
