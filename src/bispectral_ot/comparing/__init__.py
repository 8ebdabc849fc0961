"""Comparing: distances between any number of sets, tested and explained."""

from bispectral_ot.comparing.batch_monitor import BatchResult, Monitor
from bispectral_ot.comparing.change_tests import SymmetryTests, Verdict, symmetry_tests
from bispectral_ot.comparing.comparison import Comparison, Pair, compare

__all__ = ["BatchResult", "Comparison", "Monitor", "Pair", "SymmetryTests", "Verdict", "compare", "symmetry_tests"]
