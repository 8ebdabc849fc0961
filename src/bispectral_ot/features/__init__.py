"""Invariant features: float32 rows of a batch of signals that do not change under a symmetry."""

from bispectral_ot.features.combined import CombinedBispectrum, Join
from bispectral_ot.features.commutative import RingBispectrum, TranslationBispectrum
from bispectral_ot.features.encoders import Encoder, Orbit, clear_encodings, list_encodings
from bispectral_ot.features.fitted import FeatureMap, FittedFeatures
from bispectral_ot.features.image_group import D4Bispectrum, ImageBispectrum, ImageGroup
from bispectral_ot.features.local_bispectrum import LocalBispectrum
from bispectral_ot.features.polar import GlobalBispectrum, PolarSampler, PolarSpectrum
from bispectral_ot.features.registry import DEFAULT_FEATURES, FEATURES, FeatureSpec, Pixels, Vectors, choose_features
from bispectral_ot.groups.bispectrum import CyclicBispectrum, GroupBispectrum
from bispectral_ot.groups.sphere import ShellBispectrum, SphereBispectrum
from bispectral_ot.transformer import BatchTransformer

__all__ = ["CombinedBispectrum", "D4Bispectrum", "GlobalBispectrum", "ImageBispectrum", "ImageGroup", "LocalBispectrum"]
__all__ += ["PolarSampler", "PolarSpectrum", "RingBispectrum", "TranslationBispectrum"]
__all__ += ["CyclicBispectrum", "GroupBispectrum", "ShellBispectrum", "SphereBispectrum"]
__all__ += ["Encoder", "Join", "Orbit", "Pixels", "Vectors", "clear_encodings", "list_encodings"]
__all__ += ["DEFAULT_FEATURES", "FEATURES", "FeatureSpec", "choose_features"]
__all__ += ["BatchTransformer", "FeatureMap", "FittedFeatures"]
