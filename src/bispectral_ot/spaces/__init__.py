"""Spaces: any number of datasets seen through one fitted map, and the cost between any two of them."""

from bispectral_ot.spaces.choice import FeatureChoice, choose_features
from bispectral_ot.spaces.feature_map import FeatureMap, fitted
from bispectral_ot.spaces.space import FeatureSpace, chosen_evenly, fit_sample

__all__ = ["FeatureChoice", "FeatureMap", "FeatureSpace", "choose_features", "chosen_evenly", "fit_sample", "fitted"]
