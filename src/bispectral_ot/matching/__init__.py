"""Matching: two datasets in, pairs, labels and a distance out."""

from bispectral_ot.matching.match import match
from bispectral_ot.matching.preservation import ClassPreservation, class_preservation
from bispectral_ot.matching.result import LabelTransfer, Match, TopMatches

__all__ = ["ClassPreservation", "LabelTransfer", "Match", "TopMatches", "class_preservation", "match"]
