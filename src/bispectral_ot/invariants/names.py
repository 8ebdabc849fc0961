"""Names of features, and the features that suit a symmetry."""

from __future__ import annotations

from typing import Any

from bispectral_ot.checks import check_choice
from bispectral_ot.errors import InputError
from bispectral_ot.invariants.base import BatchTransformer
from bispectral_ot.invariants.coupled import CoupledBispectrum
from bispectral_ot.invariants.dihedral_images import DihedralImageBispectrum
from bispectral_ot.invariants.pixels import Pixels
from bispectral_ot.invariants.polar_spectrum import SYMMETRIES, PolarSpectrum, SteerableTransformer
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


def make_features(features: Any = None, *, symmetry: str = "rotation") -> Any:
    """The transformer for a name, for a transformer (itself), or for a symmetry (``features=None``).

    Parameters
    ----------
    features : str, transformer or None
        A name in ``FEATURES``, an object with ``fit`` and ``transform``, or None for the symmetry's default.
    symmetry : str
        What the comparison should not see.
    """
    check_choice("symmetry", symmetry, DEFAULT_FEATURES)
    if features is None:
        features = DEFAULT_FEATURES[symmetry]
    if isinstance(features, str):
        kind = FEATURES[check_choice("features", features, FEATURES)]
        if issubclass(kind, SteerableTransformer) and symmetry in SYMMETRIES:
            return kind(symmetry=symmetry)
        return kind()
    if isinstance(features, type) or not (hasattr(features, "fit") and hasattr(features, "transform")):
        raise InputError(
            f"features must be a name or a transformer with fit and transform, got {features!r}; "
            f"names are {', '.join(FEATURES)}."
        )
    return features
