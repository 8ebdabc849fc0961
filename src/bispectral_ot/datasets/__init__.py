"""Datasets: a name, a folder, a file or an array in, a checked :class:`Dataset` out."""

from bispectral_ot.datasets.dataset import Dataset
from bispectral_ot.datasets.load import load
from bispectral_ot.datasets.named_sets import available
from bispectral_ot.datasets.transforms import center, normalize, rotate, rotate_randomly, split_halves

__all__ = ["Dataset", "available", "center", "load", "normalize", "rotate", "rotate_randomly", "split_halves"]
