"""Invariants map a batch of signals to float32 features that a symmetry does not change."""

from bispectral_ot.invariants.base import BatchTransformer
from bispectral_ot.invariants.combined import CombinedBispectrum
from bispectral_ot.invariants.coupled import CoupledBispectrum
from bispectral_ot.invariants.cyclic import CyclicBispectrum
from bispectral_ot.invariants.dihedral_images import DihedralImageBispectrum
from bispectral_ot.invariants.group import GroupBispectrum, GroupPowerSpectrum
from bispectral_ot.invariants.local import LocalBispectrum
from bispectral_ot.invariants.names import DEFAULT_FEATURES, FEATURES, make_features
from bispectral_ot.invariants.pixels import Pixels
from bispectral_ot.invariants.polar import PolarSampler
from bispectral_ot.invariants.polar_spectrum import PolarSpectrum
from bispectral_ot.invariants.ring import RingBispectrum, RingPowerSpectrum
from bispectral_ot.invariants.shells import ShellBispectrum
from bispectral_ot.invariants.sphere import SphereBispectrum, project_to_sphere
from bispectral_ot.invariants.transformer import Transformer, as_transformer
from bispectral_ot.invariants.translation import TranslationBispectrum

__all__ = [
    "DEFAULT_FEATURES",
    "FEATURES",
    "BatchTransformer",
    "CombinedBispectrum",
    "CoupledBispectrum",
    "CyclicBispectrum",
    "DihedralImageBispectrum",
    "GroupBispectrum",
    "GroupPowerSpectrum",
    "LocalBispectrum",
    "Pixels",
    "PolarSampler",
    "PolarSpectrum",
    "RingBispectrum",
    "RingPowerSpectrum",
    "ShellBispectrum",
    "SphereBispectrum",
    "Transformer",
    "TranslationBispectrum",
    "as_transformer",
    "make_features",
    "project_to_sphere",
]
