"""Comparing: distances between any number of sets, tested and explained."""

from bispectral_ot.comparing.compare import compare
from bispectral_ot.comparing.contrast import Contrast, contrast
from bispectral_ot.comparing.result import Comparison, Pair

__all__ = ["Comparison", "Contrast", "Pair", "compare", "contrast"]
