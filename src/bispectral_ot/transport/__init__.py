"""Transport: solvers that turn a cost into a coupling."""

from typing import Any

from bispectral_ot.transport.coupling import Coupling, EntropicCoupling, SparseCoupling, Summary
from bispectral_ot.transport.pot import ExactTransport, Greenkhorn
from bispectral_ot.transport.sinkhorn import Sinkhorn

# The names that the program and ``match`` know them by.
SOLVERS: dict[str, Any] = {"sinkhorn": Sinkhorn, "greenkhorn": Greenkhorn, "exact": ExactTransport}

__all__ = [
    "SOLVERS",
    "Coupling",
    "EntropicCoupling",
    "ExactTransport",
    "Greenkhorn",
    "Sinkhorn",
    "SparseCoupling",
    "Summary",
]
