"""What every solver is: options that are checked, a solve, and a warning where the tolerance was missed."""

from __future__ import annotations

from typing import Protocol, TypeVar

from numpy.typing import ArrayLike

from bispectral_ot.costs import Cost
from bispectral_ot.errors import NotConvergedWarning, warn
from bispectral_ot.transport.coupling import Coupling

AnyCoupling = TypeVar("AnyCoupling", bound=Coupling)


class Solver(Protocol):
    """Turns a cost and two weight vectors into a :class:`Coupling`; see :meth:`Sinkhorn.solve`."""

    def solve(
        self,
        cost: Cost | ArrayLike,
        source_weights: ArrayLike | None = None,
        target_weights: ArrayLike | None = None,
    ) -> Coupling:
        """Find the plan."""

    def extra_bytes(self, shape: tuple[int, int]) -> int:
        """Memory that a solve of this shape takes in addition to the cost."""


def warn_unless_converged(coupling: AnyCoupling) -> AnyCoupling:
    """Pass the coupling on, with a :class:`NotConvergedWarning` where it misses its tolerance."""
    if not coupling.converged:
        warn(
            f"not converged: marginal error {coupling.marginal_error:.2e} after {coupling.iterations} iterations, "
            f"{coupling.tol:.1e} was asked for; allow more iterations, a larger tol or a larger reg.",
            NotConvergedWarning,
        )
    return coupling
