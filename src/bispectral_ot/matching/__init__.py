"""Matching: two datasets in, pairs, labels and a distance out."""

from bispectral_ot.matching.label_transfer import LabelTransfer
from bispectral_ot.matching.match import match
from bispectral_ot.matching.outliers import Outliers
from bispectral_ot.matching.predictor import Prediction, Predictor, TopMatches
from bispectral_ot.matching.result import ClassPreservation, ClassTable, Match, class_preservation, class_table
from bispectral_ot.matching.source_classes import ClassProportions, ExpectedAccuracy, Shift

__all__ = ["LabelTransfer", "Match", "Prediction", "Predictor", "match"]
__all__ += ["ClassProportions", "ExpectedAccuracy", "Outliers", "Shift", "TopMatches"]
__all__ += ["ClassPreservation", "ClassTable", "class_preservation", "class_table"]
