"""Finite groups: product tables, unitary irreps, Clebsch-Gordan matrices."""

from bispectral_ot.groups.finite import FiniteGroup
from bispectral_ot.groups.named import CyclicGroup, DihedralGroup, OctahedralGroup, ProductGroup, SymmetricGroup

__all__ = ["CyclicGroup", "DihedralGroup", "FiniteGroup", "OctahedralGroup", "ProductGroup", "SymmetricGroup"]
