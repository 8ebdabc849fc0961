"""Transport: solvers that turn a cost into a coupling."""

from bispectral_ot.transport.coupling import Coupling, EntropicCoupling, SparseCoupling, Summary
from bispectral_ot.transport.pot import ExactTransport, Greenkhorn
from bispectral_ot.transport.sinkhorn import Sinkhorn

__all__ = [
    "Coupling",
    "EntropicCoupling",
    "ExactTransport",
    "Greenkhorn",
    "Sinkhorn",
    "SparseCoupling",
    "Summary",
]
