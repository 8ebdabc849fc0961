"""Costs: pairwise distances in row blocks, stored or recomputed within a memory budget."""

from bispectral_ot.costs.aligned import ALIGNED_METRICS, AlignedCost
from bispectral_ot.costs.cost import STORAGES, Cost, EncodedRows, Storage, choose_storage
from bispectral_ot.costs.distances import METRICS, Metric

__all__ = [
    "ALIGNED_METRICS",
    "METRICS",
    "STORAGES",
    "AlignedCost",
    "Cost",
    "EncodedRows",
    "Metric",
    "Storage",
    "choose_storage",
]
