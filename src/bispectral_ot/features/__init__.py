"""Invariant features: float32 rows of a batch of signals that do not change under a symmetry."""

from bispectral_ot.features.combined import CombinedBispectrum, Join
from bispectral_ot.features.commutative import RingBispectrum, TranslationBispectrum
from bispectral_ot.features.encoders import Encoder, Orbit, clear_encodings, list_encodings
from bispectral_ot.features.fitted import FeatureMap, FittedFeatures
from bispectral_ot.features.global_bispectrum import GlobalBispectrum
from bispectral_ot.features.image_group import D4Bispectrum, ImageBispectrum, ImageGroup
from bispectral_ot.features.local_bispectrum import LocalBispectrum
from bispectral_ot.features.polar import PolarSampler, PolarSpectrum
from bispectral_ot.features.registry import DEFAULT_FEATURES, FEATURES, FeatureSpec, Pixels, Vectors, choose_features
from bispectral_ot.groups.bispectrum import CyclicBispectrum, GroupBispectrum
from bispectral_ot.groups.shells import ShellBispectrum
from bispectral_ot.groups.sphere import SphereBispectrum
from bispectral_ot.transformer import BatchTransformer

__all__ = [
    "DEFAULT_FEATURES",
    "FEATURES",
    "BatchTransformer",
    "CombinedBispectrum",
    "CyclicBispectrum",
    "D4Bispectrum",
    "Encoder",
    "FeatureMap",
    "FeatureSpec",
    "FittedFeatures",
    "GlobalBispectrum",
    "GroupBispectrum",
    "ImageBispectrum",
    "ImageGroup",
    "Join",
    "LocalBispectrum",
    "Orbit",
    "Pixels",
    "PolarSampler",
    "PolarSpectrum",
    "RingBispectrum",
    "ShellBispectrum",
    "SphereBispectrum",
    "TranslationBispectrum",
    "Vectors",
    "choose_features",
    "clear_encodings",
    "list_encodings",
]
