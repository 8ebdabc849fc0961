"""Comparing: distances between any number of sets, tested and explained."""

from bispectral_ot.comparing.compare import compare
from bispectral_ot.comparing.comparison import Comparison, Pair
from bispectral_ot.comparing.monitor import BatchResult, Monitor
from bispectral_ot.comparing.symmetry_tests import SymmetryTests, Verdict, symmetry_tests

__all__ = ["BatchResult", "Comparison", "Monitor", "Pair", "SymmetryTests", "Verdict", "compare", "symmetry_tests"]
