"""Finite groups: product tables, unitary irreps, Clebsch-Gordan matrices."""

from bispectral_ot.groups.finite import (
    CyclicGroup,
    DihedralGroup,
    FiniteGroup,
    OctahedralGroup,
    ProductGroup,
    SymmetricGroup,
)

__all__ = ["CyclicGroup", "DihedralGroup", "FiniteGroup", "OctahedralGroup", "ProductGroup", "SymmetricGroup"]
