"""Optimal transport: solvers that compute a plan from a cost."""

from bispectral_ot.transport.coupling import Coupling, EntropicCoupling
from bispectral_ot.transport.solvers import BatchedSinkhorn, ExactTransport, Sinkhorn

Solver = Sinkhorn | ExactTransport
# Names of the solvers on the command line and for ``match``.
SOLVERS: dict[str, type[Solver]] = {"sinkhorn": Sinkhorn, "exact": ExactTransport}

__all__ = ["SOLVERS", "BatchedSinkhorn", "Coupling", "EntropicCoupling", "ExactTransport", "Sinkhorn", "Solver"]
