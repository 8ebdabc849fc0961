"""Transport: solvers that turn a cost into a coupling."""

from bispectral_ot.transport.coupling import Coupling, EntropicCoupling, SparseCoupling, Summary
from bispectral_ot.transport.pot import ExactTransport, Greenkhorn
from bispectral_ot.transport.sinkhorn import Sinkhorn, TargetGroups
from bispectral_ot.transport.solver import Solver

# The names that the program and ``match`` know them by.
SOLVERS: dict[str, type[Sinkhorn] | type[Greenkhorn] | type[ExactTransport]] = {
    "sinkhorn": Sinkhorn,
    "greenkhorn": Greenkhorn,
    "exact": ExactTransport,
}

__all__ = [
    "SOLVERS",
    "Coupling",
    "EntropicCoupling",
    "ExactTransport",
    "Greenkhorn",
    "Sinkhorn",
    "Solver",
    "SparseCoupling",
    "Summary",
    "TargetGroups",
]
