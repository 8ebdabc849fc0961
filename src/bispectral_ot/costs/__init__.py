"""Costs: pairwise distances in row blocks, stored or recomputed within a memory budget."""

from bispectral_ot.costs.cost import STORAGES, Cost, EncodedRows, Storage, choose_storage
from bispectral_ot.costs.distances import METRICS, Metric

__all__ = [
    "METRICS",
    "STORAGES",
    "Cost",
    "EncodedRows",
    "Metric",
    "Storage",
    "choose_storage",
]
