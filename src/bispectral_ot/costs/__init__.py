"""Costs: pairwise distances in row blocks, stored or recomputed within a memory budget, and the passes over them."""

from bispectral_ot.checks import METRICS, Metric, Storage
from bispectral_ot.costs.cost import STORAGES, Cost, PlanSummary, plan_storage
from bispectral_ot.costs.distances import ALIGNED_METRICS, AlignedDistance, Distance, FeatureDistance

__all__ = ["AlignedDistance", "Cost", "Distance", "FeatureDistance", "PlanSummary", "plan_storage"]
__all__ += ["ALIGNED_METRICS", "METRICS", "STORAGES", "Metric", "Storage"]
