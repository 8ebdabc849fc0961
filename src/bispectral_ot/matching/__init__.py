"""Matching: two datasets in, pairs, labels and a distance out."""

from bispectral_ot.matching.match import match
from bispectral_ot.matching.novelty import Unmatched
from bispectral_ot.matching.outcomes import ClassShares, LabelDetails, LabelTransfer, Prediction, TopMatches
from bispectral_ot.matching.predictor import Predictor
from bispectral_ot.matching.preservation import ClassPreservation, class_preservation
from bispectral_ot.matching.result import Match

__all__ = [
    "ClassPreservation",
    "ClassShares",
    "LabelDetails",
    "LabelTransfer",
    "Match",
    "Prediction",
    "Predictor",
    "TopMatches",
    "Unmatched",
    "class_preservation",
    "match",
]
