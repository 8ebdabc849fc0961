"""Transport: solvers that turn a cost into a plan."""

from typing import Protocol

from numpy.typing import ArrayLike

from bispectral_ot.costs import Cost
from bispectral_ot.transport.batched_sinkhorn import BatchedSinkhorn
from bispectral_ot.transport.coupling import Coupling, EntropicCoupling, SparseCoupling
from bispectral_ot.transport.exact import ExactTransport
from bispectral_ot.transport.sinkhorn import Sinkhorn, TargetGroups

# Names of the solvers on the command line and for ``match``.
SOLVERS: dict[str, type[Sinkhorn] | type[ExactTransport]] = {"sinkhorn": Sinkhorn, "exact": ExactTransport}

__all__ = [
    "SOLVERS",
    "BatchedSinkhorn",
    "Coupling",
    "EntropicCoupling",
    "ExactTransport",
    "Sinkhorn",
    "Solver",
    "SparseCoupling",
    "TargetGroups",
]


class Solver(Protocol):
    """Solver of transport problems, such as :class:`Sinkhorn`."""

    def solve(
        self,
        cost: Cost | ArrayLike,
        source_weights: ArrayLike | None = None,
        target_weights: ArrayLike | None = None,
    ) -> Coupling:
        """Compute the plan of a cost and two weight vectors."""

    def extra_bytes(self, shape: tuple[int, int]) -> int:
        """Memory that a solve of this shape takes in addition to the cost."""
